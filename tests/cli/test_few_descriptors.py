"""Where a process may have few descriptors and cannot ask for more: more queues than that, and more peers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from broker_impl.engine.limits import Limits
from rmq_wire.headers.positions import GetMaxOffset
from tests.support.requests import create_topic, send
from tests.support.rmq import DEV, Server, environment, limited
from tests.support.talk import PATIENCE_S, Talk

HANGS_MS = 60_000
"""All are sent at once: on a busy machine the last of them wait for longer than a send may by default."""
MORE = 100
"""Queues that have a file each, beyond what may be open."""


@pytest.mark.parametrize("descriptors", [256, 1_024])
def test_more_queues_than_descriptors(tmp_path: Path, descriptors: int) -> None:
    """Every send is taken, every message is read, who comes late is let in, a restart finds it all."""
    queues = descriptors + MORE
    settings = ["--set", "defaultTopicQueueNums=1", "--set", f"waitTimeMillsInSendQueue={HANGS_MS}"]
    arguments = [*DEV, "--store", str(tmp_path / "store"), *settings]
    for start in ("first", "second"):
        with Server(tmp_path, program=limited(descriptors, *arguments)) as server:
            with Talk(server.ready["broker"]) as talk:
                if start == "first":
                    assert talk.ask(create_topic("Wide", queues=queues)).code == 0
                    talk.raw(*(talk.frame(send("Wide", queue_id=number), b"%d" % number) for number in range(queues)))
                    answers = [talk.answer(talk.opaque - queues + 1 + number) for number in range(queues)]
                    assert {answer.code for answer in answers} == {0}
                for number in range(queues):
                    assert talk.read("Wide", number) == [b"%d" % number]
                with Talk(server.ready["broker"]) as late:
                    assert late.ask(GetMaxOffset(topic="Wide", queue_id=0)).code == 0
                    assert late.send(f"Topic-{start}", b"x").code == 0
            assert server.stop() == 0
            assert "Traceback" not in server.log.read_text()
    assert not (tmp_path / "store" / "abort").exists()


@pytest.mark.parametrize("brokers", [1, 8])
def test_the_fewest_descriptors_that_are_enough(tmp_path: Path, brokers: int) -> None:
    least = Limits.least(1 + brokers, brokers)
    arguments = [*DEV, "--store", str(tmp_path / "store"), "--brokers", str(brokers)]
    for start in range(2):
        with Server(tmp_path, program=limited(least, *arguments)) as server:
            for broker in server.ready.get("brokers", [server.ready["broker"]]):
                with Talk(broker) as talk, Talk(broker) as other:
                    for number in range(8):
                        assert talk.send(f"Topic{number}-{start}", b"%d" % number).code == 0
                    assert other.read("Topic7-0", 0) == [b"7"]
            assert server.stop() == 0
            assert not [line for line in server.log.read_text().splitlines() if "Traceback" in line or "ERROR" in line]


@pytest.mark.parametrize(
    ("arguments", "least"),
    [
        (("namesrv", "--port", "0"), Limits.least(1, 0)),
        (("broker", "--set", "listenPort=0"), Limits.least(1, 1)),
        (DEV, Limits.least(2, 1)),
        ((*DEV, "--brokers", "8"), Limits.least(9, 8)),
    ],
)
def test_with_fewer_it_does_not_start_and_says_so_in_one_line(tmp_path: Path, arguments: tuple[str, ...], least: int) -> None:
    for descriptors in (16, least - 1):
        ended = subprocess.run(
            limited(descriptors, *arguments),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            cwd=tmp_path,
            env=environment(tmp_path),
            check=False,
        )
        assert ended.returncode == 2
        said = f"this process may open {descriptors} files and connections, it needs {least}: raise the limit (ulimit -n)"
        assert said in ended.stderr
        assert ended.stderr.count("\n") == 1, ended.stderr
