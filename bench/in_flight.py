"""A million messages in flight: what they cost in memory, and how long a send takes while they come again.

    python -m bench.in_flight --messages 1000000

Both brokers, one after the other, while the other one stands still: small messages are sent, popped and never acknowledged.  The
memory is that of the process before the pops and after them.  When their invisible time ends the broker copies all of them to the
retry topic; meanwhile one connection sends, a request at a time, and the longest of these sends counts, beside that of as many
seconds in which it sends alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.compare import BROKER_NAMES, Side, brokers, in_turn, machine
from bench.processes import load_generator, rss_anon_mib

BODY_BYTES = 64
CONNECTIONS = 16


def generated(side: Side, kind: str, connections: int, depth: int, seconds: float, *more: object) -> dict[str, Any]:
    """One run of the generator; what it says at its end."""
    words = (kind, "127.0.0.1", side.port, "bench_flight", connections, depth, seconds, 0.0, *more)
    done = subprocess.run([str(load_generator()), *map(str, words)], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(side: Side, messages: int, invisible_s: float, watch_s: float) -> dict[str, Any]:
    """One broker."""
    alone = generated(side, "send", 1, 1, watch_s, BODY_BYTES)
    sent = alone["messages"]
    while sent < messages:
        sent += generated(side, "send", CONNECTIONS, 16, 5.0, BODY_BYTES)["messages"]
    before = rss_anon_mib(side.pid)
    began = time.monotonic()
    popped = generated(side, "pop", CONNECTIONS, 32, 10 * invisible_s, int(invisible_s * 1000), BROKER_NAMES[side.name], "keep")
    after = rss_anon_mib(side.pid)
    time.sleep(max(0.0, invisible_s - (time.monotonic() - began) - 1.0))  # the load is what is waited for, not a state
    beside = generated(side, "send", 1, 1, watch_s, BODY_BYTES)
    return {
        "sent": sent,
        "in_flight": popped["messages"],
        "pops_a_second": popped["rate"],
        "mib_before": before,
        "mib_in_flight": after - before,
        "mib_after_revive": rss_anon_mib(side.pid) - before,
        "longest_send_ms": beside["longest_us"] / 1000,
        "longest_send_alone_ms": alone["longest_us"] / 1000,
        "p999_send_ms": beside["p999_us"] / 1000,
        "p999_send_alone_ms": alone["p999_us"] / 1000,
        "refused": popped["refused"] + beside["refused"],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--invisible", type=float, default=60.0, help="seconds; all must be popped within them")
    parser.add_argument("--watch", type=float, default=60.0, help="seconds of sends while they come again")
    parser.add_argument("--raw", type=Path, help="where the raw figures go (JSON)")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="rmq-bench-") as scratch,
        brokers(Path(scratch), sync_flush=False) as sides,
    ):
        found = {side.name: measured(side, options.messages, options.invisible, options.watch) for side in in_turn(sides)}
    print(f"{machine()}\n\n{json.dumps(found, indent=1)}")
    if options.raw:
        options.raw.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
