"""What delayed messages and timers cost a whole broker without sockets: microseconds of CPU for each that waits and is delivered.

The load is that of `bench.delays`: 1 KiB bodies, a unique key and a level or a time, ten levels that are all due at once, or one
slot of the timer's wheel; a real store in a temporary directory, time handed in.  `waits` is the send itself; `wheel` the way of
a timer into the wheel.  Printed beside them: an ordinary send of the same size.

    python -m bench.delay_micro [--profile levels|timers|wheel] [--messages 20000]
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from broker_impl.env import Env
from rmq_wire import names
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.command import encode_request
from tests.support.engine import broker_node
from tests.support.requests import WALL_MS, pairs, send

FRAMES = 64
ROUNDS = 5
LEVELS = 10
DELAY_S = 60
BODY = b"x" * 1024
FILES = {
    "mappedFileSizeCommitLog": 1 << 30,
    "mappedFileSizeConsumeQueue": 6_000_000,
    "mappedFileSizeTimerLog": 100 << 20,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
}
TIMES_MAX = 1_000_000
"""Turns of one delivery: more are a busy loop."""


class Load:
    """One broker and one connection to it.  `us`: CPU so far by what was done; `counts`: how often."""

    def __init__(self, root: str, profile: cProfile.Profile | None, profiled: str) -> None:
        self.env = Env(wall_ms=WALL_MS, mono_ms=1_000)
        node = broker_node(self.env, root, messageDelayLevel=" ".join([f"{DELAY_S}s"] * LEVELS), **FILES)
        node.topics.put(TopicConfig(topic_name="bench", read_queue_nums=1, write_queue_nums=1))
        self.node, self.engine, self.store = node, node.engine, node.store
        self.count = 0
        self._profile, self._profiled = profile, profiled
        self.rest()
        peer = self.engine.opened(("127.0.0.1", 50_000), ("127.0.0.1", 10_911), "main")
        assert peer is not None
        self.peer = peer

    def timed(self, name: str, what: Callable[[], object]) -> float:
        """CPU, us."""
        profile = self._profile if name == self._profiled else None
        if profile is not None:
            profile.enable()
        begin = time.thread_time_ns()
        what()
        took = time.thread_time_ns() - begin
        if profile is not None:
            profile.disable()
        return took / 1000

    def rest(self) -> None:
        """As many turns as the engine wants without time passing.  Jobs run here, and are not counted by whoever times turns."""
        for _ in range(TIMES_MAX):
            self.engine.turn([])
            self.engine.settle()
            jobs = self.engine.take_jobs()
            for job in jobs:
                job.done(job.run(), None)
            due = self.engine.next_deadline()
            if not jobs and (due is None or due > self.env.mono_ms):
                return
        raise AssertionError("the engine never rests")

    def frames(self, count: int, properties: Callable[[int], dict[str, str]]) -> bytearray:
        """So many sends, as they arrive."""
        frames = bytearray()
        for _ in range(count):
            self.count += 1
            text = pairs(UNIQ_KEY=f"{self.count:032X}", **properties(self.count))
            header = send(topic="bench", properties=text)
            frames += encode_request(header.code, header, BODY, opaque=self.count)
        return frames

    def turn(self, data: bytearray) -> None:
        """One turn, and the dispatch after it."""
        answers = b"".join([bytes(chunk) for _, out, _ in self.engine.turn([(self.peer, memoryview(data))]) for chunk in out])
        self.peer.unsent_bytes = 0
        assert answers.count(b'"code":0') == FRAMES, answers[:400]
        self.engine.settle()

    def fill(self, name: str, messages: int, properties: Callable[[int], dict[str, str]]) -> float:
        """Us a message, of the sends alone."""
        took = 0.0
        for _ in range(messages // FRAMES):
            data = self.frames(FRAMES, properties)
            took += self.timed(name, lambda data=data: self.turn(data))  # type: ignore[misc]
        return took / messages

    def delivered(self) -> int:
        """Messages in the topic."""
        return self.store.queue_bounds("bench", 0)[1]


def levels(load: Load, messages: int) -> dict[str, float]:
    """One round."""
    waits = load.fill("", messages, lambda number: {"DELAY": str(number % LEVELS + 1)})
    load.rest()
    before = load.delivered()
    load.env.advance(DELAY_S * 1_000)
    took = load.timed("levels", load.rest)
    assert load.delivered() - before == messages, load.delivered()
    return {"delay level: waits": waits, "delay level: delivered": took / messages}


def timers(load: Load, messages: int) -> dict[str, float]:
    """One round."""
    due_ms = load.env.wall_ms + DELAY_S * 1_000
    load.node.config.timer_stop_enqueue = True
    waits = load.fill("", messages, lambda _: {"TIMER_DELIVER_MS": str(due_ms)})
    load.rest()
    load.node.config.timer_stop_enqueue = False
    load.env.advance(1_000)
    enters = load.timed("wheel", load.rest)
    assert load.node.timer is not None
    highest = load.store.queue_bounds(names.WHEEL_TIMER_TOPIC, 0)[1]
    assert load.node.timer.queue_offset == highest, load.node.timer.queue_offset
    before = load.delivered()
    load.env.advance(DELAY_S * 1_000 + 2_000)
    took = load.timed("timers", load.rest)
    assert load.delivered() - before == messages, load.delivered()
    return {"timer: waits": waits, "timer: wheel": enters / messages, "timer: delivered": took / messages}


def main() -> None:
    """Print the table, and where the time goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", choices=("levels", "timers", "wheel"))
    parser.add_argument("--messages", type=int, default=20 * 1024)
    options = parser.parse_args()
    messages = options.messages // FRAMES * FRAMES
    profile = cProfile.Profile() if options.profile else None
    found: dict[str, list[float]] = {}
    for _ in range(1 if profile is not None else ROUNDS):
        with tempfile.TemporaryDirectory(prefix="rmq-delays-") as root:
            load = Load(str(Path(root)), profile, options.profile)
            row = {"ordinary send": load.fill("", messages, lambda _: {}), **levels(load, messages), **timers(load, messages)}
            load.node.close()
        for name, us in row.items():
            found.setdefault(name, []).append(us)
    for name, times in found.items():
        print(f"{name:32} {statistics.median(times):6.2f} us   (best {min(times):.2f})")
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    main()
