"""Messages that are damaged where they are stored: they stop no queue, nobody gets their bodies, and somebody hears of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from trio.testing import MockClock

from rmq_client.consuming.listener import Context
from rmq_client.consuming.pulling import WARN_AGAIN_S
from rmq_client.errors import Unreadable, UnreadableBody
from rmq_client.messages import MessageQueue
from rmq_wire import properties, sys_flag
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.command import Command
from rmq_wire.message import pack_unit, read_unit
from tests.client.consumers import FIRST, Heard, Messages
from tests.client.fake_cluster import client_of, refusing
from tests.client.sim_cluster import HOST, SimCluster
from tests.support.mock_time import pass_time

BACK, SEND = RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE_V2
QUEUE = MessageQueue("T", "broker-a", 0)
PACKED = sys_flag.COMPRESSED | sys_flag.COMPRESSION_ZSTD


def damage(cluster: SimCluster, place: int) -> None:
    """Another body than the one that was stored."""
    log = cluster.kept["broker-a"].log
    unit = bytearray(log[place])
    at = unit.index(bytes(read_unit(log[place]).body), 80)
    unit[at] ^= 0x10
    log[place] = bytes(unit)


def cut(cluster: SimCluster, place: int) -> None:
    """Lengths that do not add up."""
    log = cluster.kept["broker-a"].log
    log[place] = log[place][:84] + b"\x7f" + log[place][85:]


def warned(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING and part in record.getMessage()]


def sent(cluster: SimCluster, code: int) -> list[Command]:
    return [command for server in (cluster.a, cluster.b) for _, command in server.asked(code)]


def dead(asked: Command) -> bool:
    """A broker that is asked this gives the message up."""
    said = asked.ext_map()
    return said["delayLevel"] == "-1" if asked.code == BACK else int(said["j"]) > int(said["l"])


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("batch", [1, 8])
async def test_a_body_that_is_not_the_one_that_was_stored(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, orderly: bool, batch: int
) -> None:
    """Java's client compares no check sum and delivers it.  Here it becomes a dead letter at the first failure, in order too."""
    cluster = SimCluster(1, queues=1)
    cluster.fill(30)
    damage(cluster, 20)
    for server in (cluster.a, cluster.b):
        server.answers[BACK] = refusing(ResponseCode.SUCCESS)
        server.answers[SEND] = lambda command: cluster.store("broker-a", command)
    heard, failed = Heard(), []

    async def listen(messages: Messages, context: Context) -> None:
        try:
            heard.add([message for message in messages if message.body])
        except UnreadableBody as reason:
            failed.append((len(messages), str(reason)))
            raise

    settings: dict[str, Any] = {"orderly": orderly, "consume_message_batch_max_size": batch, **FIRST}
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, listen, **settings):
        await pass_time(3_600)
    given_up = [one for one in sent(cluster, SEND if orderly else BACK) if dead(one)]
    assert len(given_up) == len(failed) == 1
    expected = [b"%d" % number for number in range(30) if number != 20]
    if orderly:
        assert failed[0][0] == 1, "it takes no others of its batch with it"
        assert heard.bodies == expected
    else:
        others = [one for one in sent(cluster, BACK) if not dead(one)]
        assert len(heard.bodies) + len(others) == 29
    assert cluster.kept["broker-a"].progress["G", "T", 0] == 30
    [line] = warned(caplog, "check sum, and")
    assert "topic='T', broker_name='broker-a', queue_id=0" in line
    assert "offset 20:" in line


async def test_what_can_be_read_before_damage_is_consumed_and_damage_is_told_now_and_then(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody knows where the next message begins: Java's client passes over all of the answer behind it, without a word."""
    cluster = SimCluster(1, queues=1)
    cluster.fill(30)
    cut(cluster, 20)
    heard = Heard()
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, heard, **FIRST):
        await pass_time(2.5 * WARN_AGAIN_S)
    assert heard.bodies == [b"%d" % number for number in range(20)]
    assert cluster.kept["broker-a"].progress["G", "T", 0] == 20
    lines = warned(caplog, "no message")
    assert len(lines) == 3, lines
    assert all("offset 20:" in line and "queue_id=0" in line for line in lines)


@pytest.mark.parametrize(("topic", "offset"), [(b"another", 0), (b"T", 9)])
async def test_an_offset_of_another_queue_is_not_gone_on_with(autojump_clock: MockClock, topic: bytes, offset: int) -> None:
    """What lies in a light queue has the number that it has in its topic's own."""
    cluster = SimCluster(1, queues=1)
    cluster.fill(5)
    cluster.kept["broker-a"].log[0] = pack_unit(0, 0, offset, 0, 0, 0, HOST, 0, HOST, 0, 0, b"x", topic, b"")
    cut(cluster, 1)
    async with client_of(cluster) as client:
        assert len((await client.puller().pull(QUEUE, 0, max_messages=1)).messages) == 1
        with pytest.raises(Unreadable):
            await client.puller().pull(QUEUE, 0)


async def test_a_reader_gets_what_is_before_and_behind(autojump_clock: MockClock) -> None:
    cluster = SimCluster(1, queues=1)
    cluster.fill(3)
    damage(cluster, 1)
    async with client_of(cluster) as client:
        found = [message async for message in client.puller().messages(QUEUE, 0)]
    assert [message.body for message in (found[0], found[2])] == [b"0", b"2"]
    with pytest.raises(UnreadableBody, match="check sum"):
        assert found[1].body


async def test_broadcast_in_order_it_is_dropped(autojump_clock: MockClock, tmp_path: Any) -> None:
    cluster = SimCluster(1, queues=1)
    cluster.fill(3)
    damage(cluster, 1)
    bodies: list[bytes] = []

    async def listen(messages: Messages, context: Context) -> None:
        bodies.extend(message.body for message in messages)

    settings: dict[str, Any] = {"message_model": "BROADCASTING", "orderly": True, "local_offset_store_dir": tmp_path, **FIRST}
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, listen, **settings):
        await pass_time(60)
    assert bodies == [b"0", b"2"]
    assert not sent(cluster, SEND)


@pytest.mark.parametrize("way", ["given back", "sent instead"])
async def test_a_topic_that_is_no_text(autojump_clock: MockClock, way: str) -> None:
    """As in Java: it is read as far as it is text."""
    cluster = SimCluster(1, queues=1)
    cluster.fill(2)
    log = cluster.kept["broker-a"].log
    log[0] = pack_unit(0, 0, 0, 0, 0, 0, HOST, 0, HOST, 0, 0, b"0", b"\xffT", b"")
    if way == "sent instead":
        for server in (cluster.a, cluster.b):
            server.answers[BACK] = refusing(ResponseCode.SYSTEM_ERROR)
    tries: list[bytes] = []

    async def listen(messages: Messages, context: Context) -> None:
        tries.extend(message.body for message in messages)
        if len(tries) <= 2:
            raise ValueError

    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, listen, **FIRST) as consumer:
        await pass_time(60)
        result = await consumer.consume_directly(log[0], "broker-a")
    assert sorted(tries) == [b"0", b"0", b"0", b"1", b"1"]
    assert cluster.kept["broker-a"].progress["G", "T", 0] == 2
    assert result.consume_result == "CR_SUCCESS"
    assert {command.ext_map()["d"] for command in sent(cluster, BACK) if "d" in command.ext_map()} <= {"\ufffdT", "T"}


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_packed_body_that_nobody_can_unpack_is_passed_on_as_it_is(autojump_clock: MockClock, orderly: bool) -> None:
    """In order after so many tries, else where the broker does not take it back."""
    cluster = SimCluster(1, queues=1)
    broker = cluster.kept["broker-a"]
    spoilt = b"this is nothing that was packed " * 200
    broker.store("T", 0, spoilt, b"", cluster.wall_ms, flags=PACKED | sys_flag.MULTI_TAGS | sys_flag.TRANSACTION_COMMIT)
    broker.store("T", 0, b"good", b"", cluster.wall_ms)
    copies: list[Command] = []
    for server in (cluster.a, cluster.b):
        server.answers[BACK] = refusing(ResponseCode.SYSTEM_ERROR)
        server.answers[SEND] = lambda command: (copies.append(command), cluster.store("broker-a", command))[1]
    heard = Heard()
    tries = 0

    async def listen(messages: Sequence[Any], context: Context) -> None:
        nonlocal tries
        tries += 1
        assert messages[0].body
        heard.add(messages)

    settings: dict[str, Any] = {"orderly": orderly, "max_reconsume_times": 2, **FIRST}
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, listen, **settings):
        await pass_time(3_600)
    assert heard.bodies == [b"good"]
    assert broker.progress["G", "T", 0] == 2
    [copy] = copies
    said = copy.ext_map()
    assert bytes(copy.body) == spoilt
    assert int(said["f"]) == PACKED, "no other bit of the stored one is a client's to set"
    assert (said["b"], said["j"], said["l"]) == ("%RETRY%G", "3" if orderly else "1", "2")
    assert "RETRY_TOPIC" in properties.decode(said["i"])
    assert tries == (4 if orderly else 2)
