"""Progress of many groups: do sends wait while the broker writes it down?

    python -m bench.progress [--groups 10000] [--queues 8] [--seconds 15] [--java]

The groups and their progress are in the files at the start.  Sends go to one topic over one connection, one after the other:
first alone, then beside commits (15, one-way) of groups drawn at random, so that each write of the table, every second here,
finds rows that have changed.  The delay of a send is what its latency has beyond the median of those that were sent alone.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.processes import OurBroker, cpu_seconds, make_topic, rss_anon_mib
from bench.tables import BUSY_TOPIC, FILE_SIZES, latencies_text, sends_ms
from rmq_wire.codes import RequestCode
from tests.support.reference import JavaBroker, JavaNameServer
from tests.support.talk import Talk

COMMITS_AT_ONCE = 20
PAUSE_S = 0.01
"""Between two lots: 2,000 commits a second."""
INTERVAL_MS = 1_000
"""Of the writes: `flushConsumerOffsetInterval`, 5,000 by default."""


def write_progress(store: Path, groups: int, queues: int) -> None:
    """The files of so many groups, each with progress in every queue of the topic."""
    version = {"counter": groups, "stateVersion": 0, "timestamp": 1}
    names = [f"group-{number:06d}" for number in range(groups)]
    documents: dict[str, dict[str, Any]] = {
        "subscriptionGroup.json": {
            "dataVersion": version,
            "forbiddenTable": {},
            "subscriptionGroupTable": {name: {"groupName": name} for name in names},
        },
        "consumerOffset.json": {
            "dataVersion": version,
            "offsetTable": {f"{BUSY_TOPIC}@{name}": {str(queue_id): 0 for queue_id in range(queues)} for name in names},
        },
    }
    (store / "config").mkdir(parents=True)
    for name, document in documents.items():
        (store / "config" / name).write_text(json.dumps(document))


def commit_at_random(port: int, groups: int, stop: threading.Event) -> None:
    """Commits, until told to stop."""
    dice = random.Random(1)
    with Talk(f"127.0.0.1:{port}") as talk:
        number = 0
        while not stop.is_set():
            for _ in range(COMMITS_AT_ONCE):
                number += 1
                group = f"group-{dice.randrange(groups):06d}"
                fields = {"consumerGroup": group, "topic": BUSY_TOPIC, "queueId": 0, "commitOffset": number % 2}
                talk.send_oneway(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
            time.sleep(PAUSE_S)


def one_side(name: str, broker: Any, groups: int, seconds: float) -> None:
    """Start, measure, stop."""
    broker.start()
    make_topic(broker.port, BUSY_TOPIC, 8)
    print(f"{name}: {rss_anon_mib(broker.pid):.0f} MiB")
    alone = sends_ms(broker.port, seconds)
    print(f"{name}: sends alone, {latencies_text(alone)}")
    stop = threading.Event()
    committer = threading.Thread(target=commit_at_random, args=(broker.port, groups, stop))
    cpu = cpu_seconds(broker.pid)
    committer.start()
    beside = sends_ms(broker.port, seconds)
    stop.set()
    committer.join()
    used = cpu_seconds(broker.pid) - cpu
    median = alone[len(alone) // 2]
    late = sum(latency - median > 5 for latency in beside)
    print(f"{name}: sends beside commits, {latencies_text(beside)}; {used:.1f} s of CPU in {seconds:g} s")
    print(f"{name}: {late} of {len(beside)} sends were delayed by more than 5 ms (alone: {sum(x - median > 5 for x in alone)})")
    broker.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--java", action="store_true", help="the real broker beside it")
    options = parser.parse_args()
    properties = {**FILE_SIZES, "flushConsumerOffsetInterval": str(INTERVAL_MS)}
    with tempfile.TemporaryDirectory() as scratch, JavaNameServer(Path(scratch) / "ns") as names:
        kinds: dict[str, Callable[..., Any]] = {"ours": OurBroker}
        if options.java:
            kinds["java"] = partial(JavaBroker, patient=False)
        for name, kind in kinds.items():
            broker = kind(Path(scratch) / name, names.address, name=name, properties=properties)
            write_progress(Path(broker.store), options.groups, options.queues)
            print(f"{name}: {options.groups} groups of {options.queues} queues")
            one_side(name, broker, options.groups, options.seconds)


if __name__ == "__main__":
    main()
