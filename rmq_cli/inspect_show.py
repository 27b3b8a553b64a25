"""`rmq inspect show`: what is in a store, in a part of it, or in one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from rmq_cli.inspect_common import PLACE, NoSuchTopic, commit_log_option, json_option, open_store, print_no_topic, width
from rmq_cli.inspect_selection import (
    TABLE_ROWS,
    Notes,
    body_option,
    chosen,
    limited,
    selection_options,
    wanted_of,
    write_messages,
)
from rmq_inspect.decode import derived, files
from rmq_inspect.decode.directory import Kind, StoreDirectory, StoreFile
from rmq_inspect.decode.log import Spoilt, Unit, pieces
from rmq_inspect.decode.queues import UNIT
from rmq_inspect.decode.records import BodyForm, json_line, pad, printable
from rmq_inspect.decode.select import Wanted
from rmq_inspect.errors import CannotLook
from rmq_inspect.explain.outlook import Outlooks
from rmq_inspect.times import text_of

KINDS: Final = {
    "log": Kind.COMMIT_LOG,
    "queue": Kind.CONSUME_QUEUE,
    "ext": Kind.EXTENSION,
    "batch": Kind.BATCH_QUEUE,
    "index": Kind.INDEX,
    "checkpoint": Kind.CHECKPOINT,
    "config": Kind.CONFIG,
    "timercheck": Kind.TIMER_CHECK,
    "timerlog": Kind.TIMER_LOG,
    "timerwheel": Kind.TIMER_WHEEL,
}
NOTHING_THERE: Final = 1
TIMES: Final = ("_timestamp", "_ms")
COLUMN_BYTES: Final = {"physical_offset": 12, "tags_code": 20, "address": 21, "store_time": 29, "means": 36, "bit_map": 32}
_MESSAGES: Final = {Kind.COMMIT_LOG}


@click.command("show")
@click.argument("path", metavar="FILE|DIR", type=PLACE)
@commit_log_option
@click.option("--as", "kind", type=click.Choice(list(KINDS)), help="What FILE is, when it does not lie in a store.")
@selection_options
@body_option
@click.option("--full", is_flag=True, help="Messages with every field, not a table.")
@json_option
def command(
    path: Path, commit_logs: tuple[Path, ...], kind: str | None, form: str, full: bool, as_json: bool, **options: Any
) -> None:
    """Print the messages of a store (DIR), or what is in one of its files or directories.

    \b
    rmq inspect show ./.rmq                                    messages, oldest first
    rmq inspect show ./.rmq --topic my-topic --queue 0 --limit 5 --full
    rmq inspect show ./.rmq --since -10m --json
    rmq inspect show ./.rmq/consumequeue/my-topic/0            units of a queue
    rmq inspect show ./.rmq/index                              headers and entries
    rmq inspect show ./.rmq/checkpoint

    Exit status 1 when there is no such topic.
    """
    wanted = wanted_of(options)
    shown = _Shown(as_json, full, BodyForm(form), options)
    shown.is_all = wanted == Wanted()
    if options["limit"] is None:
        options["limit"] = 0 if as_json else TABLE_ROWS
        shown.hints = not as_json
    if kind is not None:
        shown.file(files.lone_file(path, KINDS[kind]), wanted)
        return
    store, under = files.locate(path)
    shown.outlooks = Outlooks(store)
    shown.store = store
    if store.root.samefile(path) or wanted != Wanted(queue_offset=wanted.queue_offset):
        try:
            store = open_store(store.root, commit_logs)
            shown.outlooks = Outlooks(store)
            shown.store, shown.is_whole_log = store, True
            shown.messages(chosen(store, wanted, options, shown.notes))
        except NoSuchTopic as reason:
            print_no_topic(reason)
            raise SystemExit(NOTHING_THERE) from None
        return
    if not under:
        raise CannotLook(f"{path}: nothing of a store is here")
    logs = [file for file in under if file.kind in _MESSAGES]
    if len(logs) == len(under):
        shown.is_whole_log = logs == store.commit_log
        shown.messages(limited(_units(logs, shown.notes), options["limit"]))
        return
    for number, file in enumerate(under):
        if not as_json and len(under) > 1:
            click.echo(("\n" if number else "") + f"== {printable(file.name)} ({file.kind}, {file.size} bytes)")
        shown.file(file, wanted)


def _units(logs: list[StoreFile], note: Callable[[str], None]) -> Iterator[Unit]:
    for piece in pieces(logs):
        if isinstance(piece, Unit):
            yield piece
        elif isinstance(piece, Spoilt):
            note(f"{piece.file.name}: {piece.end - piece.at} bytes from {piece.at} on are no messages: {piece.why}")


class _Shown:
    """How to print."""

    def __init__(self, as_json: bool, full: bool, form: BodyForm, options: dict[str, Any]) -> None:
        self._json = as_json
        self._full = full
        self._form = form
        self._options = options
        self.notes = Notes()
        self.outlooks = Outlooks()
        self.store: StoreDirectory | None = None
        """in which what is shown lies"""
        self.is_whole_log = False
        """whether it has no messages elsewhere"""
        self.hints = False
        self.is_all = False
        """nothing was chosen"""

    def messages(self, units: Iterator[Unit]) -> None:
        count = write_messages(units, self._form, self.notes, self.outlooks, as_json=self._json, full=self._full)
        if not count:
            click.echo(f"rmq: no messages{self._why_none()}", err=True)
        self._hint(count)

    def _why_none(self) -> str:
        """Nothing, where something was chosen, or was said of what is there."""
        if not self.is_all or self.notes.count or self.store is None:
            return ""
        known_by = list(derived.that_know_messages(self.store))
        if not known_by:
            return " yet"
        if not self.is_whole_log:
            return ""
        *others, last = known_by
        return f", though {' and '.join(filter(None, (', '.join(others), last)))} know some: rmq inspect verify says more"

    def _hint(self, count: int) -> None:
        if self.hints and count == self._options["limit"]:
            click.echo(f"rmq: the first {count}; --limit N for more, --limit 0 for all", err=True)

    def file(self, file: StoreFile, wanted: Wanted) -> None:
        match file.kind:
            case Kind.COMMIT_LOG:
                units = (unit for unit in _units([file], self.notes) if wanted.accepts(unit))
                self.messages(limited(units, self._options["limit"]))
            case Kind.CHECKPOINT | Kind.TIMER_CHECK:
                self._fields(file, files.checkpoint_of(file))
            case Kind.CONFIG:
                value = files.config_value(file)
                click.echo(json_line(_plain(value)) if self._json else json.dumps(_plain(value), indent=1, ensure_ascii=False))
            case Kind.LOCK | Kind.ABORT | Kind.OTHER:
                text = files.text_content(file).decode("utf-8", "backslashreplace")
                click.echo(json_line({"file": file.name, "text": text}) if self._json else printable(text))
            case _:
                self._rows(file, wanted.queue_offset or 0)

    def _fields(self, file: StoreFile, fields: dict[str, Any]) -> None:
        if self._json:
            click.echo(json_line({"file": file.name, **fields}))
            return
        for name, value in fields.items():
            when = text_of(value) if name.endswith(TIMES) and value > 0 else ""
            click.echo(f"  {name:<26} {value:>20}  {when}".rstrip())

    def _rows(self, file: StoreFile, queue_offset: int) -> None:
        slots = self._options["hash_slots"]
        if file.kind is Kind.INDEX:
            self._fields(file, files.index_header(file, slots))
        count = 0
        start = max(queue_offset * UNIT.size - file.start, 0) if file.kind is Kind.CONSUME_QUEUE else 0
        rows = files.rows(file, start=start, slots=slots)
        for count, row in enumerate(limited(rows, self._options["limit"]), 1):
            if self._json:
                click.echo(json_line({"file": file.name, **row}))
                continue
            if count == 1:
                click.echo(_line({name: name for name in row}))
            click.echo(_line(row))
        if not count and not self._json:
            click.echo("  (nothing)")
        self._hint(count)


def _line(row: dict[str, Any]) -> str:
    cells = []
    for name, value in row.items():
        columns = max(COLUMN_BYTES.get(name, 13 if name.endswith("_timestamp") else 10), len(name))
        left = name in ("means", "store_time", "bit_map")
        cells.append(pad(str(value), columns) if left else f"{value:>{columns}}")
    return "  ".join(cells).rstrip()[: max(width(), 100) + 40]


def _plain(value: Any) -> Any:
    """Keys that are queues become text."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else json_line(key): _plain(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_plain(below) for below in value]
    return value
