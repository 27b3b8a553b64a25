"""`rmq inspect export`: messages as JSON lines or Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rmq_cli.inspect_common import PLACE, check_outside, clear_progress, open_store, store_argument
from rmq_cli.inspect_selection import Notes, body_option, chosen, selection_options, wanted_of, write_records
from rmq_inspect.decode.export import to_json_lines, to_parquet
from rmq_inspect.decode.records import BodyForm, printable
from rmq_inspect.errors import CannotLook

JSON_LINES, PARQUET = "jsonl", "parquet"
SUFFIXES = {".jsonl": JSON_LINES, ".ndjson": JSON_LINES, ".json": JSON_LINES, ".parquet": PARQUET, ".pq": PARQUET}
STANDARD_OUTPUT = Path("-")


@click.command("export")
@store_argument
@click.option("--to", metavar="FILE", type=PLACE, required=True, help="A new file; - is standard output.")
@click.option("--format", "kind", type=click.Choice([JSON_LINES, PARQUET]), help="What FILE becomes, if its name does not say.")
@selection_options
@body_option
def command(directory: Path, commit_logs: tuple[Path, ...], to: Path, kind: str | None, form: str, **options: Any) -> None:
    """Write the messages of DIR, or some of them, to a file of JSON lines or Parquet.

    \b
    rmq inspect export ./.rmq --to all.jsonl
    rmq inspect export ./.rmq --topic my-topic --since -1d --to day.parquet
    rmq inspect export ./.rmq --to - | jq .topic

    Parquet needs the extra: pip install -e '.[columns]' in the checkout
    """
    wanted = wanted_of(options)
    chosen_kind = kind or SUFFIXES.get(to.suffix.lower(), JSON_LINES if to == STANDARD_OUTPUT else None)
    if chosen_kind is None:
        raise CannotLook(f"{to}: say --format jsonl or --format parquet, or let the name end in .jsonl or .parquet")
    if to != STANDARD_OUTPUT:
        check_outside(to, directory, commit_logs)
    notes = Notes()
    units = chosen(open_store(directory, commit_logs), wanted, options, notes)
    if to == STANDARD_OUTPUT:
        if chosen_kind == PARQUET:
            raise CannotLook("Parquet cannot be written to standard output: name a file")
        count = write_records(units, BodyForm(form))
    elif chosen_kind == PARQUET:
        count = to_parquet(units, to)
    else:
        count = to_json_lines(units, to, BodyForm(form))
    clear_progress()
    notes.close()
    click.echo(f"rmq: {count} messages to {'standard output' if to == STANDARD_OUTPUT else printable(str(to))}", err=True)
