"""Clients that are not Java's send and consume: the C++ client 2.x, whose heartbeat has ordinals for enumerations, and Go's.

By night only: they are fetched and compiled.  `RMQ_SUBJECT=java` proves the tests themselves on the real broker.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.foreign.conftest import Program
from tests.support.requests import create_topic
from tests.support.subject import Subject
from tests.support.talk import Talk

pytestmark = pytest.mark.nightly
COUNT = 40


def consumed(subject: Subject, program: Program, name: str, hows: list[str]) -> None:
    """All ways at once: a client waits most of the time."""
    with Talk(subject.address) as talk:
        for how in hows:
            assert talk.ask(create_topic(f"{name}-{how}")).code == 0
    with ThreadPoolExecutor(len(hows)) as pool:
        asked = [[subject.namesrv, f"{name}-{how}", f"G-{name}-{how}", str(COUNT), how] for how in hows]
        for how, got in zip(hows, pool.map(program, asked), strict=True):
            assert {body for _, body in got} == {f"m{number:03}" for number in range(COUNT)}, how
            if how == "orderly":
                for queue in range(4):
                    bodies = [body for at, body in got if at == queue]
                    assert bodies == sorted(bodies), queue


def test_the_cpp_client_consumes(subject: Subject, cpp: Program) -> None:
    consumed(subject, cpp, "cpp", ["push", "orderly", "pull"])


def test_the_go_client_consumes(subject: Subject, go: Program) -> None:
    consumed(subject, go, "go", ["push", "orderly"])
