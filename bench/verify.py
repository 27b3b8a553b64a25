"""`rmq inspect verify` beside a plain sequential read of the same log files, in the same run.

    python -m bench.verify [--messages 400000] [--body 1024] [--directory DIR]

Makes a store (or takes the one in DIR), which then lies in the page cache, and takes the best of three of each row.  MB/s count
bytes of the commit log that hold messages; `core` is per second of processor time, all processes together.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from rmq_columns.checks.scope import Scope
from rmq_inspect.decode.directory import StoreDirectory, list_store
from rmq_inspect.verify.report import Report
from rmq_inspect.verify.verify import verify
from rmq_store.disk.disk import RealDisk
from rmq_store.log.draft import Draft
from rmq_store.settings import StoreSettings
from rmq_store.store import Store
from rmq_wire.implied.index_keys import index_keys
from rmq_wire.implied.tags import tags_code

ROUNDS: Final = 3
TURN_MESSAGES: Final = 500
QUEUES: Final = 8
START_MS: Final = 1_700_000_000_000
HOST: Final = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
LOG_FILE_BYTES: Final = 128 << 20
READ_BYTES: Final = 4 << 20


class Took(NamedTuple):
    """Seconds of one run: on the wall, and of processors."""

    wall: float
    cpu: float


def make_store(root: Path, messages: int, body_bytes: int) -> None:
    """8 queues of one topic; unique key, one key and a tag each, and what a broker adds."""
    settings = StoreSettings(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=LOG_FILE_BYTES,
        max_hash_slot_num=500_000,
        max_index_num=2_000_000,
        disk_space_warning_level_ratio=None,
    )
    store = Store.open(RealDisk(), settings, START_MS, pid=os.getpid())
    noise = Random(1).randbytes(1 << 20)
    for first in range(0, messages, TURN_MESSAGES):
        wall_ms = START_MS + first // 20
        for number in range(first, min(first + TURN_MESSAGES, messages)):
            store.stage(_draft(number, noise, body_bytes), wall_ms)
        store.commit()
        store.dispatch(wall_ms)
        store.tick(first, wall_ms)
    if not store.close(START_MS + messages):
        raise RuntimeError("the store could not be closed in order")


def _draft(number: int, noise: bytes, body_bytes: int) -> Draft:
    unique, key, tags = f"7F0000010007AAAA{number:016X}", f"order-{number}", f"Tag{number % 5}"
    pairs = (
        f"MSG_REGION\x01DefaultRegion\x02UNIQ_KEY\x01{unique}\x02CLUSTER\x01DefaultCluster\x02KEYS\x01{key}\x02WAIT\x01true\x02"
        f"TAGS\x01{tags}\x02TRACE_ON\x01true\x02"
    )
    at = number * 31 % (len(noise) - body_bytes)
    return Draft(
        "BenchmarkTest",
        number % QUEUES,
        noise[at : at + body_bytes],
        pairs.encode(),
        START_MS,
        HOST,
        HOST,
        tags_code=tags_code(tags),
        keys=index_keys(unique, key, tags),
    )


def read_plainly(store: StoreDirectory) -> None:
    """Every log file from one end to the other into one buffer."""
    buffer = memoryview(bytearray(READ_BYTES))
    for file in store.commit_log:
        with file.open() as reader:
            at = 0
            while got := reader.read_into(at, buffer):
                at += got


def best_of(work: Callable[[], object]) -> Took:
    """The run with the least processor time."""
    found = []
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), _cpu_s()
        work()
        found.append(Took(time.perf_counter() - wall, _cpu_s() - cpu))
    return min(found, key=lambda took: took.cpu)


def _cpu_s() -> float:
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def measure(root: Path) -> None:
    """Print one line per row."""
    store = list_store(root)
    reports: list[Report] = []

    def check(scope: Scope) -> Callable[[], object]:
        return lambda: reports.append(verify(store, scope))

    rows: list[tuple[str, Callable[[], object]]] = [
        ("plain sequential read", lambda: read_plainly(store)),
        ("units, chain, CRC", check(Scope(with_queues=False, with_index=False, workers=1))),
        ("and queues", check(Scope(with_index=False, workers=1))),
        ("and queues and index", check(Scope(workers=1))),
        (f"the same, {os.cpu_count()} processes", check(Scope())),
    ]
    took = {name: best_of(work) for name, work in rows}
    unclean = [one for one in reports if not one.is_clean]
    if unclean:
        raise RuntimeError(f"not clean: {unclean[0].listed()[:3]}")
    used = reports[0].log_bytes
    print(f"{reports[0].messages} messages, {used / 1e6:.0f} MB of log in {len(store.commit_log)} files")
    print(f"{'':<28} {'MB/s':>8} {'MB/s core':>10} {'us/message':>11}")
    for name, one in took.items():
        print(f"{name:<28} {used / 1e6 / one.wall:8.0f} {used / 1e6 / one.cpu:10.0f} {one.cpu * 1e6 / reports[0].messages:11.2f}")
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"largest process: {peak / 1024:.0f} MiB resident")


def main() -> None:
    """Make the store, then measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--body", type=int, default=1024)
    parser.add_argument("--directory", type=Path, help="take this store, do not make one")
    options = parser.parse_args()
    if options.directory is not None:
        measure(options.directory)
        return
    with tempfile.TemporaryDirectory() as scratch:
        make_store(Path(scratch), options.messages, options.body)
        measure(Path(scratch))


if __name__ == "__main__":
    main()
