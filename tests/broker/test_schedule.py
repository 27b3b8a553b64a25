"""Delay levels: when what waits is delivered, what the copy is, and what a restart or a failing disk does to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker_impl.capabilities.schedule import RETRY_MS, TRIES_MAX, UNITS_PER_SLICE
from broker_impl.engine.slices import BYTES_PER_SLICE
from rmq_store.errors import Cold
from rmq_store.log.draft import Draft
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.implied.tags import tags_code
from rmq_wire.message import StoredMessage
from rmq_wire.property_shapes import SIGHTINGS
from tests.support.engine import Harness, failing_commits, refusing
from tests.support.requests import SUBSCRIPTION, SUSPEND, pairs, props, pull, send, units

LEVELS_S = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path).begun()


def delayed(harness: Harness, level: int, body: bytes = b"late", queue_id: int = 1, **properties: str) -> None:
    given = pairs(UNIQ_KEY="K" * 32, TAGS="A", DELAY=str(level), **properties)
    answer = harness.connect().ask(send(queue_id=queue_id, properties=given), body)
    assert answer.code == 0
    assert answer.ext_map()["queueId"] == str(queue_id)


@pytest.mark.parametrize("level", range(1, 19))
def test_each_level_waits_its_time(harness: Harness, level: int) -> None:
    delayed(harness, level)
    assert len(harness.stored(SCHEDULE, level - 1)) == 1
    harness.driver.advance(LEVELS_S[level - 1] * 1_000 - 1)
    assert harness.stored("T", 1) == []
    harness.driver.advance(1)
    [copy] = harness.stored("T", 1)
    assert copy.body == b"late"


def test_the_copy(harness: Harness) -> None:
    delayed(harness, 1, TIMER_DELAY_SEC="9", KEYS="k")
    [waiting] = harness.stored(SCHEDULE, 0)
    assert props(waiting)["REAL_TOPIC"] == "T"
    assert props(waiting)["REAL_QID"] == "1"
    assert "TIMER_DELAY_SEC" not in props(waiting)
    harness.driver.advance(1_000)
    [copy] = harness.stored("T", 1)
    assert copy.properties == waiting.properties  # DELAY, REAL_TOPIC, REAL_QID are seen by consumers
    kept = ("body", "flag", "sys_flag", "born_timestamp", "born_host", "store_host", "reconsume_times")
    assert [getattr(copy, name) for name in kept] == [getattr(waiting, name) for name in kept]
    assert copy.store_timestamp == waiting.store_timestamp + 1_000
    consumer = harness.connect()
    assert len(units(consumer.ask(pull(queue_id=1, subscription="A")).body)) == 1
    assert len(harness.node.store.query("T", "k", 32, 0, 1 << 62).units) == 1


def test_the_copy_for_light_queues(tmp_path: Path) -> None:
    """Java encodes what it has changed only for these."""
    harness = Harness(tmp_path, enableLmq="true", enableMultiDispatch="true").begun()
    delayed(harness, 1, INNER_MULTI_DISPATCH="%LMQ%a")
    harness.driver.advance(1_000)
    [copy] = harness.stored("T", 1)
    said = props(copy)
    assert ("DELAY" in said, said["WAIT"]) == (False, "false")
    assert [unit.physical_offset for unit in harness.stored("%LMQ%a", 0)] == [copy.physical_offset]


@pytest.mark.parametrize("counted", [True, False])
def test_what_is_delivered_counts(tmp_path: Path, counted: bool) -> None:
    """As sent into the topic, and as read by a group of the schedule's own, with `enableScheduleMessageStats`."""
    harness = Harness(tmp_path, enableScheduleMessageStats=str(counted).lower()).begun()
    delayed(harness, 1)
    harness.driver.advance(1_000)
    stats = harness.node.halves.stats
    names = [("TOPIC_PUT_NUMS", "T"), ("GROUP_GET_NUMS", f"{SCHEDULE}@SCHEDULE_CONSUMER")]
    found = [stats.item(*name) for name in names]
    assert [item.value if item else 0 for item in found] == [int(counted), int(counted)]


def test_levels_above_the_last_are_the_last(harness: Harness) -> None:
    delayed(harness, 30)
    [waiting] = harness.stored(SCHEDULE, 17)
    assert props(waiting)["DELAY"] == "18"


def test_level_zero_and_below_is_no_delay(harness: Harness) -> None:
    delayed(harness, 0)
    delayed(harness, -1)
    assert [props(unit)["DELAY"] for unit in harness.stored("T", 1)] == ["0", "-1"]


def test_a_held_pull_is_woken_by_the_delivery(harness: Harness) -> None:
    client = harness.connect()
    opaque = client.send(pull(queue_id=1, flags=SUBSCRIPTION | SUSPEND, subscription="A"))
    delayed(harness, 1)
    harness.driver.advance(999)
    assert opaque not in client.answers
    harness.driver.advance(1)
    assert len(units(client.answers.pop(opaque).body)) == 1


def test_in_order_and_many(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(200):
        delayed(harness, 2, str(number).encode())
        harness.driver.advance(7)
    harness.driver.advance(5_000)
    assert [int(bytes(unit.body)) for unit in harness.stored("T", 1)] == list(range(200))
    assert harness.node.delay_offsets.progress == {2: 200}
    assert caplog.text == ""


def test_a_clean_restart_delivers_once(harness: Harness) -> None:
    delayed(harness, 1, b"first")
    harness.driver.advance(1_500)
    delayed(harness, 2, b"second")
    harness.restart()
    assert harness.node.delay_offsets.progress[1] == 1
    harness.driver.advance(60_000)
    assert [bytes(unit.body) for unit in harness.stored("T", 1)] == [b"first", b"second"]


def test_what_became_due_while_the_broker_was_down(harness: Harness) -> None:
    delayed(harness, 3)
    harness.restart()
    harness.env.advance(3_600_000)
    harness.driver.advance(1_100)
    assert len(harness.stored("T", 1)) == 1


def test_levels_that_look_at_once_wait_for_nobody_who_has_nothing(harness: Harness) -> None:
    delayed(harness, 1)
    harness.restart()  # every level looks when it is a second old, and the first of them has something
    harness.driver.advance(2_000)
    delayed(harness, 5)
    harness.driver.advance(60_000)
    assert len(harness.stored("T", 1)) == 2


def test_progress_is_written_every_ten_seconds_and_not_before_the_disk_has_the_copies(harness: Harness) -> None:
    delayed(harness, 1)
    harness.driver.advance(25_000)
    text = (harness.root / "config" / "delayOffset.json").read_text()
    assert "\t\t1:1" in text


def test_progress_beyond_the_queue_is_clamped(harness: Harness) -> None:
    delayed(harness, 2)
    harness.driver.advance(30_000)
    assert harness.node.close()
    path = harness.root / "config" / "delayOffset.json"
    path.write_text(path.read_text().replace("2:1", "2:77"))
    harness.open()
    assert harness.node.delay_offsets.progress[2] == 1
    delayed(harness, 2, b"next")
    harness.driver.advance(6_000)
    assert [bytes(unit.body) for unit in harness.stored("T", 1)] == [b"late", b"next"]


def test_a_failing_append_is_tried_again_and_nothing_is_passed_over(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        delayed(harness, 1, str(number).encode())
    failing = failing_commits(harness, monkeypatch, times=3)
    harness.driver.advance(1_000)
    assert harness.stored("T", 1) == []
    assert harness.node.delay_offsets.progress.get(1, 0) == 0
    harness.driver.advance(1_000)
    assert not failing
    assert [bytes(unit.body) for unit in harness.stored("T", 1)] == [b"0", b"1", b"2"]


def test_a_level_that_had_nothing_more_looks_at_what_comes(harness: Harness) -> None:
    for number in range(3):
        delayed(harness, 1, b"%d" % number)
        harness.driver.advance(1_000)
        assert len(harness.stored("T", 1)) == number + 1
        harness.driver.advance(10_000)


def test_what_is_refused_is_tried_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    delayed(harness, 1)
    refusing(harness, monkeypatch, times=3)
    harness.driver.advance(1_000 + 3 * RETRY_MS)
    assert [bytes(unit.body) for unit in harness.stored("T", 1)] == [b"late"]
    assert caplog.text.count("delay level 1: offset 0 was not stored") == 3


def test_a_bug_in_a_delivery_is_logged_and_the_level_goes_on(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    delayed(harness, 1)
    intake = harness.node.halves.intake
    with monkeypatch.context() as patch:
        patch.setattr(intake, "stage_draft", lambda *_: 1 // 0)
        harness.driver.advance(1_000)
    assert "ZeroDivisionError" in caplog.text
    assert harness.stored("T", 1) == []
    harness.driver.advance(60_000)
    assert [bytes(unit.body) for unit in harness.stored("T", 1)] == [b"late"]


def test_a_bug_in_a_slice_is_logged_and_the_level_goes_on(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    delayed(harness, 1)
    with monkeypatch.context() as patch:
        patch.setattr(harness.node.store, "queue_units", lambda *_: 1 // 0)
        harness.driver.advance(3_000)
    assert "ZeroDivisionError" in caplog.text
    harness.driver.advance(3_000)
    assert [bytes(unit.body) for unit in harness.stored("T", 1)] == [b"late"]


def test_one_that_cannot_be_delivered_for_a_reason_nobody_foresaw_holds_up_no_other_for_ever(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(4):
        delayed(harness, 1, b"%d" % number)
    intake = harness.node.halves.intake
    stage = intake.stage_draft
    monkeypatch.setattr(intake, "stage_draft", lambda draft, *rest: 1 // 0 if draft.body == b"2" else stage(draft, *rest))
    harness.driver.advance(1_000)
    assert [bytes(unit.body) for unit in harness.stored("T", 1)] == [b"0", b"1"]
    harness.driver.advance(60_000)
    assert [bytes(unit.body) for unit in harness.stored("T", 1)] == [b"0", b"1", b"3"]
    assert caplog.text.count("offset 2 cannot be delivered, try ") == TRIES_MAX
    assert "delay level 1: offset 2 is passed over" in caplog.text


def test_what_comes_before_a_place_that_cannot_be_read_comes_once(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        delayed(harness, 1, b"%d" % number)
    store = harness.node.store
    copies = store.copies

    def unreadable(topic: str, places: Sequence[tuple[int, int]]) -> Iterator[Draft | None]:
        for draft in copies(topic, places):
            if draft is not None and draft.body == b"2":
                raise OSError(24, "Too many open files")
            yield draft

    with monkeypatch.context() as patch:
        patch.setattr(store, "copies", unreadable)
        harness.driver.advance(10_000)
        assert [bytes(unit.body) for unit in harness.stored("T", 1)] == [b"0", b"1"]
    harness.driver.advance(10_000)
    assert [bytes(unit.body) for unit in harness.stored("T", 1)] == [b"0", b"1", b"2", b"3"]


def test_one_that_is_damaged_is_passed_over_with_a_line(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    delayed(harness, 1, b"0")
    delayed(harness, 1, b"1")
    store = harness.node.store
    copies = store.copies
    monkeypatch.setattr(
        store, "copies", lambda *asked: (None if draft is None or draft.body == b"0" else draft for draft in copies(*asked))
    )
    harness.driver.advance(10_000)
    assert [bytes(unit.body) for unit in harness.stored("T", 1)] == [b"1"]
    assert "delay level 1: offset 0 is passed over: its message cannot be read" in caplog.text


def test_a_cold_queue_is_read_by_somebody_else(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    delayed(harness, 1, b"0")
    delayed(harness, 1, b"1")
    store = harness.node.store
    real = store.copies
    seen: list[int] = []

    def copies(topic: str, places: Sequence[tuple[int, int]]) -> Iterator[Draft | None]:
        for at, size in places:
            if at not in seen:
                raise Cold(partial(seen.append, at), "somewhere")
            yield from real(topic, [(at, size)])

    monkeypatch.setattr(store, "copies", copies)
    harness.driver.advance(1_000)
    assert [bytes(unit.body) for unit in harness.stored("T", 1)] == [b"0", b"1"]
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("topic", "queue_id"),
    [
        ("RMQ_SYS_TRANS_HALF_TOPIC", "1"),
        ("SCHEDULE_TOPIC_XXXX", "1"),
        ("a/b", "1"),
        ("", "1"),
        ("T", ""),
        ("T", "one"),
        ("T", "-1"),
        ("T", "٣"),
        ("T", "1" * 11),
    ],
)
def test_a_unit_without_home_is_passed_over(harness: Harness, monkeypatch: pytest.MonkeyPatch, topic: str, queue_id: str) -> None:
    """Whoever wrote it; what stands behind it in its level is delivered."""

    def divert(message: Any, _: int) -> None:
        message.values["REAL_TOPIC"], message.values["REAL_QID"] = topic, queue_id
        message.topic, message.queue_id = SCHEDULE, 0

    delayed(harness, 1)
    with monkeypatch.context() as patch:
        patch.setattr(harness.capability(310)._intake, "divert", divert)
        delayed(harness, 1)
    delayed(harness, 1, b"last")
    harness.driver.advance(2_000)
    assert [bytes(unit.body) for unit in harness.stored("T", 1)] == [b"late", b"last"]
    assert harness.node.delay_offsets.progress[1] == 3


def test_what_a_busy_producer_delays_keeps_its_properties(harness: Harness) -> None:
    """The first copies are made the general way, the others by the shape that they share."""
    client = harness.connect()
    for number in range(SIGHTINGS + 3):
        values = {"KEYS": f"k{number}", "UNIQ_KEY": f"{number:032}", "DELAY": "2", "mine": "100 %s"}
        given = pairs(**values, TAGS=f"t{number % 2}")
        client.ask(send(queue_id=number % 2, properties=given, sys_flag=1, flag=number), b"%d" % number)
    originals = harness.stored(SCHEDULE, 1)
    harness.driver.advance(6_000)
    copies = sorted(harness.stored("T", 0) + harness.stored("T", 1), key=lambda unit: unit.physical_offset)
    assert [_all_but_place(unit) for unit in copies] == [_all_but_place(unit) for unit in originals]
    assert [unit.queue_id for unit in copies] == [number % 2 for number in range(SIGHTINGS + 3)]
    for number in range(SIGHTINGS + 3):
        assert len(harness.node.store.query("T", f"k{number}", 32, 0, 1 << 62).units) == 1
        assert harness.node.store.queue_unit("T", number % 2, number // 2)[2] == tags_code(f"t{number % 2}")


def _all_but_place(unit: StoredMessage) -> tuple[Any, ...]:
    return (unit.body, unit.properties, unit.flag, unit.sys_flag, unit.born_timestamp, unit.born_host, unit.store_host)


def test_the_clock_steps(harness: Harness) -> None:
    """Back: what then seems to lie beyond its level's delay is due at once.  Forward: it is due within a second."""
    delayed(harness, 5)
    harness.env.wall_ms -= 3_600_000
    harness.driver.advance(1_000)
    assert len(harness.stored("T", 1)) == 1
    delayed(harness, 6)
    harness.env.wall_ms += 3_600_000
    harness.driver.advance(1_000)
    assert len(harness.stored("T", 1)) == 2


class Delivered:
    """How many copies each turn stages, and how many bytes."""

    def __init__(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turns: list[list[int]] = []
        intake, turn = harness.capability(310)._intake, harness.driver.turn
        real = intake.stage_draft

        def stage(*arguments: Any) -> Any:
            placed = real(*arguments)
            self.turns[-1].append(placed.size)
            return placed

        def counted(*arrived: Any) -> None:
            self.turns.append([])
            turn(*arrived)

        monkeypatch.setattr(intake, "stage_draft", stage)
        monkeypatch.setattr(harness.driver, "turn", counted)

    def most(self) -> tuple[int, int]:
        """Copies of the turn with most of them; bytes of the turn with most, without the last copy."""
        return max(len(turn) for turn in self.turns), max(sum(turn[:-1]) for turn in self.turns)


def test_all_levels_due_at_once_take_turns(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """One slice a turn of all eighteen together, so that whoever sends meanwhile is served after each; none waits for another."""
    each = 2 * UNITS_PER_SLICE + 1
    client = harness.connect()
    for level in range(1, 19):
        for number in range(each):
            client.ask(send(properties=pairs(UNIQ_KEY="K" * 32, DELAY=str(level))), b"%d %d" % (level, number))
    harness.restart()
    harness.env.advance(3 * 3_600_000)
    delivered = Delivered(harness, monkeypatch)
    client = harness.connect()
    harness.driver.advance(2_000)
    assert delivered.most()[0] == UNITS_PER_SLICE
    copies = [tuple(map(int, bytes(unit.body).split())) for unit in harness.stored("T", 0)]
    assert sorted(copies) == [(level, number) for level in range(1, 19) for number in range(each)]
    assert [level for level, _ in copies[: 18 * UNITS_PER_SLICE : UNITS_PER_SLICE]] == list(range(1, 19)), "each once, then again"
    for level in range(1, 19):
        assert [number for of, number in copies if of == level] == list(range(each))


def test_a_slice_has_few_large_messages(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(8):
        delayed(harness, 1, bytes(BYTES_PER_SLICE // 3))
    delivered = Delivered(harness, monkeypatch)
    harness.driver.advance(1_000)
    assert len(harness.stored("T", 1)) == 8
    copies, bytes_before_the_last = delivered.most()
    assert 1 < copies < 5
    assert bytes_before_the_last < BYTES_PER_SLICE


def test_a_burst_does_not_keep_a_sender_waiting(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20 * UNITS_PER_SLICE):
        delayed(harness, 1, b"%d" % number)
    delivered = Delivered(harness, monkeypatch)
    harness.env.advance(1_000)
    client = harness.connect()
    for number in range(10):
        opaque = client.frame(send(queue_id=0), b"%d" % number)
        harness.driver.turn((client, opaque))
        assert len(client.answers) == number + 1, "answered in the turn in which it came"
    assert sum(len(turn) for turn in delivered.turns) < 20 * UNITS_PER_SLICE + 10, "in the middle of the burst"
    harness.driver.run()
    assert len(harness.stored("T", 1)) == 20 * UNITS_PER_SLICE


@pytest.mark.parametrize("hours", [-5, 5])
def test_the_clock_jumps_while_all_levels_wait(harness: Harness, hours: int) -> None:
    """Nothing is lost, nothing comes twice, and nothing waits longer than its level says."""
    for level in range(1, 19):
        delayed(harness, level, b"%d" % level)
    harness.driver.advance(500)
    harness.env.wall_ms += hours * 3_600_000
    harness.driver.advance(7_200_000)
    assert sorted(int(bytes(unit.body)) for unit in harness.stored("T", 1)) == list(range(1, 19))
    harness.restart()
    harness.driver.advance(7_200_000)
    assert len(harness.stored("T", 1)) == 18


def test_levels_of_ones_own_and_a_restart_with_others(tmp_path: Path) -> None:
    """What waits keeps its time, unless that lies farther ahead than its level now says; a level that is gone stands still."""
    harness = Harness(tmp_path, messageDelayLevel="2s 1h 5ms").begun()
    for level in (1, 2, 3, 9):
        delayed(harness, level, b"%d" % level)
    harness.driver.advance(5)
    assert [bytes(unit.body) for unit in harness.stored("T", 1)] == [b"3", b"9"]
    harness.driver.advance(1_995)
    assert [bytes(unit.body) for unit in harness.stored("T", 1)][2:] == [b"1"]
    harness.settings["messageDelayLevel"] = "3s"
    harness.restart()
    harness.driver.advance(60_000)
    assert len(harness.stored("T", 1)) == 3
    harness.settings["messageDelayLevel"] = "3s 1s"
    harness.restart()
    harness.driver.advance(1_000)
    assert [bytes(unit.body) for unit in harness.stored("T", 1)][3:] == [b"2"]


def test_java_s_offsets_are_asked_for(harness: Harness) -> None:
    delayed(harness, 1)
    answer = harness.connect().ask(GetMaxOffset(topic=SCHEDULE, queue_id=0))
    assert answer.ext_map()["offset"] == "1"


def test_a_clean_stop_right_after_a_delivery_remembers_it(harness: Harness) -> None:
    """The copy is not synced yet when the stop begins; the file must say that it is delivered nevertheless."""
    delayed(harness, 1)
    harness.driver.advance(1_000)
    assert len(harness.stored("T", 1)) == 1
    assert harness.node.store.flushed_offset < harness.node.store.written_offset
    harness.restart()
    harness.driver.advance(5_000)
    assert len(harness.stored("T", 1)) == 1
