"""Batches of many messages: whole or not at all, and nobody waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_impl.capabilities.batches import MESSAGES_PER_SLICE
from broker_impl.engine.slices import BYTES_PER_SLICE
from rmq_store.errors import Closed, CommitFailed
from rmq_store.log.commit_log import CommitLog
from rmq_wire.batch import Item, pack_items
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command
from rmq_wire.headers.send import SendMessageResponse
from rmq_wire.message import has_good_seal, read_unit
from rmq_wire.sys_flag import INNER_BATCH, NEED_UNWRAP
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.requests import batch, create_topic, pairs, send

SLICES = 6
MANY = SLICES * MESSAGES_PER_SLICE
BIG_FILES = {"mappedFileSizeCommitLog": 1 << 24}


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path, **BIG_FILES)
    harness.topic()
    yield harness
    harness.stop()


def items(count: int = MANY, mark: str = "b") -> list[Item]:
    return [Item(number, f"{mark}{number}".encode(), pairs(UNIQ_KEY=f"{mark}-{number}").encode()) for number in range(count)]


def begin(client: Client, *messages: Item) -> int:
    """Send a batch and let one turn happen.  The request's number."""
    request, body = batch(*messages)
    client.driver.turn((client, client.frame(request, body)))
    return client._opaque


def offset_of(answer: Command) -> int:
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer.header(SendMessageResponse).queue_offset


def test_others_are_served_while_a_batch_is_made_and_never_in_it(harness: Harness) -> None:
    """One queue, one log: what others send comes before it or after it."""
    one, other = harness.connect(), harness.connect()
    opaque = begin(one, *items())
    between = 0
    while opaque not in one.answers:
        number = other._opaque
        harness.driver.turn((other, other.frame(send(), b"other")))
        between += number + 1 in other.answers
    assert between > SLICES
    stored = harness.stored()
    places = [at for at, unit in enumerate(stored) if unit.body != b"other"]
    assert places == list(range(places[0], places[0] + MANY)), "nothing lies between them"
    assert places[0] > 1
    assert len(stored) > places[-1] + 1, "some came while the answer was made"
    assert [unit.body for unit in stored[places[0] :][:MANY]] == [item.body for item in items()]
    assert [unit.queue_offset for unit in stored] == list(range(len(stored)))
    answer = one.answers[opaque]
    assert answer.code == ResponseCode.SUCCESS
    assert offset_of(answer) == places[0]
    ids = answer.header(SendMessageResponse).msg_id.split(",")
    assert [int(name[-16:], 16) for name in ids] == [stored[at].physical_offset for at in places]


def test_a_small_batch_needs_no_second_turn(harness: Harness) -> None:
    client = harness.connect()
    assert begin(client, *items(MESSAGES_PER_SLICE)) in client.answers
    assert begin(client, *items(MESSAGES_PER_SLICE + 1)) not in client.answers
    harness.driver.run()
    assert len(harness.stored()) == 2 * MESSAGES_PER_SLICE + 1
    half = b"x" * (BYTES_PER_SLICE // 2)
    assert begin(client, *[Item(0, half, b"")] * 2) in client.answers
    assert begin(client, *[Item(0, half, b"")] * 3) not in client.answers, "few, but large"
    harness.driver.run()


def test_who_sends_a_batch_is_served_in_order(harness: Harness) -> None:
    client = harness.connect()
    request, body = batch(*items())
    client.raw(client.frame(request, body) + client.frame(send(), b"last"))
    assert [unit.body for unit in harness.stored()][-1] == b"last"


def test_large_ones_one_at_a_time(harness: Harness) -> None:
    clients = [harness.connect() for _ in range(4)]
    opaques = [begin(client, *items(mark=f"{number}-")) for number, client in enumerate(clients)]
    clients[1].close()
    harness.driver.run()
    for client, opaque in zip(clients, opaques, strict=True):
        assert (opaque in client.answers) is (client is not clients[1])
    assert [unit.body for unit in harness.stored()] == [item.body for n in (0, 2, 3) for item in items(mark=f"{n}-")]


def test_a_fault_at_its_end_leaves_nothing_of_it(harness: Harness) -> None:
    client = harness.connect()
    request, body = batch(*items())
    assert client.ask(request, body + b"\0").code == ResponseCode.MESSAGE_ILLEGAL
    assert harness.stored() == []
    assert offset_of(client.ask(send(), b"x")) == 0
    assert offset_of(client.ask(*batch(*items()))) == 1


def test_a_commit_that_fails(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = CommitLog.commit

    def full(self: CommitLog) -> object:
        if len(self.staged) < MANY:
            return commit(self)
        self.rollback_to(0)
        raise CommitFailed(Closed.DISK_FULL, "no space left")

    monkeypatch.setattr(CommitLog, "commit", full)
    one = harness.connect()
    opaque = begin(one, *items())
    while opaque not in one.answers:
        harness.driver.turn()
    assert one.answers[opaque].code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert harness.stored() == []
    harness.driver.advance(10_000)
    assert offset_of(harness.connect().ask(send(), b"x")) == 0


def test_a_topic_that_goes_and_comes_meanwhile(harness: Harness) -> None:
    client = harness.connect()
    client.ask(send(), b"old")
    opaque = begin(client, *items())
    harness.node.store.delete_topics(["T"])
    harness.driver.run()
    assert offset_of(client.answers[opaque]) == 0
    assert [unit.queue_offset for unit in harness.stored()] == list(range(MANY))


def test_the_disk_has_all_of_it_before_the_answer(tmp_path: Path) -> None:
    harness = Harness(tmp_path, flushDiskType="SYNC_FLUSH", **BIG_FILES)
    harness.topic()
    harness.driver.held = True
    client = harness.connect()
    opaque = client.send(*batch(*items()))
    assert opaque not in client.answers
    while opaque not in client.answers:
        assert harness.node.store.flushed_offset < harness.node.store.written_offset
        harness.driver.end_job()
        harness.driver.run()
    assert client.answers[opaque].code == ResponseCode.SUCCESS
    assert harness.node.store.flushed_offset == harness.node.store.written_offset
    harness.driver.held = False
    harness.stop()


def test_who_sends_beside_a_large_batch_is_not_left_without_a_flush(tmp_path: Path) -> None:
    """A flush under way covers the batch already when its answer takes its place behind sends that wait for the next one."""
    harness = Harness(tmp_path, flushDiskType="SYNC_FLUSH", **BIG_FILES)
    harness.topic()
    store, waiting = harness.node.store, harness.node.engine._commits.waiting
    harness.driver.held = True
    one, two, three = (harness.connect() for _ in range(3))
    begin(one, *items())
    while not store.written_offset:
        harness.driver.turn()
    harness.driver.turn((two, two.frame(send(), b"begins a flush")))
    harness.driver.turn()
    assert len(harness.driver.jobs) == 1
    while not waiting or waiting[-1][2][0] is not one.peer:
        harness.driver.turn((three, three.frame(send(), b"waits for the next")))
    for _ in range(2):
        harness.driver.end_job()
        harness.driver.run()
    assert store.flushed_offset == store.written_offset
    assert all(client.answers for client in (one, two, three))
    assert not waiting
    assert {answer.code for client in (one, two, three) for answer in client.answers.values()} == {ResponseCode.SUCCESS}
    harness.driver.held = False
    harness.stop()


def test_check_sums_of_units_are_those_of_their_places(tmp_path: Path) -> None:
    harness = Harness(tmp_path, enabledAppendPropCRC="true", **BIG_FILES)
    harness.topic()
    client = harness.connect()
    client.ask(send(), b"x")
    assert client.ask(*batch(*items())).code == ResponseCode.SUCCESS
    read = harness.node.store.read_queue("T", 0, 1, MANY, 1 << 27)
    log = b"".join(bytes(chunk) for chunk in read.chunks)
    at = 0
    while at < len(log):
        size = int.from_bytes(log[at : at + 4], "big")
        assert has_good_seal(log[at : at + size])
        assert read_unit(log, at).store_timestamp == harness.env.wall_ms
        at += size
    assert read.message_count > 0
    harness.stop()


def test_a_unit_of_many_messages(harness: Harness) -> None:
    harness.topic("B", attributes={"+queue.type": "BatchCQ"})
    client = harness.connect()
    unique = pairs(UNIQ_KEY="all")
    tiny = pack_items([Item(0, b"", b"")])
    for count, code in ((32_767, ResponseCode.SUCCESS), (32_768, ResponseCode.MESSAGE_ILLEGAL)):
        request, _ = batch(topic="B", properties=unique)
        assert client.ask(request, tiny * count).code == code
    assert harness.node.store.queue_bounds("B", 0) == (0, 32_767)
    [unit] = [read_unit(b"".join(map(bytes, harness.node.store.read_queue("B", 0, 0, 1, 1 << 27).chunks)))]
    assert unit.sys_flag == INNER_BATCH | NEED_UNWRAP, "a client that pulls it takes it apart"


def test_a_kill_while_a_topic_with_batch_queues_is_deleted(harness: Harness) -> None:
    harness.topic("B", 4, attributes={"+queue.type": "BatchCQ"})
    harness.topic("Other")
    client = harness.connect()
    for queue_id in range(4):
        assert client.ask(send("B", queue_id), b"x").code == 0
    assert client.ask(send("Other"), b"y").code == 0
    harness.node.topics.delete("B")
    harness.driver.advance(10_000)
    next(harness.node.store.deleting_topics(["B"]))  # the files of one queue
    harness.restart(kill=True)
    assert [bytes(unit.body) for unit in harness.stored("Other")] == [b"y"]
    harness.topic("B", 4, attributes={"+queue.type": "BatchCQ"})
    assert harness.connect().ask(send("B"), b"z").code == 0
    harness.restart()
    assert harness.stored("B")[-1].body == b"z"


@pytest.mark.parametrize("kind", ["BatchCQ", "SimpleCQ"])
def test_a_topic_is_made_again_with_queues_of_another_kind(harness: Harness, kind: str) -> None:
    """A kill has left those that it had."""
    other = {"BatchCQ": "SimpleCQ", "SimpleCQ": "BatchCQ"}[kind]
    harness.topic("B", 1, attributes={"+queue.type": kind})
    assert harness.connect().ask(send("B"), b"old").code == 0
    harness.driver.advance(10_000)
    harness.node.topics.delete("B")
    harness.driver.advance(10_000)
    harness.restart(kill=True)
    client = harness.connect()
    assert client.ask(create_topic("B", queues=1, attributes=f"+queue.type={other}")).code == 0
    assert client.ask(send("B"), b"new").code == 0
    for kill in (False, True):
        harness.restart(kill=kill)
        assert [bytes(unit.body) for unit in harness.stored("B")] == [b"new"]
