"""Delivery of delayed messages and of timers: rate and CPU of ours and of Java's broker, sends beside a burst, pending timers.

    python -m bench.delays [--kind levels|timers] [--messages 100000] [--rounds 3]
    python -m bench.delays --pending 1000000

All messages become due in the same second: level n waits two seconds less than level n - 1 and is filled two seconds later;
timers name that second, and are in the wheel before it.  The rate is from the first copy in the topic to the last; CPU is the
whole broker's meanwhile.  In every other round the load generator sends beside it, and what it then reaches is compared with what
it reaches alone.

Pending timers are spread over a day.  Measured is anonymous memory of a broker that took them, and of one that starts with them,
beside one that starts with nothing; and the time from exec until it answers with all of them in its wheel.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from bench.compare import DEFAULT_SIZES, Row, Side, brokers, drive, in_turn, machine, verdict
from bench.processes import OurBroker, answers, cpu_seconds, make_topic, rss_anon_mib
from rmq_store.layouts import TIMER_CHECK
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Form, encode_request
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.timers import GetTimerCheckPoint
from rmq_wire.names import WHEEL_TIMER_TOPIC
from tests.support.reference import JavaBroker, JavaNameServer
from tests.support.requests import pairs, send
from tests.support.talk import Talk

LEVELS = 10
STEP_S = 2
DELAYS_S = [STEP_S * (LEVELS - level) + 4 for level in range(LEVELS)]
DEPTH = 64
BODY = bytes(1024)
SMALL_BODY = bytes(64)
"""Of timers that wait: what they cost is not their bodies, which are in the log."""
BESIDE = Row("send 16 x 1", "send", 16, 1, False, None, None)
BESIDE_S = 4.0
FILLED_A_SECOND = 2_000
"""A slow machine fills and enters this many timers a second: so long ahead they are due."""
DAY_S = 86_400
STRIDE = 399_989
"""A prime."""
RATE_MIN, CPU_MAX, BESIDE_MIN = 1.0, 0.7, 0.7
PENDING_MIB_MAX, PENDING_START_S_MAX = 100.0, 3.0


class Delivered(NamedTuple):
    """Of one round."""

    rate: float
    cpu_us: float
    sends: float | None
    """A second, beside the burst."""


def fill(talk: Talk, topic: str, count: int, body: bytes, properties: Callable[[int], dict[str, str]]) -> None:
    """Send so many messages with these properties, pipelined; one that was refused since the broker was busy, again."""
    for begin in range(0, count, DEPTH):
        wave = {}
        for number in range(begin, min(begin + DEPTH, count)):
            asked = send(topic=topic, properties=pairs(UNIQ_KEY=f"{number:032X}", **properties(number)))
            wave[number] = encode_request(asked.code, asked, body, opaque=number, form=Form.JSON)
        while wave:
            talk.raw(*wave.values())
            for answer in talk.hear(len(wave)):
                if answer.code == 0:
                    del wave[answer.opaque]
                elif answer.code != ResponseCode.SYSTEM_BUSY:
                    raise SystemExit(f"a message that has to wait was refused: {answer.code} {answer.remark}")


def fill_levels(talk: Talk, topic: str, messages: int) -> int:
    """Every level its share, so that all are due at once.  How many."""
    began = time.monotonic()
    for level in range(1, LEVELS + 1):
        time.sleep(max(0.0, began + STEP_S * (level - 1) - time.monotonic()))
        fill(talk, topic, messages // LEVELS, BODY, lambda _, level=level: {"DELAY": str(level)})  # type: ignore[misc]
    return messages // LEVELS * LEVELS


def fill_timers(talk: Talk, topic: str, messages: int) -> int:
    """All for one time of day, and in the wheel before it.  How many."""
    due_ms = time.time_ns() // 1_000_000 + (10 + messages // FILLED_A_SECOND) * 1_000
    fill(talk, topic, messages, BODY, lambda _: {"TIMER_DELIVER_MS": str(due_ms)})
    until_entered(talk)
    return messages


def fill_wheel(talk: Talk, topic: str, count: int) -> None:
    """Over a day that begins in an hour; no neighbours in time follow each other."""
    begin_ms = time.time_ns() // 1_000_000 + 3_600_000
    spread_ms = DAY_S * 1_000 // count + 1
    fill(talk, topic, count, SMALL_BODY, lambda n: {"TIMER_DELIVER_MS": str(begin_ms + n * STRIDE % count * spread_ms)})
    until_entered(talk)


def until_entered(talk: Talk) -> None:
    """The wheel has every timer."""
    highest = int(talk.ask(GetMaxOffset(topic=WHEEL_TIMER_TOPIC, queue_id=0)).ext_map()["offset"])
    while int(TIMER_CHECK.unpack(talk.ask(GetTimerCheckPoint()).body)[2]) < highest:
        time.sleep(0.01)


def delivered(talk: Talk, topic: str) -> int:
    """How many copies are in the topic, which has one queue."""
    return int(talk.ask(GetMaxOffset(topic=topic, queue_id=0)).ext_map()["offset"])


def wait_for(talk: Talk, topic: str, count: int) -> None:
    """Look every few milliseconds."""
    while delivered(talk, topic) < count:
        time.sleep(0.005)


def burst(side: Side, topic: str, kind: str, messages: int, *, beside: bool) -> Delivered:
    """Let them wait, and see how they come."""
    make_topic(side.port, topic, 1)
    with Talk(f"127.0.0.1:{side.port}") as talk:
        count = KINDS[kind](talk, topic, messages)
        if delivered(talk, topic):
            raise SystemExit("some were due before all were there: take fewer messages")
        wait_for(talk, topic, 1)
        first, used = time.monotonic(), cpu_seconds(side.pid)
        sends = drive(side, BESIDE, "bench_beside", BESIDE_S, 0.01).rate if beside else None
        wait_for(talk, topic, count)
        took = time.monotonic() - first
        return Delivered(count / took, (cpu_seconds(side.pid) - used) * 1e6 / count, sends)


KINDS = {"levels": fill_levels, "timers": fill_timers}


def bursts(scratch: Path, kind: str, messages: int, rounds: int) -> None:
    """Measure both brokers and print."""
    levels = {"messageDelayLevel": " ".join(f"{delay}s" for delay in DELAYS_S)}
    figures: dict[str, tuple[float, float, float]] = {}
    with brokers(scratch, sync_flush=False, more=levels) as sides:
        print(f"| {kind} | delivered msg/s | CPU µs | sends/s alone | sends/s beside | beside ÷ alone |")
        print("|---|---:|---:|---:|---:|---|")
        for side in in_turn(sides):
            burst(side, "bench_warm", kind, messages // 10, beside=False)
            alone = [burst(side, f"bench_delay_{n}", kind, messages, beside=False) for n in range(rounds)]
            rate, cpu = (statistics.median(column) for column in list(zip(*alone, strict=True))[:2])
            sends = drive(side, BESIDE, "bench_beside", BESIDE_S, 1.0).rate
            besides = [burst(side, f"bench_beside_{n}", kind, messages, beside=True).sends or 0 for n in range(rounds)]
            beside = statistics.median(besides)
            figures[side.name] = rate, cpu, beside / sends
            kept = verdict(beside / sends, BESIDE_MIN, at_least=True)
            print(f"| {side.name} | {rate:,.0f} | {cpu:.1f} | {sends:,.0f} | {beside:,.0f} | {kept} |", flush=True)
    (rate, cpu, _), (java_rate, java_cpu, _) = figures["ours"], figures["java"]
    print(
        f"ours ÷ Java: rate {verdict(rate / java_rate, RATE_MIN, at_least=True)},"
        f" CPU {verdict(cpu / java_cpu, CPU_MAX, at_least=False)}"
    )


class Started(NamedTuple):
    """A broker that has begun."""

    seconds: float
    mib: float


def started(broker: OurBroker | JavaBroker) -> Started:
    """From exec until it answers with everything in its wheel."""
    began = time.perf_counter()
    broker.start(wait=False)
    while broker.running and not answers(broker.port):
        time.sleep(0.002)
    with Talk(f"127.0.0.1:{broker.port}") as talk:
        until_entered(talk)
    took = time.perf_counter() - began
    broker.wait_ready()
    return Started(took, rss_anon_mib(broker.pid))


def pending(scratch: Path, count: int) -> None:
    """Let so many wait on both brokers, and print what they cost."""
    print(f"| {count:,} pending timers | empty, MiB | after taking them, MiB | after a start, MiB | a start, s |")
    print("|---|---:|---:|---:|---:|")
    with JavaNameServer(scratch / "ns") as names:
        sides: Iterable[OurBroker | JavaBroker] = (
            OurBroker(scratch / "ours", names.address, name="broker-o", properties=DEFAULT_SIZES),
            JavaBroker(scratch / "java", names.address, properties=DEFAULT_SIZES, jvm=(), heap="768m", patient=False),
        )
        for broker in sides:
            empty = started(broker)
            try:
                make_topic(broker.port, "bench_pending", 1)
                with Talk(f"127.0.0.1:{broker.port}") as talk:
                    fill_wheel(talk, "bench_pending", count)
                took = rss_anon_mib(broker.pid)
                broker.stop()
                again = started(broker)
            finally:
                broker.stop()
            name = "ours" if isinstance(broker, OurBroker) else "java"
            print(f"| {name} | {empty.mib:.0f} | {took:.0f} | {again.mib:.0f} | {again.seconds:.2f} |", flush=True)
            if name == "ours":
                cost = verdict(max(took, again.mib) - empty.mib, PENDING_MIB_MAX, at_least=False)
                start = verdict(again.seconds, PENDING_START_S_MAX, at_least=False)
                print(f"ours: {cost} MiB, a start in {start} s", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, default="levels")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pending", type=int, metavar="COUNT", help="measure so many timers that wait, and nothing else")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rmq-bench-") as scratch:
        if options.pending:
            pending(Path(scratch), options.pending)
        else:
            bursts(Path(scratch), options.kind, options.messages, options.rounds)
        print(machine())


if __name__ == "__main__":
    main()
