"""What a pop of 32 and its batch ack cost in `Engine.turn` and `Engine.settle`: microseconds of CPU, no sockets.

Each peer pops from any of 8 interleaved queues and acknowledges all it got, a request at a time, as `bench/load.c` does; a group
that has read everything makes room for the next.  The clock is the program's: it goes on with the requests, and at the end over
the invisible time, so that what the records cost when they come out of the wheel is seen apart.  The least of the rounds counts.

    python -m bench.pop_micro [--profile] [--peers N]
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.store_micro import START_MS, drafts
from broker_impl.config import BrokerConfig
from broker_impl.engine.peer import Peer
from broker_impl.env import Env
from broker_impl.node import BrokerNode
from rmq_net.service import Output
from rmq_store.disk.disk import RealDisk
from rmq_wire.bodies.pop import bits_text
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.command import Command, encode_request
from rmq_wire.conversation import Conversation
from rmq_wire.headers.pop import BatchAckMessage, PopMessage, PopMessageResponse
from rmq_wire.implied.pop import revive_topic
from rmq_wire.pop_receipt import read_msg_offsets, read_start_offsets

QUEUES: Final = 8
MESSAGES: Final = 20_000
ROUNDS: Final = 9
TURNS: Final = 400
"""Of each kind, in a round, for all peers together."""
INVISIBLE_MS: Final = 60_000
A_MS: Final = 8
"""Requests."""
TOPIC: Final = "BenchTopic"
BROKER: Final = "broker-a"
STEPS_MAX: Final = 1_000_000
"""Settlements until what is due is out of the wheel."""


class Popping:
    """A broker with one topic full of messages, and peers that pop from it.  `times`: microseconds of each step, by name."""

    def __init__(self, root: Path, peers: int) -> None:
        settings = {
            "storePathRootDir": str(root),
            "brokerName": BROKER,
            "brokerIP1": "127.0.0.1",
            "diskSpaceWarningLevelRatio": "99",
            "listenPort": "10911",
        }
        self.env = Env(wall_ms=START_MS + 1_000_000, mono_ms=1_000)
        self.node = BrokerNode(self.env, BrokerConfig(settings), RealDisk(), None)
        self.engine = self.node.engine
        self._fill()
        self.peers = [self._opened(n) for n in range(peers)]
        self.conversation = Conversation()
        self.bodies: dict[Peer, bytes] = {}
        """What each peer has to acknowledge."""
        self.group = 0
        self.popped = self.served = 0
        self.times: dict[str, float] = {}
        self._idle()

    def _fill(self) -> None:
        self.node.topics.put(TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES))
        store = self.node.store
        for at in range(0, MESSAGES, 64):
            for draft in drafts(at, at + 64):
                store.stage(draft, self.env.wall_ms)
            store.commit()
            store.dispatch(self.env.wall_ms)

    def _opened(self, number: int) -> Peer:
        peer = self.engine.opened(("127.0.0.1", 40_000 + number), ("127.0.0.1", 10_911), "main")
        assert peer is not None
        return peer

    def _pop(self) -> bytes:
        asked = PopMessage(
            consumer_group=f"bench_pop_{self.group}",
            topic=TOPIC,
            queue_id=-1,
            max_msg_nums=32,
            invisible_time=INVISIBLE_MS,
            poll_time=0,
            born_time=self.env.wall_ms,
            init_mode=0,
            exp_type="TAG",
            exp="*",
            order=False,
        )
        return encode_request(asked.code, asked, opaque=1)

    def round(self, turns: int) -> None:
        """So many turns of pops, each followed by one of acknowledgements."""
        for _ in range(turns):
            data = self._pop()
            said = self._turn("pop", [(peer, data) for peer in self.peers])
            found = 0
            for peer, chunks, _ in said:
                found += self._keep(peer, b"".join(chunks))
            if not found:
                self.group += 1
                continue
            asked = BatchAckMessage()
            acks = [(peer, encode_request(asked.code, asked, body, opaque=2)) for peer, body in self.bodies.items()]
            self.bodies.clear()
            for _, chunks, _ in self._turn("ack", acks):
                assert b'"code":0' in b"".join(chunks)

    def drain(self) -> int:
        """Over the invisible time: everything comes out of the wheel, and the revive queues are read.  How many pops."""
        self.env.advance(INVISIBLE_MS + 2_000)
        popped, self.popped = self.popped, 0
        self._timed("records due again", self._idle)
        return popped

    def _idle(self) -> None:
        engine, env = self.engine, self.env
        for _ in range(STEPS_MAX):
            engine.turn(())
            engine.settle()
            for job in engine.take_jobs():
                job.done(job.run(), None)
            due = engine.next_deadline()
            if due is None or due > env.mono_ms:
                if self._settled():
                    return
                env.advance(max((due or 0) - env.mono_ms, 1))
        raise AssertionError("it never rests")

    def _settled(self) -> bool:
        timer, revive, store = self.node.timer, self.node.revive, self.node.store
        assert timer is not None
        topic = revive_topic(self.node.config.broker_cluster_name)
        unread = [queue for queue in revive._queues if queue.next_offset < store.queue_bounds(topic, queue.queue_id)[1]]
        return not timer.has_work(self.env.wall_ms) and not revive.open and not unread

    def _turn(self, name: str, arrived: list[tuple[Peer, bytes]]) -> list[Output]:
        self.served += len(arrived)
        if self.served >= A_MS:
            self.served = 0
            self.env.advance(1)
        said: list[Output] = []
        self._timed(name, lambda: said.extend(self.engine.turn(arrived)))
        self._timed("what follows both", lambda: said.extend(self.engine.settle()))
        for peer, chunks, _ in said:
            peer.unsent_bytes -= sum(map(len, chunks))
        for job in self.engine.take_jobs():
            job.done(job.run(), None)
        return said

    def _timed(self, name: str, work: Callable[[], Any]) -> None:
        began = time.thread_time_ns()
        work()
        self.times[name] = self.times.get(name, 0.0) + (time.thread_time_ns() - began) / 1000

    def _keep(self, peer: Peer, frame: bytes) -> int:
        """The acknowledgement of what an answer hands out; how many messages."""
        (answer,) = self.conversation.feed(frame)
        assert isinstance(answer, Command)
        if answer.code:
            return 0
        header = answer.header(PopMessageResponse)
        starts = read_start_offsets(header.start_offset_info)
        acks: list[dict[str, Any]] = []
        count = 0
        for key, offsets in read_msg_offsets(header.msg_offset_info).items():
            flag, queue_id = key.split("@")
            count += len(offsets)
            acks.append(
                {
                    "b": bits_text(offset - starts[key] for offset in offsets),
                    "c": f"bench_pop_{self.group}",
                    "it": INVISIBLE_MS,
                    "pt": header.pop_time,
                    "q": int(queue_id),
                    "r": flag,
                    "rq": header.revive_qid,
                    "so": starts[key],
                    "t": TOPIC,
                }
            )
        self.popped += 1
        self.bodies[peer] = json.dumps({"acks": acks, "brokerName": BROKER}, separators=(",", ":")).encode()
        return count


def main() -> None:
    """Print the table, or a profile of each of its parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, nargs="*", default=[1, 16])
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    gc.disable()  # as good as off in a server: it collects when idle
    for peers in options.peers:
        with tempfile.TemporaryDirectory(prefix="rmq-bench-") as scratch:
            popping = Popping(Path(scratch), peers)
            turns = max(TURNS // peers, 1)
            popping.round(turns)
            popping.drain()
            if options.profile:
                for work in (partial(popping.round, 10 * turns), popping.drain):
                    profile = cProfile.Profile()
                    profile.runcall(work)
                    pstats.Stats(profile).sort_stats("tottime").print_stats(45)
                continue
            rows: dict[str, list[float]] = {}
            for _ in range(ROUNDS):
                popping.times.clear()
                popping.round(turns)
                popped = popping.drain()
                for name, took in popping.times.items():
                    rows.setdefault(name, []).append(took / popped)
            found = {name: min(times) for name, times in rows.items()}
            print(f"{peers} peers: microseconds each, a round of pop and ack {sum(found.values()):.1f}")
            for name, took in found.items():
                print(f"  {name:30} {took:8.2f} us")
            popping.node.close()


if __name__ == "__main__":
    main()
