"""How many threads a consumer's work should have: measured, not guessed.

Of a message T1 is what it computes, T2 what it waits.  On C cores C x (T1 + T2) / T1 threads keep the cores busy: a figure of
theory, because what is waited for (a database, a disk) becomes slower under load.  So: measure T1 and T2 with one thread, begin
with a quarter of the figure, take half as many more each time, and stop where that is no faster.  Of messages in order no more
can be at work than there are queues, so no more threads are tried.
The rules are in `Steps`, which knows no clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click
import trio

from rmq_cli.work import Spent

if TYPE_CHECKING:
    from rmq_cli.consuming import Member

THREADS_MAX: Final = 512
"""More is more instances' business; a pull brings 32 messages, and a queue waits at 1,000."""
BEGIN_WITH: Final = 1 / 4
"""Of the figure."""
FASTER_BY: Final = 1.05
"""Less is noise."""
BUSY_MIN: Final = 0.7
"""Of the threads: when fewer had work, messages did not come fast enough, and more threads cannot help."""
MESSAGES_MIN: Final = 3
"""Of each thread in a step, so that long ones are measured, too."""
IDLE_S: Final = 15.0
"""Nothing came for so long: there is nothing to measure."""


@dataclass(frozen=True, slots=True)
class Step:
    """What was seen with so many threads.  Seconds; T1 and T2 of a message on average."""

    threads: int
    messages: int
    passed_s: float
    computing_s: float
    waiting_s: float

    @property
    def a_second(self) -> float:
        """Messages."""
        return self.messages / self.passed_s if self.passed_s else 0.0

    @property
    def busy(self) -> float:
        """Part of the threads that had work, 0 to 1."""
        worked_s = (self.computing_s + self.waiting_s) * self.messages
        return min(worked_s / (self.threads * self.passed_s), 1.0) if self.passed_s else 0.0


def figure(cores: int, computing_s: float, waiting_s: float) -> float:
    """C x (T1 + T2) / T1; infinite where nothing is computed."""
    return cores * (computing_s + waiting_s) / computing_s if computing_s > 0 else math.inf


class Steps:
    """Which number of threads comes next, from what was seen with the last one."""

    def __init__(self, cores: int, *, queues: int | None = None) -> None:
        """queues: of a consumer that works on one message of each at a time."""
        self._cores = cores
        self._threads_max = THREADS_MAX if queues is None else min(max(queues, 1), THREADS_MAX)
        self._queues = queues
        self.seen: list[Step] = []
        self.why_ended = ""

    @property
    def figure(self) -> float:
        """By what one thread saw."""
        first = self.seen[0]
        return figure(self._cores, first.computing_s, first.waiting_s)

    @property
    def best(self) -> Step:
        """The fewest threads that were as fast as any."""
        fastest = max(step.a_second for step in self.seen)
        return next(step for step in self.seen if step.a_second * FASTER_BY >= fastest)

    @property
    def _why_no_more(self) -> str:
        if self._queues == self._threads_max:
            return f"each of the {self._queues} queues has a thread: in order, more have nothing to do"
        return f"{self._threads_max} threads are the most that are tried"

    def next(self, step: Step) -> int | None:
        """Threads to go on with.  None: that was the last step, and `why_ended` says why."""
        earlier = self.best if self.seen else None
        self.seen.append(step)
        if not step.messages:
            self.why_ended = "no more messages came"
        elif step.busy < BUSY_MIN:
            self.why_ended = f"only {step.busy:.0%} of the threads had messages: they do not come faster"
        elif earlier is not None and step.a_second < earlier.a_second * FASTER_BY:
            self.why_ended = f"{step.threads} threads were no faster than {earlier.threads}"
        elif step.threads >= self._threads_max:
            self.why_ended = self._why_no_more
        else:
            wanted = step.threads + max(step.threads // 2, 1)
            if earlier is None:
                wanted = max(2, math.ceil(min(self.figure * BEGIN_WITH, self._threads_max)))
            return min(wanted, self._threads_max)
        return None


HEADING: Final = "threads     msg/s  T1 ms/msg  T2 ms/msg  busy"


def row(step: Step) -> str:
    """Of the table."""
    figures = f"{step.threads:>7} {step.a_second:>9.1f} {step.computing_s * 1e3:>10.2f} {step.waiting_s * 1e3:>10.2f}"
    return f"{figures}  {step.busy:>4.0%}"


def figure_line(steps: Steps, cores: int) -> str:
    """What follows the first row."""
    first = steps.seen[0]
    t1_ms, t2_ms = first.computing_s * 1e3, first.waiting_s * 1e3
    found = f"{steps.figure:.0f} threads" if math.isfinite(steps.figure) else "no limit: it computes nothing"
    return f"C x (T1 + T2) / T1 = {cores} x ({t1_ms:.2f} + {t2_ms:.2f}) / {t1_ms:.2f} = {found}; begun with a quarter of it"


def verdict(steps: Steps) -> str:
    """The last lines."""
    best = steps.best
    return (
        f"{steps.why_ended}\n"
        f"best: --threads {best.threads}, {best.a_second:.1f} messages a second.  "
        f"For R a second: R / {best.a_second:.1f} members of the group, no more than the topic has queues"
    )


class Profile:
    """Runs beside a `Member`, changes its number of threads, prints the table to standard error."""

    def __init__(self, member: Member, cores: int, step_s: float, *, orderly: bool = False) -> None:
        self._member = member
        self._orderly = orderly
        self._cores = cores
        self._step_s = step_s
        self._spent: list[Spent] = []
        self._more = trio.Event()
        member.spent = self._note

    async def run(self) -> None:
        """Step by step to the end."""
        threads: int | None = 1
        self._set(1)
        with trio.move_on_after(IDLE_S):
            await self._more.wait()  # joining takes a while
            await trio.sleep(self._step_s)  # so do the first pulls, a thousand messages of each queue
        assert self._member.consumer is not None
        steps = Steps(self._cores, queues=len(self._member.consumer.queues) if self._orderly else None)
        click.echo(HEADING, err=True)
        while threads is not None:
            self._set(threads)
            step = await self._step(threads)
            threads = steps.next(step)
            click.echo(row(step), err=True)
            if len(steps.seen) == 1 and step.messages:
                click.echo(figure_line(steps, self._cores), err=True)
        click.echo(verdict(steps) if steps.best.messages else steps.why_ended, err=True)

    def _set(self, threads: int) -> None:
        assert self._member.consumer is not None
        self._member.consumer.consume_thread_max = threads

    def _note(self, spent: Spent) -> None:
        self._spent.append(spent)
        self._more.set()

    async def _step(self, threads: int) -> Step:
        """At least `step_s`, and `MESSAGES_MIN` messages of each thread, unless none come any more."""
        self._spent.clear()
        began_s = trio.current_time()
        await trio.sleep(self._step_s)
        with trio.move_on_after(IDLE_S):
            while len(self._spent) < MESSAGES_MIN * threads:
                self._more = trio.Event()
                await self._more.wait()
        passed_s = trio.current_time() - began_s
        spent, count = self._spent[:], len(self._spent) or 1
        computing_s = sum(one.computing_s for one in spent) / count
        waiting_s = max(sum(one.passed_s for one in spent) / count - computing_s, 0.0)
        return Step(threads, len(spent), passed_s, computing_s, waiting_s)
