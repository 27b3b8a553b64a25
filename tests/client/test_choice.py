"""Which queue, which broker, how often: the pure half of a send, with time handed in."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_client.errors import AnswerLate, BrokerError, InvalidMessage, NoBroker, NoQueue, Unreachable, Unreadable
from rmq_client.messages import Message, SendResult, SendStatus
from rmq_client.producing.attempts import SendAttempts
from rmq_client.producing.latency import LATENCY_MAX_MS, NOT_AVAILABLE_MS, LatencyFaults, not_available_ms
from rmq_client.producing.queue_choice import QueueChooser
from rmq_client.producing.selectors import by_hash, by_machine_room, by_random, java_hash
from rmq_client.settings import ProducerSettings
from rmq_wire.fastjson import MessageQueue

QUEUES = [MessageQueue("T", broker, at) for broker in ("a", "b", "c") for at in range(4)]
MESSAGE = Message("T", b"x")


def chooser(faults: LatencyFaults | None = None, seed: int = 7) -> QueueChooser:
    return QueueChooser(random.Random(seed), faults)


# Round robin


def test_every_queue_gets_its_turn_wherever_the_counter_began() -> None:
    for seed in range(20):
        choose = chooser(seed=seed)
        turns = [choose.choose("T", QUEUES, 0) for _ in range(3 * len(QUEUES))]
        assert set(Counter(turns).values()) == {3}
        assert turns[: len(QUEUES)] == turns[len(QUEUES) : 2 * len(QUEUES)]
    assert len({chooser(seed=seed).choose("T", QUEUES, 0) for seed in range(50)}) > 5, "they do not all begin alike"


def test_topics_count_for_themselves() -> None:
    choose = chooser()
    first = [choose.choose("T", QUEUES, 0) for _ in range(4)]
    [choose.choose("U", QUEUES, 0) for _ in range(5)]
    begun = QUEUES.index(first[-1])
    assert choose.choose("T", QUEUES, 0) == QUEUES[(begun + 1) % len(QUEUES)]


@given(st.sampled_from(["a", "b", "c"]), st.integers(0, 1000))
def test_a_retry_avoids_the_broker_that_failed(last: str, seed: int) -> None:
    assert chooser(seed=seed).choose("T", QUEUES, 0, last_broker=last).broker_name != last


def test_a_retry_takes_the_same_broker_where_there_is_no_other() -> None:
    only = QUEUES[:4]
    assert chooser().choose("T", only, 0, last_broker="a") in only


# Latency fault tolerance


@pytest.mark.parametrize(
    ("latency_ms", "pause_ms"),
    [
        *[(0, 0), (49, 0), (50, 0), (100, 0), (549, 0), (550, 2_000), (1_799, 2_000), (1_800, 5_000), (3_000, 6_000)],
        *[(5_000, 10_000), (14_999, 10_000), (15_000, 30_000), (10**9, 30_000)],
    ],
)
def test_the_table_of_pauses(latency_ms: int, pause_ms: int) -> None:
    assert not_available_ms(latency_ms) == pause_ms
    assert len(LATENCY_MAX_MS) == len(NOT_AVAILABLE_MS)


def test_a_slow_broker_is_left_alone_for_its_pause_and_then_gets_its_share_again() -> None:
    faults = LatencyFaults()
    choose = chooser(faults)
    faults.update("b", 600, now_ms=1_000)
    seen = [choose.choose("T", QUEUES, 2_999).broker_name for _ in range(24)]
    assert "b" not in seen
    after = Counter(choose.choose("T", QUEUES, 3_000).broker_name for _ in range(24))
    assert after == {"a": 8, "b": 8, "c": 8}, "never the fastest: nobody starves"


def test_a_pause_is_not_cut_short_by_a_quick_answer() -> None:
    faults = LatencyFaults()
    faults.update("a", 16_000, now_ms=0)
    faults.update("a", 1, now_ms=100)
    assert not faults.is_available("a", 29_999)
    assert faults.is_available("a", 30_000)


def test_all_slow_then_the_reachable_ones_all_unreachable_then_any() -> None:
    faults = LatencyFaults()
    choose = chooser(faults)
    for broker in "abc":
        faults.update(broker, 600, now_ms=0, reachable=broker == "c")
    assert {choose.choose("T", QUEUES, 10).broker_name for _ in range(12)} == {"c"}
    faults.update("c", 600, now_ms=0, reachable=False)
    assert {choose.choose("T", QUEUES, 10).broker_name for _ in range(12)} == {"a", "b", "c"}


def test_probes_are_due_every_interval_and_bring_a_broker_back() -> None:
    faults = LatencyFaults(detect_interval_ms=2_000)
    faults.update("a", 0, now_ms=0, failed=True, reachable=False)
    faults.update("gone", 0, now_ms=0, failed=True, reachable=False)
    addresses = {"a": "h:1"}
    assert faults.to_probe(100, addresses.get) == [("a", "h:1")]
    assert faults.to_probe(2_099, addresses.get) == []
    assert faults.to_probe(2_100, addresses.get) == [("a", "h:1")]
    assert faults.is_reachable("gone"), "no address any more: forgotten"
    faults.answered("a")
    assert faults.is_reachable("a")


# Selectors


@pytest.mark.parametrize(
    ("key", "hashed"),
    [("", 0), ("order-7", java_hash("order-7")), (5, 5), (-5, -5), (2**31, -(2**31)), (2**32 + 1, 0), (-1, -1), (2**40, 256)],
)
def test_hashes_are_java_s(key: str | int, hashed: int) -> None:
    assert java_hash(key) == hashed


def test_one_key_one_queue() -> None:
    for key in ("polygenelubricants", 7, -7, 2**40):  # the first has the hash -2^31
        chosen = {by_hash(key)(QUEUES, MESSAGE) for _ in range(3)}
        assert chosen == {QUEUES[abs(java_hash(key)) % len(QUEUES)]}
    with pytest.raises(NoQueue):
        by_hash(2**63)


def test_random_and_machine_rooms() -> None:
    anywhere = by_random(random.Random(1))
    assert {anywhere(QUEUES, MESSAGE) for _ in range(200)} == set(QUEUES)
    rooms = [MessageQueue("T", f"{room}@x", at) for room in ("sh", "bj") for at in range(2)]
    select = by_machine_room({"sh"}, random.Random(1))
    assert {select(rooms, MESSAGE) for _ in range(50)} == set(rooms[:2])
    with pytest.raises(NoQueue, match="has no queue in hz"):
        by_machine_room({"hz"})(rooms, MESSAGE)


# Attempts


def attempts(**settings: object) -> SendAttempts:
    told = ProducerSettings(**settings)  # type: ignore[arg-type]
    return SendAttempts("T", QUEUES, chooser(), None, told, began_ms=0, timeout_ms=told.send_msg_timeout_ms)


def stored(status: SendStatus = SendStatus.SEND_OK) -> SendResult:
    return SendResult(status, "id", "oid", QUEUES[0], 0)


def test_the_first_good_answer_ends_it() -> None:
    plan = attempts()
    attempt = plan.next(0)
    assert attempt is not None
    assert attempt.timeout_ms == 3_000
    plan.stored(attempt, stored(), 5)
    assert plan.next(5) is None
    assert plan.outcome() == stored()


def test_three_attempts_share_the_time_and_change_the_broker() -> None:
    plan = attempts()
    now, brokers, times = 0, [], []
    while (attempt := plan.next(now)) is not None:
        brokers.append(attempt.queue.broker_name)
        times.append(attempt.timeout_ms)
        now += 700
        plan.failed(attempt, Unreachable("down"), now)
    assert times == [3_000, 2_300, 1_600]
    assert len(brokers) == 3
    assert all(one != other for one, other in pairwise(brokers))
    with pytest.raises(Unreachable) as raised:
        plan.outcome()
    assert raised.value.attempts == tuple(f"{broker}: down" for broker in brokers)
    assert not raised.value.maybe_stored
    assert "tried 3 times" in str(raised.value)


def test_no_attempt_begins_when_the_time_is_up() -> None:
    plan = attempts()
    attempt = plan.next(0)
    assert attempt is not None
    late = AnswerLate("late")
    late.maybe_stored = True
    plan.failed(attempt, late, 3_000)
    assert plan.next(3_000) is None
    with pytest.raises(AnswerLate) as raised:
        plan.outcome()
    assert raised.value.maybe_stored


def test_time_was_over_before_the_first() -> None:
    plan = attempts()
    assert plan.next(3_000) is None
    with pytest.raises(AnswerLate, match="before T could be sent to"):
        plan.outcome()


def test_what_may_have_been_stored_stays_so_whatever_comes_after() -> None:
    plan = attempts()
    first = plan.next(0)
    assert first is not None
    late = AnswerLate("late")
    late.maybe_stored = True
    plan.failed(first, late, 10)
    for now in (10, 20):
        again = plan.next(now)
        assert again is not None
        plan.failed(again, Unreachable("down"), now)
    with pytest.raises(Unreachable) as raised:
        plan.outcome()
    assert raised.value.maybe_stored


def test_a_broker_s_no_is_tried_elsewhere_for_these_codes_only() -> None:
    found = []
    for code in range(2_000):
        plan = attempts()
        attempt = plan.next(0)
        assert attempt is not None
        plan.failed(attempt, BrokerError(code, "no", "h:1"), 1)
        if plan.next(1) is not None:
            found.append(code)
    assert found == [1, 2, 14, 16, 17, 204, 205, 1500]


@pytest.mark.parametrize("done", [False, True])
def test_what_its_code_says_is_stored_is_sent_nowhere_else(done: bool) -> None:
    plan = attempts()
    attempt = plan.next(0)
    assert attempt is not None
    plan.failed(attempt, Unreadable("no", "h:1", done=done), 1)
    assert (plan.next(1) is None) is done


def test_another_status_is_good_enough_unless_told_otherwise() -> None:
    for again in (False, True):
        plan = attempts(retry_another_broker_when_not_store_ok=again)
        attempt = plan.next(0)
        assert attempt is not None
        plan.stored(attempt, stored(SendStatus.FLUSH_DISK_TIMEOUT), 1)
        assert (plan.next(1) is not None) is again
        assert plan.outcome().status is SendStatus.FLUSH_DISK_TIMEOUT


def test_a_limit_for_one_attempt_counts_while_another_may_follow() -> None:
    plan = attempts(send_msg_max_timeout_per_request_ms=1_000, retry_times_when_send_failed=1)
    first = plan.next(0)
    assert first is not None
    plan.failed(first, Unreachable("down"), 1_000)
    second = plan.next(1_000)
    assert second is not None
    assert (first.timeout_ms, second.timeout_ms) == (1_000, 2_000)


def test_the_caller_s_fault_is_not_tried_again() -> None:
    plan = attempts()
    attempt = plan.next(0)
    assert attempt is not None
    plan.failed(attempt, InvalidMessage("no"), 1)
    assert plan.next(1) is None


@pytest.mark.parametrize(
    ("error", "detector", "pause_ms", "reachable"),
    [
        (Unreachable("x"), False, 10_000, True),
        (Unreachable("x"), True, 10_000, False),
        (BrokerError(1, "x", "h"), False, 10_000, False),
        (NoBroker("x"), False, 0, True),
    ],
)
def test_what_a_failure_says_of_its_broker(error: Exception, detector: bool, pause_ms: int, reachable: bool) -> None:
    faults = LatencyFaults()
    told = ProducerSettings(send_latency_enable=True, start_detector_enable=detector)
    plan = SendAttempts("T", QUEUES, chooser(faults), faults, told, began_ms=0, timeout_ms=3_000)
    attempt = plan.next(0)
    assert attempt is not None
    plan.failed(attempt, error, 5)  # type: ignore[arg-type]
    broker = attempt.queue.broker_name
    assert faults.is_available(broker, 5 + pause_ms)
    assert faults.is_available(broker, 4 + pause_ms) is (pause_ms == 0)
    assert faults.is_reachable(broker) is reachable
