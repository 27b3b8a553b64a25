"""A selector asked about many stored units at once says what it says of each one alone, whatever the units are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire.errors import BadRecord
from rmq_wire.layout.message import FIXED, HEAD_FLAT
from rmq_wire.message import pack_unit, stored_properties
from rmq_wire.properties import encode
from rmq_wire.property_values import NARROW_MAX, VALUES_MAX, WINDOW_VALUE_MAX
from rmq_wire.sql92.conditions import KNOWN_MAX
from rmq_wire.sql92.selector import TOPICS_MAX, Selector
from rmq_wire.unit_tails import SIZES_MAX, TAILS
from tests.support import selectors

TEXTS = (
    *("a = 1", "a > 5", "a IS NULL", "ab = 'x' AND a = '1'", "a = '1' AND b IS NULL", "a > 5 OR b = 'x'", "NOT (a = 1)"),
    *("b = 'x' AND (a BETWEEN 1 AND 7 AND ab IS NOT NULL)", "TRUE", "a = b", "a = '1' AND (b = 'x' OR ab = 'x')", "ba <> 'x'"),
)
BASE = 1 << 30


def unit(
    properties: bytes,
    body: bytes = b"",
    topic: bytes = b"T",
    *,
    hosts: tuple[bytes, bytes] = (bytes(8), bytes(8)),
    flags: int = 0,
) -> bytes:
    numbers = (0, 0, 7, 1 << 40, flags, 1)
    return pack_unit(*numbers, hosts[0], 2, hosts[1], 0, 0, body, topic, properties)


def selected(selector: Selector, units: Sequence[bytes], gap: bytes = b"") -> tuple[list[int], bool]:
    """Numbers of the units, and whether one could not be read.  They lie behind `gap` and one after the other."""
    positions, log = list[int](), gap
    for one in units:
        positions.append(BASE + len(log))
        log += one
    numbers = {position: number for number, position in enumerate(positions)}
    found = list[tuple[int, int]]()
    failed = False
    try:
        selector.add_selected(memoryview(log), BASE, positions, list(map(len, units)), found, len(units) + 1)
    except BadRecord:
        failed = True
    assert all(size == len(units[numbers[position]]) for position, size in found)
    return [numbers[position] for position, _ in found], failed


def alone(text: str, units: Sequence[bytes]) -> tuple[list[int], bool]:
    """The same, one by one, by a selector that has met nothing before."""
    found = list[int]()
    for number, one in enumerate(units):
        try:
            if Selector(text).matches_stored(stored_properties(memoryview(one))):
                found.append(number)
        except BadRecord:
            return found, True
    return found, False


names = st.sampled_from([b"a", b"b", b"ab", b"ba", b"", b"aa", b"KEYS"])
values = st.sampled_from([b"1", b"7", b"x", b"", b"a\x01", b"12", b"y" * WINDOW_VALUE_MAX, b"z" * 99, b"\xff", b"b\x01x", b" 1"])
pairs = st.tuples(
    names, st.sampled_from([b"\x01", b"\x01", b"\x01", b"", b"\x01\x01"]), values, st.sampled_from([b"\x02", b"\x02", b""])
)
stored = st.lists(pairs, max_size=6).map(lambda found: b"".join(b"".join(pair) for pair in found))
fakes = stored.map(lambda properties: b"\x01T" + len(properties).to_bytes(2, "big") + properties)
"""What a body says that would like to be a topic and properties."""
bodies = st.one_of(st.sampled_from([b"", b"x", b"xy", b"\x02a\x011\x02"]), fakes, stored)
topics = st.sampled_from([b"T", b"ab", b"a", b"", b"b" * 127, b"b" * 128, b"b" * 300, b"\x02a\x017\x02"])
widths = st.sampled_from([(0, 8, 8), (1, 8, 8), (0x10, 20, 8), (0x20, 8, 20), (0x30, 20, 20), (0x50, 20, 8), (0x80, 8, 8)])
good = st.builds(
    lambda properties, body, topic, width: unit(
        properties, body, topic, hosts=(b"\x02" * width[1], b"a" * width[2]), flags=width[0]
    ),
    stored,
    bodies,
    topics,
    st.just((0, 8, 8)) | widths,
)


@st.composite
def torn(draw: st.DrawFn) -> bytes:
    """A unit of which bytes were written over, or which ends too early or too late."""
    made = bytearray(draw(good))
    places = [HEAD_FLAT.at["magic"], HEAD_FLAT.at["sys_flag"], FIXED[0].at["body_size"], FIXED[0].size]
    for at in draw(st.lists(st.sampled_from(places).flatmap(lambda place: st.integers(place, place + 4)), max_size=3)):
        if at < len(made):
            made[at] = draw(st.integers(0, 255))
    return bytes(made[: draw(st.integers(1, len(made)))] if draw(st.booleans()) else made + draw(stored))


@given(st.lists(good, min_size=1, max_size=12), st.sampled_from(TEXTS), st.binary(max_size=3))
def test_any_units(units: list[bytes], text: str, gap: bytes) -> None:
    TAILS.clear()
    selector = Selector(text)
    expected = alone(text, units)
    for _ in range(3):  # what was learned, and the order of conditions that follows from it, change nothing
        assert selected(selector, units, gap) == expected
        assert selected(selector, units[::-1], gap) == alone(text, units[::-1])


@given(st.lists(good | torn(), min_size=1, max_size=12), st.sampled_from(TEXTS))
def test_units_that_are_none(units: list[bytes], text: str) -> None:
    """What cannot be read stops it where it stopped before; what can be read, somehow, is read in the same way."""
    selector = Selector(text)
    for _ in range(2):
        assert selected(selector, units) == alone(text, units)


@given(selectors.selectors, st.lists(selectors.properties, min_size=1, max_size=8))
def test_any_selector(text: str, messages: list[dict[str, str]]) -> None:
    try:
        selector = Selector(text)
    except ValueError:
        return
    units = [unit(encode(properties).encode("utf-8", "replace")) for properties in messages]
    for _ in range(2):
        assert selected(selector, units) == alone(text, units)


def test_only_what_and_joins_may_be_asked_one_by_one() -> None:
    units = [unit(b"a\x017\x02"), unit(b"b\x01x\x02"), unit(b"a\x017\x02b\x01x\x02"), unit(b"c\x011\x02")]
    for text, numbers in (
        ("a = '7' OR b = 'x'", [0, 1, 2]),
        ("a = '7' AND b = 'x'", [2]),
        ("(a = '7' OR c = '1') AND (b = 'x' OR c = '1')", [2, 3]),
        ("NOT (a = '7' AND b = 'x') AND c = '1'", []),
        ("c = '1' OR (a = '7' AND b = 'x')", [2, 3]),
    ):
        selector = Selector(text)
        for _ in range(2):
            assert selected(selector, units) == (numbers, False), text


def test_bodies_and_topics_cannot_lie() -> None:
    """Neither what looks like a property elsewhere, nor what looks like topic and properties further to the front."""
    lie = b"\x02a\x011\x02"
    units = [
        unit(b"b\x01x\x02", lie),
        unit(b"b\x01x\x02", b"\x01T\x00\x06" + lie),
        unit(b"b\x01x\x02", b"", lie),
        unit(b"b\x01x\x02", b"", lie + b"x" * 200),
        unit(b"b\x01" + lie),
        unit(
            b"b" + b"\x01" + b"y" * 254 + b"\x02", b"", b"a"
        ),  # length and name of the topic, and of the properties: the mark of `a`
    ]
    for text in ("a = '1'", "a IS NULL", "b = 'x' AND a = '1'"):
        selector = Selector(text)
        for _ in range(2):
            assert selected(selector, units) == alone(text, units)
    assert selected(Selector("a = '1'"), units) == ([4], False)


def test_a_longer_value_is_another_one() -> None:
    for name in (b"longer", b"b\x01x\x02longest"):
        texts = [b"1234567"[:size] for size in range(1, 8)]
        selector = Selector(name.rpartition(b"\x02")[2].decode() + " = '12'")
        units = [unit(b"%s\x01%s\x02" % (name, text)) for text in texts]
        for _ in range(2):
            assert selected(selector, units) == ([1], False)


@pytest.mark.parametrize("length", [0xFF, 0xFD, 0x80])
def test_a_topic_of_a_negative_length(length: int) -> None:
    """What follows from it, follows."""
    torn_unit = bytearray(unit(b"b\x01x\x02a\x011\x02bb\x01yyyyyyyyyyyyyyyyyyyyyyy\x02", b"x" * 200))
    torn_unit[FIXED[0].size + 200] = length
    units = [bytes(torn_unit)] * 3
    for text in ("a = '1'", "a IS NULL"):
        assert selected(Selector(text), units) == alone(text, units)
    assert alone("a = '1'", units) == ([0, 1, 2], False)


@pytest.mark.parametrize(
    ("properties", "matches"),
    [
        (b"a\x011\x02", True),
        (b"a\x011", True),
        (b"b\x01x\x02a\x011", True),
        (b"a\x012\x02a\x011\x02", True),
        (b"a\x011\x02a\x012\x02", False),
        (b"a\x011\x02a\x01\x02", True),
        (b"a\x011\x02b\x01\x02a\x01", True),
        (b"a\x01\x02", False),
        (b"aa\x011\x02", False),
        (b"b\x01a\x011\x02", False),
        (b"", False),
    ],
)
def test_which_value_counts(properties: bytes, matches: bool) -> None:
    """The last one that is not empty; a pair may lack its end, where the properties end."""
    selector = Selector("a = '1'")
    many = [unit(properties), unit(b"a\x01123456\x02"), unit(properties), unit(b"b\x01x\x02" + properties)]
    for _ in range(2):
        expected = [0, 2, 3] if matches else []
        assert selected(selector, many) == (expected, False)


@pytest.mark.parametrize(("text", "wanted"), [("a = b", [0]), ("c IS NULL AND a = b", [0]), ("a IS NULL", [0]), ("a = '1'", [])])
def test_a_topic_that_leads_out_of_the_unit(text: str, wanted: list[int]) -> None:
    """Behind it there are no properties, whether a condition asks for one or for several; two that are null are equal."""
    broken = bytearray(unit(b"a\x011\x02b\x011\x02", topic=b"T"))
    broken[FIXED[0].size] = 127
    assert selected(Selector(text), [bytes(broken)])[0] == wanted


@pytest.mark.parametrize("text", ["a IS NULL", "a = '1'", "b = 'x' AND a IS NULL", "b = 'x' AND (a = '1' OR a IS NULL)"])
def test_a_property_that_few_have(text: str) -> None:
    """Wherever it stands, also as the first one, and when the first message that is looked at does not have it."""
    stored = [
        b"b\x01x\x02",
        b"a\x011\x02b\x01x\x02",
        b"b\x01x\x02a\x011\x02",
        b"ba\x011\x02b\x01x\x02",
        b"a\x01\x02b\x01x\x02",
        b"",
    ]
    units = [unit(properties) for properties in stored]
    selector = Selector(text)
    for _ in range(2):
        assert selected(selector, units) == alone(text, units)


def test_what_selects_most_is_asked_last() -> None:
    selector = Selector("b = 'x' AND a = '1'")
    units = [unit(b"b\x01x\x02a\x01%d\x02" % number) for number in range(10)]
    for _ in range(3):
        assert selected(selector, units) == ([1], False)
        assert [condition.names for condition in selector._conditions] == [("a",), ("b",)]


def test_each_is_looked_at_in_its_turn() -> None:
    """One that cannot be read does no harm to those before it, nor to who does not go so far."""
    selector, units = Selector("a = '1'"), [unit(b"a\x011\x02"), b"short", unit(b"a\x011\x02")]
    log = memoryview(b"".join(units))
    positions = [0, len(units[0]), len(units[0]) + 5]
    found = list[tuple[int, int]]()
    selector.add_selected(log, 0, positions, list(map(len, units)), found, 1)
    assert found == [(0, len(units[0]))]
    with pytest.raises(BadRecord):
        selector.add_selected(log, 0, positions, list(map(len, units)), found, 3)
    assert len(found) == 2


@pytest.mark.parametrize("make", [lambda n: b"x" * n, lambda n: b"%d" % n], ids=["sizes", "values"])
def test_what_is_learned_has_a_limit(make: Callable[[int], bytes]) -> None:
    selector = Selector("a = '1' AND b IS NULL")
    most = max(SIZES_MAX, KNOWN_MAX)
    for number in range(0, 2 * most, 50):
        units = [unit(b"a\x01%d\x02" % (number + more), make(number + more)) for more in range(50)]
        assert selected(selector, units) == ([1 - number] if number <= 1 < number + 50 else [], False)
        assert len(TAILS) <= SIZES_MAX
        assert all(len(condition.seen.windows) <= VALUES_MAX + 1 for condition in selector._conditions)
    assert selector.evaluated_stored() >= 2 * most


@pytest.mark.parametrize("value", ["v0", "v1"])
@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_numbers_that_begin_anew_in_the_middle(value: str, order: tuple[str, str]) -> None:
    """With one value too many, all are numbered anew: what was said of a number is not said of the next value that gets it."""
    units = [unit(b"a\x011\x02b\x01v%d\x02" % number) for number in range(2 * VALUES_MAX + 8)]
    for text in ("a = '1' AND b <> '{}'", "a = '1' AND b = '{}'"):
        text = " AND ".join(text.format(value).split(" AND ")[:: 1 if order == ("a", "b") else -1])
        selector = Selector(text)
        for _ in range(2):
            assert selected(selector, units) == alone(text, units), text


def test_windows_of_values_that_grow_have_a_limit() -> None:
    """Each value that is longer than all before makes windows of another width."""
    selector = Selector("grown = '7'")
    for size in range(1, WINDOW_VALUE_MAX + 1):
        values = (b"y" * size, *(b"%d" % number for number in range(16)))
        units = [unit(b"b\x01x\x02grown\x01%s\x02c\x01%s\x02" % (value, b"x" * WINDOW_VALUE_MAX)) for value in values]
        assert selected(selector, units) == ([8], False)
        assert len(selector.seen.windows) <= VALUES_MAX + 1


def test_one_topic_with_too_many_values_leaves_others_theirs() -> None:
    selector = Selector("spread = '7' AND few = '1'")
    wide, narrow = selector.of_topic("Wide"), selector.of_topic("Narrow")
    assert selector.of_topic("Wide") is wide
    units = [unit(b"spread\x01%d\x02few\x01%d\x02" % (number, number % 2)) for number in range(NARROW_MAX + 5)]
    few = units[19::-1]
    for _ in range(2):
        assert selected(wide, units) == ([7], False)
        assert selected(narrow, few) == ([12], False)
    assert wide.value_verdicts() == ()
    assert [len(by_number) for _, by_number in narrow.value_verdicts()] == [NARROW_MAX + 1] * 2
    evaluated = narrow.evaluated_stored()
    assert selected(narrow, few) == ([12], False)
    assert narrow.evaluated_stored() == evaluated
    for number in range(3 * TOPICS_MAX):
        selector.of_topic(str(number))
    assert len(selector._of_topics) <= TOPICS_MAX


def test_a_long_name_is_not_kept_with_each_answer() -> None:
    """Of the 16,384 characters of a selector one name may be nearly all."""
    name = b"n" * 16_000
    for text in ("%s = '1'", "%s = '1' AND unmet IS NULL"):
        selector = Selector(text % name.decode())
        units = [unit(name + b"\x01%d\x02" % number) for number in range(100)]
        assert selected(selector, units) == ([1], False)
        kept = sum(len(window) for condition in (selector, *selector._conditions) for window in condition.seen.windows)
        assert kept < 1_000


def test_what_is_known_costs_no_evaluation() -> None:
    selector = Selector("a > 5 AND b = 'x'")
    units = [unit(b"b\x01x\x02a\x01%d\x02" % (number % 10), b"body%d" % number) for number in range(100)]
    first = selected(selector, units)
    evaluated = selector.evaluated_stored()
    assert evaluated == 11
    assert selected(selector, units) == first == ([number for number in range(100) if number % 10 > 5], False)
    assert selector.evaluated_stored() == evaluated
