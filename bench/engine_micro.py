"""What a request costs before its handler does anything: microseconds of CPU per request through `Engine.turn`.

64 SEND_MESSAGE_V2 frames (JSON header, 1 KiB body, six properties) arrive in one receive, as they do from one busy Java client.
The handler returns a constant frame.  Printed: feeding alone, feeding and typed headers, the whole turn; medians of rounds.

    python -m bench.engine_micro [--store]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from broker_impl.engine.answers import Answer, Durable
from broker_impl.engine.call import Call
from broker_impl.engine.engine import Engine
from broker_impl.engine.router import Capability, Router, answers
from broker_impl.env import SystemEnv
from rmq_wire.command import Command, Form, encode_request, encode_response
from rmq_wire.conversation import Conversation
from rmq_wire.declare import Role
from rmq_wire.headers.send import SendMessageResponse, SendMessageV2

FRAMES = 64
ROUNDS = 25
TURNS = 100
PROPERTIES = (
    "UNIQ_KEY\x017F00000123456B884D5712345678ABCD\x02KEYS\x01order-1234567\x02WAIT\x01true\x02TAGS\x01TagA\x02"
    "region\x01eu-1\x02trace\x01abcdef0123456789\x02"
)


def frame(opaque: int) -> bytes:
    header = SendMessageV2(
        producer_group="bench_producer",
        topic="bench",
        default_topic="TBW102",
        default_topic_queue_nums=8,
        queue_id=opaque % 8,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties=PROPERTIES,
        reconsume_times=0,
        unit_mode=False,
        batch=False,
        broker_name="broker-a",
    )
    return encode_request(header.code, header, b"x" * 1024, opaque=opaque)


class NullStore:
    """Takes nothing and costs next to nothing: what is measured is the engine's side."""

    undispatched = dispatch_behind_bytes = written_offset = flushed_offset = 0
    sync_refusal = None

    def fence(self, broken: Exception) -> None:
        raise broken

    def savepoint(self) -> int:
        return 0

    def rollback_to(self, savepoint: int) -> None: ...
    def commit(self) -> None: ...
    def dispatch(self, wall_ms: int, limit: int, keys_max: int) -> list[object]:
        return []

    def begin_sync(self, mono_ms: int, force: bool = False) -> None:
        return None

    def end_sync(self, ticket: object, error: OSError | None) -> None: ...
    def next_due(self, mono_ms: int) -> int:
        return mono_ms + 500

    def tick(self, mono_ms: int, wall_ms: int) -> None: ...


class Null(Capability):
    def __init__(self, durable: bool) -> None:
        answer = encode_response(0, 1, form=Form.JSON, header=SendMessageResponse(msg_id="0" * 32, queue_id=0, queue_offset=0))
        assert isinstance(answer, bytes)
        self.frame = answer
        self.durable = durable

    @answers(SendMessageV2, stages=True)
    def send(self, call: Call, asked: SendMessageV2) -> Answer:
        return Durable(self.frame, 0) if self.durable else self.frame


def measure(name: str, turn: Callable[[], object]) -> None:
    times = []
    for _ in range(ROUNDS):
        started = time.thread_time_ns()
        for _ in range(TURNS):
            turn()
        times.append((time.thread_time_ns() - started) / TURNS / FRAMES / 1000)
    print(f"{name:<40} {statistics.median(times):6.2f} us a request   (best {min(times):.2f})")


def main() -> None:
    durable = "--store" in sys.argv
    data = memoryview(bytearray(b"".join(frame(n) for n in range(FRAMES))))
    conversation = Conversation()

    def feed() -> None:
        for _command in conversation.feed(data):
            pass

    def headers() -> None:
        for command in conversation.feed(data):
            assert isinstance(command, Command)
            command.header(SendMessageV2)

    engine = Engine(SystemEnv(), NullStore() if durable else None, sync=lambda ticket: None)
    engine.install(Router(Role.BROKER, [Null(durable)], complete=False))
    peer = engine.opened(("127.0.0.1", 1), ("127.0.0.1", 2), "main")
    assert peer is not None

    def turn() -> None:
        for _peer, chunks, _close in engine.turn([(peer, data)]):
            peer.unsent_bytes = 0
            b"".join(chunks)
        engine.settle()

    measure("feed", feed)
    measure("feed, typed header", headers)
    measure("whole turn" + (", staged answers" if durable else ""), turn)


if __name__ == "__main__":
    main()
