"""A mix of all message kinds, round and round between the real 5.5.0 broker and ours, over log files of three sizes.

Twice round by default, three times in the nightly run; with kills instead of stops, too; nightly with 5.3.3 and 4.9.7 as well.

The courses run beside each other, since a clean stop of the real broker is 13 s of waiting; each test waits for its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.java.store_course import Course, Plan
from tests.support.java import OLD_SERVER, java, library
from tests.support.process import loopback_v6
from tests.support.store_differ import first_difference, read_files
from tests.support.store_rewrite import append_again
from tests.support.subject import OurNameServer

pytestmark = pytest.mark.java

ROUNDS = (2, pytest.param(3, marks=pytest.mark.nightly))
OLD_ROUNDS = 2
PLANS = (
    Plan("64-KiB", 64 << 10, 20_000, 3),
    Plan("1-MiB-IPv6", 1 << 20, 150_000, 4, host=loopback_v6(), index_num=1_000),
    Plan("4-MiB", 4 << 20, 1_200_000, 3, queue_file_bytes=20_000, index_num=100_000),
)
KILLED = Plan("killed", 64 << 10, 20_000, 3)
OLD_PLANS = (Plan("5.3.3", 64 << 10, 20_000, 3, version="5.3.3"), Plan("4.9.7", 64 << 10, 20_000, 3, version=OLD_SERVER))

Waiting = Mapping[str, Future[Course]]


def whole_course(course: Course, rounds: int) -> Course:
    """Round and round; then each broker only loads, and makes queues and index anew from the log alone."""
    for _ in range(rounds):
        course.round()
    course.load_only(course.ours)
    course.load_only(course.java)
    course.we_make_it_anew()
    course.java_makes_it_anew()
    return course


def killed_course(course: Course) -> Course:
    """Each is killed; the other finds everything that was answered."""
    course.killed(course.java)
    course.recovered(course.ours, with_keys=True)
    course.killed(course.ours)
    course.recovered(course.ours, with_keys=True)
    course.killed(course.ours)
    course.recovered(course.java, with_keys=False)
    return course


def old_course(course: Course) -> Course:
    """Without what the older version does in its own way."""
    for _ in range(OLD_ROUNDS):
        course.round()
    course.load_only(course.ours)
    course.load_only(course.java)
    return course


Whole = Callable[[Course], Course]


def running(plans: Mapping[Plan, Whole], directory: Path) -> Iterator[Waiting]:
    """All courses, started together."""
    java()
    for plan in plans:
        library(plan.version)
    with OurNameServer(directory / "namesrv") as names:
        courses = {plan: Course(plan, directory / plan.name.replace(".", "-"), names.address) for plan in plans}
        with ThreadPoolExecutor(len(courses)) as threads:
            try:
                yield {plan.name: threads.submit(plans[plan], course) for plan, course in courses.items()}
            finally:
                for course in courses.values():
                    course.end()


@pytest.fixture(scope="module", params=ROUNDS)
def courses(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Waiting]:
    plans: dict[Plan, Whole] = dict.fromkeys(PLANS, partial(whole_course, rounds=request.param))
    yield from running({**plans, KILLED: killed_course}, tmp_path_factory.mktemp("rounds"))


@pytest.fixture(scope="module")
def old_courses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Waiting]:
    yield from running(dict.fromkeys(OLD_PLANS, old_course), tmp_path_factory.mktemp("old-rounds"))


def test_kills_instead_of_stops(courses: Waiting) -> None:
    course = courses[KILLED.name].result()
    assert len(course.mix.acknowledged) > 100


@pytest.mark.parametrize("name", [plan.name for plan in PLANS])
def test_round_and_round(courses: Waiting, name: str, request: pytest.FixtureRequest) -> None:
    course = courses[name].result()
    assert course.turns == 2 * request.node.callspec.params["courses"]
    view = course.view(course.files())
    assert view.deleted
    assert view.made_again
    assert view.units[-1].unit.physical_offset > course.plan.log_file_bytes, "the log has more files than one"
    seen = {one.unit.sys_flag & 0x3F for one in view.units}
    assert seen >= ({0x30, 0x31, 0x38} if ":" in course.plan.host else {0, 1, 8})
    assert {one.unit.magic for one in view.units} == {0xDAA320A7 - (1 << 32), 0xDAA320AB - (1 << 32)}


@pytest.mark.parametrize("name", [plan.name for plan in PLANS])
def test_the_same_messages_at_the_same_times_make_the_same_files(courses: Waiting, name: str, tmp_path: Path) -> None:
    """Log, queues and index, appended through our store alone."""
    course = courses[name].result()
    view = course.view(course.files())
    append_again(tmp_path, course.plan.shape, view.units)
    difference = first_difference(read_files(tmp_path, ("commitlog",)), read_files(course.store, ("commitlog",)))
    assert difference is None, str(difference)
    course.same_as(view.queue_files(deleted_too=True), "consumequeue/", tmp_path)
    course.same_as(view.index_files(), "index/", tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [plan.name for plan in OLD_PLANS])
def test_older_brokers(old_courses: Waiting, name: str) -> None:
    """Twice round."""
    assert old_courses[name].result().turns == 2 * OLD_ROUNDS
