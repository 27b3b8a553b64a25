"""Writes a store of any size, with planted faults and a ledger of them: `python -m planted_stores.generate DIR --size 10GB`.

    DIR/store/          what a broker would have left after a clean stop: log, queues, index, checkpoint, configuration
    DIR/sent/*.jsonl    what producers say was acknowledged (ordinary, sharded and committed messages)
    DIR/faults.jsonl    the ledger of what was planted, empty for a clean store
    DIR/summary.json    what was asked for and what was made

The same arguments make the same bytes.  Pieces of some megabytes are written by several processes, each anywhere in the store;
memory does not depend on the size.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from planted_stores.config import write_config
from planted_stores.faults import KINDS, NoPlace, Planted, Planter, damage, ledger_lines
from planted_stores.index import write_index
from planted_stores.plan import FIRST_MS, Plan, Sizes
from planted_stores.units import SentRows, queue_file, write_piece
from rmq_columns.decode.dtypes import QUEUE_UNIT
from rmq_columns.times_and_sizes import size_bytes

PIECE_BYTES: Final = 4 << 20
"""Of the log, packed at once: stays in the cache of a core."""
TASK_BYTES: Final = 32 << 20
"""Of the log, one file of the sent ledger."""


@dataclass(frozen=True)
class Wanted:
    """What to write.  size: bytes of log, blanks included; body_bytes: of a body, on average; workers: processes, 0 for none."""

    size: int
    body_bytes: int = 1024
    seed: int = 1
    faults: Mapping[str, int] = field(default_factory=dict)
    sizes: Sizes = field(default_factory=Sizes)
    first_ms: int = FIRST_MS
    with_index: bool = True
    with_sent: bool = True
    workers: int = 0


@dataclass(frozen=True)
class Made:
    """What was written."""

    store: Path
    messages: int
    log_bytes: int
    log_end: int
    index_entries: int
    planted: Planted


def generate(directory: Path, wanted: Wanted, progress: Callable[[int, int], None] | None = None) -> Made:
    """Write everything.  progress: called with bytes of log written and in all.

    Raises FileExistsError unless the directory is empty or absent; NoPlace where the store is too small for its faults;
    ValueError for sizes that do not fit each other; OSError.
    """
    if directory.exists() and any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty")
    unknown = sorted(wanted.faults.keys() - KINDS.keys())
    if unknown:
        raise ValueError(f"no fault of the kind {', '.join(unknown)}; there are {', '.join(KINDS)}")
    plan = Plan(wanted.size, wanted.body_bytes, wanted.seed, wanted.sizes, wanted.first_ms)
    planted = Planter(plan, wanted.seed).plant(wanted.faults)
    store = directory / "store"
    _make_files(store, plan)
    if wanted.with_sent:
        (directory / "sent").mkdir()
    entries, written = _write_all(directory, plan, wanted, progress)
    write_config(store, plan, planted.ahead, now_ms=int(wanted.first_ms + plan.count))
    damage(store, plan, planted)
    if wanted.with_sent:
        with (directory / "sent" / f"part-{0:012}.jsonl").open("ab") as sent:
            sent.writelines(planted.sent)
    with (directory / "faults.jsonl").open("w", encoding="ascii") as ledger:
        ledger.writelines(line + "\n" for line in ledger_lines(planted.faults))
    summary = {"messages": plan.count, "logBytes": written, "logEnd": plan.log_end, "indexEntries": entries}
    asked = {**asdict(wanted), "faults": dict(wanted.faults)}
    (directory / "summary.json").write_text(json.dumps({"wanted": asked, "made": summary}, indent=1) + "\n")
    return Made(store, plan.count, written, plan.log_end, entries, planted)


def _make_files(store: Path, plan: Plan) -> None:
    """All files of log and queues at their full size, holes so far."""
    (store / "commitlog").mkdir(parents=True)
    for file in range(len(plan.file_first) - 1):
        _make(store / "commitlog" / f"{file * plan.sizes.log_file_bytes:020}", plan.sizes.log_file_bytes)
    for number in range(len(plan.queues)):
        end = plan.queue_end(number)
        for offset in range(0, end, plan.sizes.queue_file_bytes // QUEUE_UNIT.itemsize):
            path = queue_file(store, plan, number, offset)
            path.parent.mkdir(parents=True, exist_ok=True)
            _make(path, plan.sizes.queue_file_bytes)


def _make(path: Path, size: int) -> None:
    with path.open("xb") as file:
        file.truncate(size)


def tasks(plan: Plan, size: int = TASK_BYTES) -> Iterator[tuple[int, int]]:
    """Ranges of messages, none over the end of a log file."""
    step = max(int(size / float(plan.size.mean())), 1)
    for first, last in zip(plan.file_first.tolist(), plan.file_first[1:].tolist(), strict=False):
        for begin in range(first, last, step):
            yield begin, min(begin + step, last)


_plan: Plan | None = None
_sent: SentRows | None = None
"""Of a worker."""


def _begin(plan: Plan, with_sent: bool) -> None:
    global _plan, _sent
    _plan, _sent = plan, SentRows(plan) if with_sent else None


def _task(directory: Path, first: int, last: int) -> int:
    """Write messages with everything that belongs to them.  Returns bytes of log."""
    plan = _plan
    if plan is None:
        raise RuntimeError("a worker without a plan")
    step = max(int(PIECE_BYTES / float(plan.size.mean())), 1)
    written, rows = 0, []
    for begin in range(first, last, step):
        end = min(begin + step, last)
        written += write_piece(directory / "store", plan, begin, end)
        if _sent is not None:
            rows.append(_sent.rows(begin, end))
    if _sent is not None:
        (directory / "sent" / f"part-{first:012}.jsonl").write_bytes(b"".join(rows))
    return written


def _index(directory: Path) -> int:
    if _plan is None:
        raise RuntimeError("a worker without a plan")
    return write_index(directory / "store", _plan)


def _write_all(directory: Path, plan: Plan, wanted: Wanted, progress: Callable[[int, int], None] | None) -> tuple[int, int]:
    """(index entries, bytes of log)."""
    written = 0

    def report(more: int) -> None:
        nonlocal written
        written += more
        if progress is not None:
            progress(written, plan.log_end)

    if wanted.workers < 1:
        _begin(plan, wanted.with_sent)
        for first, last in tasks(plan):
            report(_task(directory, first, last))
        return _index(directory) if wanted.with_index else 0, written
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(wanted.workers, context, _begin, (plan, wanted.with_sent)) as pool:
        index: Future[int] | None = pool.submit(_index, directory) if wanted.with_index else None
        waiting = [pool.submit(_task, directory, first, last) for first, last in tasks(plan)]
        for one in as_completed(waiting):
            report(one.result())
        return index.result() if index is not None else 0, written


def faults_of(text: str) -> dict[str, int]:
    """`lost=3,duplicate=5`; `all=2` is two of each kind.  Raises ValueError."""
    found: dict[str, int] = {}
    for piece in filter(None, map(str.strip, text.split(","))):
        kind, _, count = piece.partition("=")
        number = int(count or "1")
        if number < 0 or kind not in (*KINDS, "all"):
            raise ValueError(f"not a fault: {piece!r}; there are {', '.join(KINDS)}, all")
        found |= {one: 1 if one == "torn-tail" else number for one in KINDS} if kind == "all" else {kind: number}
    return found


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("planted_stores.generate", description="Write a store of any size, with planted faults.")
    parser.add_argument("directory", type=Path, metavar="DIR", help="empty or absent; gets store/, sent/, faults.jsonl")
    parser.add_argument("--size", type=size_bytes, default="64MiB", help="of the log; 1GB, 512MiB (default %(default)s)")
    parser.add_argument("--body", type=size_bytes, default="1KiB", help="of a body on average (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=faults_of, default="", help=f"KIND=COUNT,…; kinds: {', '.join(KINDS)}, all")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes; 0: only this one")
    parser.add_argument("--first-ms", type=int, default=FIRST_MS, help="store time of the first message")
    parser.add_argument("--no-index", action="store_true", help="leave out the index files")
    parser.add_argument("--no-sent", action="store_true", help="leave out the sent ledger")
    parser.add_argument("--log-file", type=size_bytes, default=Sizes.log_file_bytes, help="mappedFileSizeCommitLog")
    parser.add_argument("--queue-file", type=size_bytes, default=Sizes.queue_file_bytes, help="mappedFileSizeConsumeQueue")
    parser.add_argument("--hash-slots", type=int, default=Sizes.hash_slots, help="maxHashSlotNum")
    parser.add_argument("--index-entries", type=int, default=Sizes.index_entries, help="maxIndexNum")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    """Exit status 0, or 2 with a line that says why not."""
    asked: Any = _arguments(words)
    sizes = Sizes(asked.log_file, asked.queue_file, asked.hash_slots, asked.index_entries)
    wanted = Wanted(
        asked.size,
        asked.body,
        asked.seed,
        asked.faults,
        sizes,
        asked.first_ms,
        not asked.no_index,
        not asked.no_sent,
        asked.workers,
    )
    begun = time.monotonic()

    def progress(done: int, total: int) -> None:
        seconds = max(time.monotonic() - begun, 1e-3)
        print(f"\r{done / 1e6:,.0f} of {total / 1e6:,.0f} MB, {done / 1e6 / seconds:,.0f} MB/s ", end="", file=sys.stderr)

    try:
        made = generate(asked.directory, wanted, progress if sys.stderr.isatty() else None)
    except (NoPlace, ValueError, OSError) as reason:
        print(f"generate: {reason}", file=sys.stderr)
        return 2
    seconds = time.monotonic() - begun
    print(
        f"\r{made.store}: {made.messages:,} messages, {made.log_bytes:,} bytes of log, {made.index_entries:,} index entries, "
        f"{len(made.planted.faults)} faults, {seconds:.1f} s"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
