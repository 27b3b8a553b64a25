"""kill -9 under stock Java producers that never send twice: whatever was acknowledged is there after the restart, once, in order.

Several producers send without a pause; after a random number of acknowledgements the broker's process is killed, in the middle of
whatever it does, and started again on its files.  Log files are small, so some kills meet a roll.  A send that got no answer may
have been stored or not; it must not be there twice.  RMQ_KILLS repeats a run's random numbers (printed when it fails).
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.java.flows import producer, pull_all
from tests.support.clients import JavaDriver
from tests.support.java import REFERENCE, java
from tests.support.process import until
from tests.support.subject import Subject, start_broker, start_name_server

pytestmark = [pytest.mark.java, pytest.mark.parametrize("clients", [REFERENCE], indirect=True)]

Fresh = Callable[[str], str]
ROUNDS = 3
NIGHTLY_ROUNDS = 50
PRODUCERS = 4
ACKNOWLEDGED_MAX = 400
"""Of all producers together, before a kill."""
LOG_FILE_BYTES = 1 << 18


@contextlib.contextmanager
def broker(directory: Path, flush: str) -> Iterator[Subject]:
    java()
    with contextlib.ExitStack() as stack:
        names = start_name_server("ours", directory / "namesrv")
        stack.callback(names.end)
        properties = {"flushDiskType": flush, "mappedFileSizeCommitLog": str(LOG_FILE_BYTES)}
        ours = start_broker("ours", directory / "broker", names.address, properties=properties)
        stack.callback(ours.end)
        yield Subject("ours", names.address, ours.address, ours.broker_name, "DefaultCluster", ours.store, ours, (names,))


def flood_until_killed(subject: Subject, clients: JavaDriver, fresh: Fresh, topic: str, count: int) -> list[dict[str, Any]]:
    """What each producer was answered and what it tried."""
    with contextlib.ExitStack() as stack:
        floods = []
        for number in range(PRODUCERS):
            name = stack.enter_context(producer(clients, subject, fresh, retries=0, timeout_ms=20_000))
            clients.call("send", producer=name, topic=topic, body=f"first-{number}")
            floods.append(fresh("flood"))
            clients.call("flood.start", flood=floods[-1], producer=name, topic=topic, body=f"{number}-", pause_ms=0)
        until(lambda: sum(clients.call("flood.count", flood=flood) for flood in floods) >= count, "sends before the kill")
        subject.server.kill()
        reported = [clients.call("flood.stop", flood=flood) for flood in floods]
    subject.server.start()
    return reported


def check(reported: list[dict[str, Any]], messages: list[dict[str, Any]]) -> None:
    bodies = [message["body"] for message in messages if not message["body"].startswith("first-")]
    assert len(set(bodies)) == len(bodies), "a message is there twice"
    stored = set(bodies)
    for number, one in enumerate(reported):
        acknowledged = one["acknowledged"]
        assert set(acknowledged) <= stored, f"acknowledged and gone: {sorted(set(acknowledged) - stored)[:5]}"
        known = {*acknowledged, *(text.split(":")[0] for text in one["failed"])}
        assert {body for body in stored if body.startswith(f"{number}-")} <= known, "nobody sent this"
    for queue in {message["queue"] for message in messages}:
        mine = [message for message in messages if message["queue"] == queue]
        assert [message["offset"] for message in mine] == list(range(len(mine))), "offsets have a gap or come twice"
        for number in range(len(reported)):
            order = [int(message["body"].split("-")[1]) for message in mine if message["body"].startswith(f"{number}-")]
            assert order == sorted(order), "one producer's messages changed places"


def live(clients: JavaDriver, fresh: Fresh, tmp_path: Path, flush: str, rounds: int) -> None:
    seed = int(os.environ.get("RMQ_KILLS", random.randrange(1 << 32)))
    print(f"RMQ_KILLS={seed}")
    chance = random.Random(seed)
    with broker(tmp_path, flush) as subject:
        history = []
        for _ in range(rounds):
            topic = fresh("kill")
            reported = flood_until_killed(subject, clients, fresh, topic, chance.randrange(20, ACKNOWLEDGED_MAX))
            count = sum(len(one["acknowledged"]) for one in reported)
            assert count
            check(reported, pull_all(clients, subject, fresh, topic, count + PRODUCERS))
            history.append((topic, reported, count))
        for topic, reported, count in history[:2]:
            check(reported, pull_all(clients, subject, fresh, topic, count + PRODUCERS))


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_kills(clients: JavaDriver, fresh: Fresh, tmp_path: Path, flush: str) -> None:
    live(clients, fresh, tmp_path, flush, ROUNDS)


@pytest.mark.nightly
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_many_kills(clients: JavaDriver, fresh: Fresh, tmp_path: Path, flush: str) -> None:
    live(clients, fresh, tmp_path, flush, NIGHTLY_ROUNDS)
