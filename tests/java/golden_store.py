"""Makes the golden store in `conformance/golden`: what the real broker writes for every kind of message.

    python -m tests.java.golden_store

A small store directory after a clean stop, its files cut after their last written byte; beside them the frames by which the
messages came (frames.bin) and what the senders were answered (told.json), so that a test can compare what was sent with what was
stored.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from conformance.captures.frames import save
from conformance.captures.recorder import Frame
from conformance.frames import glance
from tests.java.flows import drain, producer, push
from tests.java.golden import GOLDEN, Names, made, stage
from tests.support.clients import JavaDriver, JavaError
from tests.support.golden import SMALL_FILES
from tests.support.java import OLD_CLIENT, REFERENCE
from tests.support.process import until
from tests.support.subject import Subject

LEFT_OUT = {"timerwheel", "timerlog", "rocksdbstore", "compaction"}


def make_store() -> None:
    """The store of a broker after a clean stop, the frames of its clients, and what they were answered."""
    target = GOLDEN / f"store-{REFERENCE}"
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch, stage(Path(scratch), properties=SMALL_FILES) as on:
        entries: list[dict[str, Any]] = []
        for version in (REFERENCE, OLD_CLIENT):
            with JavaDriver(Path(scratch) / version, version) as clients:
                clients.call("rebalance_interval", ms=1000)
                fill(clients, on.subject, version, entries)
        frames = on.broker_relay.frames()
        on.subject.server.stop()
        _keep(on.subject.store, target)
        about = f"Clients {REFERENCE} and {OLD_CLIENT} fill the store of a {REFERENCE} broker ({SMALL_FILES})."
        save(target / "frames.bin", _sends(frames), f"{about}\n{made()}")
        (target / "told.json").write_text(json.dumps(entries, indent=1) + "\n")


def fill(clients: JavaDriver, subject: Subject, version: str, entries: list[dict[str, Any]]) -> None:
    """Every kind of message; what the senders were answered goes into `entries`."""
    fresh = Names()
    topic, group = f"kinds-{version.replace('.', '_')}", f"GID-{version.replace('.', '_')}"
    with producer(clients, subject, fresh) as p, producer(clients, subject, fresh, transactions=True) as t:
        at: dict[str, Any] = {"topic": topic, "broker": subject.broker_name, "queue": 1}
        kinds: list[dict[str, Any]] = [
            {"body": "plain"},
            {"body": "full", "tags": "TagA", "keys": "k1 k2", "flag": 3, "p.colour": "grün", "p.a": "1", "p.zebra": "x" * 40},
            {"body": "oneway", "form": "oneway", "tags": "TagB"},
            {"body": "async", "form": "async", "count": 2, "keys": "async"},
            {"body": "batch", "form": "batch", "count": 4, "tags": "TagA,TagB", "keys": "b", **at},
            {"body": "no wait", "wait": False},
            {"size": 9_000, "tags": "Compressed"},
            {"body": "delayed", "delay": 1, "tags": "TagA", "keys": "late", "p.own": "1"},
            {"body": "sharded", "x.__SHARDINGKEY": "order-1", "form": "queue", **at},
            {"body": "timed", "x.TIMER_DELAY_MS": 1500, "tags": "TagT"},
            {"body": "priority", "x._SYS_MSG_PRIORITY_": 2},
        ]
        for kind in kinds:
            arguments = {"producer": p, "topic": topic, **kind}
            entries.append({"version": version, "sent": kind, "answers": clients.call("send", **arguments)})
        for outcome in ("COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"):
            kind = {"form": "transaction", "outcome": outcome, "body": outcome, "tags": "Tx", "keys": "tx"}
            entries.append({"version": version, "sent": kind, "answers": clients.call("send", producer=t, topic=topic, **kind)})
        for size in range(100, 1500, 200):  # enough to roll the log
            clients.call("send", producer=p, topic=topic, size=size, keys=f"size-{size}")
        with push(
            clients, subject, fresh, topic, group=group, failures=99, max_reconsume=1, delay_level=1, expression="TagA || Tx"
        ) as c:
            until(lambda: any(m["reconsume_times"] for m in clients.messages(c)), "a retry")
            dead = f"%DLQ%{group}"
            until(lambda: _dead(clients, subject, fresh, dead), "a dead letter")


def _dead(clients: JavaDriver, subject: Subject, fresh: Names, topic: str) -> bool:
    with contextlib.suppress(JavaError):
        return bool(drain(clients, subject, fresh, topic, 0))
    return False


def _sends(frames: list[Frame]) -> list[Frame]:
    """Only what makes messages: sends, batches, send-back, end of transaction, and their answers."""
    asked: set[tuple[int, int]] = set()
    kept = []
    for frame in frames:
        seems = glance(frame.data)
        if frame.to_server and not seems.is_response and seems.code in STORING:
            asked.add((frame.connection, seems.opaque))
            kept.append(frame)
        elif not frame.to_server and seems.is_response and (frame.connection, seems.opaque) in asked:
            kept.append(frame)
    return kept


STORING = {10, 36, 37, 310, 320}


def _keep(store: Path, target: Path) -> None:
    """Copy the files without the zeros at their end; their sizes stand in sizes.json."""
    sizes = {}
    for path in sorted(store.rglob("*")):
        name = path.relative_to(store)
        if not path.is_file() or name.parts[0] in LEFT_OUT or name.name == "lock" or name.suffix == ".bak":
            continue
        data = path.read_bytes()
        sizes[str(name)] = len(data)
        kept = target / name
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(data.rstrip(b"\0"))
    (target / "sizes.json").write_text(json.dumps(sizes, indent=1) + "\n")


if __name__ == "__main__":
    make_store()
