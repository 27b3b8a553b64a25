"""The quick way of rewriting properties says what the general way says, or nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rmq_wire.properties import Rewriter, decode, encode_java
from rmq_wire.property_shapes import CANDIDATES_MAX, SHAPES_MAX, SIGHTINGS, Shapes

Plain = tuple[Any, ...]
SPECIAL = frozenset({"DELAY", "TRAN_MSG"})


def shapes() -> Shapes:
    return Shapes(lambda text: rewriter().rewrite(text, str)[0], SPECIAL)


def rewriter() -> Rewriter:
    return Rewriter(cluster="100%s", region="Region", trace_on=True)


def generally(text: str) -> Plain:
    encoded, values = rewriter().rewrite(text, lambda: "made")
    return encoded, values["UNIQ_KEY"], values.get("KEYS", ""), values.get("TAGS", ""), values.get("WAIT", "")


def joined(pairs: list[tuple[str, str]]) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs)


def learned(subject: Shapes, text: str) -> Plain | None:
    for _ in range(SIGHTINGS):
        assert subject.rewrite(text) is None
    return subject.rewrite(text)


NAMES = st.sampled_from(
    ["UNIQ_KEY", "KEYS", "TAGS", "WAIT", "POP_CK", "CLUSTER", "MSG_REGION", "DELAY", "a", "b%s", "a.c*", "é", ""]
)
VALUES = st.text(st.sampled_from("xy %()é\n\r\0\x01\x02"), max_size=4)
STRINGS = st.one_of(
    st.lists(st.tuples(NAMES, VALUES), max_size=8, unique_by=lambda pair: pair[0]).map(joined),
    st.text(st.sampled_from("ab\x01\x02"), max_size=12).map(lambda tail: "UNIQ_KEY\x01u\x02" + tail),
)


@given(STRINGS, STRINGS)
def test_equal_or_nothing(first: str, second: str) -> None:
    subject = shapes()
    for text in (first, second, first + second):
        for _ in range(SIGHTINGS + 1):
            quick = subject.rewrite(text)
            assert quick is None or quick == generally(text)


def test_an_ordinary_producer_is_served() -> None:
    subject = shapes()
    for keys in ("k1 k2", "other"):
        text = joined([("KEYS", keys), ("UNIQ_KEY", "u" * 32), ("WAIT", "true"), ("é", "100 %s"), ("MSG_REGION", "theirs")])
        found = learned(subject, text) if keys == "k1 k2" else subject.rewrite(text)
        assert found == generally(text)
        assert found is not None
        assert found[1:] == ("u" * 32, keys, "", "true")


def test_what_is_not_for_here() -> None:
    unique = ("UNIQ_KEY", "u")
    for text in (
        joined([unique, ("DELAY", "1")]),
        joined([unique, ("a", "1"), ("a", "2")]),
        joined([("a", "1")]),
        joined([unique, ("\ue0001\ue001", "1")]),
        joined([unique])[:-1],
        joined([unique, ("a", "")]),
        "",
    ):
        assert learned(shapes(), text) is None
    assert shapes().rewrite(None) is None


def test_values_may_not_carry_separators() -> None:
    subject = shapes()
    assert learned(subject, joined([("UNIQ_KEY", "u"), ("a", "1")])) is not None
    assert subject.rewrite("UNIQ_KEY\x01u\x01a\x011\x02") is None
    assert subject.rewrite("UNIQ_KEY\x01u\x02a\x011\x01\x02") is None
    assert subject.rewrite("UNIQ_KEY\x01u\x02a\x011\x02\n") is None


def test_memory_is_bounded() -> None:
    subject = shapes()
    for number in range(SHAPES_MAX + 3):
        assert learned(subject, joined([("UNIQ_KEY", "u"), (f"n{number}", "v")])) is not None
    for number in range(3 * CANDIDATES_MAX):
        subject.rewrite(joined([("UNIQ_KEY", "u"), (f"m{number}", "v")]))
    assert len(subject._shapes) == SHAPES_MAX
    assert len(subject._sighted) <= CANDIDATES_MAX


def noted(text: str, *times: str) -> bytes:
    """As a timer does it: values of its own, one of them in the place of the old one."""
    return encode_java({**decode(text), **dict(zip(("FROM", "a"), times, strict=True))})


@given(STRINGS, STRINGS, st.lists(st.sampled_from(["1", "17", "100%s", "\\1"]), min_size=2, max_size=2))
def test_added_values_and_strings_that_stay_as_they_are(first: str, second: str, times: list[str]) -> None:
    kept = Shapes(lambda text: encode_java(decode(text)), SPECIAL)
    adding = Shapes(noted, SPECIAL, added=2)
    for text in (first, second, first + second):
        for added in [("0", "1")] * (SIGHTINGS + 1) + [(times[0], times[1]), ("2", "3")]:
            quick, general = adding.rewrite(text, added), decode(text)
            if quick is not None:
                picked = [general.get(name, "") for name in ("UNIQ_KEY", "KEYS", "TAGS", "WAIT")]
                assert quick == (noted(text, *added), *picked)
            same = kept.rewrite(text)
            assert same is None or same[0] == encode_java(general)


def test_a_string_in_its_order_is_stored_as_it_is() -> None:
    subject = Shapes(lambda text: encode_java(decode(text)), SPECIAL)
    text = encode_java({"UNIQ_KEY": "u", "TAGS": "t", "é": "%s", "a": "1"}).decode()
    assert learned(subject, text) == (text.encode(), "u", "", "t", "")
    assert subject._shapes[0].form is None
