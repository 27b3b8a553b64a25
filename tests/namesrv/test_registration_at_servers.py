"""How our broker keeps itself known to name servers of ours: on their engines, and in the same process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from broker_impl.engine.slices import ROWS_PER_SLICE, finished
from broker_impl.registration import Asked
from rmq_wire.bodies.topics import TopicConfig
from tests.namesrv.registering import Broker, registered
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.engine_session import EngineSession
from tests.support.lines import lines_of


class Wires:
    """A broker's connections to name servers in this process."""

    def __init__(self, broker: Broker, servers: dict[str, EngineSession]) -> None:
        self.broker = broker
        self.servers = servers
        self.clients: dict[str, Client] = {}

    def run(self, at: int) -> None:
        while asked := self.broker.due(at):
            for one in asked:
                self._ask(one)

    def _ask(self, one: Asked) -> None:
        server = self.servers.get(one.namesrv)
        if server is None:
            self.broker.registrar.failed(one, "connection refused", self.broker.now)
            return
        if one.namesrv not in self.clients:
            self.clients[one.namesrv] = server.driver.connect()
        self.broker.registrar.answered(one, self.clients[one.namesrv].ask(one.request, one.body), self.broker.now)


def test_a_name_server_that_restarts_knows_us_soon_again(tmp_path: Path) -> None:
    broker = Broker("n:1", "n:2")
    servers = {"n:1": EngineSession(str(tmp_path / "1")), "n:2": EngineSession(str(tmp_path / "2"))}
    wires = Wires(broker, servers)
    wires.run(0)
    assert all(server.route() == {"broker-a": {"0": "127.0.0.1:10911"}} for server in servers.values())
    broker.registrar.topics_changed([broker.topics.create("N")])
    wires.run(5)
    assert all(server.route("N") is not None for server in servers.values())
    del servers["n:1"]
    del wires.clients["n:1"]
    broker.registrar.disconnected("n:1")
    for at in (10, 1_100, 3_200):
        wires.run(at)
    servers["n:1"] = EngineSession(str(tmp_path / "1"))
    wires.run(8_000)
    assert servers["n:1"].route("N") is not None
    for goodbye in broker.registrar.leave():
        assert wires.clients[goodbye.namesrv].ask(goodbye.request).code == 0
    assert all(server.route() is None for server in servers.values())


@given(st.lists(st.sampled_from(["topic", "all", "ok", "fail", "cut", "wait", "wait long"]), max_size=30), st.integers(0, 2**32))
def test_whatever_happens_the_last_word_is_everything_we_have(events: list[str], seed: int) -> None:
    import random

    broker = Broker("n:1", "n:2")
    chance = random.Random(seed)
    known: dict[str, set[str]] = {"n:1": set(), "n:2": set()}
    under_way: list[Asked] = []

    def answer(asked: Asked) -> None:
        known[asked.namesrv] |= registered(asked)
        assert broker.answer(asked) is None

    now = 0
    for event in [*events, "wait long"]:
        if event == "topic":
            broker.registrar.topics_changed([broker.topics.create(f"N{len(broker.topics.table)}")])
        elif event == "all":
            broker.registrar.everything_changed()
        elif event in ("ok", "fail") and under_way:
            asked = under_way.pop(chance.randrange(len(under_way)))
            if event == "ok":
                answer(asked)
            else:
                known[asked.namesrv] = set()
                broker.registrar.failed(asked, "failed", now)
        elif event == "cut":
            namesrv = chance.choice(["n:1", "n:2"])
            known[namesrv] = set()
            for asked in [one for one in under_way if one.namesrv == namesrv]:
                under_way.remove(asked)
                broker.registrar.failed(asked, "cut", now)
            broker.registrar.disconnected(namesrv)
        now += {"wait": 700, "wait long": 7_000}.get(event, 1)
        asked_now = broker.due(now)
        assert len({one.namesrv for one in [*under_way, *asked_now]}) == len(under_way) + len(asked_now), "one question at a time"
        under_way += asked_now
    for _ in range(20):
        for asked in under_way:
            answer(asked)
        now += 5_000
        under_way = broker.due(now)
    assert known == {"n:1": set(broker.topics.table), "n:2": set(broker.topics.table)}


def test_an_embedded_name_server_gets_the_same(tmp_path: Path) -> None:
    broker: Any = Broker()
    session = EngineSession(str(tmp_path))
    session.server.embed(broker.announcement.registration(broker.announcement.offered(broker.topics.table.values())))
    assert session.route("T2") == {"broker-a": {"0": "127.0.0.1:10911"}}
    session.server.embed(broker.announcement.registration(broker.announcement.offered([broker.topics.create("N")])))
    assert session.route("N") is not None
    session.server.withdraw(broker.announcement.unregistration())
    assert session.route("T2") is None


# With the name server of the same process


def beside(tmp_path: Path, topics: int) -> tuple[Harness, EngineSession, list[int]]:
    """A broker with so many topics, entered into a name server in steps; the lines of Python of each."""
    harness = Harness(tmp_path / "broker", registerNameServerPeriod=30_000)
    names = EngineSession(str(tmp_path / "names"))
    harness.node.topics.put_all([TopicConfig(topic_name=f"M{number}") for number in range(topics)])
    harness.driver.run()
    entering = harness.node.register_with(names.server)
    steps = []
    while entering.gi_frame is not None:
        steps.append(lines_of(lambda: next(entering, None)))
    return harness, names, steps


def test_a_broker_of_the_same_process_is_entered_in_slices(tmp_path: Path) -> None:
    """50,000 topics took 71 ms at the start, and 31 ms every 30 s."""
    harness, names, steps = beside(tmp_path, 3_000)
    assert max(steps) < 100 * ROWS_PER_SLICE
    assert names.route("M2999") is not None
    harness.env.advance(30_000)
    turns = [lines_of(lambda: harness.node.engine.turn([])) + lines_of(lambda: harness.node.engine.settle()) for _ in range(40)]
    assert max(turns) < 100 * ROWS_PER_SLICE
    assert sum(turns) > 3_000, "it was entered again"


def test_news_of_a_broker_of_the_same_process_are_entered_at_once(tmp_path: Path) -> None:
    """Also while it is entered again: what is newer stays, and what was left comes all the same."""
    harness, names, _ = beside(tmp_path, 3_000)
    node = harness.node
    names.server.table.delete_topic("M2999")
    again = node._embedded._entering()
    for number in range(30):
        next(again, None)
        node.topics.put(TopicConfig(topic_name="M2998", read_queue_nums=number + 20))
        node.topics.announce([node.topics.table["M2998"]])
        node.topics.put(TopicConfig(topic_name=f"N{number}"))
        node.topics.announce([node.topics.table[f"N{number}"]])
        assert names.route(f"N{number}") is not None
    assert again.gi_frame is None
    assert names.route("M2999") is not None
    assert names.server.table.topics["M2998"]["broker-a"].read_queue_nums == 49
    ending = node._embedded._entering()
    next(ending)
    node.withdraw_from_name_server()
    finished(ending)
    assert names.route("M1") is None
