"""The quick way of rewriting properties says what the general way says, or nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rmq_wire.properties import Rewriter
from rmq_wire.property_shapes import CANDIDATES_MAX, SHAPES_MAX, SIGHTINGS, Plain, Shapes

SPECIAL = frozenset({"DELAY", "TRAN_MSG"})


def shapes() -> Shapes:
    return Shapes(rewriter(), SPECIAL)


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
