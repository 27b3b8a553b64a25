"""Topics that the reference would compact: taken, read as they were written, and named in the log, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmq_wire.headers.topics import CreateTopicList
from tests.support.engine import Harness
from tests.support.requests import create_topic, pairs, pull, send, units

COMPACTED = {"attributes": "+cleanup.policy=COMPACTION"}
WORDS = "compaction does not run, readers get every message"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if WORDS in record.getMessage()]
    caplog.clear()
    return found


def test_the_log_says_it_at_the_creation_and_at_a_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness(tmp_path)
    client = harness.connect()
    assert client.ask(create_topic("plain")).code == 0
    assert not lines(caplog)
    assert client.ask(create_topic("C", **COMPACTED)).code == 0
    assert lines(caplog) == [f"1 topics with cleanup.policy=COMPACTION, C among them: {WORDS}"]
    assert client.ask(create_topic("C", queues=8)).code == 0
    assert not lines(caplog), "it was there before"
    body = b'{"topicConfigList":[{"topicName":"D","attributes":{"+cleanup.policy":"COMPACTION"}}]}'
    assert client.ask(CreateTopicList(), body).code == 0
    assert len(lines(caplog)) == 1
    harness.restart()
    assert lines(caplog) == [f"2 topics with cleanup.policy=COMPACTION, C among them: {WORDS}"]


def test_every_message_is_read_and_each_needs_a_key(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    client = harness.connect()
    assert client.ask(create_topic("C", **COMPACTED)).code == 0
    for body in (b"old", b"new"):
        assert client.ask(send("C", properties=pairs(KEYS="k")), body).code == 0
    refused = client.ask(send("C"), b"no key")
    assert (refused.code, refused.remark) == (13, "Required message key is missing")
    assert [unit.body for unit in units(client.ask(pull("C")).body)] == [b"old", b"new"]
