"""`rmq inspect repair`: save what can be saved into a new directory."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path
from typing import Any

import click

from rmq_cli.inspect_common import PLACE, clear_progress, json_option, open_store, progress, store_argument, width
from rmq_inspect.decode.directory import StoreDirectory
from rmq_inspect.decode.records import fit, json_line, printable
from rmq_inspect.repair.repair import repair, repair_in_place
from rmq_inspect.repair.report import Report
from rmq_inspect.repair.tables import GROUPS, TOPICS
from rmq_inspect.times import bytes_text

LOST = 1
LISTED = 10
NANOSECONDS_PER_MS = 1_000_000


@click.command("repair")
@store_argument
@click.option("--to", metavar="NEWDIR", type=PLACE, help="A directory that is new or empty.")
@click.option("--tables", is_flag=True, help="Instead: only make lost topics and groups again, within DIR.")
@click.option("--hash-slots", type=click.IntRange(1), metavar="N", help="maxHashSlotNum, where it cannot be found out.")
@click.option("--queue-file-bytes", type=click.IntRange(20), metavar="N", help="mappedFileSizeConsumeQueue, likewise.")
@json_option
def command(
    directory: Path,
    commit_logs: tuple[Path, ...],
    to: Path | None,
    tables: bool,
    hash_slots: int | None,
    queue_file_bytes: int | None,
    as_json: bool,
) -> None:
    """Make a new store out of what is good in DIR; DIR itself is only read.

    \b
    rmq inspect repair ./store --to ./store-repaired
    rmq inspect repair ./store --tables

    Every message that is whole keeps its place in the log, so ids and offsets stay right.  Queues, index and checkpoint are made
    anew.  A broker, ours or Java's, starts on the result with the same file sizes as before (mappedFileSizeCommitLog and so on).

    With --tables, when topics.json or subscriptionGroup.json can be read no more, nor their backups: topics and groups are made
    again from queues and log, in DIR itself, and what cannot be read is kept as .broken.  It needs no room for a second log.

    Exit status 0 when nothing was lost, 1 when something was (the report says what), 2 when nothing could be saved.
    """
    if tables == (to is not None):
        raise click.UsageError("say --to NEWDIR for a new store, or --tables for the tables of this one")
    store = open_store(directory, commit_logs)
    if to is None:
        _make_tables(store, as_json=as_json)
        return
    report = repair(store, to, slots=hash_slots, queue_file_bytes=queue_file_bytes, progress=progress())
    clear_progress()
    if as_json:
        click.echo(json_line(report.as_json()))
    else:
        _print(report, to)
    if not report.is_whole:
        raise SystemExit(LOST)


def _make_tables(store: StoreDirectory, *, as_json: bool) -> None:
    made = repair_in_place(store, time.time_ns() // NANOSECONDS_PER_MS, progress=progress())
    clear_progress()
    if as_json:
        line = {
            "made": sorted(made.texts),
            "topics": made.topics,
            "groups": made.groups,
            "broken": made.broken,
            "gone": made.gone,
        }
        click.echo(json_line(line))
    else:
        if not made.texts and not made.gone:
            click.echo("no table is lost")
        counts = {TOPICS: _many(made.topics, "topic"), GROUPS: _many(made.groups, "group")}
        for name in sorted(made.texts):
            click.echo(f"made again: config/{name}, {counts[name]} (what no message says is as by default)")
        for name in made.broken:
            click.echo(f"moved aside: config/{name}, now {name}.broken")
        for name, why in made.gone.items():
            click.echo(f"lost: config/{name}, {why}")
    if made.gone:
        raise SystemExit(LOST)


def _print(report: Report, to: Path) -> None:
    saved = f"{_many(report.messages, 'message')} ({bytes_text(report.message_bytes)})"
    click.echo(f"saved into {printable(str(to))}")
    click.echo(f"  log       {saved}, offsets {report.log_start} to {report.log_end}")
    click.echo(f"  queues    {report.queues}, with {_many(report.queue_units, 'message')}")
    click.echo(f"  index     {report.index_entries} entries in {report.index_files} file{'s' if report.index_files != 1 else ''}")
    _entry("config", ", ".join(report.config) or "none")
    for note in report.notes:
        _entry("note", printable(note))
    if report.is_whole:
        _print_whole(report)
        return
    if report.counts.get("lost"):
        click.echo(f"lost: {bytes_text(report.lost_bytes)} of the log")
    else:
        click.echo("nothing of the log was lost; what queues had is no more in it:")
    _list(
        report,
        "lost",
        ("stretch of the log", "stretches of the log"),
        lambda e: f"{e['file']} byte {e['byte']}: {e['bytes']} bytes: {e['why']}",
    )
    _list(report, "gaps", ("gap in a queue", "gaps in queues"), _gap_text)
    _list(
        report,
        "unqueued",
        ("message that no queue can hold", "messages that no queue can hold"),
        lambda e: f"at {e['offset']}: {e['why']}",
    )


def _print_whole(report: Report) -> None:
    if report.known:
        gone = f"{_many(sum(gap['count'] for gap in report.known), 'queue offset')} in {_many(report.counts['known'], 'gap')}"
        click.echo(f"nothing was lost that was not lost before: {gone} had no message already")
    else:
        click.echo("nothing was lost")


def _entry(name: str, text: str) -> None:
    click.echo(textwrap.fill(text, width(), initial_indent=f"  {name:<10}", subsequent_indent=" " * 12, break_on_hyphens=False))


def _gap_text(gap: dict[str, Any]) -> str:
    place = f"{gap['topic']} [{gap['queueId']}] from offset {gap['from']}"
    return f"{place}: {gap['why']}" if "why" in gap else f"{place}: {_many(gap['count'], 'message')}"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _list(report: Report, name: str, titles: tuple[str, str], text: Any) -> None:
    count = report.counts.get(name, 0)
    if not count:
        return
    click.echo(f"  {count} {titles[count > 1]}:")
    for entry in getattr(report, name)[:LISTED]:
        click.echo("    " + fit(text(entry), 150))
    if count > LISTED:
        click.echo(f"    and {count - LISTED} more (--json lists up to 1000)")
