"""Bugs that name servers have had, planted one by one: each check passes on ours and catches its bug.

V11, V14 and V15 of the list of server bugs, and some of our own making.  The model of `test_routes_reordered` must find those
of the table by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from broker_impl.namesrv import route_table
from broker_impl.namesrv.route_table import RouteTable
from broker_impl.namesrv.server import NameServer
from broker_impl.namesrv.topic_queues import TopicQueues
from rmq_wire.bodies import properties_text
from tests.namesrv.history import NameServerHistory
from tests.support.engine_session import EngineSession
from tests.support.exchange import broker, register_body, topic
from tests.support.planting import Plant, find

SEARCH = settings(
    max_examples=600, stateful_step_count=40, deadline=None, database=None, phases=[Phase.generate], derandomize=True
)
"""The hardest of these bugs took 41 examples in the middle of 25 seeds and 228 at most; here they are the same in every run."""


def stale_close_wins(patch: pytest.MonkeyPatch) -> None:
    """V14: a connection that closes takes away whatever it ever registered."""
    honest = RouteTable.link_closed

    def link_closed(self: RouteTable, link: Any) -> list[Any]:
        keys = [key for key, live in self.live.items() if live.link is link or link in live.former]
        self._remove(keys)
        return keys + honest(self, link)

    patch.setattr(RouteTable, "link_closed", link_closed)


def stale_goodbye_wins(patch: pytest.MonkeyPatch) -> None:
    """V14: an unregistration goes by address alone."""

    def unregister(self: RouteTable, gone: Any, link: Any = None) -> None:
        self._remove([(asked.cluster, asked.addr) for asked in gone])

    patch.setattr(RouteTable, "unregister", unregister)


def old_place_stays(patch: pytest.MonkeyPatch) -> None:
    """A master that moved stays alive at its old place too, as in Java."""
    patch.setattr(RouteTable, "_supersede", lambda self, asked, addrs: None)


def topics_stay(patch: pytest.MonkeyPatch) -> None:
    """Topics of a broker that is gone stay in the route (apache/rocketmq#7884)."""
    patch.setattr(TopicQueues, "drop_brokers", lambda self, names: None)


def signs_of_life_are_lost(patch: pytest.MonkeyPatch) -> None:
    """A heartbeat is answered and forgotten."""
    patch.setattr(RouteTable, "touch", lambda self, cluster, addr, mono_ms: None)


def clusters_keep_names(patch: pytest.MonkeyPatch) -> None:
    """A cluster goes on listing brokers that have left."""
    patch.setattr(RouteTable, "_leave_cluster", lambda self, cluster, name: None)


TABLE_BUGS: tuple[Plant, ...] = (
    stale_close_wins,
    stale_goodbye_wins,
    old_place_stays,
    topics_stay,
    signs_of_life_are_lost,
    clusters_keep_names,
)


@pytest.mark.parametrize("plant", TABLE_BUGS, ids=lambda plant: plant.__name__)
def test_the_model_finds_the_bug(plant: Plant) -> None:
    find(plant, lambda: run_state_machine_as_test(NameServerHistory, settings=SEARCH))


def newline_becomes_a_key(tmp_path: Path) -> bool:
    """V11: is a value with a line break kept out of the file?"""
    session = EngineSession(str(tmp_path))
    session.ask(318, {}, b"productEnvName=x\\nkvConfigPath=/elsewhere")
    path = tmp_path / "namesrv" / "namesrv.properties"
    return path.exists() and properties_text.loads(path.read_text(encoding="utf-8")).get("kvConfigPath") == "/elsewhere"


def test_a_newline_in_a_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not newline_becomes_a_key(tmp_path / "ours")
    monkeypatch.setattr(properties_text, "is_one_line", lambda text: True)
    assert not newline_becomes_a_key(tmp_path / "unchecked"), "escaping alone keeps the file right"
    monkeypatch.setattr(properties_text, "dumps_escaped", lambda entries, ascii_only: properties_text.dumps(entries))
    assert newline_becomes_a_key(tmp_path / "as Java")


def expires_when_the_clock_steps(tmp_path: Path) -> bool:
    """V15: does a step of the wall clock end a registration?"""
    session = EngineSession(str(tmp_path))
    session.ask(103, broker(), register_body(topic("T1"), topic("T2")), who="a")
    session.env.wall_ms += 10**9
    session.driver.advance(6_000)
    return session.route() is None


def test_a_wall_clock_in_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not expires_when_the_clock_steps(tmp_path / "ours")
    start: dict[RouteTable, int] = {}

    def expire(self: NameServer) -> None:
        now = self.engine.env
        self.table.expire(now.wall_ms - start.setdefault(self.table, 1_700_000_000_000) + 1_000_000)

    monkeypatch.setattr(NameServer, "_expire", expire)
    assert expires_when_the_clock_steps(tmp_path / "planted")


def test_the_model_holds_without_a_bug() -> None:
    assert route_table.RouteTable is RouteTable
    run_state_machine_as_test(NameServerHistory, settings=settings(SEARCH, max_examples=50))
