"""Every change of a broker's topics reaches name servers: none passes over it because it has heard of its version before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from broker_impl import registration
from broker_impl.config import BrokerConfig
from broker_impl.engine.slices import finished
from broker_impl.env import Env
from broker_impl.namesrv.registrations import Registration
from broker_impl.namesrv.route_table import RouteTable
from broker_impl.registration import Announcement, Asked, Registrar
from broker_impl.state.topics import TopicTable
from rmq_wire.bodies.registration import read_register_body
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.command import Command
from rmq_wire.headers.configuration import UpdateBrokerConfig
from rmq_wire.headers.naming import RegisterBroker
from tests.namesrv.registering import ME, Settings
from tests.support.engine import Harness
from tests.support.engine_session import EngineSession

NAMES = [f"t{number}" for number in range(8)]


class RouteSettings:
    delete_topic_with_broker_registration = False
    notify_min_broker_id_changed = False


class World:
    """A broker, and two name servers: one in its process, one that it asks."""

    def __init__(self, **settings: object) -> None:
        self.env = Env(wall_ms=1_000, mono_ms=1_000)
        self.settings = Settings()
        for name, value in settings.items():
            setattr(self.settings, name, value)
        self.topics = TopicTable(BrokerConfig({}), self.env)
        self.announcement = Announcement(ME, self.settings, self.topics)
        self.registrar = Registrar(self.announcement, ("n:1",), 0, self.env.log)
        self.embedded, self.asked = RouteTable(RouteSettings(), self.env.log), RouteTable(RouteSettings(), self.env.log)
        self.put(*NAMES, queues=4)
        self.embed(list(self.topics.table.values()))
        self.tell(0)
        self.topics.on_change += [self.embed, self.registrar.topics_changed]

    def put(self, *names: str, queues: int) -> list[TopicConfig]:
        """Changed and not told."""
        made = [TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues) for name in names]
        self.topics.put_all(made)
        return made

    def embed(self, topics: Sequence[TopicConfig]) -> None:
        self.embedded.register(self.announcement.registration(self.announcement.offered(topics)), 0)

    def begin(self, at_ms: int) -> list[Asked]:
        return finished(self.registrar.due(at_ms))

    def hear(self, asked: Asked) -> None:
        """The name server takes it, and answers."""
        assert isinstance(asked.request, RegisterBroker)
        body = read_register_body(asked.body, compressed=False, version=500).topic_config_serialize_wrapper
        who = ME
        table = dict(body.topic_config_table)
        self.asked.register(
            Registration(who.cluster, who.name, who.broker_id, who.addr, who.ha_addr, table, body.data_version, link="L"), 0
        )
        self.registrar.answered(asked, Command(code=0), 0)

    def tell(self, at_ms: int) -> None:
        while asked := self.begin(at_ms):
            for one in asked:
                self.hear(one)

    def queues(self, table: RouteTable) -> list[int]:
        return [table.topics[name][ME.name].write_queue_nums for name in NAMES]

    def check(self) -> None:
        expected = [self.topics.table[name].write_queue_nums for name in NAMES]
        assert self.queues(self.embedded) == expected
        assert self.queues(self.asked) == expected


@pytest.mark.parametrize("told_between", [False, True])
def test_changes_that_are_saved_together_are_told_one_after_the_other(told_between: bool) -> None:
    world = World()
    changes = [world.put(name, queues=8) for name in NAMES]
    for change in changes:
        world.topics.announce(change)
        if told_between:
            world.tell(1_000)
    world.tell(1_000)
    world.check()


def test_what_was_changed_while_another_change_was_on_its_way() -> None:
    world = World()
    world.topics.announce(world.put("t0", queues=8))
    [first] = world.begin(1_000)
    second = world.put("t1", queues=8)
    third = world.put("t2", queues=8)
    world.topics.announce(second)
    world.hear(first)
    world.tell(1_000)
    world.topics.announce(third)
    world.tell(1_000)
    world.check()


@pytest.mark.parametrize("split", [False, True])
def test_a_change_that_a_name_server_missed_comes_with_the_next_registration(split: bool) -> None:
    world = World(enable_split_registration=split, split_registration_size=3)
    world.topics.announce(world.put("t7", queues=8))
    [lost] = world.begin(1_000)
    world.registrar.failed(lost, "it does not answer", 1_000)
    world.tell(60_000)
    world.check()


@pytest.mark.parametrize("changed", [False, True])
def test_topics_that_fit_into_no_frame_come_in_several(monkeypatch: pytest.MonkeyPatch, changed: bool) -> None:
    world = World()
    world.tell(0)
    monkeypatch.setattr(registration, "BODY_BYTES_MAX", 1_000)
    made = world.put(*NAMES, queues=8)
    if changed:
        world.topics.announce(made)
    else:
        world.registrar.everything_changed()
    sizes: list[int] = []
    while asked := world.begin(60_000):
        sizes += [len(one.body) for one in asked]
        for one in asked:
            world.hear(one)
    assert len(sizes) > 2
    assert max(sizes) <= 1_000
    assert world.queues(world.asked) == [8] * len(NAMES)


def test_a_broker_that_may_not_be_written_to_any_more_says_so(tmp_path: Path) -> None:
    """Topics are as they were, but routes are not: by then the version is another one, too."""
    session = EngineSession(tmp_path / "names")
    harness = Harness(tmp_path / "broker").begun()
    finished(harness.node.register_with(session.server))
    harness.node.registrar = Registrar(harness.node.announcement, ("n:1",), 0, harness.env.log)
    asked = RouteTable(RouteSettings(), harness.env.log)

    def tell() -> None:
        for request, body in finished(harness.node.announcement.registers()):
            assert isinstance(request, RegisterBroker)
            said = read_register_body(body, compressed=request.compressed or False, version=500).topic_config_serialize_wrapper
            table = dict(said.topic_config_table)
            asked.register(Registration("C", "b", 0, "h:1", "h:2", table, said.data_version, link="L"), 0)

    tell()
    for permission in (4, 6):
        answer = harness.connect().ask(UpdateBrokerConfig(), b"brokerPermission=%d\n" % permission)
        assert answer.code == 0
        harness.driver.run()
        tell()
        assert asked.topics["T"]["b"].perm == permission
        assert session.server.table.topics["T"][harness.node.config.broker_name].perm == permission


def test_a_change_between_the_parts_of_a_registration_is_told() -> None:
    """Whenever it comes: under a version of its own, and not under that of the last part."""
    for steps in range(1, 4):
        world = World(enable_split_registration=True, split_registration_size=20)
        world.registrar.everything_changed()
        parts = world.registrar.due(60_000)
        asked: list[Asked] = []
        for _ in range(steps):
            try:
                next(parts)
            except StopIteration as end:
                asked = end.value
                break
        world.topics.announce(world.put("t0", queues=8))
        for one in asked or finished(parts):
            world.hear(one)
        world.tell(60_000)
        world.check()


def test_a_permission_is_told_though_no_topic_has_changed() -> None:
    world = World()
    world.tell(0)
    world.settings.broker_permission = 4
    world.registrar.everything_changed()
    world.tell(60_000)
    assert {world.asked.topics[name][ME.name].perm for name in NAMES} == {4}
