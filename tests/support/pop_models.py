"""What a group may get of a topic, and must get: of pops as they come, and of pops in order."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from rmq_wire.pop_receipt import Receipt
from tests.support.pop_client import Got, Popped

Now = Callable[[], int]
Name = tuple[str, int, int, int, int]
SLACK_MS = 20_000
"""So soon after its time a message can be had again when nothing disturbs."""
UNSAVED_MS = 12_000
"""Progress that is older than this is on the disk, that of revived messages too."""
SETTLED_MS = 180_000
"""So long after a disturbance everything has caught up."""


def name_of(one: Got) -> Name:
    """What an acknowledgement says of a message: its place, and the pop that gave it out by its beginning and its time.

    Two pops may have one name: where a clock was set back, or in one millisecond where progress went back.
    """
    receipt = one.receipt
    return one.topic, receipt.queue_id, receipt.start_offset, receipt.pop_time, one.offset


class State:
    """Of one message.  `held`: how it was got last, until `until_ms`.

    `acked`: it must not come again.  `free`: it may come at any time, and as often as it likes; it still must come.
    `optional`: it need not come any more.
    """

    def __init__(self, number: int, queue: int, offset: int) -> None:
        self.number, self.queue, self.offset = number, queue, offset
        self.held: Got | None = None
        self.until_ms = 0
        self.got_mono_ms = 0
        self.sent_mono_ms = self.touched_mono_ms = 0
        """When it was sent, and when somebody got it, gave it back or changed its time."""
        self.times = 0
        """As how many attempts the next delivery counts."""
        self.is_over = False
        """Its time had ended when a clock was set."""
        self.acked = self.free = self.optional = False
        self.old: list[Got] = []


class Loose:
    """Messages of a topic as they come to a group; what comes again lies in a retry topic."""

    def __init__(self, topic: str, group: str, wall_ms: Now, mono_ms: Now) -> None:
        self.topic, self.group, self._wall_ms, self._mono_ms = topic, group, wall_ms, mono_ms
        self.all: dict[int, State] = {}
        self._named: set[Name] = set()
        """What acknowledgements have said, those that a change of time makes, too: each counts for all pops of its name, also for
        those to come.
        """
        self._disturbed_ms = -SETTLED_MS
        self._set_back = self._was_made_again = False
        self.strict_retries = True
        """One pop looks into all retry topics that there are."""
        self._copies: dict[tuple[str, int], int] = {}
        """What came again: its place in a retry topic, and since when somebody knows that it was there."""
        self._taken: set[tuple[str, Receipt]] = set()
        """What was handed out of such a place before a power cut took it."""

    def sent(self, number: int, queue: int, offset: int) -> None:
        state = self.all[number] = State(number, queue, offset)
        state.free = self._was_made_again
        state.sent_mono_ms = self._mono_ms()

    def got(self, found: Popped) -> None:
        now = found.header.pop_time
        for one in found.got:
            if one.topic != self.topic:
                self._copies.setdefault((one.topic, one.offset), self._mono_ms())
            state = self.all[int(one.body)]
            if not state.free:
                assert not state.acked, f"{state.number} was acknowledged and comes again"
                early_ms = state.until_ms - now if state.held is not None and not state.is_over else 0
                assert early_ms <= 0, f"{state.number} comes again {early_ms} ms before its time"
                assert one.unit.reconsume_times == state.times, f"{state.number} counts {one.unit.reconsume_times} attempts"
            if state.held is not None:
                state.old.append(state.held)
            state.held, state.until_ms, state.got_mono_ms = one, one.receipt.due_ms, self._mono_ms()
            state.touched_mono_ms = self._mono_ms()
            state.times = one.unit.reconsume_times + 1
            state.acked = state.is_over = False
            state.optional = state.optional or name_of(one) in self._named

    def made_again(self) -> None:
        """The topic was deleted: its messages are no more.  What an old check point says of places comes from the new ones."""
        self.all.clear()
        self._was_made_again = True

    def nothing_left(self) -> None:
        """A pop of all queues found less than it had room for: what it did not find must be somebody's, or over."""
        now, mono = self._wall_ms(), self._mono_ms()
        for state in self.all.values():
            if state.acked or state.optional:
                continue
            assert state.held is not None or state.free, f"{state.number} was passed over"
            if state.held is None or state.free or not self.strict_retries:
                continue
            if state.is_over:
                continue
            late_ms = min(now - state.until_ms, mono - max(state.got_mono_ms, self._disturbed_ms))
            assert late_ms <= SLACK_MS, f"{state.number} does not come again, {late_ms} ms after its time"

    def some(self, rng: random.Random, most: int) -> list[Got]:
        """Of those that somebody has."""
        held = [state.held for state in self.all.values() if state.held is not None and not state.acked]
        return rng.sample(held, min(most, len(held)))

    def old(self, rng: random.Random, most: int) -> list[Got]:
        """Of those with a receipt that was followed by another one."""
        old = [one for state in self.all.values() for one in state.old]
        return rng.sample(old, min(most, len(old)))

    def named(self, one: Got) -> None:
        """Somebody acknowledges this, perhaps with an old receipt: by a pop of the same name nobody need have it any more."""
        if self.is_taken(one):
            return
        self._named.add(name_of(one))
        state = self.all[int(one.body)]
        if state.held is not None and not state.acked and name_of(state.held) == name_of(one):
            state.optional = True

    def acknowledged(self, one: Got, *, said_yes: bool) -> None:
        state = self.all[int(one.body)]
        state.touched_mono_ms = self._mono_ms()
        if self.is_taken(one):
            return
        if state.held is not one:
            self.named(one)
            return
        self._named.add(name_of(one))
        if said_yes and self._wall_ms() < state.until_ms and not state.is_over:
            state.acked = True
        else:
            state.optional = True

    def changed(self, one: Got, new: Got, until_ms: int, *, suspend: bool) -> None:
        """It has another time.  `until_ms`: when it was changed."""
        state = self.all[int(one.body)]
        state.touched_mono_ms = self._mono_ms()
        if state.held is not one or until_ms >= state.until_ms or state.is_over:
            state.free = True  # both copies may come
        self._named.add(name_of(one))
        if state.held is one:
            state.old.append(one)
            state.held, state.until_ms, state.got_mono_ms = new, new.receipt.due_ms, self._mono_ms()
            state.times = one.unit.reconsume_times + (not suspend)
            state.optional = state.optional or name_of(new) in self._named

    def unsure(self, one: Got) -> None:
        """It was to have another time, and nobody knows whether it has."""
        if self.is_taken(one):
            return
        state = self.all[int(one.body)]
        state.free = state.optional = True

    def reset(self, queue: int, offset: int) -> None:
        for state in self.all.values():
            if state.queue != queue:
                continue
            if state.offset >= offset:
                state.free = True
                state.acked = state.optional = False
                state.held = None
            elif not state.acked:
                state.free = state.optional = True

    def clock_is_set(self, *, back: bool = False) -> None:
        """In a moment."""
        self.disturbed()
        self._set_back = self._set_back or back
        for state in self.all.values():
            state.is_over = state.is_over or state.until_ms <= self._wall_ms()

    def disturbed(self) -> None:
        """Clocks, disks or the broker did what holds up what comes again."""
        self._disturbed_ms = self._mono_ms()

    def killed(self, progress: Callable[[str, int], int]) -> None:
        """`progress(topic, queue)`: as the disk has it.

        When a clock was set back, check points wait before others that are done: these are read again.
        """
        now, mono = self._wall_ms(), self._mono_ms()
        unsettled = self._set_back or mono - self._disturbed_ms < SETTLED_MS
        for state in self.all.values():
            saved = progress(self.topic, state.queue)
            if state.held is None:
                continue
            places = [one for one in (*state.old, state.held) if one.topic != self.topic]
            again = state.offset >= saved or any(one.offset >= progress(one.topic, 0) for one in places)
            fresh = unsettled or mono - state.got_mono_ms < UNSAVED_MS
            revived = (bool(places) and fresh) or (not state.acked and (state.is_over or state.until_ms - SLACK_MS <= now))
            if again or revived:
                state.free = True

    def is_taken(self, one: Got) -> bool:
        """The power took the copy that was handed out.  What is said of it means nothing, and its message must come again."""
        return (one.topic, one.receipt) in self._taken

    def power_is_cut(
        self, ends: Sequence[int], copies: Callable[[str], int], progress: Callable[[str, int], int], lost_ms: int
    ) -> None:
        """`ends`: of the queues, as the disk has them; `copies(topic)`: of a retry topic's.  `lost_ms`: so long before the cut
        the disk may have nothing of.

        Messages sent then are lost; whoever got one then, gave it back or had its time changed did not, and may get it again.  Of
        what is older nothing is lost, and what the timer and the progress of what comes again do not know yet is done once more.
        """
        mono = self._mono_ms()
        for state in list(self.all.values()):
            if state.offset >= ends[state.queue]:
                age_ms = mono - state.sent_mono_ms
                assert age_ms <= lost_ms, f"{state.number} is lost, {age_ms} ms after its answer"
                del self.all[state.number]
        self._take(copies, lost_ms)
        self.killed(progress)
        for state in self.all.values():
            if lost_ms and mono - state.touched_mono_ms <= lost_ms + UNSAVED_MS:
                state.free = True

    def _take(self, copies: Callable[[str], int], lost_ms: int) -> None:
        """What lay behind the ends of the retry topics is gone; other messages will have its places."""
        mono = self._mono_ms()
        gone = {place for place in self._copies if place[1] >= copies(place[0])}
        for topic, offset in gone:
            age_ms = mono - self._copies.pop((topic, offset))
            assert age_ms <= lost_ms, f"{topic} has lost {offset}, {age_ms} ms after it was handed out"
        for state in self.all.values():
            known = state.old if state.held is None else (*state.old, state.held)
            self._taken.update((one.topic, one.receipt) for one in known if (one.topic, one.offset) in gone)

    def waiting(self) -> list[int]:
        """What has not come yet."""
        return [state.number for state in self.all.values() if not state.acked and not state.optional]

    def judge(self) -> None:
        assert not self.waiting(), f"{self.waiting()} have not come, or not again"


class Line:
    """A queue of `InOrder`.  `position`: where the next batch begins; `open`: of the last one what is not acknowledged."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.position = 0
        self.offsets: list[int] = []
        self.open: dict[int, int] = {}
        """Offset to when it comes again."""
        self.held: dict[int, Got] = {}
        self.attempt: str | None = None
        self.counts: dict[int, int] = {}
        self.exact = True
        """The broker was not killed since."""
        self.furthest = 0
        """Where it was before it was set back."""


class InOrder:
    """Messages in order, queue by queue."""

    def __init__(self, group: str, wall_ms: Now, queues: int) -> None:
        self.group, self._wall_ms = group, wall_ms
        self.lines = [Line() for _ in range(queues)]

    def sent(self, number: int, queue: int, offset: int) -> None:
        assert offset == len(self.lines[queue].numbers)
        self.lines[queue].numbers.append(number)

    def got(self, queue: int, found: Popped, attempt: str | None, invisible_ms: int) -> None:
        line, now = self.lines[queue], found.header.pop_time
        offsets = [one.offset for one in found.got]
        again = attempt is not None and attempt == line.attempt
        blocked = any(until > now for until in line.open.values()) and not again
        if line.exact:
            assert not (blocked and offsets), f"queue {queue} is blocked and gives {offsets}"
            assert blocked or offsets or line.position >= len(line.numbers), f"queue {queue} is free and gives nothing"
        if not offsets:
            return
        if line.exact:
            assert offsets[0] == line.position, f"queue {queue} goes on at {offsets[0]}, not {line.position}"
        else:
            assert offsets[0] <= line.position, f"queue {queue} goes on at {offsets[0]} behind {line.position}"
        assert offsets == [*range(offsets[0], offsets[0] + len(offsets))]
        assert [int(one.body) for one in found.got] == [line.numbers[offset] for offset in offsets]
        if not again:
            line.counts = {one: line.counts.get(one, 0) + 1 for one in offsets if one in line.offsets}
        said = {int(key.partition("%")[2]): count for key, count in found.counts.items() if "%" in key}
        if line.exact:
            assert said == line.counts, f"queue {queue} counts {said}, not {line.counts}"
        line.counts = said
        line.position, line.offsets, line.attempt, line.exact = offsets[0], offsets, attempt, True
        line.open = dict.fromkeys(offsets, now + invisible_ms)
        line.held = dict(zip(offsets, found.got, strict=True))

    def one(self, rng: random.Random, queue: int | None = None) -> tuple[int, Got] | None:
        """Its queue, and one that is not acknowledged."""
        lines = self.lines if queue is None else [self.lines[queue]]
        held = [(self.lines.index(line), line.held[offset]) for line in lines for offset in line.open]
        return rng.choice(held) if held else None

    def acknowledged(self, queue: int, one: Got) -> None:
        line = self.lines[queue]
        del line.open[one.offset]
        if line.offsets:
            line.position = min(line.open, default=line.offsets[-1] + 1)
        elif one.offset == line.position:
            line.position += 1

    def changed(self, queue: int, one: Got, until_ms: int) -> None:
        self.lines[queue].open[one.offset] = until_ms

    def reset(self, queue: int, offset: int) -> None:
        line = self.lines[queue]
        line.furthest = max(line.position, line.furthest)
        line.position = offset
        self._forget(line)

    def killed(self) -> None:
        for line in self.lines:
            self._forget(line)
            line.position, line.furthest = max(line.position, line.furthest), 0
            line.exact = False

    def days_passed(self) -> None:
        """The broker knows no batch any more.  Whoever has one still may acknowledge it."""
        for line in self.lines:
            line.offsets, line.counts, line.attempt = [], {}, None

    def power_is_cut(self, ends: Sequence[int]) -> None:
        """`ends`: of the queues, as the disk has them; `Loose` looks whether that is lawful."""
        self.killed()
        for line, end in zip(self.lines, ends, strict=True):
            del line.numbers[end:]
            line.position = min(line.position, end)

    @staticmethod
    def _forget(line: Line) -> None:
        line.open, line.held, line.offsets, line.counts, line.attempt = {}, {}, [], {}, None

    def judge(self) -> None:
        for queue, line in enumerate(self.lines):
            assert not line.open, f"queue {queue}: {line.open} are open"
            assert line.position == len(line.numbers), f"queue {queue} ends at {line.position} of {len(line.numbers)}"
