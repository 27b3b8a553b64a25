"""What the subcommands of `rmq inspect` share: how a store is named, how progress is shown, how output is written.

Data goes to standard output, everything else to standard error; progress only to a terminal, at most five times a second.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from rmq_inspect.decode.directory import StoreDirectory, list_store
from rmq_inspect.decode.records import printable
from rmq_inspect.errors import CannotLook
from rmq_inspect.progress import Progress, quiet
from rmq_wire.store_names import offset_of

Command = TypeVar("Command", bound=Callable[..., Any])

PROGRESS_PAUSE_S: Final = 0.2
WIDTH_MIN, WIDTH_MAX, WIDTH_PIPED = 80, 130, 120
"""Columns of our tables."""
SHOWN_PARTS: Final = 10
"""Characters of the bar."""

PLACE: Final = click.Path(path_type=Path, readable=False)
"""A file or directory; whether it may be read is reported by who reads it, for all commands in the same words."""
commit_log_option = click.option(
    "--commit-log",
    "commit_logs",
    multiple=True,
    metavar="DIR",
    type=PLACE,
    help="Where the log is when not in DIR/commitlog (storePathCommitLog); may be given several times.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Machine-readable, one JSON value a line where there are many."
)


def store_argument(command: Command) -> Command:
    """DIR and --commit-log, as `directory` and `commit_logs`."""
    return click.argument("directory", metavar="DIR", type=PLACE)(commit_log_option(command))


def open_store(directory: Path, commit_logs: Sequence[Path] = ()) -> StoreDirectory:
    """The store's files.  Raises `CannotLook`, also for a directory in which nothing is a store's."""
    if directory.exists() and not directory.is_dir():
        raise CannotLook(f"{directory}: not a directory (rmq inspect show takes single files)")
    found = list_store(directory, commit_logs)
    if next(found.files(), None) is None:
        hint = "; it seems to be the commit log alone: give its parent" if _is_log(directory) else ""
        raise CannotLook(f"{directory}: not a RocketMQ store: neither commitlog nor consumequeue nor checkpoint{hint}")
    return found


class NoSuchTopic(CannotLook):
    """The store has no topic of this name."""


def check_topic(store: StoreDirectory, topic: str) -> None:
    """For whoever has found nothing under this name.  Raises `NoSuchTopic` with names like it, unless the store has the topic."""
    from rmq_columns.files.filesystem import LocalTree
    from rmq_columns.read.stores import Store
    from rmq_columns.read.topics import no_such_topic, topics_of

    root = str(store.root)
    known = topics_of(Store("", root, root, ()), LocalTree())
    if known is not None and topic not in known:
        raise NoSuchTopic(no_such_topic(topic, known, root))


def print_no_topic(reason: NoSuchTopic) -> None:
    clear_progress()
    click.echo(f"rmq: {printable(str(reason))}", err=True)


def check_log(store: StoreDirectory) -> None:
    """Raises `CannotLook` when queues or index are there and no log: without it everything in them would look wrong."""
    if not store.commit_log and (store.queues or store.batch_queues or store.index):
        like = log_directories(store)
        hint = f"; {' and '.join(like)} may be meant" if like else ""
        raise CannotLook(
            f"{store.root}: queues or an index, but no commit log file: name its directories (storePathCommitLog), each with"
            f" --commit-log DIR{hint}"
        )


def log_directories(store: StoreDirectory) -> list[str]:
    """Directories in the store that belong to nothing and hold files that are named like those of a log."""
    found = []
    for stray in store.strays:
        path = store.root / stray.name
        if stray.name.endswith("/") and not path.is_symlink() and path.is_dir() and _is_log(path):
            found.append(str(path))
    return found


def check_outside(path: Path, directory: Path, commit_logs: Sequence[Path] = ()) -> None:
    """Raises `CannotLook` when a file that is to be written lies in the store: Java does not start on one with unknown files."""
    there = os.path.realpath(path)
    for one in (directory, *commit_logs):
        here = os.path.realpath(one)
        if os.path.commonpath([here, there]) == here:
            raise CannotLook(f"{path}: lies in the store, into which nothing is written; name a file elsewhere")


def _is_log(directory: Path) -> bool:
    return any(offset_of(name) is not None for name in os.listdir(directory))


def width() -> int:
    """Columns that a table may take."""
    if not sys.stdout.isatty():
        return WIDTH_PIPED
    return max(WIDTH_MIN, min(WIDTH_MAX, shutil.get_terminal_size((WIDTH_PIPED, 24)).columns))


def progress(otherwise: Progress = quiet) -> Progress:
    """Writes one line again and again when standard error is a terminal, and is `otherwise` where it is none."""
    return _Line().show if sys.stderr.isatty() else otherwise


class _Line:
    def __init__(self) -> None:
        self._next = time.monotonic() + PROGRESS_PAUSE_S

    def show(self, what: str, done: int, of: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + PROGRESS_PAUSE_S
        parts = min(SHOWN_PARTS, done * SHOWN_PARTS // of) if of > 0 else 0
        percent = min(100, done * 100 // of) if of > 0 else 0
        line = f"\r{'#' * parts}{'.' * (SHOWN_PARTS - parts)} {percent:3d} %  {what}"
        print(line[:WIDTH_MIN].ljust(WIDTH_MIN), end="\r", file=sys.stderr, flush=True)


def clear_progress() -> None:
    """Take the line away before anything else is printed."""
    if sys.stderr.isatty():
        print(" " * WIDTH_MIN, end="\r", file=sys.stderr, flush=True)
