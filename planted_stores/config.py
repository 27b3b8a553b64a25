"""The small files of a generated store, as a clean stop leaves them: checkpoint, topics, groups, positions, timer's progress."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from planted_stores.pattern import DEAD, DELAY_LEVEL, GROUP, HALF, OP, RETRY, ROUND_DELIVERIES, SCHEDULE, SLOTS, WHEEL, Kind
from planted_stores.plan import ROUNDS_BACK, Plan
from rmq_wire.fastjson import dumps_pretty
from rmq_wire.layout import checkpoint, timer
from rmq_wire.names import TRANS_GROUP

SCHEDULE_QUEUES: Final = 18
"""Of the schedule's topic: one to each delay level."""
READ_WRITE: Final = 6
TIMER_PRECISION_MS: Final = 1000
"""`timerPrecisionMs`."""
LAG_MAX: Final = 7
"""Messages that the group has not read yet, by queue."""
NOT_READ: Final = (SCHEDULE, WHEEL, DEAD)


def write_config(store: Path, plan: Plan, ahead: dict[tuple[str, int], int], *, now_ms: int) -> None:
    """Everything below `config`, and the checkpoint.  ahead: positions that are so far behind the end of their queue."""
    (store / "config").mkdir()
    version = {"counter": 1, "stateVersion": 0, "timestamp": now_ms}
    _write(store, "topics.json", {"dataVersion": version, "topicConfigTable": _topics(plan)})
    groups = {name: _group(name) for name in (GROUP, TRANS_GROUP)}
    _write(store, "subscriptionGroup.json", {"dataVersion": version, "forbiddenTable": {}, "subscriptionGroupTable": groups})
    _write(store, "consumerOffset.json", {"dataVersion": version, **_positions(plan, ahead)})
    _write(store, "delayOffset.json", {"dataVersion": version, "offsetTable": {DELAY_LEVEL: delivered(plan, Kind.DELIVERED)}})
    read_ms = int(plan.stored_ms(np.array([plan.count - 1]))[0]) // TIMER_PRECISION_MS * TIMER_PRECISION_MS
    timed = delivered(plan, Kind.TIMED_DELIVERED)  # a master writes it into both fields, and begins at the smaller one
    check = timer.CHECK_FLAT.packed.pack(read_ms, 0, timed, timed, 0, now_ms, 0)
    # The wheel's own files are missing: a broker makes them, and takes up what was not delivered yet from the timer's topic.
    (store / "config" / "timercheck").write_bytes(check.ljust(timer.CHECK_FILE_SIZE, b"\0"))
    last = np.array([plan.count - 1])
    last_ms = int(plan.stored_ms(last)[0])
    fields = checkpoint.FIELDS_FLAT.packed.pack(last_ms, last_ms, 0, 0, 0, int(plan.physical(last)[0]))
    (store / "checkpoint").write_bytes(fields.ljust(checkpoint.FILE_SIZE, b"\0"))


def delivered(plan: Plan, kind: Kind) -> int:
    """How many delayed messages have been delivered."""
    places = np.flatnonzero(plan.of_kind(kind))
    rounds, slot = divmod(plan.count, SLOTS)
    return max(rounds - ROUNDS_BACK, 0) * ROUND_DELIVERIES + (int((places < slot).sum()) if rounds >= ROUNDS_BACK else 0)


def _topics(plan: Plan) -> dict[str, Any]:
    queues: dict[str, int] = {SCHEDULE: SCHEDULE_QUEUES}
    for topic, queue_id in plan.queues:
        queues[topic] = max(queues.get(topic, 0), queue_id + 1)
    return {
        topic: {
            "attributes": {},
            "order": False,
            "perm": READ_WRITE,
            "readQueueNums": count,
            "topicFilterType": "SINGLE_TAG",
            "topicName": topic,
            "topicSysFlag": 0,
            "writeQueueNums": count,
        }
        for topic, count in queues.items()
    }


def _group(name: str) -> dict[str, Any]:
    return {
        "attributes": {},
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": 15,
        "groupName": name,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }


def _positions(plan: Plan, ahead: dict[tuple[str, int], int]) -> dict[str, Any]:
    table: dict[str, dict[int, int]] = {}
    topics: dict[str, list[str]] = {}
    for number, (topic, queue_id) in enumerate(plan.queues):
        end = plan.queue_end(number)
        if topic in NOT_READ or not end:
            continue
        is_transaction = topic in (HALF, OP)
        group = TRANS_GROUP if is_transaction else GROUP
        lag = 0 if is_transaction or topic in (RETRY, OP) else number % (LAG_MAX + 1)
        more = ahead.get((topic, queue_id))
        table.setdefault(f"{topic}@{group}", {})[queue_id] = max(end - lag, 0) if more is None else end + more
        if topic not in topics.setdefault(group, []):
            topics[group].append(topic)
    return {"groupTopicMap": topics, "offsetTable": table, "pullOffsetTable": {}}


def _write(store: Path, name: str, value: dict[str, Any]) -> None:
    (store / "config" / name).write_bytes(dumps_pretty(value))
