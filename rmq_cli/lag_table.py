"""What `rmq lag` shows: groups with their queues, those that are stuck, those that are beyond a limit.

An ordered queue is stuck when its owner has messages of it and yet its next offset stays: the first message fails again and
again, and all behind it wait.  That takes two looks to see, some time apart; a slow queue moves between them.
Time is an argument, in wall milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rmq_client.groups import GroupLag, QueueLag
from rmq_columns.shown import printable
from rmq_wire.fastjson import MessageQueue

STUCK_MS: Final = 2_000
"""A head that stays for so long; what a listener suspends is tried again after a second."""
_HEADING: Final = ("topic", "broker", "queue", "lag", "delay", "consumed", "", "owner")
"""The one without a name says what is stuck, before the owner: what a narrow window leaves out is the owner."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a group may have: messages that wait in all its queues together, and their greatest age in seconds."""

    lag: int | None = None
    delay_s: float | None = None

    def beyond(self, one: GroupLag) -> list[str]:
        """What is too much, as lines."""
        found = []
        if self.lag is not None and one.lag > self.lag:
            found.append(f"{one.group} is {one.lag} messages behind, more than {self.lag}")
        if self.delay_s is not None and one.delay_ms is not None and one.delay_ms > self.delay_s * 1e3:
            found.append(f"{one.group} has a message that waits for {ago(one.delay_ms)}, longer than {self.delay_s:g} s")
        return found


class Heads:
    """Since when each queue has the next offset that it has."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, MessageQueue], tuple[int, int]] = {}

    def see(self, groups: Iterable[GroupLag], wall_ms: int) -> None:
        """Another look."""
        seen = {}
        for group in groups:
            for one in group.queues:
                key = (group.group, one.queue)
                before = self._since.get(key)
                same = before is not None and before[0] == one.next_offset
                seen[key] = before if before is not None and same else (one.next_offset, wall_ms)
        self._since = seen

    def stuck_ms(self, group: str, one: QueueLag, wall_ms: int) -> int | None:
        """For how long it was seen stuck, or None."""
        held = one.held
        if not one.ordered or held is None or not one.lag or not held.cached_msg_count + held.transaction_msg_count:
            return None
        _, since_ms = self._since.get((group, one.queue), (0, wall_ms))
        return wall_ms - since_ms if wall_ms - since_ms >= STUCK_MS else None


def needs_another_look(groups: Iterable[GroupLag]) -> bool:
    """Something ordered waits: whether it moves shows later."""
    return any(one.ordered and one.lag for group in groups for one in group.queues)


def ago(ms: int) -> str:
    """A span of time, short."""
    seconds = max(ms, 0) / 1e3
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 6_000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.0f} h" if seconds < 100 * 3_600 else f"{seconds / 86_400:.0f} d"


def text(
    groups: Sequence[GroupLag],
    heads: Heads,
    wall_ms: int,
    *,
    missing: str = "",
    lines_max: int | None = None,
    columns_max: int | None = None,
) -> str:
    """What is `missing`, then each group with its queues, the worst ones first where not all have room.

    A window has so many lines and columns.
    """
    lines = [missing] if missing else []
    for group in groups if lines_max is None else sorted(groups, key=lambda one: -one.lag):
        lines.append(_group_line(group))
        rows = [_HEADING, *(_cells(group.group, one, heads, wall_ms) for one in _worst_first(group.queues))]
        widths = [max(len(row[at]) for row in rows) for at in range(len(_HEADING))]
        lines += [_laid_out(row, widths) for row in rows] if len(rows) > 1 else []
    if lines_max is not None and len(lines) > lines_max:
        left_out = len(lines) - lines_max + 1
        lines = [*lines[: lines_max - 1], f"… {left_out} lines more: a larger window, --group, --topic, --once"]
    shown = map(printable, lines)  # a member calls itself what it likes
    return "\n".join(line if columns_max is None else _cut(line, columns_max) for line in shown)


def _cut(line: str, columns_max: int) -> str:
    """A line that wraps would push another one out of the window."""
    return line if len(line) <= columns_max else f"{line[: max(columns_max - 1, 0)]}…"


def _worst_first(queues: Iterable[QueueLag]) -> list[QueueLag]:
    return sorted(queues, key=lambda one: (-one.lag, one.queue))


def _group_line(group: GroupLag) -> str:
    delay = f", {ago(group.delay_ms)} late" if group.delay_ms is not None else ""
    members = f"{len(group.members)} members" if len(group.members) != 1 else "1 member"
    silent = f", {len(group.unasked)} of them silent" if group.unasked else ""
    return f"{group.group}: {group.lag} behind{delay}, {members}{silent}"


def _cells(group: str, one: QueueLag, heads: Heads, wall_ms: int) -> tuple[str, ...]:
    last_ms = last_consumed_ms(one)
    stuck_ms = heads.stuck_ms(group, one, wall_ms)
    return (
        one.queue.topic,
        one.queue.broker_name,
        str(one.queue.queue_id),
        str(one.lag),
        "-" if one.delay_ms is None else ago(one.delay_ms),
        "-" if last_ms is None else f"{ago(wall_ms - last_ms)} ago",
        "" if stuck_ms is None else f"stuck on its head at {one.next_offset} for {ago(stuck_ms)}",
        one.owner or "nobody",
    )


def _laid_out(cells: Sequence[str], widths: Sequence[int]) -> str:
    topic, broker, *numbers, stuck, owner = cells
    right = "  ".join(cell.rjust(width) for cell, width in zip(numbers, widths[2:-2], strict=True))
    noted = f"  {stuck.ljust(widths[-2])}" if widths[-2] else ""
    return f"  {topic.ljust(widths[0])}  {broker.ljust(widths[1])}  {right}{noted}  {owner}".rstrip()


def last_consumed_ms(one: QueueLag) -> int | None:
    """When its owner consumed last; where nobody says so, when the last one that was consumed had been stored."""
    if one.held is not None and one.next_offset > 0 and one.held.last_consume_timestamp > 0:
        return one.held.last_consume_timestamp
    return one.last_stored_ms


def plain(groups: Sequence[GroupLag], heads: Heads, limits: Limits, wall_ms: int) -> dict[str, Any]:
    """The same for programs.  Times in wall milliseconds, ages in milliseconds."""
    return {
        "time": wall_ms,
        "lag": sum(group.lag for group in groups),
        "beyond": [line for group in groups for line in limits.beyond(group)],
        "groups": [
            {
                "group": group.group,
                "lag": group.lag,
                "delayMs": group.delay_ms,
                "members": list(group.members),
                "silent": list(group.unasked),
                "queues": [_plain_queue(group.group, one, heads, wall_ms) for one in group.queues],
            }
            for group in groups
        ],
    }


def _plain_queue(group: str, one: QueueLag, heads: Heads, wall_ms: int) -> dict[str, Any]:
    return {
        "topic": one.queue.topic,
        "brokerName": one.queue.broker_name,
        "queueId": one.queue.queue_id,
        "brokerOffset": one.broker_offset,
        "consumerOffset": one.consumer_offset,
        "lag": one.lag,
        "delayMs": one.delay_ms,
        "owner": one.owner,
        "lastConsumed": last_consumed_ms(one),
        "ordered": one.ordered,
        "stuckMs": heads.stuck_ms(group, one, wall_ms),
    }
