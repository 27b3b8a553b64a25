"""What a broker will still do with its messages: of stores that the real broker wrote, and as its files of progress go on."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rmq_inspect.decode.directory import list_store
from rmq_inspect.explain.outlook import Kind, Outlook, Outlooks, State
from rmq_inspect.times import text_of
from rmq_store.disk.disk import RealDisk
from rmq_store.log.draft import Draft
from rmq_wire import properties
from rmq_wire.implied.tags import tags_code
from rmq_wire.implied.timers import RECALL_TAG, ROLL_WINDOW_SLOTS
from rmq_wire.layout import timer
from rmq_wire.names import SCHEDULE_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC, WHEEL_TIMER_TOPIC
from tests.support.command import look
from tests.support.store_rig import HOST, START_MS, Rig, small
from tests.support.stores import golden_of, units_of

DUE_MS = 1_700_000_000_000


@pytest.fixture
def mix(tmp_path: Path) -> Path:
    return golden_of("mix", tmp_path / "mix")


def outlooks_of(root: Path) -> list[Outlook]:
    outlooks = Outlooks(list_store(root))
    found = [outlooks.of(unit.message) for unit in units_of(root)]
    outlooks.close()
    return [one for one in found if one is not None]


def states(root: Path) -> Counter[tuple[str, str]]:
    return Counter((str(one.kind), str(one.state)) for one in outlooks_of(root))


def test_a_store_of_the_real_broker(mix: Path) -> None:
    """Two half messages have neither op nor end; all that was delayed and timed has come; what was ended lately has its op."""
    assert states(mix) == {
        ("delayed", "passed"): 12,
        ("timed", "passed"): 2,
        ("half", "passed"): 2,
        ("half", "ended"): 2,
        ("half", "waiting"): 2,
        ("op", "done"): 2,
        ("commit", "done"): 2,
    }
    commits = [one for one in outlooks_of(mix) if one.kind is Kind.COMMIT]
    halves = {unit.message.physical_offset for unit in units_of(mix) if unit.message.topic == TRANS_HALF_TOPIC.encode()}
    assert all(int(one.says.split(" byte ")[1].split()[0]) in halves for one in commits)


def test_without_its_progress_everything_is_still_to_come(mix: Path) -> None:
    for name in ("delayOffset.json", "consumerOffset.json", "timercheck"):
        for suffix in ("", ".bak"):
            (mix / "config" / (name + suffix)).unlink(missing_ok=True)
    found = states(mix)
    assert found["delayed", "waiting"] == 12
    assert found["timed", "waiting"] == 2
    # both op messages are read now, the two without op wait as before
    assert (found["half", "ended"], found["half", "waiting"]) == (4, 2)


def test_progress_of_one_level_is_not_that_of_another(mix: Path) -> None:
    for suffix in ("", ".bak"):
        (mix / "config" / f"delayOffset.json{suffix}").write_text('{"offsetTable":{1:3}}')
    delayed = [one for one in outlooks_of(mix) if one.kind is Kind.DELAYED]
    assert Counter(one.state for one in delayed) == {State.PASSED: 3, State.WAITING: 9}


def test_a_delayed_message_is_due_when_its_queue_says(mix: Path) -> None:
    """Which says it with the levels that the broker had."""
    for file in (mix / "consumequeue" / SCHEDULE_TOPIC / "0").iterdir():
        raw = bytearray(file.read_bytes())
        raw[12:20] = (1 << 45).to_bytes(8, "big")
        file.write_bytes(raw)
    delayed = [one for one in outlooks_of(mix) if one.kind is Kind.DELAYED]
    assert delayed[0].due_ms == 1 << 45


class Written:
    """A store with a few messages of system topics."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._rig = Rig(RealDisk(), small(store_path_root_dir=str(root)))

    def put(self, topic: str, body: bytes = b"x", **values: str) -> None:
        text = properties.encode({"REAL_TOPIC": "Orders", "REAL_QID": "2", **values})
        code = tags_code(values.get("TAGS"))
        self._rig.put(Draft(topic, 0, body, text.encode(), START_MS, HOST, HOST, tags_code=code))

    def timer_check(self, read_ms: int, queue_offset: int) -> None:
        (self.root / "config").mkdir(exist_ok=True)
        fields = timer.CHECK_FLAT.packed.pack(read_ms, 0, queue_offset, 0, 0, 0, 0)
        (self.root / "config" / "timercheck").write_bytes(fields.ljust(timer.CHECK_FILE_SIZE, b"\0"))

    def position(self, topic: str, offset: int) -> None:
        (self.root / "config").mkdir(exist_ok=True)
        table = {"offsetTable": {f"{topic}@CID_RMQ_SYS_TRANS": {"0": offset}}}
        (self.root / "config" / "consumerOffset.json").write_text(json.dumps(table))

    def outlooks(self) -> list[Outlook]:
        self._rig.sync_queues()
        return outlooks_of(self.root)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path / "store")


def test_a_timed_message_waits_until_the_wheel_has_turned_past_it(written: Written) -> None:
    written.put(WHEEL_TIMER_TOPIC, TIMER_OUT_MS=str(DUE_MS))
    [one] = written.outlooks()
    assert one == Outlook(
        Kind.TIMED, State.WAITING, "Orders", 2, DUE_MS, f"goes to Orders [2] at {text_of(DUE_MS)}, unless it is recalled"
    )
    for read_ms, queue_offset, state in (
        (DUE_MS, 1, State.WAITING),
        (DUE_MS + 1, 0, State.WAITING),
        (DUE_MS + 1, 1, State.PASSED),
    ):
        written.timer_check(read_ms, queue_offset)
        assert [one.state for one in written.outlooks()] == [state]


def test_a_timed_message_beyond_the_window_is_stored_anew_first(written: Written) -> None:
    far = START_MS + 2 * ROLL_WINDOW_SLOTS * 1000
    written.put(WHEEL_TIMER_TOPIC, TIMER_OUT_MS=str(far))
    [one] = written.outlooks()
    roll = START_MS + ROLL_WINDOW_SLOTS * 1000
    assert one.due_ms == far
    assert one.says.endswith(f"; stored anew at {text_of(roll)} on its way (by the default timerRollWindowSlot)")
    written.timer_check(roll + 1, 1)
    [one] = written.outlooks()
    assert (one.state, "stored anew on its way to Orders [2]" in one.says) == (State.PASSED, True)


def test_a_recall_and_a_timed_message_that_cannot_be_delivered(written: Written) -> None:
    written.put(WHEEL_TIMER_TOPIC, TIMER_OUT_MS=str(DUE_MS), TIMER_DEL_UNIQKEY="7F00\x1b[2J")
    written.put(WHEEL_TIMER_TOPIC, TIMER_OUT_MS="soon")
    recall, lost = written.outlooks()
    assert (recall.kind, recall.state, recall.due_ms) == (Kind.RECALL, State.WAITING, DUE_MS)
    assert "\x1b" not in recall.says
    assert lost.says == "the broker cannot deliver it: it does not say when it is due"


@pytest.mark.parametrize("key", ["K", "Orders+K"])
def test_what_was_recalled_does_not_come(written: Written, key: str) -> None:
    """With or without the topic in its key; another time is another message, and so is one that is recalled elsewhere."""
    for due_ms, name in ((DUE_MS, "K"), (DUE_MS + 1_000, "K"), (DUE_MS, "L")):
        written.put(WHEEL_TIMER_TOPIC, TIMER_OUT_MS=str(due_ms), UNIQ_KEY=name)
    mark = {"TIMER_OUT_MS": str(DUE_MS), "TIMER_DEL_UNIQKEY": key, "UNIQ_KEY": "K"}
    written.put(WHEEL_TIMER_TOPIC, b"0", TAGS=RECALL_TAG, **mark)
    gone, *others, recall = written.outlooks()
    assert gone == Outlook(
        Kind.TIMED, State.ENDED, "Orders", 2, DUE_MS, f"it was recalled: it does not come to Orders [2] at {text_of(DUE_MS)}"
    )
    assert [one.state for one in others] == [State.WAITING] * 2
    assert (recall.kind, recall.state) == (Kind.RECALL, State.WAITING)
    [counted] = look("stats", written.root, "--json").rows
    assert counted["stillToCome"]["timed"]["messages"] == 2


def test_a_half_message_is_ended_by_an_op_that_the_broker_has_not_read(written: Written) -> None:
    for asked in ("0", "3"):
        written.put(TRANS_HALF_TOPIC, PGROUP="P", TRANSACTION_CHECK_TIMES=asked)
    written.put(TRANS_HALF_TOPIC, PGROUP="P", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    written.put(TRANS_OP_HALF_TOPIC, b"0,nonsense,")
    first, second, third, op = written.outlooks()
    assert (first.state, second.state, third.state) == (State.ENDED, State.WAITING, State.WAITING)
    assert (second.due_ms, third.due_ms) == (START_MS + 6_000, START_MS + 60_000)
    assert "producer group P" in second.says
    assert "so far 3 of 15 times" in second.says
    assert (op.kind, op.says) == (Kind.OP, "ends the half messages of queue 0 at 0")
    written.position(TRANS_HALF_TOPIC, 2)
    assert [one.state for one in written.outlooks()][:3] == [State.PASSED, State.PASSED, State.WAITING]


def test_a_lone_file_says_what_its_messages_say(mix: Path) -> None:
    files = sorted((mix / "commitlog").iterdir())
    rows = [row for file in files for row in look("show", file, "--as", "log", "--json").rows]
    waiting = [row["outlook"]["state"] for row in rows if row.get("outlook", {}).get("kind") == "delayed"]
    assert waiting == ["waiting"] * 12


def test_show_explain_and_stats_say_it(mix: Path) -> None:
    rows: list[dict[str, Any]] = look("show", mix, "--topic", TRANS_HALF_TOPIC, "--json").rows
    open_ones = [row for row in rows if row["outlook"]["state"] == "waiting"]
    assert len(open_ones) == 2
    one = open_ones[0]
    assert one["outlook"]["dueTimestamp"] == one["bornTimestamp"] + 6_000
    says = f"half, waiting: {one['outlook']['says']}"
    assert says in look("show", mix, "--offset", one["commitLogOffset"], "--limit", 1, "--full").out
    [*_, step] = look("explain", mix, "--offset", one["commitLogOffset"], "--json").rows
    assert says in step["says"]
    assert "outlook" not in look("show", mix, "--topic", "mix", "--limit", 1, "--json").rows[0]
    dues = [row["outlook"]["dueTimestamp"] for row in open_ones]
    [counted] = look("stats", mix, "--json").rows
    assert counted["stillToCome"] == {"half": {"messages": 2, "firstDue": min(dues), "lastDue": max(dues)}}
    assert f"still to come: 2 half, due from {text_of(min(dues))} to {text_of(max(dues))}" in look("stats", mix).out
