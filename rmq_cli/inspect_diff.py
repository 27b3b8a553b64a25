"""`rmq inspect diff`: compare two stores."""

from __future__ import annotations

from pathlib import Path

import click

from rmq_cli.inspect_common import PLACE, clear_progress, json_option, open_store, progress
from rmq_inspect.decode.records import fit, json_line
from rmq_inspect.explain.differ import differences

DIFFERENT = 1
LINE_COLUMNS = 400
LOGS = "Where its log is when not in DIR/commitlog."


@click.command("diff")
@click.argument("left", metavar="DIR", type=PLACE)
@click.argument("right", metavar="DIR", type=PLACE)
@click.option("--all", "show_all", is_flag=True, help="Every difference, not only the first.")
@click.option("--strict", is_flag=True, help="What differs by nature counts, too.")
@click.option("--hash-slots", type=click.IntRange(1), metavar="N", help="maxHashSlotNum, where it cannot be found out.")
@click.option("--left-commit-log", "left_logs", multiple=True, metavar="DIR", type=PLACE, help=LOGS)
@click.option("--right-commit-log", "right_logs", multiple=True, metavar="DIR", type=PLACE, help=LOGS)
@json_option
def command(
    left: Path,
    right: Path,
    show_all: bool,
    strict: bool,
    hash_slots: int | None,
    left_logs: tuple[Path, ...],
    right_logs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Compare two stores: the first difference with its file, byte and field.

    \b
    rmq inspect diff ./store ./copy
    rmq inspect diff ./store ./copy --all

    Names of index files, the checkpoint, abort, lock, and times and counters in configuration differ by nature between two stores
    with the same messages: they are only counted, unless --strict is given.

    Exit status 0 when they are the same, 1 when they differ.
    """
    counted = natural = 0
    ours, theirs = open_store(left, left_logs), open_store(right, right_logs)
    for difference in differences(ours, theirs, slots=hash_slots, progress=progress()):
        if difference.by_nature and not strict:
            natural += 1
            if as_json and show_all:
                click.echo(json_line(difference.as_json()))
            continue
        counted += 1
        clear_progress()
        click.echo(json_line(difference.as_json()) if as_json else fit(str(difference), LINE_COLUMNS))
        if not show_all:
            break
    clear_progress()
    if not as_json:
        apart = f" ({natural} by nature: --strict shows them)" if natural else ""
        click.echo(f"rmq: {'they differ' if counted else 'the same'}{apart}", err=True)
    if counted:
        raise SystemExit(DIFFERENT)
