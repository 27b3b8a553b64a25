"""A mix of all message kinds, round and round between the real 5.5.0 broker and ours, over log files of three sizes.

Twice round by default, three times in the nightly run; with kills instead of stops, too; nightly with 5.3.3 and 4.9.7 as well.

A clean stop of the real broker is 13 s of waiting.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.java.store_course import Course, Plan
from tests.support.courses import Place, plays
from tests.support.java import OLD_SERVER, library
from tests.support.process import loopback_v6
from tests.support.store_differ import first_difference, read_files
from tests.support.store_rewrite import append_again
from tests.support.subject import OurNameServer

pytestmark = pytest.mark.java

ROUNDS: dict[int, list[pytest.MarkDecorator]] = {2: [], 3: [pytest.mark.nightly]}
OLD_ROUNDS = 2
PLANS = (
    Plan("64-KiB", 64 << 10, 20_000, 3),
    Plan("1-MiB-IPv6", 1 << 20, 150_000, 4, host=loopback_v6(), index_num=1_000),
    Plan("4-MiB", 4 << 20, 1_200_000, 3, queue_file_bytes=20_000, index_num=100_000),
)
KILLED = Plan("killed", 64 << 10, 20_000, 3)
OLD_PLANS = (Plan("5.3.3", 64 << 10, 20_000, 3, version="5.3.3"), Plan("4.9.7", 64 << 10, 20_000, 3, version=OLD_SERVER))


@contextlib.contextmanager
def staged(place: Place, plan: Plan) -> Iterator[Course]:
    """A course under a name server of our own; whatever still runs of it ends."""
    library(plan.version)
    with OurNameServer(place.directory / "namesrv") as names:
        course = Course(plan, place.directory / plan.name.replace(".", "-"), names.address)
        try:
            yield course
        finally:
            course.end()


def whole_course(place: Place, plan: Plan, rounds: int) -> Course:
    """Round and round; then each broker only loads, and makes queues and index anew from the log alone."""
    with staged(place, plan) as course:
        for _ in range(rounds):
            course.round()
        course.load_only(course.ours)
        course.load_only(course.java)
        course.we_make_it_anew()
        course.java_makes_it_anew()
    return course


def killed_course(place: Place) -> Course:
    """Each is killed; the other finds everything that was answered."""
    with staged(place, KILLED) as course:
        course.killed(course.java)
        course.recovered(course.ours, with_keys=True)
        course.killed(course.ours)
        course.recovered(course.ours, with_keys=True)
        course.killed(course.ours)
        course.recovered(course.java, with_keys=False)
    return course


def old_course(place: Place, plan: Plan) -> Course:
    """Without what the older version does in its own way."""
    with staged(place, plan) as course:
        for _ in range(OLD_ROUNDS):
            course.round()
        course.load_only(course.ours)
        course.load_only(course.java)
    return course


def of_each_plan(test: Callable[..., None]) -> Callable[..., None]:
    """Parameters: each plan, twice round, and three times in the nightly run."""
    variants = [
        pytest.param(rounds, marks=[plays(whole_course, plan, rounds, seconds=100), *nightly], id=f"{plan.name}-{rounds}")
        for plan in PLANS
        for rounds, nightly in ROUNDS.items()
    ]
    return pytest.mark.parametrize("rounds", variants)(test)


@plays(killed_course, seconds=90)
def test_kills_instead_of_stops(course: Future[Course]) -> None:
    assert len(course.result().mix.acknowledged) > 100


@of_each_plan
def test_round_and_round(course: Future[Course], rounds: int) -> None:
    played = course.result()
    assert played.turns == 2 * rounds
    view = played.view(played.files())
    assert view.deleted
    assert view.made_again
    assert view.units[-1].unit.physical_offset > played.plan.log_file_bytes, "the log has more files than one"
    seen = {one.unit.sys_flag & 0x3F for one in view.units}
    assert seen >= ({0x30, 0x31, 0x38} if ":" in played.plan.host else {0, 1, 8})
    assert {one.unit.magic for one in view.units} == {0xDAA320A7 - (1 << 32), 0xDAA320AB - (1 << 32)}


@of_each_plan
def test_the_same_messages_at_the_same_times_make_the_same_files(course: Future[Course], rounds: int, tmp_path: Path) -> None:
    """Log, queues and index, appended through our store alone."""
    played = course.result()
    view = played.view(played.files())
    append_again(tmp_path, played.plan.shape, view.units)
    difference = first_difference(read_files(tmp_path, ("commitlog",)), read_files(played.store, ("commitlog",)))
    assert difference is None, str(difference)
    played.same_as(view.queue_files(deleted_too=True), "consumequeue/", tmp_path)
    played.same_as(view.index_files(), "index/", tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "plan", [pytest.param(plan, marks=plays(old_course, plan, seconds=100), id=plan.name) for plan in OLD_PLANS]
)
def test_older_brokers(course: Future[Course], plan: Plan) -> None:
    """Twice round."""
    assert course.result().turns == 2 * OLD_ROUNDS
