"""Timer messages at the broker: what a sender and a consumer see, recall, the answers about the timer, restarts and limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker_impl.capabilities.timers import RETRY_MS, TOPICS_PER_SLICE
from rmq_store.errors import Cold
from rmq_store.layouts import TIMER_CHECK
from rmq_store.timer.steps import DELIVERIES_PER_STEP
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.runtime import GetBrokerRuntimeInfo
from rmq_wire.headers.timers import GetTimerCheckPoint, GetTimerMetrics, RecallMessage, SwitchTimerEngine
from rmq_wire.headers.topics import DeleteTopic
from rmq_wire.recall_handle import RecallHandle, handle_text, read_handle
from tests.support.engine import Harness, failing_commits, refusing
from tests.support.requests import WALL_MS, pairs, props, send

WHEEL = "rmq_sys_wheel_timer"


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path, recallMessageEnable="true").begun()


def timed(harness: Harness, body: bytes = b"later", queue_id: int = 1, key: str = "K" * 32, **properties: str) -> Any:
    answer = harness.connect().ask(send(queue_id=queue_id, properties=pairs(UNIQ_KEY=key, TAGS="A", **properties)), body)
    assert answer.code == 0, answer.remark
    return answer.ext_map()


def bodies(harness: Harness, queue_id: int = 1) -> list[bytes]:
    return [bytes(unit.body) for unit in harness.stored("T", queue_id)]


@pytest.mark.parametrize(
    ("name", "value", "after_ms"),
    [("TIMER_DELAY_SEC", "5", 5_000), ("TIMER_DELAY_MS", "2500", 2_500), ("TIMER_DELIVER_MS", None, 60_000)],
)
def test_each_way_to_name_a_time(harness: Harness, name: str, value: str | None, after_ms: int) -> None:
    now_ms = harness.env.wall_ms
    answered = timed(harness, **{name: value or str(now_ms + after_ms)})
    assert answered["queueId"] == "1"
    [waiting] = harness.stored(WHEEL)
    assert props(waiting)["REAL_TOPIC"] == "T"
    harness.driver.advance(after_ms - 1)
    assert bodies(harness) == []
    harness.driver.advance(1_000)
    assert bodies(harness) == [b"later"]
    [copy] = harness.stored("T", 1)
    assert now_ms + after_ms <= copy.store_timestamp < now_ms + after_ms + 1_000
    said = props(copy)
    assert said.keys() - props(waiting).keys() == {"TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"}
    kept = ("flag", "sys_flag", "born_timestamp", "born_host", "store_host", "reconsume_times")
    assert [getattr(copy, name) for name in kept] == [getattr(waiting, name) for name in kept]
    assert len(harness.node.store.query("T", "K" * 32, 32, 0, 1 << 62).units) == 1


@pytest.mark.parametrize("rolls", [False, True])
def test_one_that_has_no_room_for_the_timer_s_notes_comes_without_them(harness: Harness, rolls: bool) -> None:
    seconds = 200_000 if rolls else 5
    timed(harness, TIMER_DELAY_SEC=str(seconds), X="x")
    room = 32_767 - len(harness.stored(WHEEL)[0].properties)
    timed(harness, TIMER_DELAY_SEC=str(seconds), X="x" * (1 + room))
    assert len(harness.stored(WHEEL)[1].properties) == 32_767
    harness.env.advance(seconds * 500)
    harness.driver.advance(2_000)
    harness.env.advance(seconds * 500)
    harness.driver.advance(2_000)
    assert len(bodies(harness)) == 2
    assert len(harness.stored("T", 1)[1].properties) == 32_767


def test_a_time_that_is_over(harness: Harness) -> None:
    assert "recallHandle" not in timed(harness, TIMER_DELIVER_MS="1")
    assert bodies(harness) == [b"later"]
    assert harness.stored(WHEEL) == []


def test_a_level_goes_before_a_time(harness: Harness) -> None:
    timed(harness, DELAY="1", TIMER_DELAY_SEC="9")
    harness.driver.advance(1_000)
    assert bodies(harness) == [b"later"]


@pytest.mark.parametrize(
    "given",
    [
        {"TIMER_DELAY_SEC": "259201"},
        {"TIMER_DELAY_MS": "soon"},
        {"TIMER_DELIVER_MS": "9" * 19},
        {"TIMER_DELAY_SEC": "-1", "TIMER_DEL_UNIQKEY": "K"},
    ],
)
def test_times_that_are_refused(harness: Harness, given: dict[str, str]) -> None:
    answer = harness.connect().ask(send(properties=pairs(UNIQ_KEY="K" * 32, **given)), b"x")
    assert answer.code == 13
    assert answer.remark == (
        "timer message illegal, the delay time should not be bigger than the max delay 259200000ms; or if set del msg, the"
        " delay time should be bigger than the current time"
    )


def test_attack_21_a_full_slot(harness: Harness) -> None:
    harness.node.config.timer_congest_num_each_slot = 2
    due_ms = str(harness.env.wall_ms + 10_500)
    for number in range(4):
        timed(harness, key=f"{number:032d}", TIMER_DELIVER_MS=due_ms)
        harness.env.rng.seed(1 << number)
    codes = set()
    for number in range(20):
        answer = harness.connect().ask(send(properties=pairs(UNIQ_KEY=f"{number:032d}", TIMER_DELIVER_MS=due_ms)), b"x")
        codes.add((answer.code, answer.remark))
    assert (
        1,
        "timer message is under flow control, max num limit is 4 or the current value is greater than 2 and less than 4,"
        " trigger random flow control",
    ) in codes


def test_many_come_in_order_while_others_are_served(harness: Harness) -> None:
    for number in range(300):
        timed(harness, str(number).encode(), key=f"{number:032d}", TIMER_DELAY_SEC="5")
    harness.driver.advance(5_000)
    harness.driver.advance(1_000)
    assert [int(body) for body in bodies(harness)] == list(range(300))


@pytest.mark.parametrize("kill", [False, True])
def test_a_restart(harness: Harness, kill: bool) -> None:
    timed(harness, b"soon", TIMER_DELAY_SEC="2")
    timed(harness, b"later", TIMER_DELAY_SEC="20")
    harness.driver.advance(5_000)
    assert bodies(harness) == [b"soon"]
    harness.restart(kill=kill)
    harness.env.advance(3_600_000)
    harness.driver.advance(2_000)
    assert bodies(harness) == [b"soon", b"later"]


def test_files_are_made_with_the_first_timer(harness: Harness) -> None:
    root = Path(harness.root)
    assert not list(root.glob("timer*"))
    timed(harness, TIMER_DELAY_SEC="9")
    harness.driver.advance(5_000)
    assert (root / "timerwheel").stat().st_size == 7 * 86_400 * 2 * 32
    assert (root / "config" / "timercheck").stat().st_size == 4096
    assert json.loads((root / "config" / "timermetrics").read_text())["timingCount"]["T"]["count"] == 1


def test_a_failing_append_is_tried_again(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    timed(harness, TIMER_DELAY_SEC="2")
    harness.driver.advance(1_000)
    failing = failing_commits(harness, monkeypatch, times=3)
    harness.driver.advance(3_000)
    assert not failing
    assert bodies(harness) == [b"later"]


def test_what_is_refused_is_tried_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    timed(harness, TIMER_DELAY_SEC="2")
    harness.driver.advance(1_000)
    refusing(harness, monkeypatch, times=3)
    harness.driver.advance(1_000 + 3 * RETRY_MS)
    assert bodies(harness) == [b"later"]
    assert [record.getMessage() for record in caplog.records] == [
        "timer: a message was not stored: ('SERVICE_NOT_AVAILABLE', '')"
    ] * 3


def test_nothing_is_delivered_after_a_stop(harness: Harness) -> None:
    timed(harness, TIMER_DELAY_SEC="2")
    harness.driver.advance(1_000)
    harness.node.timers.stop()
    harness.driver.advance(10_000)
    assert bodies(harness) == []


def test_a_clean_stop_writes_how_far_the_timer_is(harness: Harness) -> None:
    timed(harness, TIMER_DELAY_SEC="2")
    timed(harness, TIMER_DELAY_SEC="60")
    harness.driver.advance(5_000)
    timed(harness, TIMER_DELAY_SEC="60")
    timer = harness.node.timer
    assert timer is not None
    harness.stop()
    written = (Path(harness.root) / "config" / "timercheck").read_bytes()
    assert written[: TIMER_CHECK.size] == timer.check().packed()
    assert timer.check().queue_offset == 3


@pytest.mark.parametrize("fails", [False, True])
def test_cold_bytes(harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fails: bool) -> None:
    """They are read by somebody else, and once more when that fails."""
    timed(harness, TIMER_DELAY_SEC="2")
    harness.driver.advance(1_000)
    store = harness.node.store
    real = store.copies
    colds: list[Cold] = []

    def load() -> None:
        if fails:
            raise OSError(5, "Input/output error")

    def named(*asked: Any) -> Any:
        if not colds:
            colds.append(Cold(load, "cold"))
            raise colds[0]
        return real(*asked)

    monkeypatch.setattr(store, "copies", named)
    harness.driver.advance(3_000)
    assert len(colds) == 1
    assert ("timer: what is due cannot be read" in caplog.text) == fails
    assert bodies(harness) == [b"later"]


def test_what_is_in_the_wheel_comes_in_time_while_nothing_enters_it(harness: Harness) -> None:
    several = 3 * DELIVERIES_PER_STEP
    for _ in range(several):
        timed(harness, TIMER_DELAY_SEC="5")
    harness.driver.advance(1_000)
    harness.node.config.timer_stop_enqueue = True
    timed(harness, TIMER_DELAY_SEC="5")
    harness.driver.advance(5_000)
    assert bodies(harness) == [b"later"] * several


def test_stopped_enqueueing(harness: Harness) -> None:
    harness.node.config.timer_stop_enqueue = True
    timed(harness, TIMER_DELAY_SEC="2")
    harness.driver.advance(5_000)
    assert bodies(harness) == []
    harness.node.config.timer_stop_enqueue = False
    harness.driver.advance(2_000)
    assert bodies(harness) == [b"later"]


# Recall


def recall(harness: Harness, handle: str, topic: str = "T", group: str | None = "P") -> Any:
    return harness.connect().ask(RecallMessage(topic=topic, recall_handle=handle, producer_group=group))


def test_recall(harness: Harness) -> None:
    answered = timed(harness, b"gone", key="G" * 32, TIMER_DELAY_SEC="5")
    timed(harness, b"stays", TIMER_DELAY_SEC="5")
    handle = read_handle(answered["recallHandle"])
    assert handle == ("T", "broker-a", str(int(props(harness.stored(WHEEL)[0])["TIMER_OUT_MS"]) + 1), "G" * 32)
    answer = recall(harness, answered["recallHandle"])
    assert (answer.code, answer.ext_map()["msgId"]) == (0, "G" * 32)
    counted = harness.node.halves.stats.item("TOPIC_PUT_NUMS", WHEEL)
    assert counted is not None
    assert counted.value == 3, "the recall as well"
    mark = harness.stored(WHEEL)[2]
    assert bytes(mark.body) == b"0"
    assert props(mark)["TIMER_DEL_UNIQKEY"] == "G" * 32
    assert props(mark)["PGROUP"] == "P"
    harness.driver.advance(10_000)
    assert bodies(harness) == [b"stays"]


def test_recall_when_it_is_too_late(harness: Harness) -> None:
    handle = timed(harness, TIMER_DELAY_SEC="2")["recallHandle"]
    harness.driver.advance(5_000)
    answer = recall(harness, handle)
    assert (answer.code, answer.remark) == (604, "recall failed, timestamp invalid")
    assert bodies(harness) == [b"later"]


IN_A_MINUTE = str(WALL_MS + 60_000)


@pytest.mark.parametrize(
    ("handle", "remark"),
    [
        (handle_text(RecallHandle("U", "broker-a", IN_A_MINUTE, "K")), "recall failed, topic not match"),
        (handle_text(RecallHandle("T", "broker-b", IN_A_MINUTE, "K")), "recall failed, broker service not available"),
        (handle_text(RecallHandle("T", "broker-a", "soon", "K")), "recall failed, timestamp invalid"),
        (handle_text(RecallHandle("T", "broker-a", "-5", "K")), "recall failed, timestamp invalid"),
        (handle_text(RecallHandle("T", "broker-a", "9" * 19, "K")), "recall failed, timestamp invalid"),
        (handle_text(RecallHandle("T", "broker-a", IN_A_MINUTE, "")), "recall handle is invalid"),
        ("no handle", "recall handle is invalid"),
        ("", "recall handle is invalid"),
        ("djE=", "recall handle is invalid"),
    ],
)
def test_attack_21_forged_handles(harness: Harness, handle: str, remark: str) -> None:
    answer = recall(harness, handle)
    assert (answer.code, answer.remark) == (604, remark)
    assert harness.stored(WHEEL) == []


def test_attack_21_a_forged_handle_of_another_message_takes_only_that_key(harness: Harness) -> None:
    timed(harness, b"mine", TIMER_DELAY_SEC="5")
    slot_ms = props(harness.stored(WHEEL)[0])["TIMER_OUT_MS"]
    assert recall(harness, handle_text(RecallHandle("T", "broker-a", str(int(slot_ms) + 1), "other"))).code == 0
    harness.driver.advance(10_000)
    assert bodies(harness) == [b"mine"]


def test_recall_is_off_by_default(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    harness.topic("T")
    answer = recall(harness, "anything")
    assert (answer.code, answer.remark) == (16, "recall failed, operation is forbidden")


def test_recall_of_an_unknown_topic(harness: Harness) -> None:
    answer = recall(harness, "anything", topic="U")
    assert (answer.code, answer.remark) == (17, "recall failed, the topic[U] not exist")


def test_recall_of_a_broker_that_does_not_serve(harness: Harness) -> None:
    harness.node.config.broker_permission = 4
    harness.node.config.allow_recall_when_broker_not_writeable = False
    assert recall(harness, "anything").code == 14
    harness.node.config.broker_permission = 6
    harness.node.config.start_accept_send_request_time_stamp = harness.env.wall_ms + 1
    assert recall(harness, "anything").code == 14


def test_no_handle_for_a_message_of_a_level(harness: Harness) -> None:
    assert "recallHandle" not in timed(harness, DELAY="1")


# Answers about the timer


def test_the_check_point(harness: Harness) -> None:
    timed(harness, TIMER_DELAY_SEC="9")
    harness.driver.advance(1_000)
    body = harness.connect().ask(GetTimerCheckPoint()).body
    read_ms, position, offset, *_ = TIMER_CHECK.unpack(body)
    assert (read_ms, position, offset) == (harness.env.wall_ms // 1_000 * 1_000, 52, 1)


def test_the_metrics(harness: Harness) -> None:
    timed(harness, TIMER_DELAY_SEC="9")
    harness.driver.advance(1_000)
    answer = harness.connect().ask(GetTimerMetrics())
    assert json.loads(bytes(answer.body))["timingCount"]["T"]["count"] == 1


def count_of(harness: Harness) -> Any:
    rows = json.loads(bytes(harness.connect().ask(GetTimerMetrics()).body))["timingCount"]
    return rows["T"]["count"] if "T" in rows else None


def test_a_deleted_topic_is_not_counted(harness: Harness) -> None:
    timed(harness, TIMER_DELAY_SEC="9")
    harness.driver.advance(1_000)
    assert count_of(harness) == 1
    assert harness.connect().ask(DeleteTopic(topic="T")).code == 0
    assert count_of(harness) is None
    harness.driver.advance(10_000)
    assert bodies(harness) == [b"later"]
    harness.driver.advance(180_000)
    assert count_of(harness) is None


def test_a_look_for_topics_that_are_gone_comes_in_slices(harness: Harness) -> None:
    timer = harness.node.timer
    assert timer is not None
    for number in range(2 * TOPICS_PER_SLICE + 1):
        timer.metrics.add(f"Gone{number}", 1, harness.env.wall_ms)
    assert list(harness.node.timers._forget_unknown()) == [None, None]
    assert timer.metrics.counts == {}


def test_slots_of_an_hour_and_a_time_in_a_year(tmp_path: Path) -> None:
    harness = Harness(tmp_path, timerPrecisionMs="3600000", timerMaxDelaySec=str(400 * 86_400))
    harness.topic("T")
    timed(harness, TIMER_DELAY_SEC=str(365 * 86_400))
    timed(harness, b"soon", TIMER_DELAY_SEC="3600")
    harness.driver.advance(1_000)
    assert (count_of(harness), harness.node.engine.counters.errors) == (2, 0)
    harness.driver.advance(3 * 3_600_000)
    assert bodies(harness) == [b"soon"]


def test_the_figures(harness: Harness) -> None:
    timed(harness, TIMER_DELAY_SEC="9")
    harness.driver.advance(1_000)
    table = json.loads(bytes(harness.connect().ask(GetBrokerRuntimeInfo()).body))["table"]
    assert (table["timerCongestNum"], table["timerOffsetBehind"], table["timerReadBehind"]) == ("1", "0", "0")
    harness.node.timers.stop()
    harness.driver.advance(5_000)
    assert harness.node.timers.figures()["timerReadBehind"] == "5"


def test_the_rates(harness: Harness) -> None:
    """A period of ten seconds ends with the first message after it; its rate is given for thirteen."""

    def rates() -> tuple[str, str]:
        table = json.loads(bytes(harness.connect().ask(GetBrokerRuntimeInfo()).body))["table"]
        return table["timerEnqueueTps"], table["timerDequeueTps"]

    for _ in range(10):
        timed(harness, TIMER_DELAY_SEC="2")
    harness.driver.advance(10_000)
    assert rates() == ("0.0", "0.0")
    timed(harness, TIMER_DELAY_SEC="2")
    assert rates() == ("1.11", "0.0")
    harness.driver.advance(4_000)
    assert rates() == ("1.11", "1.11")
    harness.driver.advance(13_000)
    assert rates() == ("0.0", "0.0")
    timed(harness, TIMER_DELAY_SEC="2")
    assert rates()[0] == "0.0647", "of a period of 17 s"
    harness.driver.advance(22_000)
    timed(harness, TIMER_DELAY_SEC="2")
    assert rates()[0] == "0.0", "one that began 22 s ago is forgotten"


def test_without_a_wheel(tmp_path: Path) -> None:
    harness = Harness(tmp_path, timerWheelEnable="false").begun()
    client = harness.connect()
    assert [client.ask(asked).code for asked in (GetTimerCheckPoint(), GetTimerMetrics())] == [1, 1]
    assert client.ask(SwitchTimerEngine(engine_type="F")).code == 29
    assert client.ask(DeleteTopic(topic="T")).code == 0
    assert harness.node.timers.figures()["timerReadBehind"] == "0"
    harness.stop()


@pytest.mark.parametrize(("engine", "code"), [("F", 0), ("R", 29), ("X", 29), (None, 29)])
def test_switching_the_engine(harness: Harness, engine: str | None, code: int) -> None:
    assert harness.connect().ask(SwitchTimerEngine(engine_type=engine)).code == code


def test_attack_21_a_message_never_comes_where_nobody_sends_to(harness: Harness) -> None:
    timed(harness, TIMER_DELAY_SEC="2", REAL_TOPIC="SCHEDULE_TOPIC_XXXX", REAL_QID="7")
    harness.driver.advance(5_000)
    assert bodies(harness) == [b"later"]
    answered = harness.connect().ask(GetMaxOffset(topic="T", queue_id=1)).ext_map()
    assert answered["offset"] == "1"
