"""Makes the golden store `store-5.5.0-trace` in `conformance/golden`: stock clients with message trace switched on.

    python -m tests.java.golden_trace

Messages, delayed ones and transactions are sent; one group reads them, fails each once, and gives the one tagged `Poison` up.
Files as in `golden_store`; told.json holds what the listeners were given, in order, as the clients saw it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests.java.flows import producer, push
from tests.java.golden import GOLDEN, Names
from tests.java.golden_store import _dead, _keep
from tests.support.clients import JavaDriver
from tests.support.golden import SMALL_FILES
from tests.support.java import REFERENCE
from tests.support.process import until
from tests.support.subject import start_subject

NAME = f"store-{REFERENCE}-trace"
TOPIC, GROUP = "traced", "GID_traced"
SENT = 6


def make_store() -> None:
    """Fill and keep."""
    target = GOLDEN / NAME
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        subject = start_subject("java", Path(scratch), properties={**SMALL_FILES, "traceTopicEnable": "true"})
        try:
            with JavaDriver(Path(scratch) / "clients", REFERENCE) as clients:
                clients.call("rebalance_interval", ms=1000)
                entries = fill(clients, subject)
            subject.server.stop()
        finally:
            subject.end()
        _keep(subject.store, target)
        (target / "told.json").write_text(json.dumps(entries, indent=1) + "\n")


def fill(clients: JavaDriver, subject: Any) -> list[dict[str, Any]]:
    """What the listener was given.  The producers and the consumer flush their traces when they stop."""
    fresh = Names()
    with (
        producer(clients, subject, fresh, trace=True) as p,
        producer(clients, subject, fresh, transactions=True, trace=True) as t,
        push(clients, subject, fresh, TOPIC, group=GROUP, failures=1, delay_level=1, expression="TagA || Tx", trace=True) as good,
        push(
            clients,
            subject,
            fresh,
            TOPIC,
            group=f"{GROUP}_strict",
            failures=99,
            delay_level=1,
            max_reconsume=1,
            expression="Poison",
            trace=True,
        ),
    ):
        clients.call("send", producer=p, topic=TOPIC, count=SENT, body="m", tags="TagA", keys="k1 k2")
        clients.call("send", producer=p, topic=TOPIC, body="delayed", tags="TagA", keys="late", delay=1)
        clients.call("send", producer=p, topic=TOPIC, body="poison", tags="Poison", keys="poison")
        for outcome in ("COMMIT_MESSAGE", "ROLLBACK_MESSAGE"):
            clients.call("send", form="transaction", outcome=outcome, producer=t, topic=TOPIC, body=outcome, tags="Tx", keys="tx")
        clients.wait_messages(good, 2 * (SENT + 2))
        until(lambda: _dead(clients, subject, fresh, f"%DLQ%{GROUP}_strict"), "a dead letter")
        return list(clients.messages(good))


if __name__ == "__main__":
    make_store()
