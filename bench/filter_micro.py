"""What a filter by properties costs in the store's read: microseconds of CPU per message looked at, 800 in a read.

Selectors: one that wants one message of a hundred, one that wants half of them, one whose property differs in every message.
Each is asked of messages that nobody has looked at, and again of such whose values are remembered (`rmq_store.read.columns`),
which another selector over the same properties finds there, too.
Each message has the eight properties of stock clients and of the broker, and two of a user.

    python -m bench.filter_micro
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from bench.pull_micro import MESSAGES, QUEUES, measure, node
from bench.store_micro import drafts
from broker_impl.filtering import ROWS_MAX, PropertyFilter, property_filter
from rmq_store.store import Store

SELECTORS: Final = {
    "one of a hundred": "grade = 7 AND region = 'eu-1'",
    "half": "grade BETWEEN 0 AND 49 AND region = 'eu-1'",
    "none, each different": "KEYS = 'nobody' OR KEYS CONTAINS 'x'",
}


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="rmq-bench-") as scratch:
        broker = node(Path(scratch))
        store = broker.store
        for at in range(0, MESSAGES, 64):
            for number, draft in enumerate(drafts(at, at + 64), at):
                draft.topic = "Graded"
                draft.properties += f"region\x01eu-1\x02grade\x01{number // QUEUES % 100}\x02".encode()
                store.stage(draft, 1_700_000_000_000 + at)
            store.commit()
            store.dispatch(1_700_000_000_000 + at)
        for name, text in SELECTORS.items():
            run = partial(_read, store, property_filter(text, "SQL92"))
            run()
            measure(name, partial(_first, store, run), MESSAGES)
            measure(f"{name}, again", run, MESSAGES)


def _first(store: Store, run: Callable[[], None]) -> None:
    """As if nobody had looked before."""
    store.forget_values()
    run()


def _read(store: Store, matches: PropertyFilter) -> None:
    """All messages of all queues, once."""
    for queue_id in range(QUEUES):
        offset = 0
        while offset < MESSAGES // QUEUES - ROWS_MAX:
            offset = store.read_queue("Graded", queue_id, offset, 32, 1 << 27, None, matches).next_offset


if __name__ == "__main__":
    main()
