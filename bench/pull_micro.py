"""What a pull of 32 costs in `Engine.turn`: microseconds of CPU per pull, 16 peers on 8 interleaved queues, no sockets.

Printed: the whole turn and the parts of it, medians of rounds.

    python -m bench.pull_micro [--profile]
"""

from __future__ import annotations

import cProfile
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.store_micro import drafts
from broker_impl.config import BrokerConfig
from broker_impl.env import SystemEnv
from broker_impl.node import BrokerNode
from rmq_store.disk.disk import RealDisk
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.command import Command, encode_request
from rmq_wire.conversation import Conversation
from rmq_wire.headers.pull import PullMessage
from tests.support.requests import WALL_MS, pull

PEERS = 16
QUEUES = 8
MESSAGES = 40_000
ROUNDS = 15
TURNS = 100
TOPIC = "BenchTopic"


def node(root: Path) -> BrokerNode:
    """A broker with one topic full of messages, its queues interleaved in the log."""
    settings = {
        "storePathRootDir": str(root),
        "brokerIP1": "127.0.0.1",
        "diskSpaceWarningLevelRatio": "99",
        "listenPort": "10911",
    }
    made = BrokerNode(SystemEnv(), BrokerConfig(settings), RealDisk(), None)
    made.topics.put(TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES))
    for at in range(0, MESSAGES, 64):
        for draft in drafts(at, at + 64):
            made.store.stage(draft, WALL_MS + at)
        made.store.commit()
        made.store.dispatch(WALL_MS + at)
    return made


def measure(name: str, run: Callable[[], Any], count: int) -> None:
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time_ns()
        run()
        times.append((time.process_time_ns() - begin) / count / 1000)
    print(f"{name:40} {statistics.median(times):6.2f} us")


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="rmq-bench-") as scratch:
        broker = node(Path(scratch))
        engine = broker.engine
        peers = [engine.opened(("127.0.0.1", 40_000 + n), ("127.0.0.1", 10911), "main") for n in range(PEERS)]
        per_queue = MESSAGES // QUEUES

        def batch(turn: int) -> list[tuple[Any, bytes]]:
            arrived = []
            for n, peer in enumerate(peers):
                asked = pull(TOPIC, n % QUEUES, (turn * 32) % (per_queue - 32), sub_version=WALL_MS)
                arrived.append((peer, encode_request(asked.code, asked, opaque=turn)))
            return arrived

        batches = [batch(turn) for turn in range(TURNS)]

        def turns() -> None:
            for arrived in batches:
                for peer, chunks, _ in engine.turn(arrived):
                    peer.unsent_bytes -= sum(map(len, chunks))
                engine.settle()

        turns()
        if "--profile" in sys.argv:
            profile = cProfile.Profile()
            profile.runcall(turns)
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
            return
        measure("turn", turns, PEERS * TURNS)

        def fed() -> None:
            for arrived in batches:
                for _, data in arrived:
                    for command in Conversation().feed(data):
                        assert isinstance(command, Command)
                        command.header(PullMessage)

        def read() -> None:
            for turn in range(TURNS):
                for n in range(PEERS):
                    store.read_queue(TOPIC, n % QUEUES, (turn * 32) % (per_queue - 32), 32, 1 << 27, None)

        def joined() -> None:
            for chunks in found:
                b"".join((b"x" * 200, *chunks))

        store = broker.store
        found = [store.read_queue(TOPIC, n % QUEUES, 32 * n, 32, 1 << 27, None).chunks for n in range(100)]
        measure("feed, typed header", fed, PEERS * TURNS)
        measure("store.read_queue", read, PEERS * TURNS)
        measure("join", joined, len(found))


if __name__ == "__main__":
    main()
