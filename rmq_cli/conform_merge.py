"""`rmq conform merge`: the outcomes of several runs as one matrix."""

from __future__ import annotations

from pathlib import Path

import click

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("merge")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=_FILE)
@click.option("--json", "json_file", type=_FILE, metavar="FILE", help="Write all runs into one file.")
@click.option("--junit", type=_FILE, metavar="FILE", help="Write JUnit XML.")
@click.option("--html", type=_FILE, metavar="FILE", help="Write a page that shows everything.")
@click.option("--brief", is_flag=True, help="Leave out what was seen of cases that came as expected, and paths of this machine.")
@click.option("-v", "--verbose", is_flag=True, help="As of rmq conform.")
@click.option("--strict/--expected", "strict", default=None, help="What makes status 1, as of rmq conform.")
def merge(
    files: tuple[Path, ...],
    json_file: Path | None,
    junit: Path | None,
    html: Path | None,
    brief: bool,
    strict: bool | None,
    verbose: bool,
) -> None:
    """Put the outcomes of several runs (rmq conform --json) into one matrix.

    \b
    rmq conform merge ours.json java-5.5.0.json --html matrix.html

    Of several runs of one subject the latest counts.  What is expected is read anew from
    conformance/suite/expected.  Exit status as of rmq conform.
    """
    from conformance.suite import results
    from conformance.suite.report.text import run_lines
    from conformance.suite.run import expect_anew
    from rmq_cli.conform import CANNOT_RUN, is_strict, status, write_outputs

    runs = results.merge([results.read(file) for file in files])
    for run in runs:
        expect_anew(run)
        click.echo("\n".join(run_lines(run, all_known=verbose or is_strict(run, strict))))
    if brief:
        runs = [results.brief(run) for run in runs]
    write_outputs(runs, json_file, junit, html, strict=strict)
    raise SystemExit(CANNOT_RUN if any(run.ended for run in runs) else status(runs, strict=strict))
