"""The same messages to two groups of two consumers: in one they are shared, in the other everybody gets all.

    python broadcast.py [STORE]        # with the broker's directory its file of progress is shown, too

Shared (clustering), the group's progress is the broker's: config/consumerOffset.json.  To all (broadcasting), each member keeps
its own in a file of its machine, Java's offsets.json.
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from scenario import FIRST, NAMESRV, fresh, wait_for

from rmq_client import Message
from rmq_client.blocking import connect

COUNT = 20


def consumed(topic: str, group: str, place: Path, model: str) -> list[int]:
    """How many messages each of two members got."""
    got: list[list[bytes]] = [[], []]
    with ExitStack() as stack:
        members = []
        for number, bodies in enumerate(got):
            client = stack.enter_context(connect(NAMESRV, instance_name=f"{group}-{number}"))

            def listen(messages, context, bodies=bodies) -> None:
                bodies.extend(message.body for message in messages)

            settings = {"message_model": model, "consume_from_where": FIRST, "local_offset_store_dir": place}
            members.append(
                stack.enter_context(client.push_consumer(group, {topic: "*"}, listen, rebalance_interval_ms=500, **settings))
            )
        total = COUNT * (2 if model == "BROADCASTING" else 1)
        wait_for("all is consumed", lambda: sum(len(set(bodies)) for bodies in got) >= total)
    return [len(set(bodies)) for bodies in got]


def main() -> None:
    topic, shared, everybody = fresh("news"), fresh("shared"), fresh("everybody")
    with connect(NAMESRV) as client, tempfile.TemporaryDirectory() as made:
        client.topics.create(topic, queues=4)
        producer = client.producer("editor")
        for number in range(COUNT):
            producer.send(Message(topic, b"%d" % number))
        place = Path(made)
        to_all = consumed(topic, everybody, place, "BROADCASTING")
        assert to_all == [COUNT, COUNT]
        print(f"broadcasting: {to_all} messages, progress in")
        files = sorted(place.glob("*/*/offsets.json"))
        assert len(files) == 2
        for file in files:
            print(f"  {file.relative_to(place)}: {' '.join(file.read_text().split())}")
        parts = consumed(topic, shared, place, "CLUSTERING")
        assert sum(parts) >= COUNT
        puller = client.puller(shared)
        offsets = {queue.queue_id: puller.committed_offset(queue) for queue in puller.queues(topic)}
        assert sum(offset or 0 for offset in offsets.values()) == COUNT
        print(f"clustering: {parts} messages, progress at the broker: {offsets}")
        if len(sys.argv) > 1:
            table, key = Path(sys.argv[1], "config", "consumerOffset.json"), f"{topic}@{shared}"
            row: dict[str, int] = {}

            def is_written() -> bool:
                row.update(_written(table, key))
                return sum(row.values()) == COUNT

            wait_for("the broker has written it all", is_written)
            print(f"  {table.name}: {key} {row}")


def _written(table: Path, key: str) -> dict[str, int]:
    """Queue id -> offset as the file has them now, none while it is being replaced.  (Another table says who pulled.)"""
    try:
        return json.loads(_quoted(table.read_text()))["offsetTable"].get(key, {})
    except (FileNotFoundError, ValueError):
        return {}


def _quoted(text: str) -> str:
    """Java writes numbers as keys."""
    import re

    return re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', text)


if __name__ == "__main__":
    main()
