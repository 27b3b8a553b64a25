"""What stock clients (5.5.0) pay for a rebalance, a kill -9 and a broker that stands still, and how late messages reach them.

    python -m bench.stock_clients [--only moves] [--rounds 3]

Ours and the real broker (5.5.0) under the same name server, one after the other in the same run, with clients of default settings
in JVMs of their own.  The same clients do the same with both: figures that differ are the broker's.

- *moves*: messages flow evenly over eight queues of one consumer; a second joins, and leaves again.  The longest time in which
  nothing comes from a queue, of those that move and of those that stay.
- *kills*: a slow consumer with a backlog is killed, a fast one takes its queues over: how long that takes, what comes twice when
  progress is committed as clients do it (one-way, each 5 s and with pulls) and when each message is committed and the answer is
  awaited, and how many messages come in the first second.
- *arrivals*: from the sender's clock to the consumer's, by push, by lite pull and by a pull each second.
- *stands_still*: one of two brokers is stopped (SIGSTOP) under a producer, with and without `sendLatencyFaultEnable`.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.compare import DEFAULT_SIZES, Side, brokers, machine
from bench.processes import OurBroker, make_topic
from conformance.subjects.process import until
from tests.support.clients import JavaDriver, Message
from tests.support.java import REFERENCE
from tests.support.reference import JavaBroker, JavaNameServer

QUEUES = 8
PAUSE_MS = 2
"""Between two sends of the flow."""
DEFAULTS = {"poll_namesrv_ms": 30_000, "heartbeat_ms": 30_000, "persist_ms": 5_000}
BEFORE_S, AFTER_S = 2.0, 4.0
BACKLOG = 12_000
WORK_MS = 5
"""Of the slow consumer, which has one thread: 200 messages a second at most."""
KILLED_AFTER_S = 13.5
"""Clients write progress down 10 s after their start and each 5 s from then on: this is 3.5 s later."""
ARRIVALS = 300
ARRIVAL_PAUSE_MS = 20
POLL_S = 1.0
STILL_S = 12.0

Rows = Iterator[tuple[str, dict[str, str]]]
_numbers = itertools.count(1)


def fresh(stem: str) -> str:
    return f"{stem}-{next(_numbers)}"


@contextlib.contextmanager
def jvm(directory: Path) -> Iterator[JavaDriver]:
    with JavaDriver(directory / fresh("clients"), REFERENCE, heap="512m") as driver:
        yield driver


@contextlib.contextmanager
def flow(clients: JavaDriver, side: Side, topic: str, pause_ms: int) -> Iterator[str]:
    """A producer that sends one message after the other to all queues in turn; the name of its flood."""
    name, flood = fresh("producer"), fresh("flood")
    clients.call("producer.start", name=name, group=name, namesrv=side.namesrv, **DEFAULTS)
    clients.call("flood.start", flood=flood, producer=name, topic=topic, body="m", pause_ms=pause_ms)
    try:
        yield flood
    finally:
        clients.call("flood.stop", flood=flood)
        clients.call("producer.stop", producer=name)


def start(clients: JavaDriver, side: Side, topic: str, group: str, **options: object) -> str:
    name = fresh("push")
    clients.call("push.start", name=name, group=group, namesrv=side.namesrv, topic=topic, **DEFAULTS, **options)
    return name


def read_by(clients: JavaDriver, consumer: str) -> set[int]:
    """The queues that a consumer has now."""
    queues = clients.call("push.queues", consumer=consumer)
    return {queue["queue"] for queue in queues if not queue["topic"].startswith("%RETRY%")}


def shared(each: Mapping[str, JavaDriver], queues: int) -> None:
    """Wait until these consumers have so many queues each, and messages of each of them."""
    for consumer, clients in each.items():
        until(lambda c=consumer, d=clients: len(read_by(d, c)) == queues, "queues", seconds=60)  # type: ignore[misc]
        seen = len(clients.messages(consumer))
        until(
            lambda c=consumer, d=clients, n=seen: len({m["queue"] for m in d.messages(c)[n:]}) == queues,  # type: ignore[misc]
            "messages of each queue",
            seconds=60,
        )


def longest_gaps(messages: Sequence[Message], since_ms: float) -> dict[int, float]:
    """Of each queue, the longest time from one message to the next, ms, ignoring what came twice."""
    found: dict[int, float] = {}
    for queue in range(QUEUES):
        seen: set[int] = set()
        times = []
        for message in sorted((m for m in messages if m["queue"] == queue), key=lambda m: int(m["seen_ms"])):
            if message["offset"] not in seen and message["seen_ms"] >= since_ms:
                times.append(message["seen_ms"])
            seen.add(message["offset"])
        found[queue] = max((b - a for a, b in itertools.pairwise(times)), default=0.0)
    return found


def moves(sides: Sequence[Side], directory: Path, rounds: int) -> Rows:
    """001-46."""
    found: dict[str, dict[str, str]] = {}
    for side in sides:
        topic, group = f"moves-{side.name}", f"moves-{side.name}"
        make_topic(side.port, topic, QUEUES)
        gaps: dict[tuple[str, str], list[float]] = {}
        with jvm(directory) as here, jvm(directory) as there, flow(here, side, topic, PAUSE_MS):
            one = start(here, side, topic, group)
            shared({one: here}, QUEUES)
            for _ in range(rounds):
                time.sleep(BEFORE_S)
                since = time.time() * 1e3 - BEFORE_S * 500
                two = start(there, side, topic, group)
                shared({one: here, two: there}, QUEUES // 2)
                moved = read_by(there, two)
                time.sleep(AFTER_S)
                note(gaps, "a consumer joins", longest_gaps(here.messages(one) + there.messages(two), since), moved)
                since = time.time() * 1e3 - BEFORE_S * 500
                there.call("push.stop", consumer=two)
                shared({one: here}, QUEUES)
                time.sleep(AFTER_S)
                note(gaps, "it leaves", longest_gaps(here.messages(one) + there.messages(two), since), moved)
            here.call("push.stop", consumer=one)
        for (when, which), times in gaps.items():
            what = f"{when}: longest silence of {which}, median and most"
            found.setdefault(what, {})[side.name] = f"{statistics.median(times):.0f}, {max(times):.0f} ms"
    yield from found.items()


def note(gaps: dict[tuple[str, str], list[float]], when: str, longest: dict[int, float], moved: set[int]) -> None:
    for queue, gap in longest.items():
        gaps.setdefault((when, "queues that move" if queue in moved else "queues that stay"), []).append(gap)


def kills(sides: Sequence[Side], directory: Path, rounds: int) -> Rows:
    """001-47, 48, 49."""
    found: dict[str, dict[str, str]] = {}
    for side in sides:
        for how, is_sync in (("one-way commits", False), ("each commit awaited", True)):
            taken = [kill_once(side, directory, is_sync) for _ in range(rounds)]
            paused, twice, slow, spike = zip(*taken, strict=True)
            for what, values, unit in (
                ("from kill -9 to the first message of its queues elsewhere", paused, " ms"),
                ("messages that come twice", twice, ""),
                ("messages a second of the slow consumer before", slow, ""),
                ("messages in the second after who takes over begins", spike, ""),
            ):
                row = found.setdefault(f"kill -9, {how}: {what}", {})
                row[side.name] = ", ".join(f"{value:.0f}" for value in sorted(values)) + unit
    yield from found.items()


def kill_once(side: Side, directory: Path, is_sync: bool) -> tuple[float, int, float, int]:
    """ms until somebody else has a message of the queues, what came twice, messages a second before, and in the first second."""
    topic = group = fresh(f"kills-{side.name}")
    make_topic(side.port, topic, QUEUES)
    with jvm(directory) as here, jvm(directory) as there:
        with flow(here, side, topic, 0) as flood:
            until(lambda: here.call("flood.count", flood=flood) >= BACKLOG, "the backlog", seconds=120)
        killed = start(there, side, topic, group, threads=1, work_ms=WORK_MS, sync_commit=is_sync)
        other = start(here, side, topic, group)
        began = time.monotonic()
        until(lambda: len(read_by(here, other)) == QUEUES // 2 == len(read_by(there, killed)), "queues", seconds=60)
        time.sleep(max(0.0, began + KILLED_AFTER_S - time.monotonic()))
        queues = read_by(there, killed)
        at_ms = time.time() * 1e3
        there.kill()
        before = there.messages(killed)

        def took_over() -> list[Message]:
            return [m for m in here.messages(other) if m["queue"] in queues and m["seen_ms"] > at_ms]

        seen = {message["body"] for message in before}
        until(lambda: {m["queue"] for m in took_over()} == queues, "its queues", seconds=120)
        settled = 0
        while settled != (settled := len(here.messages(other))):
            time.sleep(1)
        after = took_over()
        first = min(m["seen_ms"] for m in after)
        slow = sum(at_ms - 2_000 <= m["seen_ms"] for m in before) / 2
        spike = sum(m["seen_ms"] < first + 1_000 for m in after)
        return first - at_ms, len(seen & {m["body"] for m in after}), slow, spike


def arrivals(sides: Sequence[Side], directory: Path, _: int) -> Rows:
    """001-34, 35."""
    found: dict[str, dict[str, str]] = {}
    for side in sides:
        topic = f"arrivals-{side.name}"
        make_topic(side.port, topic, 4)
        with jvm(directory) as clients, flow(clients, side, topic, ARRIVAL_PAUSE_MS):
            for way, collect in (("push", by_push), ("lite pull", by_lite), (f"a pull each {POLL_S:g} s", by_polling)):
                late = sorted(m["seen_ms"] - m["born_ms"] for m in collect(clients, side, topic)[-ARRIVALS:])
                text = f"{late[len(late) // 2]}, {late[int(len(late) * 0.99)]} ms"
                found.setdefault(f"{way}: from sender to consumer, p50 and p99", {})[side.name] = text
    yield from found.items()


def by_push(clients: JavaDriver, side: Side, topic: str) -> list[Message]:
    name = start(clients, side, topic, fresh("group"))
    clients.wait(lambda: len(clients.messages(name)) >= 3 * ARRIVALS, "messages", timeout_s=120)
    clients.call("push.stop", consumer=name)
    return clients.messages(name)


def by_lite(clients: JavaDriver, side: Side, topic: str) -> list[Message]:
    name, group = fresh("lite"), fresh("group")
    clients.call("lite.start", name=name, group=group, namesrv=side.namesrv, topic=topic, **DEFAULTS)
    backlog = len(clients.call("lite.collect", consumer=name, count=3 * ARRIVALS, timeout_ms=5_000))
    messages: list[Message] = clients.call("lite.collect", consumer=name, count=2 * ARRIVALS, timeout_ms=5_000)
    clients.call("lite.stop", consumer=name)
    assert backlog
    return messages


def by_polling(clients: JavaDriver, side: Side, topic: str) -> list[Message]:
    name, group = fresh("legacy"), fresh("group")
    clients.call("legacy.start", name=name, group=group, namesrv=side.namesrv, topic=topic, **DEFAULTS)
    queues = clients.call("legacy.queues", consumer=name, topic=topic)
    offsets = [
        clients.call("legacy.pull", consumer=name, topic=topic, broker=q["broker"], queue=q["queue"], offset=0)["max_offset"]
        for q in queues
    ]
    found: list[Message] = []
    while len(found) < ARRIVALS:
        time.sleep(POLL_S)
        for at, q in enumerate(queues):
            where = {"topic": topic, "broker": q["broker"], "queue": q["queue"]}
            pulled = clients.call("legacy.pull", consumer=name, offset=offsets[at], **where)
            offsets[at] = pulled["next_offset"]
            found += pulled["messages"]
    clients.call("legacy.stop", consumer=name)
    return found


def stands_still(_: Sequence[Side], directory: Path, __: int) -> Rows:
    """001-6b, 001-7: two brokers of a kind, and a producer of eight queues, four on each."""
    found: dict[str, dict[str, str]] = {}
    kinds: dict[str, Callable[[Path, str, str], Any]] = {
        "ours": lambda at, names, name: OurBroker(at, names, name=name, properties=DEFAULT_SIZES),
        "java": lambda at, names, name: JavaBroker(
            at, names, name=name, properties=DEFAULT_SIZES, jvm=(), heap="768m", patient=False
        ),
    }
    for kind, made in kinds.items():
        at = directory / f"still-{kind}"
        with (
            JavaNameServer(at / "ns") as names,
            made(at / "a", names.address, "a") as one,
            made(at / "b", names.address, "b") as two,
        ):
            topic = "still"
            for broker in (one, two):
                make_topic(broker.port, topic, QUEUES // 2)
            with jvm(at) as clients:
                for is_avoiding in (False, True):
                    alone, still = still_once(clients, Side(kind, one.port, one.pid, names.address), topic, two.pid, is_avoiding)
                    way = "with" if is_avoiding else "without"
                    found.setdefault(f"{way} sendLatencyFaultEnable: sends before", {})[kind] = alone
                    found.setdefault(f"{way} sendLatencyFaultEnable: sends while one stands still", {})[kind] = still
    yield from found.items()


def still_once(clients: JavaDriver, side: Side, topic: str, pid: int, is_avoiding: bool) -> tuple[str, str]:
    """Sends of one thread before one of the brokers stands still, and meanwhile."""
    name = fresh("producer")
    options = {"latency_fault": is_avoiding, "timeout_ms": 3_000, **DEFAULTS}
    clients.call("producer.start", name=name, group=name, namesrv=side.namesrv, **options)
    until(lambda: len(clients.call("producer.queues", producer=name, topic=topic)) == QUEUES, "the route", seconds=60)

    def sent(seconds: float) -> str:
        flood = fresh("flood")
        clients.call("flood.start", flood=flood, producer=name, topic=topic, body="m", pause_ms=1)
        time.sleep(seconds)
        done = clients.call("flood.stop", flood=flood)
        took = sorted(done["took_ms"])
        p99, most = took[int(len(took) * 0.99)], took[-1]
        return f"{len(done['acknowledged'])}, {len(done['failed'])} failed, p99 {p99:.1f} ms, longest {most:.0f} ms"

    sent(3)
    alone = sent(5)
    os.kill(pid, signal.SIGSTOP)
    try:
        still = sent(STILL_S)
    finally:
        os.kill(pid, signal.SIGCONT)
    clients.call("producer.stop", producer=name)
    time.sleep(1)
    return alone, still


PARTS: dict[str, Callable[[Sequence[Side], Path, int], Rows]] = {
    "moves": moves,
    "kills": kills,
    "arrivals": arrivals,
    "stands_still": stands_still,
}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(PARTS), help="only these (repeatable)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"{machine()}\n\n| what | ours | Java |\n| --- | ---: | ---: |", flush=True)
    with tempfile.TemporaryDirectory(prefix="rmq-stock-") as scratch:
        for name, part in PARTS.items():
            if options.only and name not in options.only:
                continue
            directory = Path(scratch) / name
            directory.mkdir()
            with contextlib.ExitStack() as stack:
                alone = name == "stands_still"
                sides = () if alone else stack.enter_context(brokers(directory / "brokers", sync_flush=False))
                for what, values in part(sides, directory, options.rounds):
                    print(f"| {what} | {values['ours']} | {values['java']} |", flush=True)


if __name__ == "__main__":
    main()
