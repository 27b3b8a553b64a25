"""A stock ordered consumer whose listener fails: tries in place, nothing overtakes, and at last the dead letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.java.flows import drain, producer, push
from tests.support.clients import JavaDriver, JavaError
from tests.support.java import REFERENCE
from tests.support.process import until
from tests.support.subject import Subject

pytestmark = pytest.mark.java

Fresh = Callable[[str], str]
SUSPEND_MS = 300
TRIES = 2


def test_what_fails_in_order_is_tried_in_place_and_given_up(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """The broker puts what the consumer sends to its retry topic among the dead letters at once: nothing waits there."""
    topic, group = fresh("ordered"), fresh("group")
    options: dict[str, Any] = {"failures": 99, "max_reconsume": TRIES - 1, "suspend_ms": SUSPEND_MS, "threads": 4}
    with (
        producer(clients, subject, fresh, queues=1) as p,
        push(clients, subject, fresh, topic, group=group, orderly=True, **options) as c,
    ):
        clients.call("send", producer=p, topic=topic, form="sync", count=3, body="m", tags="T", keys="k")
        dead = until(lambda: dead_letters(clients, subject, fresh, group, 3), "dead letters", seconds=30)
        heard = sorted(clients.messages(c), key=lambda message: message["number"])
    assert [(m["body"], m["reconsume_times"]) for m in heard] == [(f"m{n}", times) for n in range(3) for times in range(TRIES)]
    for first, again in zip(heard[::TRIES], heard[1::TRIES], strict=True):
        assert again["began_ns"] - first["began_ns"] >= SUSPEND_MS * 1_000_000 * 9 // 10
        assert again["offset"] == first["offset"], "it is the same record, not a copy"
    assert [m["body"] for m in dead] == ["m0", "m1", "m2"]
    told = TRIES if clients.version == REFERENCE else TRIES - 1  # not above its maximum: the group's lock makes it a dead letter
    assert {(m["reconsume_times"], m["properties"]["RETRY_TOPIC"], m["tags"]) for m in dead} == {(told, topic, "T")}
    assert drain(clients, subject, fresh, f"%RETRY%{group}", 0) == []


def dead_letters(clients: JavaDriver, subject: Subject, fresh: Fresh, group: str, count: int) -> list[dict[str, Any]] | None:
    """So many of them; None while the topic, or one of them, is not there yet."""
    try:
        found = drain(clients, subject, fresh, f"%DLQ%{group}", 0)
    except JavaError:
        return None
    return found if len(found) >= count else None
