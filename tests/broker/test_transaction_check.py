"""Half messages whose end stays away: who is asked, when, how often, and what a restart, a crash or a failing disk does to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_impl.capabilities.transactions import ENDED, UNSEEN_MS
from rmq_store.errors import Cold
from rmq_wire.message import read_unit
from rmq_wire.names import TRANS_GROUP
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from tests.support import transactions
from tests.support.engine import Harness, failing_commits
from tests.support.requests import props
from tests.support.transactions import GIVEN_UP, HALF, OP, UNIQUE, Producer, bodies, end, ending, half

ROUND_MS = 30_000


learned = transactions.both_ways


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path).begun()


def check(harness: Harness, *producers: Producer) -> None:
    """Let one interval pass."""
    for producer in producers:
        producer.beat()
    harness.driver.advance(ROUND_MS)


def progress(harness: Harness, topic: str = HALF) -> int:
    return harness.node.offsets.query(TRANS_GROUP, topic, 0)


def test_the_question(harness: Harness) -> None:
    producer = Producer(harness, says=TRANSACTION_COMMIT)
    unit = half(harness, TAGS="A")
    harness.driver.advance(27_999)
    assert producer.questions() == []
    harness.driver.advance(1)
    [(header, body)] = producer.questions()
    [_, copy] = harness.stored(HALF)
    assert props(copy) == {**props(unit), "TRANSACTION_CHECK_TIMES": "1"}
    assert (header.tran_state_table_offset, header.commit_log_offset) == (copy.queue_offset, copy.physical_offset)
    assert (header.topic, header.bname, header.msg_id) == (HALF, "broker-a", props(unit)["UNIQ_KEY"])
    sent = read_unit(body)
    assert (sent.topic, sent.queue_id, bytes(sent.body)) == (b"T", 1, b"half")
    assert (sent.queue_offset, sent.physical_offset) == (copy.queue_offset, copy.physical_offset)
    [committed] = harness.stored("T", 1)
    assert committed.prepared_transaction_offset == copy.physical_offset
    assert end(harness, unit, TRANSACTION_COMMIT).code == 1
    check(harness, producer)
    assert producer.questions() == []
    assert len(harness.stored("T", 1)) == 1


def test_one_that_is_six_seconds_old_is_left_in_peace(harness: Harness) -> None:
    producer = Producer(harness)
    harness.driver.advance(22_000)
    half(harness)
    harness.driver.advance(6_000)
    assert producer.questions() == []
    harness.driver.advance(ROUND_MS)
    assert len(producer.questions()) == 1


def test_a_young_one_stops_the_check_and_an_old_one_behind_it_waits(harness: Harness) -> None:
    producer = Producer(harness)
    harness.driver.advance(25_000)
    half(harness, 1)
    half(harness, 2)
    harness.driver.advance(3_000)
    assert producer.questions() == []
    check(harness, producer)
    assert len(producer.questions()) == 2


def test_attack_22_asked_fifteen_times_and_given_up(harness: Harness) -> None:
    producer = Producer(harness)
    unit = half(harness, KEYS="k")
    times = 0
    for _ in range(20):
        check(harness, producer)
        times += len(producer.questions())
    assert times == 15
    [given_up] = harness.stored(GIVEN_UP)
    assert props(given_up) == {**props(unit), "TRANSACTION_CHECK_TIMES": "15"}
    assert given_up.body == unit.body
    topic = harness.node.topics.get(GIVEN_UP)
    assert topic is not None
    assert (topic.perm, topic.write_queue_nums) == (6, 1)
    assert harness.node.transaction_metrics.counts["T"][0] == 0
    assert harness.stored("T", 1) == []


@pytest.mark.parametrize("named", [0, -1])
def test_a_commit_of_what_was_given_up_is_late_and_counts_once(harness: Harness, named: int) -> None:
    """As in Java, which stores it; by the place of the first copy or of the last.  A rollback leaves nothing to do."""
    half(harness)
    other = half(harness, 2)
    for _ in range(16):
        check(harness)
    assert len(harness.stored(GIVEN_UP)) == 2
    mine = [unit for unit in harness.stored(HALF) if props(unit)["UNIQ_KEY"] != props(other)["UNIQ_KEY"]]
    first, second = harness.connect(), harness.connect()
    harness.driver.run(*((one, one.frame(ending(mine[named], TRANSACTION_COMMIT))) for one in (first, second)))
    harness.driver.advance(UNSEEN_MS)
    assert sorted(answer.code for one in (first, second) for answer in one.answers.values()) == [0, 1]
    assert bodies(harness.stored("T", 1)) == [b"half"]
    for unit in mine:
        answer = end(harness, unit, TRANSACTION_COMMIT)
        assert (answer.code, answer.remark) == (1, ENDED)
    assert end(harness, other, TRANSACTION_ROLLBACK).code == 0
    assert len(harness.stored("T", 1)) == 1
    assert harness.node.transaction_metrics.counts["T"][0] == 0


def test_an_end_waits_for_the_copy_to_be_in_the_index(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check has put it back, and the index has not come so far: the first sender's end is not refused."""
    unit = half(harness)
    check(harness)
    client = harness.connect()
    with monkeypatch.context() as patch:
        patch.setattr(harness.node.halves.copies, "newest", lambda _: None)
        patch.setattr(type(harness.node.store), "undispatched", 1)
        opaque = client.send(ending(unit, TRANSACTION_COMMIT))
        harness.driver.advance(3 * UNSEEN_MS)
        assert opaque not in client.answers
    harness.driver.advance(UNSEEN_MS)
    assert client.answers[opaque].code == 0
    assert bodies(harness.stored("T", 1)) == [b"half"]


def test_two_that_have_the_same_unique_key(harness: Harness) -> None:
    """Clients may make their own: the end of the first, which was put back, is not taken for one of the second."""
    producer = Producer(harness)
    first = half(harness)
    check(harness, producer)
    second = half(harness)
    assert end(harness, first, TRANSACTION_ROLLBACK).code == 0
    producer.questions()
    check(harness, producer)
    [(_, body)] = producer.questions()
    assert read_unit(body).born_timestamp == second.born_timestamp
    assert end(harness, second, TRANSACTION_COMMIT).code == 0
    assert bodies(harness.stored("T", 1)) == [b"half"]


def test_checks_count_when_nobody_is_there_to_be_asked(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    half(harness)
    for _ in range(16):
        check(harness)
    assert len(harness.stored(GIVEN_UP)) == 1
    assert harness.node.transaction_check.unasked == 15
    assert "no producer of group P is there" in caplog.text


def test_one_that_is_older_than_the_log_is_kept(harness: Harness) -> None:
    unit = half(harness)
    harness.env.advance(72 * 3_600_000 + 1)
    check(harness)
    [given_up] = harness.stored(GIVEN_UP)
    assert props(given_up) == {**props(unit), "TRANSACTION_CHECK_TIMES": "1"}


def test_another_producer_of_the_group_is_asked(harness: Harness) -> None:
    first, second = Producer(harness), Producer(harness)
    other = Producer(harness, "Q")
    for number in range(4):
        half(harness, number)
    check(harness, first, second, other)
    assert [len(one.questions()) for one in (first, second, other)] == [2, 2, 0]
    first.client.close()
    check(harness, second)
    assert len(second.questions()) == 4


def test_a_sender_may_ask_for_more_time(harness: Harness) -> None:
    """Every check puts it back; that counts as none, and whoever ends it by its first place ends the copy."""
    producer = Producer(harness, says=TRANSACTION_COMMIT)
    unit = half(harness, CHECK_IMMUNITY_TIME_IN_SECONDS="600")
    for _ in range(18):
        check(harness, producer)
    copies = harness.stored(HALF)[1:]
    assert len(copies) == 18
    assert {**props(unit), "WAIT": "false", "TRAN_PREPARED_QUEUE_OFFSET": "0"} == props(copies[-1])
    assert end(harness, unit, TRANSACTION_COMMIT).code == 0
    assert end(harness, unit, TRANSACTION_COMMIT).code == 1
    for _ in range(6):
        check(harness, producer)
    assert producer.questions() == []
    assert len(harness.stored("T", 1)) == 1


def test_who_asked_for_more_time_is_asked_when_it_is_over(harness: Harness) -> None:
    producer = Producer(harness)
    half(harness, CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    check(harness, producer)
    check(harness, producer)
    assert producer.questions() == []
    check(harness, producer)
    assert len(producer.questions()) == 1


def test_an_end_that_comes_after_the_question_counts_once(harness: Harness) -> None:
    producer = Producer(harness, says=TRANSACTION_COMMIT)
    unit = half(harness)
    check(harness, producer)
    assert end(harness, unit, TRANSACTION_ROLLBACK).code == 0
    assert len(producer.questions()) == 1
    check(harness, producer)
    assert harness.stored("T", 1) == []
    assert producer.questions() == []


def test_progress_follows(harness: Harness) -> None:
    producer = Producer(harness)
    client = producer.client
    for number in range(40):
        unit = half(harness, number, client)
        if number % 4:
            client.ask(ending(unit, TRANSACTION_ROLLBACK))
    check(harness, producer)
    assert len(producer.questions()) == 10
    assert (progress(harness), progress(harness, OP)) == (40, 1)
    assert len(harness.stored(HALF)) == 50


def test_op_messages_are_passed_without_gap(harness: Harness) -> None:
    """The second op message ends one that the check has not come to: it stays."""
    units = [half(harness, number) for number in range(2)]
    end(harness, units[1], TRANSACTION_ROLLBACK)
    harness.driver.advance(3_000)
    harness.driver.advance(19_400)
    young = half(harness, 2)
    end(harness, young, TRANSACTION_ROLLBACK)
    end(harness, units[0], TRANSACTION_ROLLBACK)
    last = half(harness, 3)
    end(harness, half(harness, 4), TRANSACTION_ROLLBACK)
    harness.driver.advance(8_000)
    assert bodies(harness.stored(OP)) == [b"1,", b"2,0,4,"]
    assert (progress(harness), progress(harness, OP)) == (last.queue_offset, 1)


@pytest.mark.parametrize("how", [TRANSACTION_COMMIT, TRANSACTION_ROLLBACK])
def test_a_clean_stop_writes_the_ends(harness: Harness, how: int) -> None:
    end(harness, half(harness), how)
    harness.restart()
    assert bodies(harness.stored(OP)) == [b"0,"]
    producer = Producer(harness)
    check(harness, producer)
    check(harness, producer)
    assert producer.questions() == []
    assert len(harness.stored("T", 1)) == (how == TRANSACTION_COMMIT)


def test_a_crash_between_commit_and_op_delivers_once(harness: Harness) -> None:
    committed, rolled_back, pending = [half(harness, number) for number in range(3)]
    end(harness, committed, TRANSACTION_COMMIT)
    end(harness, rolled_back, TRANSACTION_ROLLBACK)
    harness.restart(kill=True)
    assert harness.stored(OP) == []
    producer = Producer(harness, says=TRANSACTION_ROLLBACK)
    check(harness, producer)
    asked = [header.msg_id for header, _ in producer.questions()]
    assert asked == [props(rolled_back)["UNIQ_KEY"], props(pending)["UNIQ_KEY"]]
    check(harness, producer)
    assert producer.questions() == []
    assert bodies(harness.stored("T", 1)) == [b"half"]


def test_a_crash_after_a_check_asks_about_the_copies_only(harness: Harness) -> None:
    for number in range(5):
        half(harness, number)
    producer = Producer(harness)
    check(harness, producer)
    assert len(producer.questions()) == 5
    harness.restart(kill=True)
    assert progress(harness) == -1
    producer = Producer(harness, says=TRANSACTION_COMMIT)
    check(harness, producer)
    assert len(producer.questions()) == 5
    assert len(harness.stored("T", 1)) == 5
    check(harness, producer)
    assert producer.questions() == []


def test_progress_is_said_when_the_disk_has_the_copies(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    half(harness)
    flushed = harness.node.store.flushed_offset
    monkeypatch.setattr(type(harness.node.store), "flushed_offset", property(lambda _: flushed))
    check(harness)
    assert len(harness.stored(HALF)) == 2
    assert progress(harness) == -1
    monkeypatch.undo()
    harness.driver.advance(1_000)
    assert progress(harness) == 1


def test_a_failing_append_passes_nothing_over(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = Producer(harness)
    for number in range(3):
        half(harness, number)
    failing = failing_commits(harness, monkeypatch)
    check(harness, producer)
    assert producer.questions() == []
    failing.clear()
    check(harness, producer)
    assert len(producer.questions()) == 3
    assert len(harness.stored(HALF)) == 6


def test_waiting_for_the_disk_takes_no_more_looks_with_every_check(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    half(harness)
    flushed = harness.node.store.flushed_offset
    looks: list[int] = []

    def count(_: object) -> int:
        looks.append(harness.env.mono_ms)
        return flushed

    monkeypatch.setattr(type(harness.node.store), "flushed_offset", property(count))
    rounds = []
    for _ in range(4):
        looks.clear()
        check(harness)
        rounds.append(len(looks))
    assert rounds[1] == rounds[3]


def test_one_that_has_no_room_for_a_count_keeps_nobody_waiting(harness: Harness) -> None:
    producer = Producer(harness)
    room = 32_767 - len(half(harness, X="x").properties)
    half(harness, 1, X="x" * (1 + room))
    assert len(harness.stored(HALF)[-1].properties) == 32_767
    half(harness, 2)
    check(harness, producer)
    assert [question.msg_id for question, _ in producer.questions()] == [UNIQUE.format(0), UNIQUE.format(2)]
    [given_up] = harness.stored(GIVEN_UP)
    assert given_up.properties == harness.stored(HALF)[1].properties
    assert harness.node.halves.first(0) == 3


def test_one_that_is_too_large_by_now_is_passed_over(harness: Harness) -> None:
    half(harness, 0, body=b"x" * 5_000)
    half(harness, 1)
    harness.settings["maxMessageSize"] = 1_000
    harness.restart()
    producer = Producer(harness)
    harness.driver.advance(1_000)
    check(harness, producer)
    assert [question.msg_id for question, _ in producer.questions()] == [UNIQUE.format(1)]


def test_few_large_ones_are_put_back_in_one_turn(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(8):
        half(harness, number, body=b"x" * 40_000)
    store = harness.node.store
    real = store.commit
    staged: list[int] = []

    def commit() -> None:
        staged.append(len(store._log.staged))
        real()

    monkeypatch.setattr(store, "commit", commit)
    check(harness, Producer(harness))
    assert [count for count in staged if count] == [2, 2, 2, 2]


@pytest.mark.parametrize("topic", [HALF, OP])
def test_what_cannot_be_read_is_not_read_again_and_again(harness: Harness, monkeypatch: pytest.MonkeyPatch, topic: str) -> None:
    end(harness, half(harness), TRANSACTION_ROLLBACK)
    half(harness, 1)
    harness.driver.advance(5_000)
    bad = harness.stored(topic)[0 if topic == OP else 1].physical_offset
    real = type(harness.node.store).stored
    reads: list[int] = []

    def fail() -> None:
        reads.append(bad)
        raise OSError(5, "Input/output error")

    def stored(store: Any, physical_offset: int, size: int) -> Any:
        if physical_offset == bad:
            raise Cold(fail, "a bad block")
        return real(store, physical_offset, size)

    monkeypatch.setattr(type(harness.node.store), "stored", stored)
    harness.restart()
    producer = Producer(harness)
    check(harness, producer)
    assert 1 <= len(reads) <= 3
    monkeypatch.undo()
    check(harness, producer)
    assert UNIQUE.format(1) in [question.msg_id for question, _ in producer.questions()]


def test_what_a_check_has_put_back_before_a_place_that_cannot_be_read_is_not_put_back_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For want of descriptors, say: each is delivered once all the same."""
    for number in range(3):
        half(harness, number)
    producer = Producer(harness, says=TRANSACTION_COMMIT)
    store = harness.node.store
    bad, failures = harness.stored(HALF)[2].physical_offset, [OSError(24, "Too many open files")] * 3
    stored = store.stored

    def failing(physical_offset: int, size: int) -> Any:
        if physical_offset == bad and failures:
            raise failures.pop()
        return stored(physical_offset, size)

    monkeypatch.setattr(store, "stored", failing)
    for _ in range(6):
        check(harness, producer)
        producer.questions()
        harness.driver.advance(500)
    assert not failures
    keys = [props(unit)["UNIQ_KEY"] for queue in range(4) for unit in harness.stored("T", queue)]
    assert sorted(keys) == [UNIQUE.format(number) for number in range(3)]


def test_the_topic_of_what_is_given_up_is_made_whatever_the_table_holds(tmp_path: Path) -> None:
    """Without it nobody behind the first that is given up would be asked."""
    harness = Harness(tmp_path, transactionCheckMax=1).begun()
    half(harness, 0)
    harness.node.topics.rows_max = len(harness.node.topics)
    producer = Producer(harness)
    check(harness, producer)
    half(harness, 1)
    for _ in range(4):
        check(harness, producer)
    assert {question.msg_id for question, _ in producer.questions()} == {UNIQUE.format(0), UNIQUE.format(1)}
    assert len(harness.stored(GIVEN_UP)) == 2


def test_ends_that_are_not_written_are_written_later(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    end(harness, half(harness), TRANSACTION_ROLLBACK)
    failing = failing_commits(harness, monkeypatch)
    harness.driver.advance(10_000)
    assert harness.stored(OP) == []
    failing.clear()
    harness.driver.advance(1_000)
    assert bodies(harness.stored(OP)) == [b"0,"]


def test_a_clock_that_goes_back(harness: Harness) -> None:
    producer = Producer(harness)
    half(harness)
    harness.env.wall_ms -= 7_200_000
    check(harness, producer)
    assert len(producer.questions()) == 1
    assert len(harness.stored(HALF)) == 2


def deafen(producer: Producer) -> None:
    """It takes nothing any more."""
    producer.client.peer.output_bytes_max = 0
    producer.client.reads = False
    producer.client.peer.unsent_bytes = 1


def test_attack_22_where_nobody_takes_questions_that_is_said(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    producer = Producer(harness)
    half(harness)
    deafen(producer)
    harness.driver.advance(29_000)
    assert harness.node.transaction_check.unasked == 1
    assert "no producer of group P takes questions" in caplog.text
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_attack_22_a_producer_that_takes_nothing_is_not_asked(harness: Harness) -> None:
    deaf, other = Producer(harness), Producer(harness)
    deafen(deaf)
    for number in range(4):
        half(harness, number)
    other.beat()
    harness.driver.advance(28_000)
    assert len(other.questions()) == 4


def test_many(harness: Harness) -> None:
    """More than a slice, a bit here and there; nobody is asked twice and nobody left out."""
    producer = Producer(harness)
    open_ones = set()
    for number in range(300):
        unit = half(harness, number, producer.client)
        if number % 7 == 3:
            open_ones.add(props(unit)["UNIQ_KEY"])
        else:
            producer.client.ask(ending(unit, TRANSACTION_ROLLBACK))
    check(harness, producer)
    asked = [header.msg_id for header, _ in producer.questions()]
    assert len(asked) == len(open_ones)
    assert set(asked) == open_ones
