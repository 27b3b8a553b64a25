"""Courses: what waits long for a real broker, played beside the other tests and judged after them (a plugin of pytest).

A course is a function of a `Place`; it checks what it can on its way and returns what is left to judge:

    @plays(stop_and_look, seconds=30)
    def test_a_stop_keeps_everything(course: Future[Seen]) -> None:
        assert course.result() ...

The courses of all collected tests start when the run does, the longest first, `AT_ONCE` at a time.  Their tests come last.  What
leaves servers to its tests starts when only tests of courses are left.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import pytest

from tests.support.clients import JavaDriver
from tests.support.java import REFERENCE
from tests.support.reference import JavaNameServer

T = TypeVar("T")
S = TypeVar("S", JavaNameServer, JavaDriver)
Shared = tuple[type[JavaNameServer] | type[JavaDriver], str]
"""What courses share, and its version."""
AT_ONCE: Final = 3


class Place(NamedTuple):
    """Where a course plays."""

    directory: Path
    kept: contextlib.ExitStack
    """What has to live until the last of its tests has ended; closed at once when the course fails."""
    name_server: Callable[[], str]
    """The address of the Java name server that all courses share: each broker there has a name of its own."""
    tools: Callable[..., JavaDriver]
    """Stock clients and mqadmin, which all courses share; of the reference, or of the version that is named."""


Play = Callable[..., T]


def plays(play: Play[T], *args: Hashable, seconds: int, stays: bool = False) -> pytest.MarkDecorator:
    """Marks a test, or all of a module: it judges `play(place, *args)`, which takes so long when it is alone.

    What `stays` leaves servers to its tests: it is played after the others, when only tests of courses are left, since a Java
    broker that waits to be asked takes a sixteenth of a core.
    """
    return pytest.mark.course.with_args(play, *args, seconds=seconds, stays=stays)


class Running(NamedTuple):
    place: Place
    future: Future[Any]


class Courses:
    """All courses of a run, by what is played."""

    def __init__(self, make_directory: Callable[[str], Path]) -> None:
        self.tests_left: Counter[Hashable] = Counter()
        self._staying: list[pytest.Mark] = []
        self._make_directory = make_directory
        self._running: dict[Hashable, Running] = {}
        self._waiting: queue.SimpleQueue[tuple[Running, Callable[[], Any]]] = queue.SimpleQueue()
        self._shared: dict[Shared, JavaNameServer | JavaDriver] = {}
        self._sharing = threading.Lock()

    def plan(self, mark: pytest.Mark) -> None:
        """A test of this course will come."""
        self.tests_left[key_of(mark)] += 1
        if mark.kwargs["stays"]:
            self._staying.append(mark)
        else:
            self.start(mark)

    def start(self, mark: pytest.Mark) -> Future[Any]:
        """The course of this mark, started if it is not yet."""
        key = key_of(mark)
        if not self._running:
            for number in range(AT_ONCE):  # no executor: a run that is broken off must not wait for them
                threading.Thread(target=self._work, name=f"course-{number}", daemon=True).start()
        if key not in self._running:
            play, *args = mark.args
            place = Place(self._make_directory(play.__name__), contextlib.ExitStack(), self.name_server, self.tools)
            self._running[key] = Running(place, Future())
            self._waiting.put((self._running[key], lambda: play(place, *args)))
        return self._running[key].future

    def start_what_stays(self) -> None:
        """Only tests of courses are left."""
        while self._staying:
            self.start(self._staying.pop(0))

    def name_server(self) -> str:
        """Started by the first that asks."""
        return self._share(JavaNameServer, REFERENCE, lambda: JavaNameServer(self._make_directory("namesrv"))).address

    def tools(self, version: str = REFERENCE) -> JavaDriver:
        """The same."""
        return self._share(JavaDriver, version, lambda: JavaDriver(self._make_directory(f"tools-{version}"), version))

    def _share(self, kind: type[S], version: str, make: Callable[[], S]) -> S:
        with self._sharing:
            if (kind, version) not in self._shared:
                self._shared[kind, version] = make().start()
            shared = self._shared[kind, version]
        assert isinstance(shared, kind)
        return shared

    def judged(self, mark: pytest.Mark) -> None:
        """A test of this course has ended; after the last one what it kept ends, too."""
        key = key_of(mark)
        self.tests_left[key] -= 1
        if not self.tests_left[key]:
            self._running[key].place.kept.close()

    def end(self) -> None:
        """What is left when the run ends; a course that nobody waited for dies with us."""
        for running in self._running.values():
            running.future.cancel()
        for shared in self._shared.values():
            shared.end()

    def _work(self) -> None:
        while True:
            running, play = self._waiting.get()
            if not running.future.set_running_or_notify_cancel():
                continue
            try:
                running.future.set_result(play())
            except BaseException as why:
                running.place.kept.close()
                running.future.set_exception(why)


def key_of(mark: pytest.Mark) -> Hashable:
    """What is played: the function and its arguments."""
    return mark.args


COURSES: Final = pytest.StashKey[Courses]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "course(play, *args, seconds, stays): judges what was played beside other tests (courses.py)"
    )
    config.stash[COURSES] = Courses(lambda name: config._tmp_path_factory.mktemp(name))  # type: ignore[attr-defined]


def _turn(mark: pytest.Mark | None) -> tuple[bool, bool, int]:
    """What to sort tests by: no course, courses from the longest to the shortest, those that leave servers."""
    return (False, False, 0) if mark is None else (True, mark.kwargs["stays"], -mark.kwargs["seconds"])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that judge courses come last, in the order in which their courses start."""
    items.sort(key=lambda item: _turn(item.get_closest_marker("course")))


def pytest_runtestloop(session: pytest.Session) -> None:
    """Start those that leave no servers; None: pytest goes on with its own loop."""
    if session.testsfailed or session.config.option.collectonly:
        return
    courses = session.config.stash[COURSES]
    for item in session.items:
        if mark := item.get_closest_marker("course"):
            courses.plan(mark)


@pytest.fixture
def course(request: pytest.FixtureRequest) -> Iterator[Future[Any]]:
    """What the course of this test returns, or why it failed."""
    courses, mark = request.config.stash[COURSES], request.node.get_closest_marker("course")
    courses.start_what_stays()
    yield courses.start(mark)
    courses.judged(mark)


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[COURSES].end()
