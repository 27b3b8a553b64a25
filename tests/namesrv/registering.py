"""A broker that keeps itself known: its registrar, time handed in, and what its name servers answer."""

from __future__ import annotations

from collections.abc import Iterable

from broker_impl.engine.slices import finished
from broker_impl.env import Env
from broker_impl.registration import Announcement, Asked, Identity, Registrar
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.registration import read_register_body
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.checksum import body_crc
from rmq_wire.command import Command
from rmq_wire.declare import Request
from rmq_wire.headers.naming import RegisterBroker

ME = Identity("C", "broker-a", 0, "127.0.0.1:10911", "127.0.0.1:10912")
V5_5_0 = 513


class Settings:
    broker_permission = 6
    compressed_register = False
    enable_single_topic_register = False
    enable_split_registration = False
    force_register = True
    register_broker_timeout_mills = 24_000
    register_name_server_period = 30_000
    split_registration_size = 800


class Topics:
    def __init__(self) -> None:
        self.table = {name: TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4) for name in ("T1", "T2")}
        self.data_version = DataVersion(counter=1, timestamp=5)
        self.ordered: list[str] = []

    def is_saved(self, name: str) -> bool:
        return name in self.table

    def version_told(self, *, again: bool = False) -> DataVersion:
        if again:
            self.data_version.advance(7)
        return self.data_version.copy()

    def set_order_topics(self, ordered: Iterable[str]) -> None:
        self.ordered += ordered

    def create(self, name: str) -> TopicConfig:
        made = self.table[name] = TopicConfig(topic_name=name)
        self.data_version.advance(6)
        return made


class Broker:
    """A registrar at mono time 0, and what its name servers answer."""

    def __init__(self, *namesrvs: str) -> None:
        self.settings = Settings()
        self.topics = Topics()
        self.woken = 0
        self.announcement = Announcement(ME, self.settings, self.topics)
        self.registrar = Registrar(self.announcement, namesrvs or ("n:1",), 0, Env().log, self.wake)
        self.now = 0

    def wake(self) -> None:
        self.woken += 1

    def due(self, at: int) -> list[Asked]:
        self.now = at
        return finished(self.registrar.due(at))

    def answer(self, asked: Asked, code: int = 0, body: bytes = b"", **ext: str) -> str | None:
        return self.registrar.answered(asked, Command(code=code, map_ext=ext, body=body), self.now)

    def settle(self, at: int) -> list[Asked]:
        """Everything that is asked now, each question answered well."""
        found: list[Asked] = []
        while asked := self.due(at):
            found += asked
            for one in asked:
                assert self.answer(one) is None
        return found


def kinds(asked: Iterable[Asked]) -> list[type[Request]]:
    return [type(one.request) for one in asked]


def registered(asked: Asked) -> set[str]:
    """The topics in a registration."""
    header = asked.request
    assert isinstance(header, RegisterBroker)
    assert header.body_crc32 == body_crc(asked.body)
    body = read_register_body(asked.body, compressed=header.compressed, version=V5_5_0)
    return set(body.topic_config_serialize_wrapper.topic_config_table)
