"""Many topics: how long a broker takes to start and stop with them, what one costs, and whom a creation keeps waiting.

    python -m bench.tables [--topics 50000] [--queues 8] [--seconds 5] [--java] [--files [--java-topics N]]

The topics are in the file and have no messages: what is measured is the table.  With `--files` each queue has one message and its
file, as a clean stop leaves them; Java keeps every file open and mapped, so it gets as many topics as limits allow.  Sends go
to one topic over one connection, first alone, then beside creations by `updateTopic` one after the other; each creation rewrites
and syncs the whole file.  The longest piece is CPU of our loop between two looks at the sockets, the creation's first and a later
one (`bench.pieces`).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.pieces import Asker
from bench.processes import OurBroker, answers, cpu_seconds, make_topic, rss_anon_mib
from rmq_store.disk.disk import RealDisk, RealFile
from rmq_store.log.draft import Draft
from rmq_store.settings import StoreSettings
from rmq_store.store import Store
from rmq_wire.command import Form, encode_request
from tests.support.engine import Harness
from tests.support.reference import JavaBroker, JavaNameServer
from tests.support.requests import create_topic
from tests.support.talk import Talk

BUSY_TOPIC = "busy"
KIB_PER_MIB = 1024
MAPS_MAX = 65_530
"""Of a process, unless Linux is set otherwise (vm.max_map_count)."""
FILES_OF_JAVA = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], MAPS_MAX) - 4_096
"""Queue files that leave it room for everything else."""
TOPICS_AT_ONCE = 8
"""Made by one commit."""
FILE_SIZES = {
    "mappedFileSizeCommitLog": str(1 << 30),
    "mappedFileSizeConsumeQueue": "6000000",
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
}
"""The defaults, as `StoreSettings` has them."""


def write_topics(store: Path, count: int, queues: int) -> None:
    """A store with this many topics and nothing else."""
    rows = {}
    for number in range(count):
        name = f"topic-{number:06d}"
        rows[name] = {
            "attributes": {},
            "order": False,
            "perm": 6,
            "readQueueNums": queues,
            "topicFilterType": "SINGLE_TAG",
            "topicName": name,
            "topicSysFlag": 0,
            "writeQueueNums": queues,
        }
    (store / "config").mkdir(parents=True)
    document = {"dataVersion": {"counter": count, "stateVersion": 0, "timestamp": 1}, "topicConfigTable": rows}
    (store / "config" / "topics.json").write_text(json.dumps(document))


class Unsynced(RealDisk):
    """For a store that is made to be measured: as it is after a clean stop, without waiting for the medium."""

    def open(self, path: str) -> RealFile:
        return self._unsynced(super().open(path))

    def create(self, path: str, size: int) -> RealFile:
        return self._unsynced(super().create(path, size))

    def sync_directory(self, path: str) -> None:
        pass

    def _unsynced(self, file: RealFile) -> RealFile:
        file.__class__ = UnsyncedFile
        return file


class UnsyncedFile(RealFile):
    __slots__ = ()

    def sync(self) -> None:
        pass


def write_queues(store: Path, count: int, queues: int) -> None:
    """One message in each queue of these topics, and a clean stop."""
    settings = StoreSettings(store_path_root_dir=str(store), store_path_commit_log=str(store / "commitlog"))
    now = int(time.time() * 1e3)
    made = Store.open(Unsynced(), settings, now, pid=os.getpid())
    host = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
    for number in range(count):
        for queue_id in range(queues):
            key = f"7F0000010007AAAA{number * queues + queue_id:016X}"
            properties = f"UNIQ_KEY\x01{key}\x02".encode()
            made.stage(Draft(f"topic-{number:06d}", queue_id, b"x" * 100, properties, now, host, host, keys=(key,)), now)
        if number % TOPICS_AT_ONCE == 0 or number == count - 1:
            made.commit()
            made.dispatch(now)
    if not made.close(now):
        raise SystemExit(f"{store} was not closed: {made.refusal_text}")


def sends_ms(port: int, seconds: float) -> list[float]:
    """Latencies of sends one after the other, ascending."""
    found = []
    with Talk(f"127.0.0.1:{port}") as talk:
        end = time.perf_counter() + seconds
        while (started := time.perf_counter()) < end:
            assert talk.send(BUSY_TOPIC, b"x" * 1024).code == 0
            found.append((time.perf_counter() - started) * 1e3)
    return sorted(found)


def creations_ms(port: int, stop: threading.Event) -> list[float]:
    """Latencies of creations one after the other, ascending."""
    found = []
    while not stop.is_set():
        started = time.perf_counter()
        make_topic(port, f"new-{time.time_ns()}", 8)
        found.append((time.perf_counter() - started) * 1e3)
    return sorted(found)


def latencies_text(latencies: list[float]) -> str:
    """Some of their quantiles."""
    at = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
    return ", ".join(f"{name} {latencies[int(len(latencies) * part)]:.2f}" for name, part in at.items()) + " ms"


def one_side(name: str, broker: Any, empty_mib: float, topics: int, seconds: float) -> None:
    """Start, measure, stop."""
    started = time.perf_counter()
    broker.start(wait=False)
    while broker.running and not answers(broker.port):
        time.sleep(0.005)
    print(f"{name}: answers after {time.perf_counter() - started:.2f} s, {cpu_seconds(broker.pid):.2f} s of CPU")
    broker.wait_ready()
    print(f"{name}: {(rss_anon_mib(broker.pid) - empty_mib) * KIB_PER_MIB / topics:.2f} KiB a topic when ready")
    make_topic(broker.port, BUSY_TOPIC, 8)
    print(f"{name}: {(rss_anon_mib(broker.pid) - empty_mib) * KIB_PER_MIB / topics:.2f} KiB a topic after the first creation")
    print(f"{name}: sends alone, {latencies_text(sends_ms(broker.port, seconds))}")
    made: list[float] = []
    stop = threading.Event()
    maker = threading.Thread(target=lambda: made.extend(creations_ms(broker.port, stop)))
    maker.start()
    print(f"{name}: sends beside creations, {latencies_text(sends_ms(broker.port, seconds))}")
    stop.set()
    maker.join()
    print(f"{name}: {len(made) / seconds:.1f} creations a second, {latencies_text(made)}")
    started = time.perf_counter()
    broker.stop()
    print(f"{name}: stopped after {time.perf_counter() - started:.2f} s")


def idle_mib(broker: Any) -> float:
    """Anonymous memory on an empty store."""
    broker.start()
    found = rss_anon_mib(broker.pid)
    broker.stop()
    return found


def pieces(store: Path) -> None:
    """The longest piece of a creation, on the loop of ours."""
    harness = Harness(store)
    gc.collect()
    gc.freeze()
    asker = Asker(harness.node.engine)
    for number in range(2):
        cost = asker.ask(encode_request(17, create_topic(f"piece-{number}"), opaque=number, form=Form.JSON))
        print(f"ours: creation {number + 1}: longest piece {cost.worst:.2f} ms, {cost.total:.0f} ms in {cost.pieces} pieces")
    harness.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=50_000)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--java", action="store_true", help="the real broker beside it")
    parser.add_argument("--files", action="store_true", help="every queue has a message and a file")
    parser.add_argument("--java-topics", type=int, help="as many topics for Java; all that limits allow unless given")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, JavaNameServer(Path(scratch) / "ns") as names:
        root = Path(scratch)
        kinds: dict[str, Callable[..., Any]] = {"ours": OurBroker}
        if options.java:
            kinds["java"] = partial(JavaBroker, patient=False)
        java_topics = options.java_topics or min(
            options.topics, FILES_OF_JAVA // options.queues if options.files else options.topics
        )
        for name, kind in kinds.items():
            empty = idle_mib(kind(root / f"{name}-empty", names.address, name=f"{name}-empty", properties=FILE_SIZES))
            broker = kind(root / name, names.address, name=name, properties=FILE_SIZES)
            topics = java_topics if name == "java" else options.topics
            write_topics(Path(broker.store), topics, options.queues)
            if options.files:
                write_queues(Path(broker.store), topics, options.queues)
            print(f"{name}: {topics} topics of {options.queues} queues{' with files' * options.files}")
            one_side(name, broker, empty, topics, options.seconds)
        write_topics(root / "pieces", options.topics, options.queues)
        pieces(root / "pieces")


if __name__ == "__main__":
    main()
