"""Heartbeats with SQL92 subscriptions, and the `consumerFilter.json` that the real broker wrote of them.

`python -m tests.broker.filter_calls` sends them to Apache RocketMQ 5.5.0 and keeps two files in `golden/`: `consumerFilter.json`,
written while the members were there, and `consumerFilter-loaded.json`, written by the broker that was killed then, had read the
first one, and had heard nobody.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from rmq_wire.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from rmq_wire.declare import Request
from rmq_wire.headers.clients import Heartbeat, UnregisterClient
from tests.broker.admin_calls import GOLDEN

WRITTEN, LOADED = GOLDEN / "consumerFilter.json", GOLDEN / "consumerFilter-loaded.json"
CLIENT = "10.0.0.1@7"
VERSION = 1_795_000_000_000
ODD = """name = 'Zürich "€" \\ / <b>\t&' OR note IS NULL AND NOT (n BETWEEN -1.5 AND 2) OR good = TRUE"""
LATER = "GID_late"
"""The group that comes less than half a minute before the broker is killed."""
OLD_MS = 35_000
FILE_S_MAX = 120.0


Row = tuple[str, str, str]
"""Topic, group, and a member of what the file has of them."""


class Step(NamedTuple):
    """A request, and what in the file says when it came; None: with the one before."""

    request: Request
    body: bytes
    when: Row | None


def beat(group: str, *said: tuple[str, str] | tuple[str, str, int], kind: str = "SQL92", when: str = "", dies: str = "") -> Step:
    """Subscriptions: (topic, text) or (topic, text, version); when, dies: the topic of the row that begins or ends with this."""
    subscriptions = [
        SubscriptionData(topic=topic, sub_string=text, expression_type=kind, sub_version=version[0] if version else VERSION)
        for topic, text, *version in said
    ]
    consumer = ConsumerData(
        group_name=group,
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscription_data_set=subscriptions,
    )
    data = HeartbeatData(client_id=CLIENT, consumer_data_set=[consumer])
    told = (dies, group, "deadTime") if dies else (when, group, "bornTime") if when else None
    return Step(Heartbeat(), data.encode(), told)


def leave(group: str, dies: str = "") -> Step:
    """The only member."""
    return Step(UnregisterClient(client_id=CLIENT, consumer_group=group), b"", (dies, group, "deadTime") if dies else None)


PRICE, AMOUNT = ("Orders", "price > 10 AND colour IN ('red', 'green')"), ("Payments", "amount BETWEEN 1 AND 5")
STEPS: tuple[Step, ...] = (
    beat("GID_orders", PRICE, when="Orders"),
    beat("GID_orders", PRICE, AMOUNT, when="Payments"),
    beat("GID_audit", ("Orders", ODD), when="Orders"),
    beat("GID_audit", ("Orders", ODD), ("Payments", "a IS NOT NULL"), when="Payments"),
    beat("GID_tags", ("Orders", "A || B"), kind="TAG"),
    beat("GID_bad", ("Orders", "a > > 1")),
    beat("GID_broken", ("Orders", "a = 1")),
    beat("GID_broken", ("Orders", "a = = 1", VERSION + 1)),
    beat("GID_changed", ("Orders", "n = 1")),
    beat("GID_changed", ("Orders", "n = 2", VERSION + 1), when="Orders"),
    beat("GID_changed", ("Orders", "n = 3", VERSION - 1)),
    beat("GID_newer", ("Payments", "n = 4"), when="Payments"),
    beat("GID_newer", ("Payments", "n = 4", VERSION + 5)),
    beat("GID_gone", ("Payments", "n = 5"), when="Payments"),
    leave("GID_gone", dies="Payments"),
    beat("GID_moved", ("Orders", "n = 6"), when="Orders"),
    beat("GID_moved", ("Orders", "n = 6"), ("Payments", "n = 7"), when="Payments"),
    beat("GID_moved", ("Payments", "n = 7"), dies="Orders"),
    beat("GID_back", ("Orders", "n = 8"), when="Orders"),
    leave("GID_back"),
    beat("GID_back", ("Orders", "n = 8")),
    *(beat(f"GID_{number}", ("Many", f"n = {number}"), when="Many") for number in range(13)),
    *(beat("GID_wide", *((f"Topic{at}", "n > 0") for at in range(number + 1)), when=f"Topic{number}") for number in range(3)),
)
LAST = beat(LATER, ("Orders", "n = 9"), when="Orders")


def said_by(file: bytes, row: Row) -> int:
    """A time that the file says."""
    topic, group, member = row
    found: int = json.loads(file)["filterDataByTopic"][topic]["groupFilterData"][group][member]
    return found


def is_whole(file: bytes) -> bool:
    """Does it say when each of the steps came?"""
    try:
        return all(said_by(file, step.when) for step in (*STEPS, LAST) if step.when is not None)
    except (KeyError, ValueError):
        return False


def main() -> None:
    """Start the real broker, send it all, kill it, start it again, and keep what it wrote."""
    from tests.support.process import until
    from tests.support.reference import JavaBroker, JavaNameServer
    from tests.support.talk import Talk

    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        properties = {"enablePropertyFilter": "true"}
        with JavaNameServer(home / "ns") as names, JavaBroker(home / "broker", names.address, properties=properties) as broker:
            file = broker.store / "config" / WRITTEN.name
            with Talk(broker.address) as line:
                for step in STEPS:
                    assert line.ask(step.request, step.body).code == 0
                old_ms = time.time_ns() // 1_000_000 + OLD_MS
                until(lambda: time.time_ns() // 1_000_000 > old_ms, "half a minute", seconds=FILE_S_MAX)
                assert line.ask(LAST.request, LAST.body).code == 0
                until(lambda: file.exists() and is_whole(file.read_bytes()), "the file", seconds=FILE_S_MAX)
                broker.kill()
            written = file.read_bytes()
            broker.start()
            until(lambda: file.read_bytes() != written, "the file anew", seconds=FILE_S_MAX)
            WRITTEN.write_bytes(written)
            LOADED.write_bytes(file.read_bytes())
    sys.stdout.write(f"{len(written)} bytes\n")


if __name__ == "__main__":
    main()
