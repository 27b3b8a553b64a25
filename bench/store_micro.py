"""Microseconds of CPU per store operation: stage, commit, dispatch, read, look up; on a scratch directory that is removed.

    python bench/store_micro.py [messages per turn ...]

Not a test: it prints, and asserts nothing about speed.  1 KiB bodies, six properties, 8 queues, index on.
"""

from __future__ import annotations

import gc
import shutil
import sys
import tempfile
import time
from collections.abc import Callable

from rmq_store.disk.disk import RealDisk
from rmq_store.log.draft import Draft
from rmq_store.results import IndexType
from rmq_store.settings import StoreSettings
from rmq_store.store import Store
from rmq_wire.implied.index_keys import index_keys
from rmq_wire.implied.tags import tags_code

MESSAGES = 100_000
BODY = b"x" * 1024
QUEUES = 8
START_MS = 1_700_000_000_000
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")


def drafts(first: int, end: int) -> list[Draft]:
    made = []
    code = tags_code("TagA")
    for number in range(first, end):
        unique = f"7F00000100002A9F18B4{0x0AAC2000 + number // 40:08X}{number % 65536:04X}"
        key = f"order-{number}"
        properties = (
            f"MSG_REGION\x01DefaultRegion\x02UNIQ_KEY\x01{unique}\x02CLUSTER\x01DefaultCluster\x02TAGS\x01TagA\x02KEYS\x01{key}\x02"
            "WAIT\x01true\x02TRACE_ON\x01true\x02"
        ).encode()
        made.append(
            Draft(
                "BenchTopic",
                number % QUEUES,
                BODY,
                properties,
                START_MS,
                HOST,
                HOST,
                tags_code=code,
                keys=index_keys(unique, key, "TagA"),
            )
        )
    return made


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def writes(store: Store, messages: int, turn: int) -> None:
    stage: list[float] = []
    commit: list[float] = []
    dispatch: list[float] = []
    clock = time.thread_time
    for at in range(0, messages - turn + 1, turn):
        wall_ms = START_MS + at // 40
        made = drafts(at, at + turn)  # fresh, as a request handler leaves them: in the processor's cache
        began = clock()
        for draft in made:
            store.stage(draft, wall_ms)
        staged = clock()
        store.commit()
        committed = clock()
        store.dispatch(wall_ms)
        dispatched = clock()
        stage.append(staged - began)
        commit.append(committed - staged)
        dispatch.append(dispatched - committed)
    parts = [median(column) / turn * 1e6 for column in (stage, commit, dispatch)]
    mean = (sum(stage) + sum(commit) + sum(dispatch)) / len(stage) / turn * 1e6
    print(
        f"turns of {turn:4}, median us a message: stage {parts[0]:.2f}  commit {parts[1]:.2f}  dispatch {parts[2]:.2f}"
        f"  sum {sum(parts):.2f} (mean {mean:.2f})"
    )


def reads(store: Store) -> None:
    pulls: list[float] = []
    joins: list[float] = []
    clock = time.thread_time
    for queue_id in range(QUEUES):
        offset = 0
        while True:
            began = clock()
            read = store.read_queue("BenchTopic", queue_id, offset, 32, 1 << 22)
            done = clock()
            if not read.message_count:
                break
            offset = read.next_offset
            b"".join(read.chunks)
            pulls.append(done - began)
            joins.append(clock() - done)
    print(f"pull of 32: {median(pulls) * 1e6:.2f} us, joining its {len(read.chunks) or 32} chunks {median(joins) * 1e6:.2f} us")
    accepts = frozenset({tags_code("TagB")})
    repeat("pull filtered to nothing over 800 units", lambda _: store.read_queue("BenchTopic", 0, 0, 32, 1 << 22, accepts))
    repeat("query by key", lambda n: store.query("BenchTopic", f"order-{n}", 32, 0, 1 << 62, IndexType.KEY))
    repeat("look-up by position", lambda n: store.lookup(0, checked=True))


def repeat(name: str, call: Callable[[int], object], times: int = 2000) -> None:
    spent: list[float] = []
    for number in range(times):
        began = time.thread_time()
        call(number)
        spent.append(time.thread_time() - began)
    print(f"{name}: {median(spent) * 1e6:.2f} us")


def main() -> None:
    turns = [int(text) for text in sys.argv[1:]] or [1, 8, 64, 512]
    gc.freeze()
    for turn in turns:
        root = tempfile.mkdtemp(prefix="store_micro_")
        try:
            store = Store.open(RealDisk(), StoreSettings(store_path_root_dir=root), START_MS, pid=1)
            writes(store, MESSAGES if turn > 1 else 20_000, turn)
            if turn == turns[-1]:
                reads(store)
            store.close(START_MS)
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
