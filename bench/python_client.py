"""What the Python client pays for a message, beside the stock Java client (5.5.0) on the same brokers, ours and the real one.

    python -m bench.python_client [--rows send push] [--count 20000] [--json FILE]

- *import*: CPU that importing the package, its names and each face takes, and `import trio` alone.
- *first*: from entering the client's block to the first acknowledged send (Python only: a JVM is slower to start than that).
- *cold*: the same in a new interpreter with the blocking face, whose first `connect` imports trio and the core; and all of it,
  from the import of the face on.
- *command*: from the start of a command of `rmq` to the first byte that it prints.
- *send*: 1 KiB messages, 64 in flight over one connection.
- *push*: a backlog consumed by listeners that do nothing, default settings: one message a call, 20 listeners at once.

CPU is that of the client's whole process, the JVM's collector and compiler included; the first of four rounds warms up, the
median of the others counts.  On two cores the broker takes the other one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.compare import Side, brokers, machine
from bench.processes import make_topic
from tests.support.java import REFERENCE, classpath, java, programs

DEPTH, BYTES, QUEUES = 64, 1_024, 4
ROWS = ("import", "first", "cold", "command", "send", "push")
COMMANDS = {
    "topic list": "topic list",
    "send": "send {topic} hello",
    "tail": "tail {topic} --from start -c 1",
    "consume": "consume {topic} -g command-{round} --from start -c 1",
    "lag": "lag --once",
}
IMPORTS = {
    "trio": "import trio",
    "rmq_client": "import rmq_client",
    "its names": "from rmq_client import Message, SendResult, Subscription, ReceivedMessage, ClientError, Credentials",
    "rmq_client.blocking": "from rmq_client.blocking import connect",
    "rmq_client.aio": "from rmq_client.aio import connect",
    "asyncio": "import asyncio",
    "rmq_client.connect": "from rmq_client import connect",
}
COLD = """
import json, sys, time
began_s = time.perf_counter()
from rmq_client import Message
from rmq_client.blocking import connect
entered_s = time.perf_counter()
with connect(sys.argv[1]) as client:
    client.producer("cold").send(Message(sys.argv[2], bytes(int(sys.argv[3]))))
    ended_s = time.perf_counter()
print(json.dumps({"first_ms": (ended_s - entered_s) * 1e3, "all_ms": (ended_s - began_s) * 1e3}))
"""
Figures = dict[str, float]


def played(command: list[str]) -> Figures:
    """The median of its rounds but the first, figure by figure."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    rounds = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode or not rounds:
        raise SystemExit(f"{command[-7:]}: {ran.stderr[-2_000:]}")
    later = rounds[1:] or rounds
    return {name: statistics.median(one[name] for one in later) for name in later[0]}


def python(*arguments: object) -> Figures:
    return played([sys.executable, "-O", "-m", "bench.client_load", *map(str, arguments)])


def stock(*arguments: object) -> Figures:
    """On the usual JVM: compilers and collector as they are by default."""
    jars = f"{classpath(REFERENCE)}{os.pathsep}{programs()}"
    return played([java(), "-Xmx512m", "-Drmq.logback.configurationFile=none.xml", "-cp", jars, "rmq.Load", *map(str, arguments)])


def import_cpu_ms(statement: str, rounds: int = 11) -> float:
    """User and system time of an interpreter that does this, less that of one that does nothing; the least of so many."""

    def least(code: str) -> float:
        found = []
        for _ in range(rounds):
            child = os.posix_spawn(sys.executable, [sys.executable, "-c", code], os.environ)
            _, status, used = os.wait4(child, 0)
            assert status == 0
            found.append(used.ru_utime + used.ru_stime)
        return min(found) * 1e3

    return least(statement) - least("pass")


def cold(namesrv: str, topic: str, rounds: int = 11) -> Figures:
    """The median of so many new interpreters."""
    command = [sys.executable, "-O", "-c", COLD, namesrv, topic, str(BYTES)]
    found = [json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(rounds)]
    return {name: round(statistics.median(one[name] for one in found), 1) for name in found[0]}


def command(line: str, namesrv: str, topic: str, rounds: int = 7) -> Figures:
    """The median of so many runs, in milliseconds of wall."""
    found = []
    for number in range(rounds):
        arguments = line.format(topic=topic, round=number).split()
        began_s = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-O", "-m", "rmq_cli.main", *arguments, "-n", namesrv], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            printed = process.stdout.read(1)
            found.append((time.perf_counter() - began_s) * 1e3)
            process.stdout.read()
        assert printed, arguments
    return {"ms": round(statistics.median(found), 1)}


def rows(wanted: list[str], sides: tuple[Side, Side], count: int) -> Iterator[tuple[str, str, str, Figures]]:
    """Row, broker, client, figures."""
    if "import" in wanted:
        for name, statement in IMPORTS.items():
            yield "import", "-", name, {"ms": round(import_cpu_ms(statement), 1)}
    for side in sides:
        topic = f"client_{side.name}"
        make_topic(side.port, topic, QUEUES)
        if "first" in wanted:
            yield "first", side.name, "python", python("first", side.namesrv, topic, 0, 0, BYTES)
        if "cold" in wanted:
            yield "cold", side.name, "python", cold(side.namesrv, topic)
        if "command" in wanted:
            for name, line in COMMANDS.items():
                yield "command", side.name, f"rmq {name}", command(line, side.namesrv, topic)
        if "send" in wanted or "push" in wanted:
            yield "send", side.name, "python", python("send", side.namesrv, topic, count, DEPTH, BYTES)
            yield "send", side.name, "java", stock("send", side.namesrv, topic, count, DEPTH, BYTES)
        if "push" in wanted:
            yield "push", side.name, "python", python("push", side.namesrv, topic, 4 * count, 4, 0)
            yield "push", side.name, "java", stock("push", side.namesrv, topic, 4 * count, 4, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--count", type=int, default=20_000, help="messages of a round")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as directory, brokers(Path(directory), sync_flush=False) as sides:
        for row, broker, client, figures in rows(options.rows, sides, options.count):
            found.append({"row": row, "broker": broker, "client": client, **figures})
            print(f"{row:8}{broker:8}{client:22}" + "  ".join(f"{name} {value:g}" for name, value in figures.items()), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
