"""Loops name what fails in them; a bug that was planted is found by the errors that were named, and not by its own."""

from __future__ import annotations

import pytest

from tests.support.loops import each
from tests.support.planting import find, find_by_seed


class Code:
    def half(self, number: int, *, up: bool = False) -> int:
        return (number + up) // 2


def check() -> None:
    assert Code().half(5) == 2


def forgiving() -> None:
    """As a server does: what a handler raises becomes an answer."""
    try:
        found = Code().half(5)
    except Exception:
        found = -1
    assert found == 2


def wrong(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Code, "half", lambda self, number, *, up=False: number)


def harmless(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Code, "half", lambda self, number, *, up=False: 2)


def of_other_parameters(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Code, "half", lambda self, number: number)


def of_another_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Code, "third", lambda self, number: number)


def of_another_attribute(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Code, "half", lambda self, number, *, up=False: self.number)


def test_a_bug_is_found_by_what_was_named() -> None:
    find(wrong, check)
    find(wrong, forgiving)
    assert find_by_seed(wrong, lambda seed: check() if seed == 3 else None, range(5)) == 3
    check()


def test_a_bug_that_nobody_finds_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        find(harmless, check)
    with pytest.raises(pytest.fail.Exception, match=r"harmless survived range\(0, 5\)"):
        find_by_seed(harmless, lambda _: check(), range(5))
    with pytest.raises(AssertionError, match="assert"):
        find(wrong, check, by=OSError)


@pytest.mark.parametrize("stale", [of_other_parameters, of_another_name, of_another_attribute], ids=lambda plant: plant.__name__)
@pytest.mark.parametrize("checked", [check, forgiving], ids=lambda one: one.__name__)
def test_a_stale_plant_fails(stale: object, checked: object) -> None:
    with pytest.raises((AssertionError, AttributeError), match=r"stale|has no attribute"):
        find(stale, checked)  # type: ignore[arg-type]
    check()


def test_a_loop_looks_at_all_and_names_what_fails() -> None:
    def odd(number: int) -> None:
        assert number % 2, f"{number} is even"

    each((1, 3), odd)
    with pytest.raises(ExceptionGroup, match="2 of 4 do not hold: 2, 4") as caught:
        each((1, 2, 3, 4), odd)
    assert [str(one).partition("\n")[0] for one in caught.value.exceptions] == ["2 is even", "4 is even"]
    with pytest.raises(AssertionError, match="nothing"):
        each((), odd)
