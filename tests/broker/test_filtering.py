"""Tag expressions as FilterAPI reads them."""

from __future__ import annotations

import pytest

from broker_impl.filtering import EVERYTHING, EXPRESSION_CHARACTERS_MAX, Unreadable, Wanted, low_half, of_subscription, parse
from rmq_wire.bodies.heartbeat import SubscriptionData
from rmq_wire.java import string_hash


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
        ("a > 1", "SQL92", Wanted(None, "SQL92")),
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


def test_only_the_low_half_of_a_tag_code_counts() -> None:
    assert low_half(-1) == low_half(0xFFFF_FFFF) == -1
    assert low_half((7 << 32) + 5) == 5
