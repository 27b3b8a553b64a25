"""What a transaction costs a whole broker without sockets: microseconds of CPU per half message and per commit.

The load is that of the row "transaction" of `make bench`: JSON headers, 1 KiB body, eight properties; 64 half messages arrive in
one turn, their ends in the next, on a real store in a temporary directory.  Printed beside it: an ordinary send of the same size.

    python -m bench.transaction_micro [--profile]
"""

from __future__ import annotations

import cProfile
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

from bench.engine_micro import PROPERTIES
from broker_impl.env import SystemEnv
from rmq_wire import names
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.command import encode_request
from rmq_wire.conversation import Conversation
from rmq_wire.declare import Request
from rmq_wire.headers.send import SendMessageResponse, SendMessageV2
from rmq_wire.headers.transactions import EndTransaction
from rmq_wire.message_id import parse_offset_message_id
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED
from tests.support.driver import Driver
from tests.support.engine import broker_node

FRAMES = 64
ROUNDS = 15
TURNS = 40
BODY = b"x" * 1024
FILES = {"mappedFileSizeCommitLog": 1 << 30, "mappedFileSizeConsumeQueue": 6_000_000, "maxHashSlotNum": 5_000_000}
HALF = "TRAN_MSG\x01true\x02PGROUP\x01bench_producer\x02"


class Load:
    """One broker and one connection to it."""

    def __init__(self, root: str) -> None:
        self.env = SystemEnv()
        node = broker_node(self.env, root, maxIndexNum=20_000_000, **FILES)
        self.engine = node.engine
        self.store = node.store
        for name, queues in (("bench", 8), (names.TRANS_HALF_TOPIC, 1)):
            node.topics.put(TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues))
        Driver(self.engine).run()
        peer = self.engine.opened(("127.0.0.1", 50_000), ("127.0.0.1", 10_911), "main")
        assert peer is not None
        self.peer = peer
        self.count = 0

    def sends(self, half: bool) -> bytearray:
        """So many sends, as they arrive."""
        frames = bytearray()
        for _ in range(FRAMES):
            self.count += 1
            key = f"7F00000123456B884D57{self.count:012X}"
            header = SendMessageV2(
                producer_group="bench_producer",
                topic="bench",
                default_topic="TBW102",
                default_topic_queue_nums=8,
                queue_id=self.count % 8,
                sys_flag=TRANSACTION_PREPARED if half else 0,
                born_timestamp=self.env.wall_ms,
                flag=0,
                properties=PROPERTIES.replace("7F00000123456B884D5712345678ABCD", key) + (HALF if half else ""),
                reconsume_times=0,
                unit_mode=False,
                batch=False,
                broker_name="broker-a",
            )
            frames += encode_request(header.code, header, BODY, opaque=self.count)
        return frames

    def ends(self, answers: bytes) -> bytearray:
        """The commits of the half messages that these answers name."""
        frames = bytearray()
        for command in Conversation().feed(memoryview(answers)):
            said = command.header(SendMessageResponse)  # type: ignore[union-attr]
            self.count += 1
            request: Request = EndTransaction(
                producer_group="bench_producer",
                topic="bench",
                tran_state_table_offset=said.queue_offset,
                commit_log_offset=parse_offset_message_id(said.msg_id).physical_offset,
                commit_or_rollback=TRANSACTION_COMMIT,
                from_transaction_check=False,
                msg_id=said.transaction_id,
            )
            frames += encode_request(request.code, request, opaque=self.count)
        return frames

    def turn(self, data: bytearray) -> bytes:
        """One turn of the engine, with all that follows it."""
        chunks = [chunk for _, out, _ in self.engine.turn([(self.peer, memoryview(data))]) for chunk in out]
        self.peer.unsent_bytes = 0
        for _ in range(3):
            self.engine.settle()
        return b"".join(chunks)


def main() -> None:
    """Print the table, and where the time goes."""
    profile = cProfile.Profile() if "--profile" in sys.argv else None
    times: dict[str, list[float]] = {"ordinary send": [], "half message": [], "commit": [], "half message and commit": []}

    def timed(what: Callable[[], bytes], *, profiled: bool) -> tuple[bytes, float]:
        if profile is not None and profiled:
            profile.enable()
        begin = time.thread_time_ns()
        answers = what()
        took = time.thread_time_ns() - begin
        if profile is not None:
            profile.disable()
        return answers, took / FRAMES / 1000

    with tempfile.TemporaryDirectory(prefix="rmq-transactions-") as root:
        load = Load(root)
        for round_ in range(ROUNDS):
            sums = [0.0, 0.0, 0.0]
            for _ in range(TURNS):
                plain, half = load.sends(False), load.sends(True)
                _, send_us = timed(lambda data=plain: load.turn(data), profiled=False)  # type: ignore[misc]
                answers, half_us = timed(lambda data=half: load.turn(data), profiled=round_ > 0)  # type: ignore[misc]
                ends = load.ends(answers)
                answers, end_us = timed(lambda data=ends: load.turn(data), profiled=round_ > 0)  # type: ignore[misc]
                assert answers.count(b'"code":0') == FRAMES, answers[:400]
                sums = [total + one for total, one in zip(sums, (send_us, half_us, end_us), strict=True)]
            if round_:
                send_us, half_us, end_us = (total / TURNS for total in sums)
                for name, us in zip(times, (send_us, half_us, end_us, half_us + end_us), strict=True):
                    times[name].append(us)
    for name, found in times.items():
        print(f"{name:32} {statistics.median(found):6.2f} us   (best {min(found):.2f})")
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    main()
