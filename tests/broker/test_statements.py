"""Statements of the articles that need a whole broker, and are no other test's subject: how delays and retries are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmq_store.errors import Cold
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.offsets import QueryConsumerOffset, UpdateConsumerOffset
from rmq_wire.headers.send_back import ConsumerSendMsgBack
from rmq_wire.message import StoredMessage
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from tests.support.engine import Harness
from tests.support.requests import heartbeat, pairs, props, send

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
MANY = 99
"""More retries than any test makes."""


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    harness = Harness(tmp_path)
    harness.topic("T")
    return harness


def retried(harness: Harness, times: int) -> StoredMessage:
    """A message that came to the group's retry topic for the so-many-th time."""
    sent = send("%RETRY%G", reconsume_times=times, max_reconsume_times=MANY, properties=pairs(RETRY_TOPIC="T", DELAY="0"))
    assert harness.connect().ask(sent, b"again").code == 0
    return harness.stored("%RETRY%G", 0)[-1]


def give_back(harness: Harness, unit: StoredMessage, **more: Any) -> None:
    header: dict[str, Any] = {"offset": unit.physical_offset, "group": "G", "delay_level": 0, "origin_topic": "T"}
    assert harness.connect().ask(ConsumerSendMsgBack(**{**header, **more})).code == 0


@pytest.mark.parametrize(
    ("times", "level"), [(0, 3), (1, 4), (2, 5), (11, 14), (12, 15), (13, 16), (14, 17), (15, 18), (16, 18), (40, 18)]
)
def test_001_84_and_85_each_attempt_waits_longer(harness: Harness, times: int, level: int) -> None:
    """The waiting times of the levels: `test_each_level_waits_its_time`."""
    give_back(harness, retried(harness, times), max_reconsume_times=MANY)
    [waiting] = harness.stored(SCHEDULE, level - 1)
    assert (props(waiting)["DELAY"], waiting.reconsume_times) == (str(level), times + 1)


def test_001_83_a_group_gives_up_after_sixteen_attempts(harness: Harness) -> None:
    give_back(harness, retried(harness, 15))
    assert len(harness.stored(SCHEDULE, 17)) == 1
    assert harness.stored("%DLQ%G", 0) == []
    give_back(harness, retried(harness, 16))
    assert len(harness.stored("%DLQ%G", 0)) == 1


def test_001_95_the_topic_of_dead_letters_is_made_by_the_first(harness: Harness) -> None:
    give_back(harness, retried(harness, 0))
    assert "%DLQ%G" not in harness.node.topics
    give_back(harness, retried(harness, 0), delay_level=-1)
    assert "%DLQ%G" in harness.node.topics


@pytest.mark.parametrize("kind", [TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, TRANSACTION_COMMIT, 0])
def test_002_7_only_plain_and_committed_messages_are_delayed(harness: Harness, kind: int) -> None:
    answer = harness.connect().ask(send(sys_flag=kind, properties=pairs(DELAY="1")), b"x")
    assert answer.code == 0
    waits = len(harness.stored(SCHEDULE, 0)) == 1
    assert waits is (kind in (0, TRANSACTION_COMMIT))
    assert harness.stored("T", 0) == []


def test_002_15_the_first_look_comes_a_second_after_the_start(harness: Harness) -> None:
    assert harness.connect().ask(send(properties=pairs(DELAY="1")), b"late").code == 0
    assert harness.node.close()
    harness.env.advance(60_000)
    harness.open()
    harness.driver.advance(999)
    assert harness.stored("T", 0) == []
    harness.driver.advance(1)
    assert len(harness.stored("T", 0)) == 1


def test_002_24_a_message_that_is_gone_is_passed_over(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    for body in (b"first", b"gone", b"last"):
        assert harness.connect().ask(send(properties=pairs(DELAY="1")), body).code == 0
    gone = harness.stored(SCHEDULE, 0)[1].physical_offset
    copies = harness.node.store.copies
    monkeypatch.setattr(
        harness.node.store,
        "copies",
        lambda topic, places: copies(topic, [(at, 0 if at == gone else size) for at, size in places]),
    )
    harness.driver.advance(2_000)
    assert [bytes(unit.body) for unit in harness.stored("T", 0)] == [b"first", b"last"]
    assert harness.node.delay_offsets.progress[1] == 3


def test_001_43_progress_survives_a_stop_and_without_any_a_young_queue_begins_at_0(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = harness.connect()
    for queue_id in (0, 1):
        assert client.ask(send(queue_id=queue_id), b"x").code == 0
    heartbeat(client)
    assert client.ask(UpdateConsumerOffset(consumer_group="G", topic="T", queue_id=0, commit_offset=1)).code == 0
    harness.restart()
    assert progress(harness, 0) == (0, "1")
    assert progress(harness, 1) == (0, "0")
    assert progress(harness, 2) == (ResponseCode.QUERY_NOT_FOUND, None), "it has no first message"
    cold = Cold(lambda: None, "the disk")
    monkeypatch.setattr(harness.node.store, "store_time_at", lambda *_: raise_(cold))
    assert progress(harness, 1) == (ResponseCode.QUERY_NOT_FOUND, None), "its first message is not in memory any more"


def progress(harness: Harness, queue_id: int) -> tuple[int, str | None]:
    answer = harness.connect().ask(QueryConsumerOffset(consumer_group="G", topic="T", queue_id=queue_id))
    return answer.code, answer.ext_map().get("offset")


def raise_(error: Exception) -> None:
    raise error


def test_001_63_a_group_has_one_retry_topic_for_all_its_topics(harness: Harness) -> None:
    harness.topic("U")
    for topic in "TU":
        assert harness.connect().ask(send(topic), topic.encode()).code == 0
        [unit] = harness.stored(topic, 0)
        give_back(harness, unit, delay_level=1, origin_topic=topic)
    harness.driver.advance(2_000)
    came = harness.stored("%RETRY%G", 0)
    assert [(bytes(unit.body), props(unit)["RETRY_TOPIC"]) for unit in came] == [(b"T", "T"), (b"U", "U")]


def test_002_12_a_level_beyond_the_eighteenth_has_a_queue_of_its_own(tmp_path: Path) -> None:
    harness = Harness(tmp_path, messageDelayLevel=" ".join(f"{n}s" for n in range(1, 21)))
    harness.topic("T")
    assert harness.connect().ask(send(properties=pairs(DELAY="20")), b"late").code == 0
    schedule = harness.node.topics.get(SCHEDULE)
    assert schedule is not None
    assert schedule.read_queue_nums == 18
    assert len(harness.stored(SCHEDULE, 19)) == 1
    harness.driver.advance(19_999)
    assert harness.stored("T", 0) == []
    harness.driver.advance(1)
    assert len(harness.stored("T", 0)) == 1


def test_002_16_progress_is_written_after_ten_seconds_and_every_ten_from_then_on(harness: Harness) -> None:
    file = harness.root / "config" / "delayOffset.json"

    def written() -> bytes:
        return file.read_bytes() if file.exists() else b""

    for delivered in (1, 2):
        assert harness.connect().ask(send(properties=pairs(DELAY="1")), b"late").code == 0
        harness.driver.advance(9_999)
        assert b"1:%d" % delivered not in written()
        harness.driver.advance(1)
        assert b"1:%d" % delivered in written()
