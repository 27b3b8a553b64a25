"""What several tests of exports need: a log that grew over days, rows to compare, an attempt that dies where it is asked to."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from rmq_columns import Options, parse_options, read_store
from rmq_columns.decode.units import FIXED_SIZE_MIN
from rmq_columns.export.destination import Destination, LocalDestination, RemoteDestination
from rmq_columns.export.reading import read_export
from rmq_columns.export.sinks import LocalSink, RemoteSink, Sink
from rmq_columns.read.schema import CORRUPT
from tests.support.logs import Body, Log, unit, write_log

FILE_BYTES: Final = 1 << 14
DAY_MS: Final = 86_400_000
COUNT: Final = 90


def log_of_days(root: Path, count: int = COUNT, days: float = 3.0) -> Log:
    """Some log files; each message a little later."""
    bodies = [bytes([number % 251]) * (200 + number) for number in range(count)]
    return write_log(root, bodies, file_bytes=FILE_BYTES, ms_step=int(days * DAY_MS / count))


def options_of(root: Path | str, **options: Any) -> Options:
    """As the job has them, with splits of one file."""
    return parse_options({"path": str(root), "mode": "PERMISSIVE", "splitBytes": FILE_BYTES, **options})


def exported(to: Path | str, corrupt: bool = False) -> list[dict[str, Any]]:
    """Rows by place; `date` is left out, which is no column of a store."""
    rows = read_export(str(to), corrupt=corrupt).read_all().to_pylist()
    kept = [{name: value for name, value in row.items() if name != "date"} for row in rows]
    return sorted(kept, key=lambda row: (row["brokerName"], row["physicalOffset"]))


def stored(root: Any, **options: Any) -> list[dict[str, Any]]:
    """The rows of the store, by place: the sound ones."""
    if "columns" in options:
        options["columns"] += f",{CORRUPT}"
    rows = read_store(root, mode="PERMISSIVE", **options).read_all().to_pylist()
    sound = [{name: row[name] for name in row if name != CORRUPT} for row in rows if row[CORRUPT] is None]
    return sorted(sound, key=lambda row: (row["brokerName"], row["physicalOffset"]))


def data_files(to: Path) -> list[str]:
    """Every file beneath but those of the manifest, also hidden ones."""
    found = [path.relative_to(to).as_posix() for path in to.rglob("*") if path.is_file()]
    return sorted(name for name in found if not name.startswith("_manifest/") and name != "_SUCCESS")


@contextmanager
def stopped_at(number: int, stop: Callable[[], None]) -> Iterator[list[str]]:
    """Calls `stop` before step `number` (from 0) that changes the destination; gives the steps so far."""
    steps: list[str] = []

    def step(name: str) -> None:
        steps.append(name)
        if len(steps) - 1 == number:
            stop()

    with pytest.MonkeyPatch.context() as patch:
        changes = [(owner, name) for owner in (LocalDestination, RemoteDestination) for name in ("create", "put", "remove")]
        ends = [(LocalSink, "complete"), (LocalSink, "appear"), (RemoteSink, "complete"), (Sink, "appear"), (Sink, "write")]
        for owner, name in (*changes, *ends):
            patch.setattr(owner, name, _stepping(getattr(owner, name), name, step))
        yield steps


def _stepping(call: Callable[..., Any], name: str, step: Callable[[str], None]) -> Callable[..., Any]:
    def called(self: Destination | Sink, *arguments: Any) -> Any:
        step(name)
        return call(self, *arguments)

    return called


def die() -> None:
    """As `kill -9`."""
    os.kill(os.getpid(), signal.SIGKILL)


def forged_log(root: Path) -> Log:
    """A log without queues, with one body in which units stand that say where they are: a cut may be made at one of them."""

    def forged(at: int) -> bytes:
        found = b""
        for _ in range(12):
            found += unit(at + FIXED_SIZE_MIN + len(found), b"forged" * 20)
        return found

    bodies: list[Body] = [*[b"x" * 50] * 3, forged, *[b"y" * 50] * 30]
    return write_log(root, bodies, file_bytes=FILE_BYTES, queue=False)
