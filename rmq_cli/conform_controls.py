"""`rmq conform controls`: good servers made bad on purpose, and whether the cases notice."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from conformance.controls.defect import Defect
    from conformance.controls.run import Controls, DefectResult
    from conformance.subjects.base import Subject

FAILED: Final = 1
PRINTED_EVERY: Final = 20
"""Defects to a line of progress."""
_FILE = click.Path(path_type=Path, dir_okay=False)
ROOT: Final = Path(__file__).resolve().parents[1]
REPORTS: Final = ("controls-java-5.5.0.json", "controls-ours.json")


@click.command("controls")
@click.option("--ours", is_flag=True, help="Our broker, as a process of its own.")
@click.option("--jars", metavar="VERSION", help="Apache RocketMQ from Maven's jars (5.5.0, …).")
@click.option("--kept", metavar="FILE", help="As `python -m conformance.subjects NAME --json` printed it.")
@click.option("--only", multiple=True, metavar="GLOB", help="Defects by name: 'pull.*', or a whole capability: 'pull'.")
@click.option("--jobs", type=click.IntRange(1, 64), default=8, show_default=True, help="Defects at once.")
@click.option("--json", "json_file", type=_FILE, metavar="FILE", help="Write everything.")
@click.option("--java", metavar="PATH", help="The JDK for --jars: its directory, or a `java` (else JAVA_HOME, PATH).")
@click.option("--list", "listing", is_flag=True, help="Only list the defects.")
@click.option("--document", type=_FILE, metavar="FILE", help="Only write the page, from the files in conformance/reports.")
def controls(
    ours: bool,
    jars: str | None,
    kept: str | None,
    only: tuple[str, ...],
    jobs: int,
    json_file: Path | None,
    java: str | None,
    listing: bool,
    document: Path | None,
) -> None:
    """Put defects into a good server and see that the cases notice each of them.

    \b
    rmq conform controls --ours
    rmq conform controls --jars 5.5.0 --only pull --only 'store.*'

    A relay before the server changes what passes; defects in the store's files are made on copies.  First the cases must pass
    without any defect; then at least one of those that are declared for it must fail with each.

    Exit status: 0 each defect was caught, or belongs to what the server is known not to have; 1 one was not, or a case
    failed without a defect; 2 could not run.
    """
    from conformance.controls.run import chosen, write
    from conformance.controls.table import good_failures, lines, summary
    from conformance.suite.run import subject_of
    from rmq_cli.complaint import Complaint

    defects = chosen(only)
    if not defects:
        raise Complaint("no defect is selected (rmq conform controls --list shows them)")
    if listing:
        click.echo("\n".join(f"{one.name:32}  {one.wrong}  [{', '.join(one.caught_by)}]" for one in defects))
        click.echo(f"{len(defects)} defects")
        return
    if document is not None:
        _document(document)
        return
    words = [f"jars:{jars}"] * bool(jars) + [f"kept:{kept}"] * bool(kept) + ["ours"] * ours
    if len(words) != 1:
        raise click.UsageError("name one server: --ours, --jars VERSION or --kept FILE")
    with tempfile.TemporaryDirectory(prefix="rmq-conform-", ignore_cleanup_errors=True) as scratch:
        results, dead = _run(subject_of(words[0], Path(scratch), java=java), defects, jobs)
    click.echo("\n".join([*lines(results.defects), *good_failures(results), summary(results)]))
    if json_file is not None:
        try:
            write(json_file, results)
        except OSError as reason:
            raise Complaint(f"{reason.filename}: {reason.strerror}") from None
    if dead:
        raise Complaint(f"{results.target.label}: the server ended in the middle of the run")
    raise SystemExit(FAILED if results.bad or results.good_failures else 0)


def _run(subject: Subject, defects: Sequence[Defect], jobs: int) -> tuple[Controls, bool]:
    """Start the subject, run the defects, end it; and whether it died meanwhile, which looks like being caught."""
    from conformance.controls.run import control
    from conformance.suite.runner import run_trio

    def say(line: str) -> None:
        click.echo(line, err=True)

    ended = 0

    def done(result: DefectResult) -> None:
        nonlocal ended
        ended += 1
        if ended % PRINTED_EVERY == 0:
            say(f"{subject.label}: {ended} of {len(defects)}; {result.name}: {result.outcome}")

    with subject as target:
        results = run_trio(partial(control, target, defects, jobs=jobs, say=say, done=done))
        return results, not subject.alive()


def _document(file: Path) -> None:
    """Write the page."""
    import msgspec

    from conformance.controls.defects import load
    from conformance.controls.run import read
    from conformance.controls.table import document
    from rmq_cli.complaint import Complaint

    try:
        runs = [read(ROOT / "conformance" / "reports" / name) for name in REPORTS]
        file.write_text(document(list(load().values()), runs), encoding="utf-8")
    except (OSError, msgspec.MsgspecError) as reason:
        raise Complaint(f"{file}: {reason}") from None
