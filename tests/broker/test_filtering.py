"""Expressions over tags as FilterAPI reads them, and over properties."""

from __future__ import annotations

import pytest

from broker_impl.filtering import (
    EVERYTHING,
    EXPRESSION_CHARACTERS_MAX,
    ROWS_MAX,
    SEARCHES_MAX,
    STEPS_MAX,
    Unreadable,
    Wanted,
    low_half,
    of_subscription,
    parse,
    property_filter,
)
from rmq_wire.bodies.heartbeat import SubscriptionData
from rmq_wire.java import string_hash
from rmq_wire.sql92.selector import CHARACTERS_MAX


def codes(*tags: str) -> Wanted:
    return Wanted(frozenset(map(string_hash, tags)))


@pytest.mark.parametrize(
    ("expression", "kind", "wanted"),
    [
        (None, None, EVERYTHING),
        ("", "TAG", EVERYTHING),
        ("*", "TAG", EVERYTHING),
        ("A", None, codes("A")),
        ("A||B", "TAG", codes("A", "B")),
        (" A || B\t||", "TAG", codes("A", "B")),
        ("||A", "TAG", codes("A")),
        ("A|||B", "TAG", codes("A", "|B")),
        (" ", "TAG", codes()),
        ("|| ||", "TAG", codes()),
        ("* || A", "TAG", codes("*", "A")),
        ("A|B", "TAG", codes("A|B")),
        ("é", "TAG", codes("é")),
        ("*", "", EVERYTHING),
        ("A", "", codes()),
    ],
)
def test_parse(expression: str | None, kind: str | None, wanted: Wanted) -> None:
    assert parse(expression, kind) == wanted


@pytest.mark.parametrize(
    ("expression", "kind"),
    [("||", "TAG"), ("||||", None), (None, "SQL92"), ("", ""), ("x" * (EXPRESSION_CHARACTERS_MAX + 1), "TAG")],
)
def test_what_cannot_be_read(expression: str | None, kind: str | None) -> None:
    with pytest.raises(Unreadable):
        parse(expression, kind)


def test_subscriptions() -> None:
    assert of_subscription(SubscriptionData(sub_string="*", code_set=[1])) == EVERYTHING
    assert of_subscription(SubscriptionData(sub_string="A", code_set=[65])) == codes("A")
    assert of_subscription(SubscriptionData(sub_string="x", class_filter_mode=True)) == EVERYTHING
    assert of_subscription(SubscriptionData(sub_string="a > 1", expression_type="SQL92")).expression_type == "SQL92"


def test_expressions_over_properties() -> None:
    wanted = parse("a > 1", "SQL92")
    assert (wanted.codes, wanted.expression_type) == (None, "SQL92")
    assert wanted.matches is not None
    assert wanted.matches.rows_max == ROWS_MAX
    for text, kind in (("a > 1", "LUA"), ("a = = 1", "SQL92")):
        assert parse(text, kind) == Wanted(None, kind), "everything, as in Java"


def test_a_long_selector_is_asked_about_fewer_units() -> None:
    long = property_filter(" OR ".join(["a = 1"] * 400), "SQL92")
    assert 1 <= long.rows_max * long.selector.steps <= STEPS_MAX
    wide = property_filter(" OR ".join(f"a{number} = 1" for number in range(40)), "SQL92")
    assert wide.units_max * len(wide.selector.names) == SEARCHES_MAX
    with pytest.raises(Unreadable):
        parse("x" * (CHARACTERS_MAX + 1), "SQL92")


def test_only_the_low_half_of_a_tag_code_counts() -> None:
    assert low_half(-1) == low_half(0xFFFF_FFFF) == -1
    assert low_half((7 << 32) + 5) == 5


def test_what_a_filter_remembers_is_of_the_topic_that_is_read() -> None:
    one, other = property_filter("only_here = 1", "SQL92"), property_filter("only_here > 0", "SQL92")
    seen = []
    for topic in ("A", "B", "A"):
        for matches in (one, other):
            matches.begin(topic)
            [(values, _)] = matches.value_verdicts()
            seen.append(values)
    assert seen[0] is seen[1] is seen[4] is seen[5]
    assert seen[2] is seen[3] is not seen[0]
