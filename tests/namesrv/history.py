"""Registrations, moves, goodbyes, closed connections and time in any order, against a model that fits on a page.

The model knows only who is live: a dictionary with the rules of `RouteTable`'s docstring.  After each event it must agree with
the table, and the table's indexes with each other.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker_impl.env import Env
from broker_impl.namesrv.registrations import HEARTBEAT_TIMEOUT_MS, Registration, Unregistration
from broker_impl.namesrv.route_table import RouteTable
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.topics import TopicConfig

CLUSTERS = st.sampled_from(["C", "D"])
NAMES = st.sampled_from(["a", "b", "c"])
IDS = st.integers(0, 2)
ADDRS = st.sampled_from([f"h:{port}" for port in range(4)])
TOPICS = st.dictionaries(st.sampled_from("STUV"), st.sampled_from([4, 6]), max_size=4)
STEP_MS = 30_000


class Link:
    """A connection."""

    def __init__(self, number: int) -> None:
        self.id = number


class Live(NamedTuple):
    name: str
    broker_id: int
    link: Link
    former: frozenset[Link]
    state: int
    updated_ms: int
    timeout_ms: int


class Settings:
    delete_topic_with_broker_registration = False
    notify_min_broker_id_changed = True


class NameServerHistory(RuleBasedStateMachine):
    @initialize(drop=st.booleans())
    def start(self, drop: bool) -> None:
        options = Settings()
        options.delete_topic_with_broker_registration = drop
        self.table = RouteTable(options, Env().log, lambda change: None)
        self.model: dict[tuple[str, str], Live] = {}
        self.links = [Link(1)]
        self.count = 1
        self.now = 0
        logging.getLogger("rmq").disabled = True

    def teardown(self) -> None:
        logging.getLogger("rmq").disabled = False

    def some_link(self, number: int) -> Link:
        return self.links[number % len(self.links)]

    @rule()
    def connect(self) -> None:
        self.count += 1
        self.links.append(Link(self.count))

    @rule(
        cluster=CLUSTERS,
        name=NAMES,
        number=IDS,
        addr=ADDRS,
        topics=TOPICS,
        state=st.integers(0, 2),
        counter=st.integers(0, 2),
        which=st.integers(0, 5),
        acting=st.sampled_from([None, False, True]),
        timeout=st.sampled_from([None, 1, 40_000]),
    )
    def register(
        self,
        cluster: str,
        name: str,
        number: int,
        addr: str,
        topics: dict[str, int],
        state: int,
        counter: int,
        which: int,
        acting: bool | None,
        timeout: int | None,
    ) -> None:
        self.send_registration(cluster, name, number, addr, topics, state, counter, which, acting, timeout)

    def send_registration(
        self,
        cluster: str,
        name: str,
        number: int,
        addr: str,
        topics: dict[str, int],
        state: int,
        counter: int,
        which: int,
        acting: bool | None,
        timeout: int | None,
    ) -> None:
        link = self.some_link(which)
        configs = {topic: TopicConfig(topic_name=topic, perm=perm) for topic, perm in topics.items()}
        version = DataVersion(counter=counter, state_version=state)
        asked = Registration(cluster, name, number, addr, None, configs, version, acting, None, timeout, None, None, link)
        taken = self.table.register(asked, self.now)
        key = (cluster, addr)
        holder = next((at for at, live in self.model.items() if (live.name, live.broker_id) == (name, number)), None)
        if holder is not None and holder[1] != addr and self.model[holder].state > state != 0:
            self.model.pop(key, None)
            return
        if holder is None and len(topics) == 1:
            assert taken is None
            return
        assert taken is not None
        last = self.model.get(key)
        former = (last.former | {last.link}) - {link} if last is not None and last.name == name else frozenset()
        for at in [at for at, live in self.model.items() if live.name == name and (live.broker_id == number or at[1] == addr)]:
            del self.model[at]
        self.model.pop(key, None)
        self.model[key] = Live(name, number, link, former, state, self.now, HEARTBEAT_TIMEOUT_MS if timeout is None else timeout)
        least = min(live.broker_id for live in self.model.values() if live.name == name)
        if number == 0 or (acting is not None and number == least):
            assert all(name in self.table.topics[topic] for topic in topics)

    @rule(cluster=CLUSTERS, name=NAMES, number=IDS, addr=ADDRS, which=st.integers(0, 5))
    def say_goodbye_for_anybody(self, cluster: str, name: str, number: int, addr: str, which: int) -> None:
        self.unregister(cluster, name, number, addr, which)

    def unregister(self, cluster: str, name: str, number: int, addr: str, which: int) -> None:
        link = self.some_link(which)
        self.table.unregister([Unregistration(cluster, name, number, addr)], link)
        live = self.model.get((cluster, addr))
        if live is not None and live.name == name and link not in live.former:
            del self.model[cluster, addr]

    @precondition(lambda self: self.model)
    @rule(pick=st.integers(0, 7), which=st.integers(0, 5), counter=st.integers(0, 2))
    def register_again(self, pick: int, which: int, counter: int) -> None:
        """The same broker, often on another connection: what a reconnect is."""
        key, live = list(self.model.items())[pick % len(self.model)]
        topics = {"S": 6, "T": 6}
        self.send_registration(
            key[0], live.name, live.broker_id, key[1], topics, live.state, counter, which, None, live.timeout_ms
        )

    @precondition(lambda self: self.model)
    @rule(pick=st.integers(0, 7), which=st.integers(0, 5))
    def say_goodbye(self, pick: int, which: int) -> None:
        key, live = list(self.model.items())[pick % len(self.model)]
        self.unregister(key[0], live.name, live.broker_id, key[1], which)

    @precondition(lambda self: any(live.former for live in self.model.values()))
    @rule(pick=st.integers(0, 7))
    def a_former_connection_closes(self, pick: int) -> None:
        former = sorted({link.id for live in self.model.values() for link in live.former})
        gone = former[pick % len(former)]
        self.drop(next(link for link in self.links if link.id == gone))

    @precondition(lambda self: len(self.links) > 1)
    @rule(which=st.integers(0, 5))
    def close(self, which: int) -> None:
        self.drop(self.some_link(which))

    def drop(self, link: Link) -> None:
        self.links.remove(link)
        self.table.link_closed(link)
        kept = {key: live for key, live in self.model.items() if live.link is not link}
        self.model = {key: live._replace(former=live.former - {link}) for key, live in kept.items()}

    @rule(steps=st.integers(1, 5))
    def wait(self, steps: int) -> None:
        self.pass_time(steps * STEP_MS)

    def pass_time(self, ms: int) -> None:
        self.now += ms
        late = {key for key, live in self.model.items() if live.updated_ms + live.timeout_ms < self.now}
        assert {(gone.cluster, gone.addr) for gone in self.table.expire(self.now)} == late
        self.model = {key: live for key, live in self.model.items() if key not in late}

    @precondition(lambda self: self.model)
    @rule(pick=st.integers(0, 7), late=st.booleans())
    def beat_when_it_counts(self, pick: int, late: bool) -> None:
        """A sign of life shortly before the time is up, and a look shortly after."""
        key, live = list(self.model.items())[pick % len(self.model)]
        self.now = max(self.now, live.updated_ms + live.timeout_ms)
        self.touch(*key)
        self.pass_time(live.timeout_ms + late)

    @rule(cluster=CLUSTERS, addr=ADDRS)
    def touch_anybody(self, cluster: str, addr: str) -> None:
        self.touch(cluster, addr)

    def touch(self, cluster: str, addr: str) -> None:
        self.table.touch(cluster, addr, self.now)
        if (cluster, addr) in self.model:
            self.model[cluster, addr] = self.model[cluster, addr]._replace(updated_ms=self.now)

    @rule(topic=st.sampled_from("STUV"), cluster=st.sampled_from([None, "C", "D"]))
    def delete_topic(self, topic: str, cluster: str | None) -> None:
        self.table.delete_topic(topic, cluster)

    @invariant()
    def agrees_with_the_model(self) -> None:
        live = {key: (entry.name, entry.broker_id, entry.link) for key, entry in self.table.live.items()}
        assert live == {key: (entry.name, entry.broker_id, entry.link) for key, entry in self.model.items()}

    @invariant()
    def every_address_is_live_and_every_live_broker_has_its_address(self) -> None:
        listed = {(name, number, addr) for name, data in self.table.brokers.items() for number, addr in data.broker_addrs.items()}
        assert listed == {(live.name, live.broker_id, key[1]) for key, live in self.table.live.items()}
        assert all(data.broker_addrs for data in self.table.brokers.values())
        assert all(live.link in self.links for live in self.table.live.values())

    @invariant()
    def clusters_list_who_is_live_there(self) -> None:
        listed = {(cluster, name) for cluster, names in self.table.clusters.items() for name in names}
        assert listed == {(key[0], live.name) for key, live in self.table.live.items()}
        assert all(self.table.clusters.values())
        assert all((data.cluster, name) in listed for name, data in self.table.brokers.items())

    @invariant()
    def topics_have_queues_in_known_brokers_only(self) -> None:
        assert all(queues and queues.keys() <= self.table.brokers.keys() for queues in self.table.topics.values())
        assert self.table.mappings.keys() <= self.table.topics.keys()
