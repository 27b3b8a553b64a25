"""`rmq inspect verify`: check a store directory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from rmq_cli.inspect_common import (
    check_log,
    check_outside,
    clear_progress,
    json_option,
    log_directories,
    open_store,
    progress,
    store_argument,
)
from rmq_inspect.decode.records import json_line, printable
from rmq_inspect.errors import CannotLook

FOUND: Final = 1
LISTED: Final = 10


@click.command("verify")
@store_argument
@click.option(
    "--html", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help="Write a report with a picture too."
)
@click.option("--all", "show_all", is_flag=True, help=f"Name every place that was kept, not {LISTED} of each kind.")
@click.option("--no-queues", is_flag=True, help="Leave out consume queues.")
@click.option("--no-index", is_flag=True, help="Leave out the index.")
@click.option("--hash-slots", type=click.IntRange(1), metavar="N", help="maxHashSlotNum, where it cannot be found out.")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Processes; one for each core by default.")
@json_option
def command(
    directory: Path,
    commit_logs: tuple[Path, ...],
    html: Path | None,
    show_all: bool,
    no_queues: bool,
    no_index: bool,
    hash_slots: int | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Check everything in DIR: units, check sums, chain, queues against the log, index, checkpoint, configuration.

    \b
    rmq inspect verify ./store
    rmq inspect verify ./store --html report.html
    rmq inspect verify ./store --no-queues --no-index      only the log

    Only reads; works beside a running broker.  Exit status 0 clean, 1 findings, 2 could not look.
    """
    from rmq_columns.checks.scope import Scope
    from rmq_inspect.verify import html as verify_html
    from rmq_inspect.verify import report as verify_report
    from rmq_inspect.verify.verify import verify

    if html is not None:
        check_outside(html, directory, commit_logs)
    scope = Scope(not no_queues, not no_index, index_slots=hash_slots, workers=workers)
    store = open_store(directory, commit_logs)
    check_log(store)
    for like in map(printable, log_directories(store)):
        click.echo(f"rmq: {like} looks like a directory of the log: if it is, add --commit-log {like}", err=True)
    report = verify(store, scope, progress())
    clear_progress()
    if html is not None:
        try:
            html.write_text(verify_html.page(report), encoding="utf-8")
        except OSError as reason:
            raise CannotLook(f"{html}: {reason.strerror}") from reason
    if as_json:
        click.echo(json_line(verify_report.as_json(report)))
    else:
        for line in verify_report.lines(report, len(report.findings.kept) if show_all else LISTED):
            click.echo(line)
    if not report.is_clean:
        raise SystemExit(FOUND)
