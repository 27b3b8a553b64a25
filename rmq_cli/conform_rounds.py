"""`rmq conform rounds`: the suite again and again against one kind of server, each time another one and in another order.

Who judges others by one run must know that the suite says the same in every run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from rmq_cli.conform import CANNOT_RUN, FAILED, ending_in_order

if TYPE_CHECKING:
    from conformance.suite.case import Case
    from conformance.suite.results import Run

ROUNDS: Final = 20
_DIRECTORY: Final = click.Path(path_type=Path, file_okay=False)


@click.command("rounds")
@click.option("--ours", is_flag=True, help="Our broker, as a process of its own.")
@click.option("--jars", metavar="VERSION", help="Apache RocketMQ from Maven's jars (5.5.0, …).")
@click.option("--docker", metavar="IMAGE", help="Apache RocketMQ in containers ('' takes the official image).")
@click.option("--only", multiple=True, metavar="GLOB", help="Cases by id, as of rmq conform.")
@click.option("--rounds", "count", type=click.IntRange(1), default=ROUNDS, show_default=True, help="How many.")
@click.option("--seed", "first", type=int, default=1, show_default=True, help="Of the first round; the next has the next.")
@click.option("--loops", type=click.IntRange(0, 64), default=0, help="Beside so many busy loops.")
@click.option("--keep", type=_DIRECTORY, metavar="DIR", help="Write what was seen in rounds that surprise here, as JSON.")
@click.option("--java", metavar="PATH", help="The JDK for --jars: its directory, or a `java` (else JAVA_HOME, PATH).")
def rounds(
    ours: bool,
    jars: str | None,
    docker: str | None,
    only: tuple[str, ...],
    count: int,
    first: int,
    loops: int,
    keep: Path | None,
    java: str | None,
) -> None:
    """Run the suite many times, each time with a new server and another seed; report which cases came otherwise than expected.

    \b
    rmq conform rounds --jars 5.5.0 --rounds 20 --seed 1
    rmq conform rounds --ours --loops 2 --keep build/rounds

    Exit status: 0 every case came as expected in every round; 1 one did not; 2 could not run, or a server died in the middle;
    130 interrupted.
    """
    from conformance.suite.case import load
    from conformance.suite.report.text import case_lines
    from conformance.suite.runner import INTERRUPTED as STOPPED
    from conformance.suite.runner import Selection
    from rmq_cli.complaint import Complaint

    words = [f"jars:{jars}"] * bool(jars) + [f"docker:{docker}"] * (docker is not None) + ["ours"] * ours
    if len(words) != 1:
        raise click.UsageError("name one server: --ours, --jars VERSION or --docker IMAGE")
    cases = Selection(only).of(load().values())
    if not cases:
        raise Complaint("no case is selected (rmq conform --list shows them)")
    surprised: dict[str, list[int]] = {}
    died: list[int] = []
    with busy(loops), ending_in_order():
        for seed in range(first, first + count):
            began = time.monotonic()
            run = _round(words[0], cases, seed, java)
            took_s = time.monotonic() - began
            if run.ended == STOPPED:
                raise KeyboardInterrupt
            click.echo(f"seed {seed}: {len(run.cases)} cases, {len(run.surprises)} otherwise than expected, {took_s:.0f} s")
            for case in run.surprises:
                surprised.setdefault(case.id, []).append(seed)
                click.echo("\n".join(case_lines(case)))
            if run.ended:
                died.append(seed)
                click.echo(f"  stopped early: {run.ended}")
            if keep is not None and (run.surprises or run.ended):
                _keep(keep, run)
    for id, seeds in sorted(surprised.items()):
        click.echo(f"{id}: seed {', '.join(map(str, seeds))}")
    bad = len({*died, *(seed for seeds in surprised.values() for seed in seeds)})
    beside = f" beside {loops} busy loops" if loops else ""
    click.echo(f"{run.target.label}: {count} rounds{beside}, {count - bad} of them as expected")
    sys.exit(CANNOT_RUN if died else FAILED if surprised else 0)


def _round(word: str, cases: Sequence[Case], seed: int, java: str | None) -> Run:
    from conformance.suite.run import run_on, subject_of

    with tempfile.TemporaryDirectory(prefix="rmq-conform-", ignore_cleanup_errors=True) as scratch:
        return run_on(subject_of(word, Path(scratch), java=java), cases, seed=seed)


def _keep(directory: Path, run: Run) -> None:
    from conformance.suite import results
    from rmq_cli.complaint import Complaint

    try:
        directory.mkdir(parents=True, exist_ok=True)
        results.write(directory / f"{run.target.label}-{run.seed}.json", [run])
    except OSError as reason:
        raise Complaint(f"{reason.filename or directory}: {reason.strerror}") from None


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """So many processes that only compute, for as long as the block lasts; each ends by itself when we are gone."""
    watched = f"import os\nwhile os.getppid() == {os.getpid()}: sum(range(100_000))"
    running = [subprocess.Popen([sys.executable, "-c", watched]) for _ in range(loops)]
    try:
        yield
    finally:
        for one in running:
            one.send_signal(signal.SIGKILL)
            one.wait()
