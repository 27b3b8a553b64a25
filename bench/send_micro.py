"""What a send costs in its handler: microseconds of CPU per message, header typed, beside a store that only hands out places.

The message is the one of `make bench`: JSON header, 1 KiB body, six properties with UNIQ_KEY, KEYS and TAGS, a known topic.
Printed: the handler, and the parts of it that other modules own; medians of rounds.

    python -m bench.send_micro
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from broker_impl.capabilities.send import Send
from broker_impl.capabilities.send_rules import SendRules
from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Durable
from broker_impl.engine.call import Call
from broker_impl.env import SystemEnv
from broker_impl.intake import Intake
from broker_impl.retries import Retries
from broker_impl.state.groups import GroupTable
from broker_impl.state.locks import QueueLocks
from broker_impl.state.stats import Stats
from broker_impl.state.topics import TopicTable
from rmq_store.log.draft import Draft, Placed
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.command import Command, Form
from rmq_wire.headers.send import SendMessageV2
from rmq_wire.message_id import UniqueKeyMaker, pack_host

ROUNDS = 15
MESSAGES = 20_000
BODY = b"x" * 1024


def properties(number: int) -> str:
    return (
        f"UNIQ_KEY\x017F00000123456B884D5712345678{number & 0xFFFF:04X}\x02KEYS\x01order-{number}\x02WAIT\x01true\x02"
        "TAGS\x01TagA\x02region\x01eu-1\x02trace\x01abcdef0123456789\x02"
    )


class Places:
    """Stands for the store: reserves, keeps nothing."""

    def __init__(self) -> None:
        self.end = 0

    def stage(self, draft: Draft, wall_ms: int) -> Placed:
        at = self.end
        self.end = end = at + 1256
        return Placed(at, at // 1256, 1256, end)


class FakePeer:
    remote = ("127.0.0.1", 50000)
    remote_packed = pack_host("127.0.0.1", 50000)


def sender() -> Send:
    env, config = SystemEnv(), BrokerConfig()
    topics = TopicTable(config, env)
    topics.put(TopicConfig(topic_name="bench", read_queue_nums=8, write_queue_nums=8))
    intake = Intake(Places(), store_host=pack_host("127.0.0.1", 10911), delay_levels_ms=(1000,))  # type: ignore[arg-type]
    keys = UniqueKeyMaker(ip=b"\x7f\0\0\1", pid=1, process_number=1, zone=None)
    stats = Stats(config, env, topics.is_system)
    halves: Any = None  # nothing here is a half message
    retries = Retries(topics, GroupTable(config, env))
    return Send(SendRules(env, config, topics, retries, QueueLocks(env), stats, intake, halves, keys, lambda: ""))


def measure(name: str, run: Callable[[], Any]) -> None:
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time_ns()
        run()
        times.append((time.process_time_ns() - begin) / MESSAGES / 1000)
    print(f"{name:32} {statistics.median(times):6.2f} us")


def main() -> None:
    """Print the table."""
    send = sender()
    asked = [
        SendMessageV2(
            producer_group="bench_producer",
            topic="bench",
            default_topic="TBW102",
            default_topic_queue_nums=8,
            queue_id=number % 8,
            sys_flag=0,
            born_timestamp=1_700_000_000_000,
            flag=0,
            properties=properties(number),
            reconsume_times=0,
            unit_mode=False,
            batch=False,
            broker_name="broker-a",
        )
        for number in range(MESSAGES)
    ]
    commands = [Command(code=310, opaque=number, body=BODY, form=Form.JSON) for number in range(MESSAGES)]
    loop: Any = None
    peer: Any = FakePeer()

    def handle() -> None:
        for command, header in zip(commands, asked, strict=True):
            answer = send.send(Call(loop, peer, command), header)
            assert answer.__class__ is Durable

    def rewrite() -> None:
        for header in asked:
            send._shapes.rewrite(header.properties)

    def count() -> None:
        for header in asked:
            send._stats.add_put("bench", header.queue_id, 1, 1256)

    def answer() -> None:
        for number in range(MESSAGES):
            send._answers.one(Form.JSON, number, number, 1, number, "7F00000123456B884D57123456780000")

    handle()
    measure("handler", handle)
    measure("  properties rewritten", rewrite)
    measure("  statistics", count)
    measure("  answer", answer)


if __name__ == "__main__":
    main()
