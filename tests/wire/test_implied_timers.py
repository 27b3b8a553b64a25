"""Timer messages in the rule book, and the recall handle: against what Java computes."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rmq_wire.errors import BadBody
from rmq_wire.implied import timers
from rmq_wire.implied.timers import IllegalTime, NoTimer
from rmq_wire.java import long_of, parse_long
from rmq_wire.recall_handle import RecallHandle, handle_of, handle_text, read_handle

NOW = 1_700_000_000_500
DAYS_3_MS = 259_200_000


def slot(now_ms: int = NOW, **values: str) -> int | None:
    return timers.slot_time(values, now_ms, precision_ms=1_000, max_delay_s=timers.MAX_DELAY_S)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"TIMER_DELIVER_MS": str(NOW + 1_000)}, NOW + 500),
        ({"TIMER_DELIVER_MS": str(NOW + 1_500)}, NOW + 500),
        ({"TIMER_DELIVER_MS": str(NOW + 1_501)}, NOW + 1_500),
        ({"TIMER_DELAY_MS": "1"}, NOW - 500),
        ({"TIMER_DELAY_SEC": "3"}, NOW + 2_500),
        ({"TIMER_DELAY_SEC": "3", "TIMER_DELAY_MS": "9000", "TIMER_DELIVER_MS": "1"}, NOW + 2_500),
        ({"TIMER_DELAY_MS": "9000", "TIMER_DELIVER_MS": "1"}, NOW + 8_500),
        ({"TIMER_DELIVER_MS": str(NOW)}, None),
        ({"TIMER_DELIVER_MS": "-5"}, None),
        ({"TIMER_DELAY_SEC": "0"}, None),
        ({"TIMER_DELIVER_MS": str(NOW + DAYS_3_MS)}, NOW + DAYS_3_MS - 500),
        ({"TIMER_DELAY_SEC": "9223372036854775"}, None),  # a long that ran over is a time that is over
    ],
)
def test_slots(values: dict[str, str], expected: int | None) -> None:
    assert slot(**values) == expected


@pytest.mark.parametrize(
    "values",
    [
        {"TIMER_DELIVER_MS": str(NOW + DAYS_3_MS + 1)},
        {"TIMER_DELAY_SEC": "259201"},
        {"TIMER_DELAY_MS": "soon"},
        {"TIMER_DELAY_MS": "9" * 19},
        {"TIMER_DELIVER_MS": "1", "TIMER_DEL_UNIQKEY": "K"},
        {},
    ],
)
def test_illegal_times(values: dict[str, str]) -> None:
    with pytest.raises(IllegalTime):
        slot(**values)


@given(some.integers(1, DAYS_3_MS), some.sampled_from([100, 1_000, 1_024]))
def test_the_slot_is_over_when_the_time_has_come(delay_ms: int, precision_ms: int) -> None:
    found = timers.slot_time({"TIMER_DELAY_MS": str(delay_ms)}, NOW, precision_ms=precision_ms, max_delay_s=timers.MAX_DELAY_S)
    assert found is not None
    assert found % precision_ms == 0
    assert found < NOW + delay_ms <= found + precision_ms


@given(some.integers(0, 5_000_000))
def test_steps_lead_to_the_time(ahead: int) -> None:
    """Each is shorter than the window, none ends behind the time, and few are needed."""
    write_ms, window = 1_700_000_000_000, 60
    due_ms = write_ms + ahead * 1_000
    steps = 0
    while True:
        slot_ms, magic = timers.step(due_ms, write_ms, window_slots=window, precision_ms=1_000)
        assert write_ms <= slot_ms <= due_ms
        if not magic & timers.ROLLS:
            assert slot_ms == due_ms
            assert due_ms - write_ms < window * 1_000
            break
        assert write_ms + window * 500 <= slot_ms <= write_ms + window * 1_000
        write_ms = slot_ms + 1_000
        steps += 1
    assert steps <= ahead // (window // 2) + 1


@pytest.mark.parametrize(("given_slots", "used"), [(2, 2), (1, 604_740), (172_800, 172_800), (604_741, 604_740)])
def test_roll_windows(given_slots: int, used: int) -> None:
    assert timers.usable_window(given_slots) == used


@pytest.mark.parametrize(
    ("count", "limit", "chance", "refused"),
    [(5, 5, 999, False), (10, 5, 0, True), (6, 5, 999, True), (6, 5, 0, False), (9, 5, 785, True), (9, 5, 784, False)],
)
def test_full_slots(count: int, limit: int, chance: int, refused: bool) -> None:
    assert timers.is_rejected(count, limit, chance) is refused


def test_no_destination() -> None:
    with pytest.raises(NoTimer):
        timers.destination({"REAL_TOPIC": "T", "REAL_QID": "-1"})


@pytest.mark.parametrize("out_ms", ["", "soon", "-1"])
def test_no_due_time(out_ms: str) -> None:
    with pytest.raises(NoTimer):
        timers.due_of({"TIMER_OUT_MS": out_ms})


def test_a_roll_counter_that_is_no_number() -> None:
    with pytest.raises(NoTimer):
        timers.note_dequeue({"TIMER_ROLL_TIMES": "x"}, 1, 2, rolls=True)


@given(some.integers(-(1 << 63), (1 << 63) - 1))
def test_longs(number: int) -> None:
    assert parse_long(str(number)) == number == long_of(number)
    assert long_of(number + (1 << 64)) == number


@pytest.mark.parametrize("text", ["", "+", "1_0", "9223372036854775808", "0x1", "²"])
def test_no_longs(text: str) -> None:
    assert parse_long(text) is None


words = some.text(some.characters(exclude_characters=" ", exclude_categories=["Cs"]), min_size=1)


@given(words, words, words, words)
def test_handles(topic: str, broker: str, time: str, key: str) -> None:
    handle = RecallHandle(topic, broker, time, key)
    assert read_handle(handle_text(handle)) == handle
    assert read_handle(handle_text(handle).rstrip("=")) == handle


def test_a_handle_of_java() -> None:
    """`HandleV1.buildHandle("topic", "broker", "1700000000001", "7F00")`."""
    text = base64.b64encode(b"v1 topic broker 1700000000001 7F00").decode()
    assert handle_text(RecallHandle("topic", "broker", "1700000000001", "7F00")) == text
    values = {"REAL_TOPIC": "topic", "TIMER_OUT_MS": "1700000000000", "UNIQ_KEY": "7F00"}
    assert handle_of(values, "broker") == text


@pytest.mark.parametrize("missing", ["REAL_TOPIC", "TIMER_OUT_MS", "UNIQ_KEY"])
def test_no_handle(missing: str) -> None:
    values = {"REAL_TOPIC": "topic", "TIMER_OUT_MS": "1", "UNIQ_KEY": "7F00"}
    del values[missing]
    assert handle_of(values, "broker") is None
    assert handle_of({"REAL_TOPIC": "%RETRY%G", "TIMER_OUT_MS": "1", "UNIQ_KEY": "7F00"}, "broker") is None


@given(some.text())
def test_forged_handles_are_read_or_refused(text: str) -> None:
    try:
        assert len(read_handle(text)) == 4
    except BadBody:
        pass


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no handle",
        "djE",
        "djE=",
        "djE==",
        "a",
        base64.b64encode(b"v2 a b c d").decode(),
        base64.b64encode(b"v1 a b c ").decode(),
    ],
)
def test_no_handles(text: str) -> None:
    with pytest.raises(BadBody, match="recall handle is invalid"):
        read_handle(text)
