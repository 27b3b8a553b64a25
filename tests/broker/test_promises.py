"""docs/durability.md, as clients see it: a whole broker on a disk that fails, is killed, or loses its power.

G1 to G6 are the promises of that page.  The disk is in memory; what is not synced is lost with the power and kept over a kill.
"""

from __future__ import annotations

import errno
import random

import pytest

from broker_impl.state.consumer_offsets import ConsumerOffsets
from rmq_wire.batch import Item, pack_items
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.offsets import QueryConsumerOffset, UpdateConsumerOffset
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.query import QueryMessage
from rmq_wire.headers.send import SendBatchMessage
from tests.broker.promises_kit import ASYNC, NOT_AVAILABLE, SYNC, Machine, put, read
from tests.support.memory_disk import Fault
from tests.support.planting import find
from tests.support.requests import WALL_MS, heartbeat, pairs, pull, send, units

BOTH = pytest.mark.parametrize("mode", [ASYNC, SYNC])


# --- no answer before the bytes are safe


@BOTH
def test_a_kill_loses_nothing_that_was_answered(mode: str) -> None:
    """G1: SIGKILL at any time after the answer, in both modes."""
    machine = Machine(mode)
    client = machine.connect()
    sent = [b"%d" % n for n in range(300)]
    assert [put(client, body) for body in sent] == [0] * len(sent)
    machine.kill()
    assert machine.bodies() == sent
    assert read(machine.connect(), 290) == sent[290:]


def test_async_flush_answers_before_the_disk_and_a_cut_takes_a_suffix() -> None:
    """G1, G2 under ASYNC_FLUSH: what a power cut takes is the end, of the last half second and one sync."""
    machine = Machine(ASYNC)
    machine.driver.held = True
    client = machine.connect()
    assert put(client, b"answered at once") == 0
    assert read(client) == [b"answered at once"], "and seen at once"
    machine.driver.held = False
    machine.driver.advance(600)
    assert [put(client, b"later %d" % n) for n in range(5)] == [0] * 5
    machine.cut()
    assert machine.bodies() == [b"answered at once"]
    for seed in range(20):
        machine = Machine(ASYNC)
        client = machine.connect()
        sent = [b"%d" % n for n in range(30)]
        for body in sent:
            assert put(client, body) == 0
            machine.driver.advance(random.Random(seed).randrange(60))
        safe = machine.node.store.flushed_offset
        machine.cut(random.Random(seed))
        assert machine.node.store.written_offset >= safe
        assert machine.bodies() == sent[: len(machine.bodies())]


def test_sync_flush_answers_after_the_disk_and_a_cut_takes_nothing() -> None:
    """G1 under SYNC_FLUSH: not answered and not seen before the sync; safe after it."""
    machine = Machine(SYNC)
    client, other = machine.connect(), machine.connect()
    machine.driver.held = True
    asked = client.send(send("T"), b"one")
    assert asked not in client.answers
    assert read(other) == [], "consumers never see what is not flushed"
    machine.cut()
    assert machine.bodies() == []
    client = machine.connect()
    assert [put(client, b"%d" % n) for n in range(40)] == [0] * 40
    machine.cut()
    assert machine.bodies() == [b"%d" % n for n in range(40)]


def test_who_does_not_wait_is_answered_before_the_disk() -> None:
    """WAIT=false under SYNC_FLUSH: 0 at once, no promise against a cut; flushed and seen within ten milliseconds all the same."""
    machine = Machine(SYNC)
    client = machine.connect()
    machine.driver.held = True
    assert put(client, b"no promise", wait="false") == 0
    assert read(client) == []
    machine.driver.held = False
    machine.driver.advance(11)
    assert read(client) == [b"no promise"]
    machine.driver.held = True
    assert put(client, b"lost", wait="false") == 0
    machine.cut()
    assert machine.bodies() == [b"no promise"]


def test_a_disk_that_hangs() -> None:
    """SYNC_FLUSH: 10 after syncFlushTimeout with all fields of a success; others are served; in the end it is seen."""
    machine = Machine(SYNC, syncFlushTimeout=5000)
    client, other = machine.connect(), machine.connect()
    machine.driver.held = True
    asked = client.send(send("T"), b"slow")
    machine.driver.advance(4_999)
    assert asked not in client.answers
    assert other.ask(GetMaxOffset(topic="T", queue_id=0)).code == 0
    machine.driver.advance(2)
    late = client.answers.pop(asked)
    assert late.code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert late.ext_map()["queueOffset"] == "0"
    machine.driver.held = False
    machine.driver.run()
    assert read(other) == [b"slow"]


def test_a_group_over_the_end_of_a_file() -> None:
    """One sync of both files: no time-out, nothing lost (RocketMQ #7016)."""
    machine = Machine(SYNC)
    clients = [machine.connect() for _ in range(30)]
    machine.driver.run(*[(client, client.frame(send("T"), b"%2d" % n + b"." * 4000)) for n, client in enumerate(clients)])
    assert [answer.code for client in clients for answer in client.answers.values()] == [0] * 30
    assert machine.node.store.written_offset > 65_536
    machine.cut()
    assert [int(body[:2]) for body in machine.bodies()] == list(range(30))


# --- queues, index and progress


@BOTH
def test_queues_and_keys_after_a_kill(mode: str) -> None:
    """G3: what the log has is in its queue and under its key, once."""
    machine = Machine(mode)
    client = machine.connect()
    for n in range(120):
        assert client.ask(send("T", properties=pairs(UNIQ_KEY=f"{n:032X}", KEYS=f"k{n}")), b"%d" % n).code == 0
        machine.driver.advance(50)
    machine.kill()
    client = machine.connect()
    for n in (0, 1, 60, 118, 119):
        found = client.ask(
            QueryMessage(topic="T", key=f"k{n}", max_num=64, begin_timestamp=0, end_timestamp=WALL_MS * 2, index_type="K")
        )
        assert [bytes(unit.body) for unit in units(found.body)] == [b"%d" % n]


def progress_beyond_the_log() -> None:
    """G4: ASYNC_FLUSH, a cut, offsets that were written after messages that were not: nothing new is skipped."""
    machine = Machine(ASYNC)
    client = machine.connect()
    heartbeat(client)
    machine.driver.advance(20_000)
    machine.driver.held = True
    for n in range(10):
        assert put(client, b"lost %d" % n) == 0
    assert client.ask(UpdateConsumerOffset(consumer_group="G", topic="T", queue_id=0, commit_offset=10)).code == 0
    machine.node.persister.save_all()
    machine.cut()
    client = machine.connect()
    assert machine.bodies() == []
    stored = client.ask(QueryConsumerOffset(consumer_group="G", topic="T", queue_id=0))
    progress = int(stored.ext_map().get("offset", "0")) if stored.code == 0 else 0
    assert put(client, b"new") == 0
    assert read(client, progress) == [b"new"]
    moved = client.ask(pull("T", offset=10))
    assert moved.code == ResponseCode.PULL_OFFSET_MOVED, "a consumer that remembers by itself is sent to the recovered end"
    assert int(moved.ext_map()["nextBeginOffset"]) <= 1


def test_progress_beyond_the_log() -> None:
    progress_beyond_the_log()


def progress_is_kept_beyond_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerOffsets, "clamp", lambda *_: None)


def test_the_planted_progress_is_found() -> None:
    """S29"""
    find(progress_is_kept_beyond_the_log, progress_beyond_the_log)


# --- a failing disk


@BOTH
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_a_disk_that_takes_nothing_for_a_while(mode: str, error: int) -> None:
    """Full, over quota, read-only: 14, nothing of it is stored, reads go on, sends again without a restart."""
    machine = Machine(mode)
    client = machine.connect()
    assert put(client, b"before") == 0
    machine.fail("write", "/commitlog/", error)
    assert [put(client, b"refused %d" % n) for n in range(3)] == [NOT_AVAILABLE] * 3
    assert read(client) == [b"before"]
    machine.heal()
    assert put(client, b"after") == 0
    assert read(client) == [b"before", b"after"]
    machine.kill()
    assert machine.bodies() == [b"before", b"after"]


@BOTH
def test_a_log_file_that_cannot_be_made(mode: str) -> None:
    """A read-only directory shows when the next file is due: 1, as the reference; the rest of the file ahead is used before."""
    machine = Machine(mode)
    client = machine.connect()
    assert put(client, b"." * 3000) == 0
    machine.fail("create", "/commitlog/", errno.EROFS)
    codes = [put(client, b"." * 3000) for _ in range(60)]
    assert set(codes) == {0, ResponseCode.SYSTEM_ERROR, NOT_AVAILABLE}
    assert codes[: codes.index(1)] == [0] * codes.count(0), "and then 14 until it is tried again"
    kept = 1 + codes.count(0)
    assert len(machine.bodies()) == kept
    machine.heal()
    assert put(client, b"after") == 0
    machine.kill()
    assert len(machine.bodies()) == kept + 1


@BOTH
@pytest.mark.parametrize("part", ["/consumequeue/", "/index/"])
@pytest.mark.parametrize("operation", ["write", "create"])
def test_queue_and_index_without_room(mode: str, part: str, operation: str) -> None:
    """What the log took is not lost: it shows when there is room again, or after the next start."""
    for ending in ("room", "kill"):
        machine = Machine(mode)
        client = machine.connect()
        machine.fail(operation, part, errno.ENOSPC)
        codes = []
        for n in range(4):
            codes.append(put(client, b"%d" % n))
            machine.driver.advance(700)
        accepted = [b"%d" % n for n, code in enumerate(codes) if code == 0]
        assert set(codes) <= {0, NOT_AVAILABLE}
        if ending == "room":
            machine.heal()
        else:
            machine.kill()
        assert machine.bodies() == accepted
        assert put(machine.connect(), b"after") == 0


@BOTH
def test_an_error_of_a_write_fences(mode: str) -> None:
    machine = Machine(mode)
    client = machine.connect()
    assert put(client, b"before") == 0
    machine.fail("write", "/commitlog/", errno.EIO, times=1)
    assert put(client, b"refused") == NOT_AVAILABLE
    machine.heal()
    assert put(client, b"refused, too") == NOT_AVAILABLE, "what is on the disk is not known: until a restart"
    assert read(client) == [b"before"]
    machine.kill()
    assert machine.bodies() == [b"before"]
    assert put(machine.connect(), b"after") == 0


@BOTH
@pytest.mark.parametrize("operation", ["sync", "sync_directory"])
def test_an_error_of_a_sync_fences(mode: str, operation: str) -> None:
    """G1, S6, S7: pending answers get 14, never 0; no second sync; what was flushed before is there after a cut."""
    machine = Machine(mode)
    client = machine.connect()
    assert put(client, b"before") == 0
    machine.driver.advance(600)
    while machine.node.store.written_offset < 65_536:
        assert put(client, b"." * 3000) == 0
        machine.driver.advance(600)
        safe = machine.bodies()
    machine.fail(operation, "/commitlog", errno.EIO, times=1)
    answered = put(client, b"y" * 100)
    while operation == "sync_directory" and answered == 0 and machine.node.store.written_offset < 2 * 65_536:
        answered = put(client, b"." * 3000)
    machine.driver.advance(600)
    assert answered == (NOT_AVAILABLE if mode == SYNC else 0), "under ASYNC_FLUSH it was answered before"
    syncs = len([1 for name, *_ in machine.disk.log if name == "sync"])
    machine.disk.faults = []
    machine.driver.advance(60_000)
    assert put(client, b"refused") == NOT_AVAILABLE
    assert len([1 for name, *_ in machine.disk.log if name == "sync"]) - syncs <= 20, "tables, not the log"
    assert read(client)[:1] == [b"before"]
    machine.cut()
    assert machine.bodies()[: len(safe)] == safe
    assert put(machine.connect(), b"after") == 0


def test_a_batch_is_whole_or_absent() -> None:
    """A failure within it leaves nothing (RocketMQ #4466)."""
    machine = Machine(ASYNC)
    client = machine.connect()
    header = send("T", properties=pairs(UNIQ_KEY="7F000001" + "0" * 24, WAIT="true"), batch=True)
    body = pack_items([Item(0, b"part %d" % n, b"") for n in range(10)])
    machine.disk.faults = [Fault("write", error=errno.ENOSPC, partial=400, path_part="/commitlog/")]
    batch = SendBatchMessage(**{name: getattr(header, name) for name in header.__struct_fields__})
    assert client.ask(batch, body).code == NOT_AVAILABLE
    machine.heal()
    assert machine.bodies() == []
    assert client.ask(batch, body).code == 0
    assert machine.bodies() == [b"part %d" % n for n in range(10)]
