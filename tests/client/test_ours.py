"""The behaviours of a client on our own broker, and the blocks of docs/client.md as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmq_client.blocking import Client, connect
from rmq_client.errors import CallerError, ClientClosed
from rmq_client.messages import Message
from rmq_wire.implied.delay_levels import FAST_DELAY_LEVELS
from tests.support.client_behaviours import BEHAVIOURS, Behaviour, play
from tests.support.client_faces import FACES, Face
from tests.support.rmq import ROOT
from tests.support.subject import Subject, start_subject
from tests.support.talk import PATIENCE_S


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    properties = {"enablePropertyFilter": "true", "messageDelayLevel": FAST_DELAY_LEVELS}
    running = start_subject("ours", tmp_path_factory.mktemp("ours"), properties=properties)
    yield running
    running.end()


@pytest.fixture(scope="module")
def client(ours: Subject) -> Iterator[Client]:
    with connect(ours.namesrv) as made:
        yield made


@pytest.mark.parametrize("face", FACES, ids=repr)
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda one: one.__name__)
def test_on_our_broker(ours: Subject, behaviour: Behaviour, face: Face, tmp_path: Path) -> None:
    play(behaviour, face, ours.namesrv, tmp_path)


def test_there_are_twenty_at_least() -> None:
    assert len(BEHAVIOURS) >= 20


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_the_page_s_blocks_run_as_they_stand(ours: Subject, number: int, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/client.md").read_text(), re.MULTILINE | re.DOTALL)
    code = blocks[number].replace("127.0.0.1:9876", ours.namesrv)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert ran.returncode == 0, ran.stderr
    assert ("greeting" in ran.stdout) is (number in (0, 3)), "the last one consumes what the first one sent"
    assert ("b'message 9'" in ran.stdout) is (number in (2, 3))


def test_many_threads_share_a_blocking_client(client: Client) -> None:
    producer = client.producer("threads")
    results: list[int] = []

    def send() -> None:
        results.extend(producer.send(Message("threads", b"x")).queue_offset for _ in range(20))

    client.topics.create("threads", queues=1)
    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(160))


def test_a_blocking_client_that_was_left(ours: Subject) -> None:
    before = threading.active_count()
    with connect(ours.namesrv) as made:
        producer = made.producer("left")
    with pytest.raises(ClientClosed):
        producer.send(Message("left", b"x"))
    assert threading.active_count() == before


def test_what_is_wrong_with_a_call_is_said_at_once() -> None:
    with pytest.raises(CallerError, match="no address of a server"), connect("nowhere"):
        pass
    with pytest.raises(CallerError, match="no such setting"), connect("127.0.0.1:1", colour="blue"):
        pass
