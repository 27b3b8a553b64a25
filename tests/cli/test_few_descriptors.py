"""Where a process may have few descriptors and cannot ask for more: more queues than that, and more peers."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmq_wire.headers.positions import GetMaxOffset
from tests.support.requests import create_topic, send
from tests.support.rmq import DEV, Server, limited
from tests.support.talk import Talk

MORE = 100
"""Queues that have a file each, beyond what may be open."""


@pytest.mark.parametrize("descriptors", [256, 1_024])
def test_more_queues_than_descriptors(tmp_path: Path, descriptors: int) -> None:
    """Every send is taken, every message is read, who comes late is let in, a restart finds it all."""
    queues = descriptors + MORE
    arguments = [*DEV, "--store", str(tmp_path / "store"), "--set", "defaultTopicQueueNums=1"]
    for start in ("first", "second"):
        with Server(tmp_path, program=limited(descriptors, *arguments)) as server:
            with Talk(server.told["broker"]) as talk:
                if start == "first":
                    assert talk.ask(create_topic("Wide", queues=queues)).code == 0
                    talk.raw(*(talk.frame(send("Wide", queue_id=number), b"%d" % number) for number in range(queues)))
                    answers = [talk.answer(talk.opaque - queues + 1 + number) for number in range(queues)]
                    assert {answer.code for answer in answers} == {0}
                for number in range(queues):
                    assert talk.read("Wide", number) == [b"%d" % number]
                with Talk(server.told["broker"]) as late:
                    assert late.ask(GetMaxOffset(topic="Wide", queue_id=0)).code == 0
                    assert late.send(f"Topic-{start}", b"x").code == 0
            assert server.stop() == 0
            assert "Traceback" not in server.log.read_text()
    assert not (tmp_path / "store" / "abort").exists()
