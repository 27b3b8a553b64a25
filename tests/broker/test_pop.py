"""Pops, acknowledgements and what comes again, against a whole broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmq_wire.headers.pop import PopMessageResponse
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.popping import INVISIBLE_MS, Popped, ack, batch_of, change_of, pop, popped, take
from tests.support.requests import pairs, props, send


@pytest.fixture
def broker(tmp_path: Path) -> Harness:
    return Harness(tmp_path).begun()


@pytest.fixture
def client(broker: Harness) -> Client:
    return broker.connect()


def fill(client: Client, count: int, topic: str = "T", queue_id: int = 0) -> None:
    for number in range(count):
        assert client.ask(send(topic, queue_id), b"m%d" % number).code == 0


def bodies(found: list[Popped]) -> list[bytes]:
    return [one.body for one in found]


AGAIN_MS = INVISIBLE_MS + 6_000
"""By then what was not acknowledged has come again."""


def test_a_pop_hands_out_and_hides(broker: Harness, client: Client) -> None:
    fill(client, 3)
    answer = client.ask(pop())
    assert (answer.code, answer.remark) == (0, "FOUND")
    header = answer.header(PopMessageResponse)
    assert (header.start_offset_info, header.msg_offset_info, header.rest_num) == ("0 0 0", "0 0 0,1,2", 0)
    assert (header.pop_time, header.invisible_time) == (broker.env.wall_ms, INVISIBLE_MS)
    nothing = client.ask(pop())
    assert (nothing.code, nothing.remark) == (210, "NO_MESSAGE_IN_QUEUE")
    assert bodies(take(client, consumer_group="other")) == [b"m0", b"m1", b"m2"]


def test_two_pops_of_one_turn_share_a_queue(broker: Harness, client: Client) -> None:
    fill(client, 4)
    first, second = pop(count=2), pop(count=2)
    client.raw(client.frame(first) + client.frame(second))
    one, two = (client.answers[key] for key in sorted(client.answers))
    assert bodies(popped(one, first) + popped(two, second)) == [b"m0", b"m1", b"m2", b"m3"]
    assert broker.node.offsets.query("G", "T", 0) == 4


def test_what_is_not_acknowledged_comes_again(broker: Harness, client: Client) -> None:
    fill(client, 3)
    found = take(client)
    ack(client, found[1])
    broker.driver.advance(INVISIBLE_MS - 2_000)
    assert take(client) == []
    broker.driver.advance(8_000)
    again = take(client)
    assert bodies(again) == [b"m0", b"m2"]
    unit = again[0].unit
    assert (unit.topic, unit.reconsume_times) == (b"T", 1)
    assert props(unit)["1ST_POP_TIME"] == str(found[0].receipt.pop_time)
    assert props(unit)["ORIGIN_GROUP"] == "G"
    assert again[0].topic == "%RETRY%G_T"
    assert broker.stored("%RETRY%G_T")[0].topic == b"%RETRY%G_T"
    ack(client, *again)
    broker.driver.advance(AGAIN_MS)
    assert take(client) == []
    assert broker.node.revive.open == 0


def test_a_retry_comes_again_in_the_same_retry_topic(broker: Harness, client: Client) -> None:
    fill(client, 1)
    for times in range(3):
        [one] = take(client)
        assert one.unit.reconsume_times == times
        broker.driver.advance(AGAIN_MS)
    assert broker.node.store.queue_bounds("%RETRY%G_T", 0) == (0, 3)


def test_a_batch_is_acknowledged_in_one_record(broker: Harness, client: Client) -> None:
    fill(client, 5)
    found = take(client)
    assert client.ask(*batch_of([found[0], found[3]])).code == 0
    broker.driver.advance(AGAIN_MS)
    assert bodies(take(client)) == [b"m1", b"m2", b"m4"]
    assert broker.node.store.queue_bounds("rmq_sys_REVIVE_LOG_DefaultCluster", found[0].receipt.revive_queue)[1] == 2


def test_more_time_and_less(broker: Harness, client: Client) -> None:
    fill(client, 2)
    first, second = take(client)
    assert client.ask(change_of(first, 60_000)).code == 0
    answer = client.ask(change_of(second, 1_000, suspend=True))
    assert answer.ext_map() == {
        "popTime": str(broker.env.wall_ms),
        "invisibleTime": "1000",
        "reviveQid": str(second.receipt.revive_queue),
    }
    broker.driver.advance(8_000)
    [again] = take(client)
    assert (again.body, again.unit.reconsume_times) == (b"m1", 0)
    ack(client, again)
    broker.driver.advance(40_000)
    assert take(client) == []
    broker.driver.advance(20_000)
    [again] = take(client)
    assert (again.body, again.unit.reconsume_times) == (b"m0", 1)


@pytest.mark.parametrize("kill", [False, True])
def test_a_restart_keeps_what_somebody_has(broker: Harness, client: Client, kill: bool) -> None:
    """After a kill as far as progress was on the disk: it goes there every 5 s."""
    fill(client, 4)
    found = take(client, invisible_time=30_000)
    ack(client, found[0])
    broker.driver.advance(12_000)
    broker.restart(kill=kill)
    client = broker.connect()
    ack(client, found[1])
    assert take(client) == []
    broker.driver.advance(16_000)
    assert take(client) == []
    broker.driver.advance(8_000)
    assert bodies(take(client)) == [b"m2", b"m3"]


def test_tags_choose(broker: Harness, client: Client) -> None:
    for number in range(6):
        key = "7F000001" + f"{number:024d}"
        assert client.ask(send(properties=pairs(UNIQ_KEY=key, TAGS="ab"[number % 2])), b"m%d" % number).code == 0
    found = take(client, exp="b", exp_type="TAG")
    assert bodies(found) == [b"m1", b"m3", b"m5"]
    ack(client, found[1])
    broker.driver.advance(AGAIN_MS)
    assert bodies(take(client, exp="b", exp_type="TAG")) == [b"m1", b"m5"]
    assert bodies(take(client, consumer_group="H", exp="_", exp_type="TAG")) == []
    assert broker.node.offsets.query("H", "T", 0) == 6
    sql = take(client, consumer_group="S", exp="TAGS = 'a'", exp_type="SQL92")
    assert bodies(sql) == [b"m0", b"m2", b"m4"]


def test_all_queues(broker: Harness, client: Client) -> None:
    for queue_id in range(4):
        fill(client, 2, queue_id=queue_id)
    found = take(client, queue_id=-1)
    assert len(found) == 8
    ack(client, *found[:4])
    broker.driver.advance(AGAIN_MS)
    assert len(take(client, queue_id=-1)) == 4
