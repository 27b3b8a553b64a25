"""Bugs that a test plants into the code, to show that some check finds them.

A check finds a bug by errors that the test names.  What was planted must fit the place that it takes, and must not fail itself:
a plant that has gone stale (other parameters, a name that is gone) fails the test, whatever the code makes of its error.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any

import pytest

STALE = (TypeError, AttributeError, NameError, ImportError)
"""What a plant raises by itself when the code round it has changed."""
FAILURES = (AssertionError, pytest.fail.Exception)
"""By which a check says no."""
Plant = Callable[[pytest.MonkeyPatch], None]
Errors = type[BaseException] | tuple[type[BaseException], ...]


class Planter:
    """As `pytest.MonkeyPatch`; what it puts somewhere is held against what was there, and watched."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.failed: list[BaseException] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._patch, name)

    def setattr(self, target: Any, name: Any, *value: Any, raising: bool = True) -> None:
        if isinstance(target, str):
            self._patch.setattr(target, self._watched(pkgutil.resolve_name(target), name) if raising else name, raising=raising)
            return
        is_shared = isinstance(target, type | ModuleType)
        there = inspect.getattr_static(target, name, None) if is_shared else getattr(target, name, None)
        self._patch.setattr(target, name, *(self._watched(there, one) for one in value), raising=raising)

    def watch(self, planted: type) -> None:
        """A class that has the bug, by what it does otherwise than the one that it is made of."""
        for name, value in list(vars(planted).items()):
            if isinstance(value, FunctionType):
                self._patch.setattr(planted, name, self._watched(getattr(planted.__base__, name, None), value))

    def _watched(self, there: Any, value: Any) -> Any:
        if isinstance(value, staticmethod):
            return staticmethod(self._watched(getattr(there, "__func__", there), value.__func__))
        if isinstance(value, property):
            return property(self._watched(getattr(there, "fget", None), value.fget))
        if not isinstance(value, FunctionType):
            return value
        if isinstance(there, FunctionType):
            check_fits(there, value)

        @wraps(value)
        def watched(*arguments: Any, **named: Any) -> Any:
            with self._noting(value):
                return value(*arguments, **named)

        @wraps(value)
        def watched_generator(*arguments: Any, **named: Any) -> Generator[Any, Any, Any]:
            with self._noting(value):
                return (yield from value(*arguments, **named))

        return watched_generator if inspect.isgeneratorfunction(value) else watched

    @contextmanager
    def _noting(self, value: FunctionType) -> Iterator[None]:
        try:
            yield
        except STALE as reason:
            if inspect.trace()[-1].filename == value.__code__.co_filename:
                self.failed.append(reason)
            raise


def check_fits(there: FunctionType, value: FunctionType) -> None:
    """Can it be called as what was there can?"""
    parameters = inspect.signature(there).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = {one.name: None for one in parameters if one.kind is one.KEYWORD_ONLY}
    rest = [None for one in parameters if one.name not in named and one.kind not in kinds]
    try:
        inspect.signature(value).bind(*rest, **named)
    except TypeError as reason:
        raise AssertionError(
            f"{value.__qualname__} is stale: {there.__qualname__}{inspect.signature(there)}: {reason}"
        ) from reason


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """The code has the bug here."""
    with pytest.MonkeyPatch.context() as patch:
        planter = Planter(patch)
        plant(planter)  # type: ignore[arg-type]
        yield
        assert not planter.failed, f"{plant.__name__} is stale: {planter.failed[0]!r}"


def find(plant: Plant, check: Callable[..., object], *arguments: object, by: Errors = FAILURES) -> None:
    """With the bug, the check must end in one of these errors."""
    with planted(plant), pytest.raises(by):
        check(*arguments)


def find_by_seed(plant: Plant, check: Callable[[int], object], seeds: Iterable[int], by: Errors = FAILURES) -> int:
    """With the bug, the check of one of these seeds must end in one of these errors: the first that does."""
    with planted(plant):
        for seed in seeds:
            try:
                check(seed)
            except by:
                return seed
    pytest.fail(f"{plant.__name__} survived {seeds}")
