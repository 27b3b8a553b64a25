"""The options that choose messages, the same for `show`, `find` and `export`, and how chosen messages are written."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from rmq_cli.inspect_common import check_topic, clear_progress, progress, width
from rmq_inspect.decode.directory import StoreDirectory
from rmq_inspect.decode.log import Unit
from rmq_inspect.decode.records import BodyForm, body_text, cells, json_line, pad, printable, properties_of, record_of, topic_of
from rmq_inspect.decode.select import Wanted, messages
from rmq_inspect.explain.outlook import Outlooks
from rmq_inspect.times import parse, short_text_of, text_of, zone_text
from rmq_wire import property_names as prop

Command = TypeVar("Command", bound=Callable[..., Any])
Row = TypeVar("Row")

NOTES_MAX: Final = 20
"""Lines about what could not be read; more are counted."""
TABLE_ROWS: Final = 100
"""Printed of a table unless `--limit` says otherwise."""
OFFSET_COLUMNS, TIME_COLUMNS, SIZE_COLUMNS = 12, 23, 7
PLACE_COLUMNS, TAGS_COLUMNS, KEYS_COLUMNS = 26, 10, 16
NARROW: Final = 100
"""Below so many columns sizes and keys are left out."""

_OPTIONS: Final = (
    click.option("--topic", metavar="NAME", help="Only of this topic; read by its consume queues."),
    click.option("--queue", "queue_id", type=int, metavar="N", help="Only of the topic's queue with this number."),
    click.option("--queue-offset", type=int, metavar="N", help="From this offset of the queue on."),
    click.option("--key", metavar="TEXT", help="With this key (or unique key); read by the index."),
    click.option("--tag", metavar="TEXT", help="With these tags."),
    click.option("--id", "message_id", metavar="ID", help="With this offset message id or unique key."),
    click.option("--since", metavar="TIME", help="Stored at or after: now, -90m, '2026-01-31 12:00', or milliseconds."),
    click.option("--until", metavar="TIME", help="Stored at or before."),
    click.option("--offset", "from_offset", type=int, metavar="N", help="From this offset of the commit log on."),
    click.option("--limit", type=click.IntRange(0), metavar="N", help="At most so many; 0: all.  A table has 100 by default."),
    click.option("--scan", is_flag=True, help="Read the log itself, trust neither queues nor index."),
    click.option("--hash-slots", type=click.IntRange(1), metavar="N", help="maxHashSlotNum, where it cannot be found out."),
)
body_option = click.option(
    "--body", "form", type=click.Choice([form.value for form in BodyForm]), default="text", show_default=True, help="Bodies as."
)


def selection_options(command: Command) -> Command:
    """All of them, as `Wanted` wants them, plus `limit`, `scan`, `hash_slots`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def wanted_of(options: dict[str, Any]) -> Wanted:
    """The selection of a command's arguments; those it is not about are taken out.  Raises `CannotLook` for a senseless time."""
    since, until = options.pop("since"), options.pop("until")
    now = time.time_ns() // 1_000_000
    fields = ("topic", "queue_id", "queue_offset", "key", "tag", "message_id", "from_offset")
    return Wanted(
        **{name: options.pop(name) for name in fields},
        from_ms=None if since is None else parse(since, now),
        to_ms=None if until is None else parse(until, now),
    )


class Notes:
    """Lines on standard error, not without end."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, line: str) -> None:
        self.count += 1
        if self.count <= NOTES_MAX:
            clear_progress()
            click.echo(f"rmq: {printable(line)}", err=True)

    def close(self) -> None:
        if self.count > NOTES_MAX:
            click.echo(f"rmq: {self.count - NOTES_MAX} more lines like these were left out", err=True)


def chosen(store: StoreDirectory, wanted: Wanted, options: dict[str, Any], notes: Notes) -> Iterator[Unit]:
    """The messages of the selection, at most `limit`.  Raises `NoSuchTopic` where there is none because of the topic."""
    found = messages(store, wanted, scan=options["scan"], slots=options["hash_slots"], progress=progress(), note=notes)
    units = limited(found, options["limit"])
    return units if wanted.topic is None else _of_topic(units, store, wanted.topic)


def limited(rows: Iterator[Row], limit: int | None) -> Iterator[Row]:
    """At most so many; all where that is nothing, 0, or more than can be counted."""
    return itertools.islice(rows, limit) if limit and limit <= sys.maxsize else rows


def _of_topic(units: Iterator[Unit], store: StoreDirectory, topic: str) -> Iterator[Unit]:
    """Asked only in the end: the queues of a topic, and its name, may be lost while its messages are in the log."""
    first = next(units, None)
    if first is None:
        check_topic(store, topic)
        return
    yield first
    yield from units


def write_messages(units: Iterable[Unit], form: BodyForm, notes: Notes, outlooks: Outlooks, *, as_json: bool, full: bool) -> int:
    """As JSON lines, as sheets or as a table, and what there was to note about them; how many."""
    write = write_records if as_json else write_sheets if full else write_table
    count = write(units, form, outlooks)
    outlooks.close()
    clear_progress()
    notes.close()
    return count


def write_records(units: Iterable[Unit], form: BodyForm, outlooks: Outlooks | None = None) -> int:
    """One JSON object a line, with the outlook where somebody wants it; how many."""
    count = 0
    for count, unit in enumerate(units, 1):  # noqa: B007
        record = record_of(unit, form)
        if outlooks is not None and (outlook := outlooks.of(unit.message)) is not None:
            record["outlook"] = outlook.as_json()
        click.echo(json_line(record))
    return count


def write_table(units: Iterable[Unit], form: BodyForm, _outlooks: Outlooks) -> int:
    """A table that is written while it is read; how many."""
    columns = width()
    count = 0
    for count, unit in enumerate(units, 1):
        if count == 1:
            clear_progress()
            click.echo(_heading(columns))
        click.echo(_row(unit, form, columns))
    return count


def _heading(columns: int) -> str:
    place = f"{'topic [queue] @offset':<{PLACE_COLUMNS}}"
    if columns < NARROW:
        return (
            f"{'log offset':>{OFFSET_COLUMNS}} {'stored, ' + zone_text():<{TIME_COLUMNS}} {place} {'tags':<{TAGS_COLUMNS}} body"
        )
    return (
        f"{'log offset':>{OFFSET_COLUMNS}} {'bytes':>{SIZE_COLUMNS}} {'stored, ' + zone_text():<{TIME_COLUMNS}} {place} "
        f"{'tags':<{TAGS_COLUMNS}} {'keys':<{KEYS_COLUMNS}} body"
    )


def _row(unit: Unit, form: BodyForm, columns: int) -> str:
    message = unit.message
    values = properties_of(message)
    number = f"[{message.queue_id}]@{message.queue_offset}"
    place = pad(topic_of(message), PLACE_COLUMNS - len(number)).rstrip() + number
    head = f"{message.physical_offset:>{OFFSET_COLUMNS}} "
    stored = f"{short_text_of(message.store_timestamp):<{TIME_COLUMNS}} {pad(place, PLACE_COLUMNS)}"
    tags = pad(values.get(prop.TAGS, ""), TAGS_COLUMNS)
    if columns < NARROW:
        line = f"{head}{stored} {tags} "
    else:
        keys = pad(values.get(prop.KEYS, ""), KEYS_COLUMNS)
        line = f"{head}{message.total_size:>{SIZE_COLUMNS}} {stored} {tags} {keys} "
    return (line + body_text(message, form, max(columns - cells(line), 8))).rstrip()


def write_sheets(units: Iterable[Unit], form: BodyForm, outlooks: Outlooks) -> int:
    """Every field of every message, one below the other; how many."""
    count = 0
    for count, unit in enumerate(units, 1):
        clear_progress()
        click.echo(("\n" if count > 1 else "") + "\n".join(sheet(unit, form, outlooks)))
    return count


def sheet(unit: Unit, form: BodyForm, outlooks: Outlooks) -> list[str]:
    """The lines about one message."""
    record = record_of(unit, BodyForm.NONE)
    lines = [f"{printable(unit.file.name)} byte {unit.at}: {record['storeSize']} bytes"]
    for name, value in record.items():
        if name == "properties":
            continue
        if isinstance(value, int) and name.endswith("Timestamp"):
            value = f"{value}  {text_of(value)}"
        elif isinstance(value, list):
            value = " ".join(value)
        elif isinstance(value, bool):
            value = "yes" if value else "no"
        lines.append(f"  {name:<26} {'' if value is None else printable(str(value))}".rstrip())
    if (outlook := outlooks.of(unit.message)) is not None:
        lines.append(f"  {'outlook':<26} {outlook.kind}, {outlook.state}: {outlook.says}")
    lines.append("  properties")
    lines += [f"    {printable(name):<24} {printable(value)}" for name, value in record["properties"].items()]
    if form is not BodyForm.NONE:
        lines.append(f"  body ({form})")
        lines.append("    " + body_text(unit.message, form, 4096))
    return lines


def place_of(path: Path) -> str:
    return printable(str(path))
