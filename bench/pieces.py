"""The longest that one request keeps everybody else waiting: each code of both servers with its largest input, legal and not.

An engine runs pieces: a turn, what follows it, what a finished job hands it.  Between two pieces others are served, so what
counts is the worst one.  Each case asks once, in receives of the size that a shell takes, of a server with large tables
(`bench.piece_worlds`, `bench.piece_cases`).  Milliseconds are CPU of the engine's thread; what jobs do on threads of their own is
left out.

    python -m bench.pieces [--server namesrv|broker] [--only CODE …] [--rows 10000] [--over 10]

Exit status 1 when a piece is above `PIECE_MS_MAX`, or a case was not answered as it is meant.  docs/limits.md has the rows of
inputs that are not cut into slices.
"""

from __future__ import annotations

import argparse
import gc
import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.piece_cases import Case, cases
from bench.piece_worlds import World, worlds
from broker_impl.engine.engine import Engine
from broker_impl.engine.peer import Peer
from rmq_net.service import Output
from rmq_wire.command import RESPONSE, Command
from rmq_wire.conversation import Conversation
from rmq_wire.conversation import Limits as FrameLimits

PIECE_MS_MAX = 50.0
"""What docs/limits.md promises."""
PIECES_MAX = 2_000_000
"""An answer that takes more pieces than this does not come."""

Meter = Callable[[Callable[[], object]], float]
"""Runs something and says what it cost."""


def cpu_ms(work: Callable[[], object]) -> float:
    """Milliseconds of this thread's CPU."""
    started = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - started) / 1e6


class Cost(NamedTuple):
    """What a request cost.  `code`: of the last answer, None without one; `closed`: it cost the connection."""

    worst: float
    total: float
    pieces: int
    code: int | None
    answer_bytes: int
    closed: bool


class Asker:
    """A peer of an engine, served as a shell does it, each piece measured."""

    def __init__(self, engine: Engine, meter: Meter = cpu_ms) -> None:
        self.engine = engine
        self.meter = meter
        self.code: int | None = None
        self._costs: list[float] = []
        self._answer_bytes = 0
        self._outputs: list[Output] = []
        self._peer: Peer | None = None
        self._heard: dict[Peer, Conversation] = {}

    def ask(self, data: bytes) -> Cost:
        """Send these bytes, and serve until nothing is left to do at once."""
        peer = self._connected()
        view = memoryview(data)
        while len(view) and peer.closing is None and not peer.closed:
            size = 0 if peer.congested else self.engine.receive_bytes_max
            self._round([(peer, bytes(view[:size]))] if size else [])
            view = view[size:]
        return self._settled(peer)

    def hang_up(self) -> Cost:
        """Go away: what the server then has to do."""
        peer = self._connected()
        self._piece(lambda: self.engine.closed(peer, "closed by the peer"))
        return self._settled(peer)

    def _connected(self) -> Peer:
        self._costs, self.code, self._answer_bytes = [], None, 0
        if self._peer is None or self._peer.closed:
            self._peer = self.engine.opened(("127.0.0.1", 50_000), ("127.0.0.1", 10_911), "main")
            assert self._peer is not None
        return self._peer

    def _settled(self, peer: Peer) -> Cost:
        while (due := self.engine.next_deadline()) is not None and due <= self.engine.env.mono_ms:
            self._round([])
        costs = self._costs
        return Cost(max(costs), sum(costs), len(costs), self.code, self._answer_bytes, peer.closed)

    def _round(self, arrived: list[tuple[Peer, bytes]]) -> None:
        """One round of a shell's loop."""
        assert len(self._costs) < PIECES_MAX, "the server never rests"
        engine = self.engine
        self._piece(lambda: self._outputs.extend(engine.turn(arrived)))
        self._hear()
        self._piece(lambda: self._outputs.extend(engine.settle()))
        self._hear()
        for job in engine.take_jobs():
            result, error = None, None
            try:
                result = job.run()
            except Exception as raised:
                error = raised
            self._piece(lambda job=job, result=result, error=error: job.done(result, error))  # type: ignore[misc]

    def _piece(self, work: Callable[[], object]) -> None:
        self._costs.append(self.meter(work))

    def _hear(self) -> None:
        """Take what was said; no part of what is measured."""
        outputs, self._outputs = self._outputs, []
        for peer, chunks, close in outputs:
            said = b"".join(bytes(chunk) for chunk in chunks)
            peer.unsent_bytes -= len(said)
            if peer is self._peer:
                self._answer_bytes += len(said)
                heard = self._heard.setdefault(peer, Conversation(FrameLimits(frame_bytes_max=1 << 30, header_bytes_max=1 << 24)))
                for command in heard.feed(said):
                    if isinstance(command, Command) and command.flag & RESPONSE:
                        self.code = command.code
            if close:
                self.engine.closed(peer, "closed by us")


def measured(case: Case, world: World, meter: Meter = cpu_ms) -> Cost:
    """One case, asked of its world by a new connection, which then goes away: the worst of all that."""
    asker = Asker(world.engine, meter)
    if case.hangs_up:
        asker.ask(case.data(world))
        return asker.hang_up()
    cost = asker.ask(case.data(world))
    if not cost.closed:
        asker.hang_up()
    return cost


def missed_what_it_means(cost: Cost, case: Case) -> bool:
    """It was refused before it cost anything, or taken where it should have been refused."""
    return case.answered is not None and cost.code != case.answered


def main() -> int:
    """Print the table, worst first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=("namesrv", "broker"))
    parser.add_argument("--only", type=int, nargs="*", help="codes")
    parser.add_argument("--rows", type=int, default=10_000, help="of each table: topics, brokers, groups, entries")
    parser.add_argument("--over", type=float, default=0.0, help="print only what is above, ms")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    gc.disable()  # as good as off in a server, too: it collects when idle
    found: list[tuple[Cost, Case]] = []
    with tempfile.TemporaryDirectory(prefix="rmq-pieces-") as scratch:
        for world in worlds(Path(scratch), args.rows, args.server):
            for case in cases(world):
                if not args.only or case.code in args.only:
                    found.append((measured(case, world), case))
            world.close()
    print("| server | code | input | worst ms | all ms | pieces | answer |\n|---|---:|---|---:|---:|---:|---|")
    for cost, case in sorted(found, key=lambda row: -row[0].worst):
        if cost.worst >= args.over:
            said = "closed" if cost.closed else "none" if cost.code is None else f"{cost.code}, {cost.answer_bytes:,} B"
            print(
                f"| {case.server} | {case.code} | {case.what} | {cost.worst:.1f} | {cost.total:.0f} | {cost.pieces:,} | {said} |"
            )
    missed = [f"{case.server} {case.code}, {case.what}: {cost.code}" for cost, case in found if missed_what_it_means(cost, case)]
    print("".join(f"not answered as meant: {one}\n" for one in missed), end="")
    return 1 if missed or any(cost.worst > PIECE_MS_MAX for cost, _ in found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
