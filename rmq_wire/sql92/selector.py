"""A selector, read once and asked about each message.

Texts and errors that were met lately are kept, as the reference keeps them, so that pulls that carry their own selector do not
pay for it each time.  A text is bounded, since reading it cannot be interrupted.

Java: `SqlFilter.compile`, `SelectorParser.parse` with PARSE_CACHE; `ExpressionMessageFilter.isMatchedByCommitLog`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rmq_wire.property_values import ABSENT, LOOK, NARROW_MAX, NO_NUMBER, SeenValues
from rmq_wire.sql92.conditions import Condition, conditions_of
from rmq_wire.sql92.errors import RUNTIME, SelectorError, TooMuch
from rmq_wire.sql92.grammar import parse
from rmq_wire.unit_tails import FLAGS_END, LENGTH_BYTES, TAILS, V2_BYTE, as_tail

CHARACTERS_MAX: Final = 16_384
"""See docs/limits.md."""
CONDITIONS_MAX: Final = 8
"""More are asked as one."""
TOPICS_MAX: Final = 8
"""Of each selector; what is known of one topic's values takes some 5 KiB for each condition."""
KEPT: Final = 100
"""`PARSE_CACHE`'s size."""


class Selector(Condition):
    """What a text selects.  `steps`: how many expressions may be evaluated for one message, some 0.3 µs each."""

    __slots__ = ("_conditions", "_node", "_of_topics", "steps", "text")

    def __init__(self, text: str) -> None:
        """Raises SelectorError."""
        self.text = text
        self._node, names, self.steps = parse(text)
        super().__init__(self._node, names)
        self._conditions: list[Condition] = []
        """Those that must all hold; the one that rejects most comes first."""
        self._of_topics: dict[str, Selector] = {}

    def of_topic(self, topic: str) -> Selector:
        """The same for one topic, kept as long as few others are asked for."""
        found = self._of_topics.get(topic)
        if found is None:
            if len(self._of_topics) >= TOPICS_MAX:
                self._of_topics.clear()
            found = self._of_topics[topic] = super().of_topic(topic)
            found._of_topics = {}
            found._conditions = [found if one is self else one.of_topic(topic) for one in self._asked()]
        return found

    def _asked(self) -> list[Condition]:
        if not self._conditions:
            conditions = conditions_of(self._node)
            self._conditions = conditions if 1 < len(conditions) <= CONDITIONS_MAX else [self]
        return self._conditions

    def evaluated_stored(self) -> int:
        """Units for which `add_selected` had to evaluate something that it did not know."""
        return self.evaluated + sum(condition.evaluated for condition in self._conditions if condition is not self)

    def value_verdicts(self) -> Sequence[tuple[SeenValues, bytes]]:
        """For each condition the values that it looks at, and what it says of them by numbers from 0 to 255, as far as it knows.

        Nothing when numbers do not tell.
        """
        found = []
        for condition in self._conditions:
            if condition.seen.is_wide:
                return ()
            found.append((condition.seen, condition.by_number()))
        return found

    def add_selected(
        self, log: memoryview, base: int, positions: Sequence[int], sizes: Sequence[int], found: list[tuple[int, int]], most: int
    ) -> Sequence[tuple[SeenValues, bytes]]:
        """Add (position, size) of those units that are selected to `found`, until it has `most`; `log` begins at `base`.

        All of them lie within `log`.  None is looked at before it is its turn.  Returns what was met in them: numbers of the
        values of a property, one for each unit that was looked at, 0 where it is not known.  Raises BadRecord.
        """
        first, *others = self._asked()
        for condition in self._conditions:
            condition.refresh()
        seen, verdicts, tails = first.seen, first.verdicts, TAILS
        mark, windows, width = seen.mark, seen.windows, seen.width
        numbers: list[int] = []
        passed, last_size = 0, -1
        rest = [(other, other.seen, other.seen.windows, other.verdicts, bytearray(len(sizes))) for other in others]
        rejected = dict.fromkeys(others, 0)
        for at, size in zip(positions, sizes, strict=True):
            start = at - base
            if size != last_size:  # mostly they are all of one
                last_size = size
                try:
                    unpack, expected_size = tails[size]
                except KeyError:
                    unpack, expected_size = tails.learn(log[start : start + size])
            magic, flags, body_size, topic_size, tail = unpack(log, start)
            if body_size != expected_size or flags >= FLAGS_END or magic == V2_BYTE:
                topic_size, tail = tails.cut(log[start : start + size], magic, flags, body_size)
                last_size = -1
            mark_at = tail.rfind(mark, topic_size + 1)
            try:
                number = windows[tail[mark_at : mark_at + width]]
                verdict = verdicts[number]
            except KeyError:
                number, verdict = NO_NUMBER, LOOK
            numbers.append(number)
            if not verdict:
                continue
            if verdict == LOOK:
                if topic_size < 0:
                    topic_size, tail = as_tail(log[start : start + size])
                elif mark_at < 0 and mark and not tail.startswith(mark[1:], topic_size + LENGTH_BYTES):
                    number = numbers[-1] = ABSENT
                    verdict = verdicts[ABSENT]
                if not number:
                    number = numbers[-1] = seen.number_of(tail, topic_size + LENGTH_BYTES)
                    width = seen.width
                if not verdict or (verdict == LOOK and not first.matches_tail(tail, topic_size + LENGTH_BYTES, number)):
                    continue
            passed += 1
            for other, met, numbered, verdicts_of, noted in rest:
                mark_at = tail.rfind(met.mark, topic_size + 1)
                number = numbered.get(tail[mark_at : mark_at + met.width], NO_NUMBER)
                if not number and mark_at < 0 and met.mark and not tail.startswith(met.mark[1:], topic_size + LENGTH_BYTES):
                    number = ABSENT
                elif not number:
                    number = met.number_of(tail, topic_size + LENGTH_BYTES)
                    other.refresh()  # it may have been one value too many, and the numbers mean others now
                if number <= NARROW_MAX:
                    noted[len(numbers) - 1] = number
                verdict = verdicts_of[number]
                if not verdict or (verdict == LOOK and not other.matches_tail(tail, topic_size + LENGTH_BYTES, number)):
                    rejected[other] += 1
                    break
            else:
                found.append((at, size))
                if len(found) >= most:
                    break
        looked = len(numbers)
        for other in others:
            if rejected[other] * looked > passed * (looked - passed):
                self._conditions = [other, *(one for one in self._conditions if one is not other)]
                break
        noted_of = [(met, bytes(noted[:looked])) for _, met, _, _, noted in rest if not met.is_wide]
        return noted_of if seen.is_wide else [(seen, bytes(numbers)), *noted_of]


def compiled(text: str) -> Selector:
    """The selector that a text is.  Raises SelectorError, its child TooMuch for one that the reference might take."""
    if len(text) > CHARACTERS_MAX:
        raise TooMuch(RUNTIME, f"a selector of {len(text)} characters; {CHARACTERS_MAX} at most")
    kept = _KEPT.get(text)
    if kept is None:
        try:
            kept = Selector(text)
        except SelectorError as wrong:
            kept = wrong.with_traceback(None)
    keep(text, kept)
    if isinstance(kept, SelectorError):
        raise type(kept)(kept.java_class, kept.message)
    return kept


def unread_characters(text: str) -> int:
    """How much `compiled` would have to read: 0 of a text that was met lately, or is refused unread."""
    return 0 if text in _KEPT or len(text) > CHARACTERS_MAX else len(text)


def keep(text: str, selector: Selector | SelectorError) -> None:
    """It is met again: the one that was not met for longest is forgotten."""
    _KEPT.pop(text, None)
    _KEPT[text] = selector
    if len(_KEPT) > KEPT:
        del _KEPT[next(iter(_KEPT))]


_KEPT: Final[dict[str, Selector | SelectorError]] = {}
