"""The store beside the real Java broker's in the same run: `make bench-store`.

Dispatch lag: while the fastest send row runs, a probe sends a message of its own, and from its answer on asks for its queue's max
offset until that has it, and then for its key until the index has it.  Log order is dispatch order, so the probe waits for all
that was sent before it; the figure is an upper limit, since it holds the round trips of the questions under that load.

Cold reads: the stores are logs written beforehand, equal on both sides, that the brokers have dispatched; before each reading all
of it is driven out of the page cache, out of the broker's maps as well, and how much stayed is printed.

After a crash: two million messages, no queues, no index, no checkpoint; seconds from exec until the broker answers a request.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.compare import DEFAULT_SIZES, Row, Side, drive, in_turn, machine, verdict
from bench.processes import OurBroker, answers, cpu_seconds, evict, load_generator, make_topic
from bench.store_logs import Share, copy_store, remove_store, write_log
from rmq_wire.headers.positions import GetMaxOffset, GetMaxOffsetResponse
from rmq_wire.headers.query import QueryMessage
from rmq_wire.headers.send import SendMessageResponse
from tests.support.reference import JavaBroker, JavaNameServer
from tests.support.requests import send
from tests.support.talk import Talk

FASTEST = Row("send 1 x 64", "send", 1, 64, False, None, None)
ONE, MANY, BESIDE, PROBE, CRASH = "cold_one", "cold_many", "cold_beside", "bench_probe", "bench_crash"
MANY_QUEUES = 8
BODY_BYTES = 1024
CRASH_BODY_BYTES = 200
PULLED = 32
PROBE_PAUSE_S = 0.005
PACED = 20_000
"""Messages a second of the reader beside the sends: some stock consumers; unpaced it takes what it gets."""
READ_S_MAX = 120.0
LAG_MS_MAX, KEPT_MIN, COLD_MIN, CRASH_MAX = 100.0, 0.9, 0.9, 3.0


class Result(NamedTuple):
    """One line of the table."""

    what: str
    ours: str
    java: str
    said: str


class Lags(NamedTuple):
    """What the probe saw: milliseconds from a send's answer until a queue had it, and until the index had its keys; sorted."""

    queue: list[float]
    keys: list[float]


def broker_of(side: str, directory: Path, names: JavaNameServer) -> OurBroker | JavaBroker:
    """A broker, not started, whose store is `directory`/store."""
    if side == "java":
        return JavaBroker(directory, names.address, properties=DEFAULT_SIZES, jvm=(), heap="768m", patient=False)
    return OurBroker(directory, names.address, name="broker-o", properties=DEFAULT_SIZES)


# --- dispatch lag


def probe(port: int, running: threading.Event) -> Lags:
    """Send, and see when it can be found, while `running` is set."""
    queue, keys = [], []
    number = 0
    with Talk(f"127.0.0.1:{port}") as talk:
        while running.is_set():
            number += 1
            key = f"probe-{time.time_ns()}"
            asked = send(
                PROBE, 0, properties=f"UNIQ_KEY\x01{key}\x02KEYS\x01k{key}\x02", born_timestamp=time.time_ns() // 1_000_000
            )
            answer = talk.ask(asked, b"probe")
            answered = time.perf_counter()
            if answer.code:
                raise SystemExit(f"the probe was refused: {answer.remark}")
            offset = answer.header(SendMessageResponse).queue_offset
            while talk.ask(GetMaxOffset(topic=PROBE, queue_id=0)).header(GetMaxOffsetResponse).offset <= offset:
                pass
            queue.append((time.perf_counter() - answered) * 1e3)
            wanted = QueryMessage(topic=PROBE, key=f"k{key}", max_num=1, begin_timestamp=0, end_timestamp=1 << 62)
            while talk.ask(wanted).code:
                pass
            keys.append((time.perf_counter() - answered) * 1e3)
            time.sleep(PROBE_PAUSE_S)
    return Lags(sorted(queue), sorted(keys))


def lag(side: Side, seconds: float) -> Lags:
    """The probe beside the fastest sends."""
    running = threading.Event()
    running.set()

    def load() -> None:
        drive(side, FASTEST, "bench_lag", seconds, 1.0)
        running.clear()

    thread = threading.Thread(target=load)
    thread.start()
    try:
        return probe(side.port, running)
    finally:
        thread.join()


def lags(sides: tuple[Side, Side], seconds: float) -> Iterator[Result]:
    """Both sides, p99 and the worst."""
    for side in in_turn(sides):
        make_topic(side.port, PROBE, 1)
        drive(side, FASTEST, "bench_lag", 4.0, 0.1)
    found = {side.name: lag(side, seconds) for side in in_turn(sides)}
    for what, name in (("queue", "queues"), ("keys", "index")):
        ours, java = (getattr(found[side.name], what) for side in sides)
        held = ours[-1] < LAG_MS_MAX
        yield Result(
            f"{name} behind acknowledged sends, p99 (worst) of {len(ours):,} and {len(java):,} probes",
            f"{p99(ours):.1f} ({ours[-1]:.1f}) ms",
            f"{p99(java):.1f} ({java[-1]:.1f}) ms",
            f"{'reached' if held else 'NOT reached'}: worst < {LAG_MS_MAX:.0f} ms",
        )


def p99(values: list[float]) -> float:
    return values[int(len(values) * 0.99)]


# --- cold reads


def pulling(side: Side, topic: str, connections: int, seconds: float, how: str) -> list[str]:
    """The generator's command; `how`: `once`, or messages a second."""
    numbers = (connections, PULLED, seconds, 0, 0, how)
    return [str(load_generator()), "pull", "127.0.0.1", str(side.port), topic, *map(str, numbers)]


class Reading(NamedTuple):
    """One queue or several, from the first message to the last."""

    rate: float
    cpu_us: float
    cached: float


def read_cold(side: Side, store: Path, topic: str, connections: int, messages: int) -> Reading:
    cached = evict(side.pid, store)
    before = cpu_seconds(side.pid)
    command = pulling(side, topic, connections, READ_S_MAX, "once")
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    used = cpu_seconds(side.pid) - before
    done: dict[str, Any] = json.loads(printed.splitlines()[-1])
    if done["refused"] or done["messages"] < messages - connections * PULLED:
        raise SystemExit(f"{side.name} gave {done['messages']} of {messages} messages: {done['refusal']}")
    return Reading(done["rate"], used * 1e6 / done["messages"], cached)


def cold_reads(sides: tuple[Side, Side], stores: dict[str, Path], rounds: int, messages: int) -> Iterator[Result]:
    """A whole queue by one consumer; several queues that lie interleaved in the log, a consumer each."""
    for topic, connections, text in ((ONE, 1, "one queue"), (MANY, MANY_QUEUES, f"{MANY_QUEUES} queues interleaved")):
        readings: dict[str, list[Reading]] = {side.name: [] for side in sides}
        for turn in range(rounds):
            for side in in_turn(sides if turn % 2 == 0 else sides[::-1]):
                readings[side.name].append(read_cold(side, stores[side.name], topic, connections, messages))
        rates = {name: statistics.median([r.rate for r in found]) for name, found in readings.items()}
        shown = {
            name: f"{rates[name]:,.0f} msg/s, {statistics.median([r.cpu_us for r in found]):.1f} CPU µs each"
            f" ({max(r.cached for r in found):.0%} was cached)"
            for name, found in readings.items()
        }
        said = verdict(rates["ours"] / rates["java"], COLD_MIN, at_least=True)
        yield Result(f"cold read of {text}, {messages:,} messages", shown["ours"], shown["java"], said)


# --- sends beside a cold reader


def sent(side: Side, seconds: float) -> tuple[float, float]:
    """Sends a second, and the broker's CPU µs for each, whatever else it does meanwhile."""
    figure = drive(side, FASTEST, "bench_beside", seconds, 0.5)
    return figure.rate, figure.cpu_us


def alone(side: Side, store: Path, seconds: float) -> tuple[float, float]:
    """Sends with the same cold page cache and nobody who reads: emptying it disturbs the sends, too."""
    evict(side.pid, store)
    return sent(side, seconds)


def beside(side: Side, store: Path, seconds: float, how: str) -> tuple[float, float, float]:
    """Sends while a backlog is read that is not in memory, and the reader's rate."""
    evict(side.pid, store)
    with subprocess.Popen(pulling(side, BESIDE, 1, seconds + 0.5, how), stdout=subprocess.PIPE, text=True) as reader:
        rate, cpu_us = sent(side, seconds)
        assert reader.stdout is not None
        read = json.loads(reader.stdout.read().splitlines()[-1])
    return rate, cpu_us, float(read["rate"])


def sends_beside(sides: tuple[Side, Side], stores: dict[str, Path], rounds: int, seconds: float) -> Iterator[Result]:
    """Alone and beside the reader in turns; the medians of both are compared."""
    for side in in_turn(sides):
        sent(side, 4.0)
    for how, text in ((str(PACED), f"paced at {PACED:,} msg/s"), ("once", "as fast as it can")):
        kept: dict[str, float] = {}
        shown: dict[str, str] = {}
        for side in in_turn(sides):
            without, within = [], []
            for _ in range(rounds):
                without.append(alone(side, stores[side.name], seconds))
                within.append(beside(side, stores[side.name], seconds, how))
            before, before_us = (statistics.median(column) for column in zip(*without, strict=True))
            after, after_us, read = (statistics.median(column) for column in zip(*within, strict=True))
            kept[side.name] = after / before
            cpu = f"CPU {after_us:.1f} after {before_us:.1f} µs a send"
            shown[side.name] = f"{after:,.0f} of {before:,.0f} msg/s = {kept[side.name]:.2f}, {read:,.0f} read/s, {cpu}"
        said = verdict(kept["ours"], KEPT_MIN if how != "once" else None, at_least=True)
        yield Result(f"sends beside a cold reader {text}", shown["ours"], shown["java"], said)


# --- after a crash


class Start(NamedTuple):
    """From exec until the first answer."""

    seconds: float
    cpu: float


def start_over(side: str, gold: Path, directory: Path, names: JavaNameServer, messages: int) -> Start:
    copy_store(gold, directory / "store")
    broker = broker_of(side, directory, names)
    begun = time.perf_counter()
    broker.start(wait=False)
    try:
        while not answers(broker.port):
            if not broker.running:
                raise SystemExit(broker.log_tail())
            time.sleep(0.005)
        start = Start(time.perf_counter() - begun, cpu_seconds(broker.pid))
        broker.wait_ready()
        check(broker.port, messages)
    finally:
        broker.kill()
        remove_store(directory)
    return start


def check(port: int, messages: int) -> None:
    """Every message is in a queue, and the last is in the index."""
    with Talk(f"127.0.0.1:{port}") as talk:
        make_topic(port, CRASH, MANY_QUEUES)
        asked = [GetMaxOffset(topic=CRASH, queue_id=number) for number in range(MANY_QUEUES)]
        found = sum(talk.ask(request).header(GetMaxOffsetResponse).offset for request in asked)
        key = f"order-{messages - 1}"
        last = talk.ask(QueryMessage(topic=CRASH, key=key, max_num=1, begin_timestamp=0, end_timestamp=1 << 62))
    if found != messages or last.code:
        raise SystemExit(f"{found} of {messages} messages were dispatched, the last one's key answers {last.code} {last.remark}")


def crash(scratch: Path, names: JavaNameServer, rounds: int, messages: int) -> Iterator[Result]:
    """All of a log dispatched again."""
    gold = scratch / "gold"
    log_bytes = write_log(gold, [Share(CRASH, MANY_QUEUES, messages, CRASH_BODY_BYTES)])
    starts: dict[str, list[Start]] = {"ours": [], "java": []}
    for turn in range(rounds):
        for side in ("ours", "java") if turn % 2 == 0 else ("java", "ours"):
            starts[side].append(start_over(side, gold, scratch / f"crash-{side}", names, messages))
    remove_store(gold)
    middle = {side: Start(*(statistics.median(column) for column in zip(*found, strict=True))) for side, found in starts.items()}
    shown = {side: f"{start.seconds:.1f} s ({start.cpu:.1f} s CPU)" for side, start in middle.items()}
    said = verdict(middle["ours"].seconds / middle["java"].seconds, CRASH_MAX, at_least=False)
    yield Result(
        f"{messages:,} messages ({log_bytes / 1e9:.2f} GB) dispatched again after a crash", shown["ours"], shown["java"], said
    )


# --- all of it


@contextlib.contextmanager
def brokers(scratch: Path, names: JavaNameServer, shares: list[Share]) -> Iterator[tuple[tuple[Side, Side], dict[str, Path]]]:
    """Ours and Java's on copies of one log that both have dispatched."""
    gold = scratch / "gold"
    write_log(gold, shares)
    sides = []
    with contextlib.ExitStack() as stack:
        for side in ("ours", "java"):
            directory = scratch / side
            copy_store(gold, directory / "store")
            stack.callback(remove_store, directory)
            broker = broker_of(side, directory, names)
            stack.enter_context(broker)
            for share in shares:
                make_topic(broker.port, share.topic, share.queues)
            sides.append(Side(side, broker.port, broker.pid))
        remove_store(gold)
        yield (sides[0], sides[1]), {side.name: scratch / side.name / "store" for side in sides}


def line(result: Result) -> str:
    return f"| {' | '.join(result)} |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0, help="measured part of a round of sends")
    parser.add_argument("--backlog", type=int, default=400_000, help="messages of each cold backlog, 1 KiB each")
    parser.add_argument("--crashed", type=int, default=2_000_000, help="messages dispatched again, 200 bytes each")
    parser.add_argument("--part", action="append", choices=("lag", "beside", "cold", "crash"), help="only this (repeatable)")
    options = parser.parse_args()
    parts: list[str] = options.part or ["lag", "cold", "beside", "crash"]
    print("| load | ours | Java | ours ÷ Java, target |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="rmq-bench-store-") as directory, JavaNameServer(Path(directory) / "ns") as names:
        scratch = Path(directory)

        def show(results: Iterator[Result]) -> None:
            for result in results:
                print(line(result), flush=True)

        if set(parts) - {"crash"}:
            backlog = options.backlog
            shares = []
            if "cold" in parts:
                shares += [Share(ONE, 1, backlog, BODY_BYTES), Share(MANY, MANY_QUEUES, backlog, BODY_BYTES)]
            if "beside" in parts:
                shares.append(Share(BESIDE, 1, 3 * backlog, BODY_BYTES))
            with brokers(scratch, names, shares or [Share(ONE, 1, 1000, BODY_BYTES)]) as (sides, stores):
                works: dict[str, Callable[[], Iterator[Result]]] = {
                    "lag": lambda: lags(sides, options.seconds),
                    "cold": lambda: cold_reads(sides, stores, options.rounds, backlog),
                    "beside": lambda: sends_beside(sides, stores, options.rounds, options.seconds),
                }
                for name, work in works.items():
                    if name in parts:
                        show(work())
        if "crash" in parts:
            show(crash(scratch, names, options.rounds, options.crashed))
    print(f"\n{machine()}; load of the machine {os.getloadavg()[0]:.1f} at the end", file=sys.stderr)


if __name__ == "__main__":
    main()
