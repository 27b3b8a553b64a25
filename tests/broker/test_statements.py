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
from tests.support.engine import House
from tests.support.requests import heartbeat, pairs, props, send

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
MANY = 99
"""More retries than any test makes."""


@pytest.fixture
def house(tmp_path: Path) -> House:
    house = House(tmp_path)
    house.topic("T")
    return house


def retried(house: House, times: int) -> StoredMessage:
    """A message that came to the group's retry topic for the so-many-th time."""
    sent = send("%RETRY%G", reconsume_times=times, max_reconsume_times=MANY, properties=pairs(RETRY_TOPIC="T", DELAY="0"))
    assert house.connect().ask(sent, b"again").code == 0
    return house.stored("%RETRY%G", 0)[-1]


def give_back(house: House, unit: StoredMessage, **more: Any) -> None:
    header: dict[str, Any] = {"offset": unit.physical_offset, "group": "G", "delay_level": 0, "origin_topic": "T"}
    assert house.connect().ask(ConsumerSendMsgBack(**{**header, **more})).code == 0


@pytest.mark.parametrize(
    ("times", "level"), [(0, 3), (1, 4), (2, 5), (11, 14), (12, 15), (13, 16), (14, 17), (15, 18), (16, 18), (40, 18)]
)
def test_001_84_and_85_each_attempt_waits_longer(house: House, times: int, level: int) -> None:
    """The waiting times of the levels: `test_each_level_waits_its_time`."""
    give_back(house, retried(house, times), max_reconsume_times=MANY)
    [waiting] = house.stored(SCHEDULE, level - 1)
    assert (props(waiting)["DELAY"], waiting.reconsume_times) == (str(level), times + 1)


def test_001_83_a_group_gives_up_after_sixteen_attempts(house: House) -> None:
    give_back(house, retried(house, 15))
    assert len(house.stored(SCHEDULE, 17)) == 1
    assert house.stored("%DLQ%G", 0) == []
    give_back(house, retried(house, 16))
    assert len(house.stored("%DLQ%G", 0)) == 1


def test_001_95_the_topic_of_dead_letters_is_made_by_the_first(house: House) -> None:
    give_back(house, retried(house, 0))
    assert "%DLQ%G" not in house.node.topics
    give_back(house, retried(house, 0), delay_level=-1)
    assert "%DLQ%G" in house.node.topics


@pytest.mark.parametrize("kind", [TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, TRANSACTION_COMMIT, 0])
def test_002_7_only_plain_and_committed_messages_are_delayed(house: House, kind: int) -> None:
    answer = house.connect().ask(send(sys_flag=kind, properties=pairs(DELAY="1")), b"x")
    assert answer.code == 0
    waits = len(house.stored(SCHEDULE, 0)) == 1
    assert waits is (kind in (0, TRANSACTION_COMMIT))
    assert house.stored("T", 0) == []


def test_002_15_the_first_look_comes_a_second_after_the_start(house: House) -> None:
    assert house.connect().ask(send(properties=pairs(DELAY="1")), b"late").code == 0
    assert house.node.close()
    house.env.advance(60_000)
    house.open()
    house.driver.advance(999)
    assert house.stored("T", 0) == []
    house.driver.advance(1)
    assert len(house.stored("T", 0)) == 1


def test_002_24_a_message_that_is_gone_is_passed_over(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for body in (b"first", b"gone", b"last"):
        assert house.connect().ask(send(properties=pairs(DELAY="1")), body).code == 0
    gone = house.stored(SCHEDULE, 0)[1].physical_offset
    lookup = house.node.store.lookup
    monkeypatch.setattr(house.node.store, "lookup", lambda at, **more: None if at == gone else lookup(at, **more))
    house.driver.advance(2_000)
    assert [bytes(unit.body) for unit in house.stored("T", 0)] == [b"first", b"last"]
    assert house.node.delay_offsets.progress[1] == 3


def test_001_43_progress_survives_a_stop_and_without_any_a_young_queue_begins_at_0(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = house.connect()
    for queue_id in (0, 1):
        assert client.ask(send(queue_id=queue_id), b"x").code == 0
    heartbeat(client)
    assert client.ask(UpdateConsumerOffset(consumer_group="G", topic="T", queue_id=0, commit_offset=1)).code == 0
    house.restart()
    assert progress(house, 0) == (0, "1")
    assert progress(house, 1) == (0, "0")
    assert progress(house, 2) == (ResponseCode.QUERY_NOT_FOUND, None), "it has no first message"
    cold = Cold(lambda: None, "the disk")
    monkeypatch.setattr(house.node.store, "store_time_at", lambda *_: raise_(cold))
    assert progress(house, 1) == (ResponseCode.QUERY_NOT_FOUND, None), "its first message is not in memory any more"


def progress(house: House, queue_id: int) -> tuple[int, str | None]:
    answer = house.connect().ask(QueryConsumerOffset(consumer_group="G", topic="T", queue_id=queue_id))
    return answer.code, answer.ext_map().get("offset")


def raise_(error: Exception) -> None:
    raise error


def test_001_63_a_group_has_one_retry_topic_for_all_its_topics(house: House) -> None:
    house.topic("U")
    for topic in "TU":
        assert house.connect().ask(send(topic), topic.encode()).code == 0
        [unit] = house.stored(topic, 0)
        give_back(house, unit, delay_level=1, origin_topic=topic)
    house.driver.advance(2_000)
    came = house.stored("%RETRY%G", 0)
    assert [(bytes(unit.body), props(unit)["RETRY_TOPIC"]) for unit in came] == [(b"T", "T"), (b"U", "U")]


def test_002_12_a_level_beyond_the_eighteenth_has_a_queue_of_its_own(tmp_path: Path) -> None:
    house = House(tmp_path, messageDelayLevel=" ".join(f"{n}s" for n in range(1, 21)))
    house.topic("T")
    assert house.connect().ask(send(properties=pairs(DELAY="20")), b"late").code == 0
    schedule = house.node.topics.get(SCHEDULE)
    assert schedule is not None
    assert schedule.read_queue_nums == 18
    assert len(house.stored(SCHEDULE, 19)) == 1
    house.driver.advance(19_999)
    assert house.stored("T", 0) == []
    house.driver.advance(1)
    assert len(house.stored("T", 0)) == 1


def test_002_16_progress_is_written_after_ten_seconds_and_every_ten_from_then_on(house: House) -> None:
    file = house.root / "config" / "delayOffset.json"

    def written() -> bytes:
        return file.read_bytes() if file.exists() else b""

    for delivered in (1, 2):
        assert house.connect().ask(send(properties=pairs(DELAY="1")), b"late").code == 0
        house.driver.advance(9_999)
        assert b"1:%d" % delivered not in written()
        house.driver.advance(1)
        assert b"1:%d" % delivered in written()
