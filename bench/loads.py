"""Loads that a broker has to hold, with figures: many idle connections, many slow ones, many waiting pulls, slow neighbours.

    python -m bench.loads [--seconds 4] [--load held_by_few]

A broker process, a crowd in a process of its own, and the load generator of `make bench` beside them; each figure stands next
to what it must be.  The last three have the real broker beside them in the same run.  The same loads run as tests, bounded by
counts and CPU time (tests/net/test_loads.py).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.compare import Row, Side, brokers, drive, in_turn
from bench.processes import cpu_seconds, load_generator, make_topic, rss_anon_mib
from rmq_wire.command import encode_request
from rmq_wire.declare import Request
from rmq_wire.headers.clients import GetProducerConnectionList
from tests.support.requests import SUBSCRIPTION, SUSPEND, pull
from tests.support.rmq import Server, command
from tests.support.talk import Talk, split

IDLE = 10_000
SLOW = 1_000
HELD_QUEUES = 10_000
HELD_ON_ONE = 1_000
WAKES = 200
SENDS_BESIDE = 20
HELD = 100_000
HOLDERS = 2_000
HELD_TOPICS = 10
"""Of so many queues each that a message wakes one pull."""
WARM_WAKES, MEASURED_WAKES = 500, 1_000
PACE = 2_000
"""Sends a second beside."""
PULLED = 20_000
"""Messages a second that are pulled beside."""
DEAF = 100
"""Members of a group that ask for everything and read nothing."""
BEAT_PERIOD_S = 30
SUSPEND_MS = 240_000
TOPIC = "loads"


class Figure(NamedTuple):
    """One line of the table.  `bound`: what it must be.  `java`: the same of the real broker."""

    what: str
    value: str
    bound: str
    held: bool
    java: str = ""


class Crowd:
    """`tests.net.crowd` as a process."""

    def __init__(self, port: int, count: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.net.crowd", str(port), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, words: str) -> None:
        """Run one command to its end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer.startswith("ok"):
            raise SystemExit(f"the crowd failed at {words[:40]!r}: {answer!r}")

    def end(self) -> None:
        """Close all its connections."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@contextlib.contextmanager
def crowd(port: int, count: int) -> Iterator[Crowd]:
    """So many connections, each of which has asked something once."""
    made = Crowd(port, count)
    try:
        made.do(f"frame {hexed(GetProducerConnectionList(producer_group='none'))}")
        made.do("open")
        yield made
    finally:
        made.end()


def hexed(request: Request, opaque: int = 1) -> str:
    return encode_request(request.code, request, opaque=opaque).hex()


@contextlib.contextmanager
def broker(directory: Path) -> Iterator[tuple[Server, Side, int]]:
    """A broker alone, the generator's view of it, and its port."""
    directory.mkdir()
    settings = {
        "listenPort": "0",
        "bindAddress": "127.0.0.1",
        "brokerIP1": "127.0.0.1",
        "storePathRootDir": str(directory / "store"),
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    with Server(directory, program=[sys.executable, "-O", *command("broker", "--json", *words)[1:]]) as server:
        port = split(server.ready["broker"])[1]
        yield server, Side("ours", port, server.pid), port
        server.stop()


def rate(side: Side, seconds: float) -> float:
    return drive(side, Row("send 16 x 16", "send", 16, 16, False, None, None), TOPIC, seconds, 1.0).rate


def idle(directory: Path, seconds: float) -> Iterator[Figure]:
    """10,000 connections with a heartbeat each 30 s."""
    with broker(directory) as (server, side, port):
        alone = rate(side, seconds)
        before = rss_anon_mib(server.pid)
        with crowd(port, IDLE) as idlers:
            each_kib = (rss_anon_mib(server.pid) - before) * 1024 / IDLE
            used = cpu_seconds(server.pid)
            idlers.do("beat")
            share = (cpu_seconds(server.pid) - used) / BEAT_PERIOD_S
            beside = rate(side, seconds)
        again = rate(side, seconds)
    ratio = beside / max(alone, again)
    yield Figure(f"{IDLE:,} idle: send rate beside them", f"{ratio:.0%}", "≥ 95 %", ratio >= 0.95)
    yield Figure(f"{IDLE:,} idle: memory of each", f"{each_kib:.1f} KiB", "≤ 12 KiB", each_kib <= 12)
    yield Figure(f"{IDLE:,} idle: a sign of life each {BEAT_PERIOD_S} s", f"{share:.1%} of a core", "< 5 %", share < 0.05)


def slow(directory: Path, seconds: float) -> Iterator[Figure]:
    """1,000 peers of which half do not go on with a frame and half do not read."""
    with broker(directory) as (_, side, port):
        alone = rate(side, seconds)
        flood = b"".join(encode_request(11, pull(TOPIC), opaque=n) for n in range(40))
        peers = []
        for number in range(SLOW):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.setblocking(False)
            sock.send(flood if number % 2 else encode_request(11, pull(TOPIC), opaque=1)[:-1])
            peers.append(sock)
        beside = rate(side, seconds)
        for sock in peers:
            sock.close()
        again = rate(side, seconds)
    ratio = beside / max(alone, again)
    yield Figure(f"{SLOW:,} slow peers: send rate beside them", f"{ratio:.0%}", "≥ 90 %", ratio >= 0.9)


def wakes(
    port: int,
    waiters: Crowd,
    rounds: int,
    per_round: int,
    queues: int,
    topics: Sequence[str] = (TOPIC,),
    first_queue: int = 0,
) -> list[float]:
    """Milliseconds from a send until the crowd has heard of it, sorted.  Each goes to another queue."""
    found = []
    with Talk(f"127.0.0.1:{port}") as talk:
        for number in range(rounds):
            started = time.perf_counter()
            queue = first_queue + number * (queues // rounds) % queues
            if talk.send(topics[number % len(topics)], b"wake", queue).code:
                raise SystemExit("a send was refused")
            waiters.do(f"wait {per_round}")
            found.append((time.perf_counter() - started) * 1e3)
    return sorted(found)


def held(directory: Path, _: float) -> Iterator[Figure]:
    """10,000 pulls on 10,000 queues, and 1,000 on one."""
    with broker(directory) as (server, _side, port):
        make_topic(port, TOPIC, HELD_QUEUES)
        frames = directory / "frames"
        with crowd(port, HELD_QUEUES) as waiters:
            before = rss_anon_mib(server.pid)
            frames.write_text("\n".join(waiting(number, number) for number in range(HELD_QUEUES)))
            waiters.do(f"each {frames}")
            with Talk(f"127.0.0.1:{port}") as talk:
                talk.send("beside", b"x")  # everything before it has been served
            each_kib = (rss_anon_mib(server.pid) - before) * 1024 / HELD_QUEUES
            times = wakes(port, waiters, WAKES, 1, HELD_QUEUES)
        p99 = times[int(len(times) * 0.99)]
        yield Figure(f"{HELD_QUEUES:,} held pulls: p99 of a wake-up", f"{p99:.1f} ms", "≤ 20 ms", p99 <= 20)
        yield Figure(f"{HELD_QUEUES:,} held pulls: memory of each", f"{each_kib:.1f} KiB", "≤ 2 KiB", each_kib <= 2)
        with crowd(port, HELD_ON_ONE) as waiters:
            with Talk(f"127.0.0.1:{port}") as talk:
                end = len(talk.read(TOPIC, 1))
            frames.write_text("\n".join(waiting(1, number, end) for number in range(HELD_ON_ONE)))
            waiters.do(f"each {frames}")
            with Talk(f"127.0.0.1:{port}") as talk:
                talk.send("beside", b"x")
                started = time.perf_counter()
                talk.send(TOPIC, b"wake", 1)
                slowest = max(timed(talk) for _ in range(SENDS_BESIDE))
                waiters.do(f"wait {HELD_ON_ONE}")
                took = (time.perf_counter() - started) * 1e3
        yield Figure(f"{HELD_ON_ONE:,} held on one queue: until all have it", f"{took:.0f} ms", "reported", True)
        what = f"{HELD_ON_ONE:,} held on one queue: slowest send meanwhile"
        yield Figure(what, f"{slowest:.1f} ms", "≤ 20 ms", slowest <= 20)


def held_by_few(directory: Path, seconds: float) -> Iterator[Figure]:
    """100,000 pulls on as many queues over 2,000 connections, and a message to one of them while sends go on."""
    directory.mkdir()
    frames = directory / "frames"
    with brokers(directory, sync_flush=False) as sides:
        found = {side.name: hold_many(side, frames) for side in in_turn(sides)}
    (mib, p99), (java_mib, java_p99) = found["ours"], found["java"]
    what = f"{HELD:,} held pulls over {HOLDERS:,} connections"
    yield Figure(f"{what}: memory", f"{mib:.0f} MiB", "< 300 MiB", mib < 300, f"{java_mib:.0f} MiB")
    yield Figure(f"{what}: p99 of a wake-up beside {PACE:,} sends/s", f"{p99:.1f} ms", "< 5 ms", p99 < 5, f"{java_p99:.1f} ms")


def hold_many(side: Side, frames: Path) -> tuple[float, float]:
    """MiB that they cost, and ms of the 99th of 100 wake-ups."""
    queues = HELD // HELD_TOPICS
    for number in range(HELD_TOPICS):
        make_topic(side.port, f"{TOPIC}-{number}", queues)
    frames.write_text("\n".join(waiting(n // HELD_TOPICS, n, topic=f"{TOPIC}-{n % HELD_TOPICS}") for n in range(HELD)))
    with crowd(side.port, HOLDERS) as waiters:
        rest(side)
        before = rss_anon_mib(side.pid)
        waiters.do(f"each {frames}")
        rest(side)
        mib = rss_anon_mib(side.pid) - before
        with sending(side):
            topics = [f"{TOPIC}-{number}" for number in range(HELD_TOPICS)]
            wakes(side.port, waiters, WARM_WAKES, 1, queues // 2, topics)
            times = wakes(side.port, waiters, MEASURED_WAKES, 1, queues // 2, topics, queues // 2)
    return mib, times[int(len(times) * 0.99)]


def rest(side: Side) -> None:
    """Wait until the broker has nothing to do: a second in which it computes less than a tenth, or half a minute."""
    for _ in range(30):
        used = cpu_seconds(side.pid)
        time.sleep(1)
        if cpu_seconds(side.pid) - used < 0.1:
            return


@contextlib.contextmanager
def sending(side: Side) -> Iterator[None]:
    """`PACE` sends a second meanwhile, on 16 connections."""
    numbers = (16, 1, 120, 1, 1024, PACE)
    command = [str(load_generator()), "send", "127.0.0.1", str(side.port), "bench_beside", *map(str, numbers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield
        finally:
            process.kill()


def neighbours(side: Side, seconds: float) -> tuple[float, float]:
    """ms of the 99th of 100 sends and of 100 pulls that are not in a hurry."""
    sends = Row("send 16 x 1", "send", 16, 1, False, None, None)
    pulls = Row("pull 32, 4 connections", "pull", 4, 32, False, None, None)
    sent = drive(side, sends, "bench_beside", seconds, 1.0, 1024, PACE)
    pulled = drive(side, pulls, "bench_pull", seconds, 1.0, 0, PULLED)
    return sent.p99_us / 1e3, pulled.p99_us / 1e3


def compared(what: str, alone: dict[str, tuple[float, float]], beside: dict[str, tuple[float, float]]) -> Iterator[Figure]:
    """Sends and pulls of both, alone and beside."""
    for at, kind in enumerate(("sends", "pulls")):
        (ours, before), (java, java_before) = ((beside[name][at], alone[name][at]) for name in ("ours", "java"))
        bound = before + 5
        value, java_value = f"{ours:.1f} ms (alone {before:.1f})", f"{java:.1f} ms (alone {java_before:.1f})"
        yield Figure(f"{what}: p99 of other {kind}", value, "≤ alone + 5 ms", ours <= bound, java_value)


def slow_group(directory: Path, seconds: float) -> Iterator[Figure]:
    """A group whose members ask for everything and read nothing, beside sends and pulls of others (001-6b)."""
    directory.mkdir()
    with brokers(directory, sync_flush=False) as sides:
        alone, beside = {}, {}
        for side in in_turn(sides):
            drive(side, Row("fill", "send", 16, 16, False, None, None), "bench_pull", seconds, 0.5)
            neighbours(side, seconds)
            alone[side.name] = neighbours(side, seconds)
            flood = b"".join(encode_request(11, pull("bench_pull", n % 8, max_msg_nums=32), opaque=n) for n in range(40))
            with contextlib.ExitStack() as stack:
                for _ in range(DEAF):
                    sock = stack.enter_context(socket.create_connection(("127.0.0.1", side.port)))
                    sock.setblocking(False)
                    sock.send(flood)
                beside[side.name] = neighbours(side, seconds)
    yield from compared(f"a group of {DEAF} that reads nothing", alone, beside)


def slow_broker(directory: Path, seconds: float) -> Iterator[Figure]:
    """One of two brokers stands still, beside sends to the other and pulls from it (001-7)."""
    directory.mkdir()
    with brokers(directory, sync_flush=False) as sides:
        alone, beside = {}, {}
        for side, other in (sides, sides[::-1]):
            drive(side, Row("fill", "send", 16, 16, False, None, None), "bench_pull", seconds, 0.5)
            neighbours(side, seconds)
            alone[side.name] = neighbours(side, seconds)
            os.kill(other.pid, signal.SIGSTOP)
            try:
                beside[side.name] = neighbours(side, seconds)
            finally:
                os.kill(other.pid, signal.SIGCONT)
    yield from compared("the other broker stands still", alone, beside)


def timed(talk: Talk) -> float:
    """Milliseconds of a send that has nothing to do with who waits: it waits for one turn."""
    started = time.perf_counter()
    talk.send("beside", b"x")
    return (time.perf_counter() - started) * 1e3


def waiting(queue_id: int, opaque: int, offset: int = 0, topic: str = TOPIC) -> str:
    flags = SUBSCRIPTION | SUSPEND
    return hexed(pull(topic, queue_id, offset, flags=flags, suspend_timeout_millis=SUSPEND_MS), opaque)


LOADS = (idle, slow, held, held_by_few, slow_group, slow_broker)


def main() -> int:
    """Exit status 1 when a bound is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measured load")
    parser.add_argument("--load", action="append", choices=[load.__name__ for load in LOADS], help="only these (repeatable)")
    options = parser.parse_args()
    print("| load | ours | Java | bound | |\n|---|---:|---:|---:|---|")
    held_all = True
    with tempfile.TemporaryDirectory(prefix="rmq-loads-") as scratch:
        for load in LOADS:
            if options.load and load.__name__ not in options.load:
                continue
            for figure in load(Path(scratch) / load.__name__, options.seconds):
                held_all &= figure.held
                said = "held" if figure.held else "NOT held"
                print(f"| {figure.what} | {figure.value} | {figure.java} | {figure.bound} | {said} |", flush=True)
    return 0 if held_all else 1


if __name__ == "__main__":
    raise SystemExit(main())
