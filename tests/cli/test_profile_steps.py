"""Which number of threads `rmq consume --profile` tries next, and where it stops: rules without a clock."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from rmq_cli.profiling import BUSY_MIN, THREADS_MAX, Step, Steps, figure, figure_line, verdict


def played(
    a_second: Callable[[int], float],
    *,
    cores: int = 2,
    t1_s: float = 0.01,
    t2_s: float = 0.09,
    busy: float = 1.0,
    queues: int | None = None,
) -> Steps:
    """A work whose rate is a function of the threads."""
    steps = Steps(cores, queues=queues)
    threads: int | None = 1
    while threads is not None:
        rate = a_second(threads)
        passed_s = 10.0
        each_s = threads * busy / rate if rate else 0.0  # what a thread spends on a message, at that rate
        scale = each_s / (t1_s + t2_s)
        threads = steps.next(Step(threads, round(rate * passed_s), passed_s, t1_s * scale, t2_s * scale))
    return steps


def test_the_figure_of_the_articles() -> None:
    assert figure(4, 0.01, 0.09) == pytest.approx(40)
    assert figure(4, 0.01, 0.0) == 4
    assert figure(4, 0.0, 1.0) == math.inf


@pytest.mark.parametrize("most", [2, 7, 20, 100])
def test_it_stops_where_more_are_no_faster(most: int) -> None:
    steps = played(lambda threads: 10.0 * min(threads, most))
    assert most / 1.5 <= steps.best.threads <= max(most * 1.5, 5)
    assert "no faster" in steps.why_ended
    tried = [step.threads for step in steps.seen]
    assert tried[:2] == [1, 5], "a quarter of 2 x (10 + 90) / 10"
    assert tried == sorted(set(tried))
    assert f"--threads {steps.best.threads}" in verdict(steps)


def test_work_that_becomes_slower_under_load() -> None:
    steps = played(lambda threads: 10.0 * threads if threads <= 10 else 400.0 / threads)
    assert steps.best.threads <= 10


def test_work_that_only_waits_is_tried_up_to_the_most() -> None:
    steps = played(lambda threads: float(threads), t1_s=0.0)
    assert steps.best.threads == THREADS_MAX
    assert "no limit" in figure_line(steps, 2)


@pytest.mark.parametrize(("queues", "tried"), [(1, [1]), (4, [1, 4]), (8, [1, 5, 7, 8]), (1_000, None)])
def test_in_order_no_more_threads_than_queues_are_tried(queues: int, tried: list[int] | None) -> None:
    steps = played(lambda threads: 10.0 * threads, queues=queues)
    if tried is None:
        assert max(step.threads for step in steps.seen) == THREADS_MAX
        assert steps.why_ended == f"{THREADS_MAX} threads are the most that are tried"
    else:
        assert [step.threads for step in steps.seen] == tried
        assert steps.why_ended.startswith(f"each of the {queues} queues has a thread")


def test_messages_that_do_not_come_fast_enough_end_it() -> None:
    steps = played(lambda threads: 10.0 * threads, busy=BUSY_MIN - 0.1)
    assert len(steps.seen) == 1
    assert "do not come faster" in steps.why_ended
    steps = played(lambda threads: 0.0)
    assert steps.why_ended == "no more messages came"
