"""Property strings as the reference parses, completes and stores them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire import properties
from rmq_wire import property_names as prop
from rmq_wire.java import iteration_order
from rmq_wire.properties import PLANS_MAX, Rewriter, decode, delete, encode, encode_java, find, java_order
from tests.support.given import GOLDEN, NAME, PAIRS, TEXT

KEY = "7F000001000018B4AAC2000102030405"


def rewriter() -> Rewriter:
    return Rewriter(cluster="DefaultCluster", region="DefaultRegion", trace_on=True)


def no_key() -> str:
    raise AssertionError("a unique key was there")


@pytest.mark.parametrize("at", range(len(GOLDEN["stored_properties"])))
def test_stored_as_java_stores_them(at: int) -> None:
    sent, stored = GOLDEN["stored_properties"][at]
    rewrite = rewriter().rewrite
    for _ in range(2):  # the slow path first, then the plan that it left behind
        encoded, values = rewrite(sent, lambda: KEY)
        assert encoded.decode() == stored
        assert values == decode(stored)


ODD_TEXT = st.text(st.sampled_from("\x01\x02ab%é"), max_size=30)


@given(st.lists(PAIRS.map(encode) | ODD_TEXT, min_size=1, max_size=6))
def test_plans_store_what_the_slow_path_stores(sent: list[str]) -> None:
    quick = rewriter()
    for text in [*sent, *sent]:
        slow = rewriter()._slowly(text, lambda: KEY)
        fast = quick.rewrite(text, lambda: KEY)
        assert fast[0] == slow[0]
        assert fast[1] == slow[1]


def test_a_plan_meets_a_string_that_only_looks_alike() -> None:
    rewrite = rewriter().rewrite
    assert rewrite("a\x011\x02b\x012\x02", lambda: KEY)[1]["b"] == "2"
    assert "b" not in rewrite("a\x011\x02b\x01\x02", lambda: KEY)[1]
    assert rewrite("a\x011\x02b\x012\x013\x02", lambda: KEY)[1]["b"] == "2\x013"
    assert rewrite("a\x011\x02b\x012", lambda: KEY)[1]["b"] == "2"


def test_what_a_broker_adds_and_drops() -> None:
    encoded, values = rewriter().rewrite(f"UNIQ_KEY\x01{KEY}\x02POP_CK\x011 2\x02CLUSTER\x01x\x02", no_key)
    assert values == {
        prop.UNIQ_KEY: KEY,
        prop.CLUSTER: "DefaultCluster",
        prop.MSG_REGION: "DefaultRegion",
        prop.TRACE_ON: "true",
    }
    assert decode(encoded.decode()) == values
    assert rewriter().rewrite(None, lambda: KEY)[1][prop.UNIQ_KEY] == KEY


def test_new_names_for_ever_do_not_fill_memory() -> None:
    quick = rewriter()
    for at in range(2 * PLANS_MAX + 10):
        quick.rewrite(f"name{at}\x01v\x02UNIQ_KEY\x01{KEY}\x02", no_key)
        assert len(quick._plans) <= PLANS_MAX
    for text in (encode({f"{at}": "v" for at in range(33)}), f"{'x' * 1025}\x01v\x02"):
        before = len(quick._plans)
        quick.rewrite(text, lambda: KEY)
        assert len(quick._plans) == before


def test_hopelessly_long_strings_are_left_to_the_store() -> None:
    text = encode({f"n{at}": "v" for at in range(100_000)})
    encoded, values = rewriter().rewrite(text, lambda: KEY)
    assert encoded == text.encode()
    assert values == decode(rewriter().rewrite("", lambda: KEY)[0].decode())
    long = encode({"a": "x" * 40_000})
    assert len(rewriter().rewrite(long, lambda: KEY)[0]) > properties.ENCODED_BYTES_MAX


def test_colliding_and_countless_names() -> None:
    colliding = {"".join("Aa" if at >> bit & 1 else "BB" for bit in range(3)): "v" for at in range(8)}
    assert list(java_order(colliding)) == list(colliding)
    many = {f"n{at}": "v" for at in range(8000)}
    assert decode(encode_java(many).decode()) == many
    assert list(java_order(many)) == list(many)


@given(PAIRS)
def test_texts_survive(pairs: dict[str, str]) -> None:
    assert decode(encode(pairs)) == pairs
    assert decode(encode(pairs)[:-1]) == pairs
    assert encode_java(pairs).decode() == encode(java_order(pairs))
    assert list(java_order(pairs, 16)) == iteration_order(pairs, 16)


@given(PAIRS, PAIRS)
def test_the_last_of_two_values_wins(first: dict[str, str], second: dict[str, str]) -> None:
    assert decode(encode(first) + encode(second)) == {**first, **second}


@given(PAIRS, NAME)
def test_deleting_and_finding(pairs: dict[str, str], name: str) -> None:
    text = encode(pairs)
    for wanted in [*pairs, name]:
        assert decode(delete(text, wanted)) == {key: value for key, value in pairs.items() if key != wanted}
        value = find(text.encode(), wanted.encode())
        assert (None if value is None else value.decode()) == pairs.get(wanted)


def test_found_as_decoded() -> None:
    assert find(b"a\x011\x02a\x012\x02a\x013\x02", b"a") == b"3"
    assert find(b"xa\x011\x02b\x01\x02", b"a") is None
    assert find(b"xa\x011\x02b\x01\x02", b"b") is None


@pytest.mark.parametrize(("text", "left"), GOLDEN["deleted_property"])
def test_deleted_as_java_deletes(text: str, left: str) -> None:
    assert delete(text, prop.POP_CK) == left


def test_reserved_names_are_javas() -> None:
    assert sorted(prop.RESERVED) == GOLDEN["sets"]["reserved_properties"]


@given(TEXT)
def test_any_text_is_stored(text: str) -> None:
    encoded, values = rewriter().rewrite(text, lambda: KEY)
    assert decode(encoded.decode()) == values
