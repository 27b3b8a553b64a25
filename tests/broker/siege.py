"""A broker under attack: who attacks, who must not notice, and what has to be the same afterwards.

`with siege(tmp_path) as broker:` gives a whole broker on an engine.  `with broker.unharmed():` holds the attack itself: after it
the stored messages, tables, configuration and directories are what they were, and a witness that was connected all the time
sends one more message and reads all of its own.  At the end of every siege nothing of ours has failed, whatever log lines
unknown peers caused are one printable line each, and the store closes cleanly and opens again with the same messages.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from broker_impl.engine.limits import Limits
from rmq_store.disk.disk import Disk
from rmq_wire.command import Form
from tests.support.bad_frames import WITNESS
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.requests import pairs, pull, send, units
from tests.support.troubled_disk import TroubledDisk

WITNESS_GROUP = "WitnessGroup"
SMALL_BYTES = 100_000
LOGGERS = ("rmq", "broker_impl", "rmq_net", "rmq_store", "rmq_wire")


class Lines(logging.Handler):
    """What was logged.  `formatted`: with tracebacks."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.messages: list[str] = []
        self.formatted: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self.formatted.append(self.format(record))

    def about(self, *parts: str) -> list[str]:
        """The lines that hold all of these."""
        return [line for line in self.messages if all(part in line for part in parts)]

    def check(self) -> None:
        """Each line is one line, and every character of it can be shown on a terminal."""
        for line in self.messages:
            assert line.isprintable(), f"a log line that an unknown peer wrote: {line!r}"
        for text in self.formatted:
            assert all(line.isprintable() for line in text.split("\n")), f"a traceback with an unknown peer's text: {text!r}"


@contextlib.contextmanager
def logged() -> Iterator[Lines]:
    """Everything that our packages log meanwhile, down to DEBUG."""
    lines = Lines()
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [(logger, logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(lines)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
    try:
        yield lines
    finally:
        for logger, level, propagate in levels:
            logger.removeHandler(lines)
            logger.setLevel(level)
            logger.propagate = propagate


class Siege(Harness):
    """One broker with a group G, its witness, and the log."""

    def __init__(
        self,
        root: Path,
        lines: Lines,
        *,
        limits: Limits | None = None,
        disk: Disk | None = None,
        path: Path | None = None,
        **settings: Any,
    ) -> None:
        self.lines = lines
        self._witnessed: list[bytes] = []
        super().__init__(root / "store", limits, disk=disk or TroubledDisk(), path=path, **settings)
        self.scratch = root
        self.topic(WITNESS, queues=1)
        assert self.node.groups.find("G") is not None, "made by asking for it"
        self.witness = self.connect()
        self.keep_faith()

    # The witness

    def keep_faith(self) -> None:
        """The witness sends a message and finds all that it ever sent, on the connection that it had before."""
        body = b"witness %d" % len(self._witnessed)
        answer = self.witness.ask(send(WITNESS), body)
        assert answer.code == 0, f"the witness was refused: {answer.remark}"
        self._witnessed.append(body)
        assert self.read_all(self.witness, WITNESS, 0) == self._witnessed

    def pass_time(self, ms: int) -> None:
        """Let time pass; the witness shows a sign of life now and then, or it would be closed as idle."""
        while ms > 0:
            step = min(ms, 60_000)
            self.driver.advance(step)
            self.keep_faith()
            ms -= step

    @staticmethod
    def read_all(client: Client, topic: str, queue_id: int) -> list[bytes]:
        """The bodies of a queue, by pulls."""
        found: list[bytes] = []
        while True:
            answer = client.ask(pull(topic, queue_id, len(found), consumer_group=WITNESS_GROUP))
            if answer.code != 0:
                return found
            found += [bytes(unit.body) for unit in units(answer.body)]

    # What must not change

    def state(self) -> dict[str, Any]:
        """Everything that an attack could harm, by name."""
        node = self.node
        queues = sorted((topic, queue_id) for topic, bounds in node.store.topics().items() for queue_id in bounds)
        messages = {queue: self.stored(*queue) for queue in queues}
        witnessed = messages.pop((WITNESS, 0), [])
        return {
            "messages": messages,
            "log": node.store.written_offset - sum(unit.total_size for unit in witnessed),
            "topics": {name: topic.plain() for name, topic in node.topics.table.items()},
            "groups": {name: group.plain() for name, group in node.groups.table.items()},
            "forbidden": {group: dict(row) for group, row in node.groups.forbidden_table.items()},
            "progress": {key: dict(row) for key, row in node.offsets.tables()[1].items()},
            "configuration": node.config.listing(),
            "directories": sorted(str(path.relative_to(self.scratch)) for path in self.scratch.rglob("*") if path.is_dir()),
        }

    @contextlib.contextmanager
    def unharmed(self, *but: str) -> Iterator[None]:
        """Inside is an attack.  `but`: what it may change, by the names of `state`; the test looks at these itself."""
        before = self.state()
        yield
        after = self.state()
        for name, value in before.items():
            if name not in but:
                assert after[name] == value, f"the attack changed {name}"
        assert not self.witness.closed
        self.keep_faith()

    # Attackers

    def attack(self, data: bytes) -> Client:
        """An unknown peer connects and sends these bytes."""
        unknown = self.connect()
        unknown.raw(data)
        return unknown

    def closed_with(self, unknown: Client, *why: str) -> None:
        """The unknown peer was closed, and a log line says who it was and why."""
        assert unknown.closed, "the connection is still open"
        host, port = unknown.peer.remote
        assert self.lines.about(f"{host}:{port}", *why), f"no line about {host}:{port} and {why}: {self.lines.messages[-5:]}"

    def raise_siege(self) -> None:
        """The end: nothing of ours failed, the log is readable, and what is stored survives a restart."""
        assert self.node.engine.counters.errors == 0, [line for line in self.lines.formatted if "Traceback" in line]
        self.lines.check()
        messages = self.state()["messages"]
        self.restart()
        assert self.state()["messages"] == messages
        assert self.node.close()


@contextlib.contextmanager
def siege(root: Path, **options: Any) -> Iterator[Siege]:
    """A broker to attack; see `Siege` for the options."""
    with logged() as lines:
        broker = Siege(root, lines, **options)
        yield broker
        broker.raise_siege()


@contextlib.contextmanager
def two_topics(tmp_path: Path, **options: Any) -> Iterator[Siege]:
    """With the topics T and Secret; Secret has a message."""
    with siege(tmp_path, **options) as broker:
        broker.topic("T")
        broker.topic("Secret", queues=1)
        assert broker.witness.ask(send("Secret", properties=pairs(UNIQ_KEY="S" * 32, KEYS="secret")), b"a secret").code == 0
        yield broker


def files_below(root: Path) -> dict[str, bytes]:
    """Path to content, of files that are small."""
    files = [path for path in root.rglob("*") if path.is_file() and path.stat().st_size < SMALL_BYTES]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def is_safe_echo(remark: str | None, limit: int = 512) -> bool:
    """A remark that repeats only a little of what came in, on one line (FAQ links of the reference excepted)."""
    text = re.sub(r"\nSee https://\S+ for further details\.", "", remark or "")
    return len(text) <= limit and text.isprintable()


FORMS = list(Form)
