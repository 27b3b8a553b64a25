"""The mechanism of `tests.support.courses`: so many at once, and nothing stays that nobody needs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.support.courses import AT_ONCE, Courses, Place, plays

LIMIT_S = 60


class Log:
    """What happened in courses."""

    def __init__(self) -> None:
        self.began = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.closed: list[str] = []


def held(place: Place, log: Log, name: str) -> str:
    place.kept.callback(log.closed.append, name)
    log.began.release()
    assert log.may_end.wait(LIMIT_S)
    return name


def broken(place: Place, log: Log) -> None:
    place.kept.callback(log.closed.append, "broken")
    raise OSError("no port")


@pytest.fixture
def courses(tmp_path: Path) -> Courses:
    numbers = itertools.count()
    return Courses(lambda name: tmp_path / f"{name}{next(numbers)}")


def started(courses: Courses, play: Callable[..., Any], *args: Any, tests: int = 1) -> tuple[Future[Any], pytest.Mark]:
    mark = plays(play, *args, seconds=1).mark
    for _ in range(tests):
        courses.plan(mark)
    return courses.start(mark), mark


def test_so_many_run_at_once(courses: Courses) -> None:
    log = Log()
    futures = [started(courses, held, log, f"course {number}")[0] for number in range(AT_ONCE + 1)]
    for _ in range(AT_ONCE):
        assert log.began.acquire(timeout=LIMIT_S)
    assert [future.running() for future in futures] == [*[True] * AT_ONCE, False]
    log.may_end.set()
    assert [future.result(LIMIT_S) for future in futures] == [f"course {number}" for number in range(AT_ONCE + 1)]


def test_what_is_kept_ends_after_the_last_test(courses: Courses) -> None:
    log = Log()
    log.may_end.set()
    future, mark = started(courses, held, log, "kept", tests=2)
    assert courses.start(mark) is future
    assert future.result(LIMIT_S) == "kept"
    courses.judged(mark)
    assert log.closed == []
    courses.judged(mark)
    assert log.closed == ["kept"]


def test_a_failure_is_that_of_each_test_and_keeps_nothing(courses: Courses) -> None:
    log = Log()
    future, _ = started(courses, broken, log, tests=2)
    for _ in range(2):
        with pytest.raises(OSError, match="no port"):
            future.result(LIMIT_S)
    assert log.closed == ["broken"]


def test_what_has_not_begun_when_the_run_ends_does_not_begin(courses: Courses) -> None:
    log = Log()
    futures = [started(courses, held, log, f"course {number}")[0] for number in range(AT_ONCE + 1)]
    for _ in range(AT_ONCE):
        assert log.began.acquire(timeout=LIMIT_S)
    courses.end()
    log.may_end.set()
    assert [future.cancelled() for future in futures] == [*[False] * AT_ONCE, True]


def test_what_leaves_servers_starts_when_only_tests_of_courses_are_left(courses: Courses) -> None:
    log = Log()
    log.may_end.set()
    for stays in (True, False):
        courses.plan(plays(held, log, f"stays: {stays}", seconds=1, stays=stays).mark)
    assert len(courses._running) == 1
    courses.start_what_stays()
    assert len(courses._running) == 2
