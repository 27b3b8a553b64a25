"""`rmq spark generate`: a store of any size to try the jobs on."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from rmq_cli.complaint import Complaint
from rmq_cli.inspect_common import clear_progress, progress
from rmq_columns.shown import bytes_text, json_line, span_text
from rmq_spark.needs import need


@click.command("generate")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--size", default="64MiB", show_default=True, metavar="SIZE", help="Of the log: 512MiB, 1GB.")
@click.option("--body", default="1KiB", show_default=True, metavar="SIZE", help="Of a body, on average.")
@click.option("--faults", default="", metavar="KIND=N,...", help="What to plant: lost=3,duplicate=5.  all=2: two of each kind.")
@click.option("--seed", default=1, show_default=True, metavar="N", help="The same arguments make the same bytes.")
@click.option("--workers", type=click.IntRange(0), metavar="N", help="Processes.  One for each core by default; 0: no other one.")
@click.option("--no-index", is_flag=True, help="Leave out the index files.")
@click.option("--no-sent", is_flag=True, help="Leave out the ledger of what was sent.")
@click.option("--json", "as_json", is_flag=True, help="What was made, as one JSON object.")
def command(
    directory: Path,
    size: str,
    body: str,
    faults: str,
    seed: int,
    workers: int | None,
    no_index: bool,
    no_sent: bool,
    as_json: bool,
) -> None:
    """Write a store to DIR/store as a broker would have left it, with planted faults.

    \b
    rmq spark generate /tmp/planted --size 10GB --faults all=5
    rmq spark audit /tmp/planted/store

    DIR/faults.jsonl is the ledger of what was planted, DIR/sent/*.jsonl what producers say was acknowledged.

    DIR has to be new or empty.  Needs numpy, but neither PySpark nor a JDK.
    """
    need(("numpy",))
    from planted_stores.faults import NoPlace
    from planted_stores.generate import Wanted, faults_of, generate
    from rmq_columns.times_and_sizes import size_bytes

    report = progress()
    begun = time.monotonic()
    try:
        wanted = Wanted(
            size_bytes(size),
            size_bytes(body),
            seed,
            faults_of(faults),
            with_index=not no_index,
            with_sent=not no_sent,
            workers=(os.cpu_count() or 1) if workers is None else workers,
        )
        made = generate(directory, wanted, lambda done, of: report(f"writing, {bytes_text(done)} of {bytes_text(of)}", done, of))
    except OSError as reason:
        raise Complaint(f"{directory}: {reason.strerror}" if reason.strerror else str(reason)) from reason
    except NoPlace as reason:
        raise Complaint(f"{reason}: give a larger --size, or fewer --faults") from reason
    except ValueError as reason:
        raise Complaint(str(reason)) from reason
    finally:
        clear_progress()
    line = {
        "store": str(made.store),
        "messages": made.messages,
        "logBytes": made.log_bytes,
        "indexEntries": made.index_entries,
        "faults": len(made.planted.faults),
    }
    if as_json:
        click.echo(json_line(line))
        return
    took = span_text(round((time.monotonic() - begun) * 1000))
    click.echo(
        f"{made.store}: {made.messages:,} messages, {bytes_text(made.log_bytes)} of log, {made.index_entries:,} index entries, "
        f"{len(made.planted.faults):,} faults, {took}"
    )
