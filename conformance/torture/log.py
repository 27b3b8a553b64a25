"""The messages of one run: per broker a log of message units, per queue the units in order, all in memory.

Units are built by `rmq_wire.message`, so a consumer reads what a real broker would send.  Nothing is ever removed.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple

from rmq_wire import properties as property_texts
from rmq_wire import property_names as prop
from rmq_wire.message import pack_unit
from rmq_wire.message_id import offset_message_id, pack_host

HOST: Final = "127.0.0.1"


class QueueKey(NamedTuple):
    """One queue of one broker."""

    broker: str
    topic: str
    queue: int


class Stored(NamedTuple):
    """Where a message went.  `message_id` is its offset message id."""

    key: QueueKey
    offset: int
    message_id: str


class Kept(NamedTuple):
    """A message as it was sent: needed again when a consumer sends it back."""

    topic: str
    body: bytes
    properties: str
    reconsume_times: int


class Log:
    """All brokers' logs.  ports: where each broker listens, which is part of every message id."""

    def __init__(self, ports: dict[str, int]) -> None:
        self._hosts = {broker: pack_host(HOST, port) for broker, port in ports.items()}
        self._ends: defaultdict[str, int] = defaultdict(int)
        self._queues: defaultdict[QueueKey, list[bytes]] = defaultdict(list)
        self._kept: dict[tuple[str, int], Kept] = {}

    def append(
        self, key: QueueKey, body: bytes, properties: str, *, wall_ms: int, sys_flag: int = 0, reconsume_times: int = 0
    ) -> Stored:
        """Store one message at the end of a queue."""
        host, at, units = self._hosts[key.broker], self._ends[key.broker], self._queues[key]
        times = (wall_ms, host, wall_ms, host)
        end = (body, key.topic.encode(), properties.encode())
        unit = pack_unit(key.queue, 0, len(units), at, sys_flag, *times, reconsume_times, 0, *end)
        units.append(unit)
        self._ends[key.broker] += len(unit)
        self._kept[key.broker, at] = Kept(key.topic, body, properties, reconsume_times)
        return Stored(key, len(units) - 1, offset_message_id(host, at))

    def read(self, key: QueueKey, offset: int, most: int) -> list[bytes]:
        """Units of a queue from this offset on."""
        return self._queues[key][max(offset, 0) : max(offset, 0) + most]

    def end(self, key: QueueKey) -> int:
        """The offset of the next message."""
        return len(self._queues[key])

    def kept(self, broker: str, physical_offset: int) -> Kept | None:
        """The message that begins at this byte of a broker's log."""
        return self._kept.get((broker, physical_offset))


def with_property(properties: str, name: str, value: str) -> str:
    """The properties and one more."""
    return property_texts.encode({**property_texts.decode(properties), name: value})


def message_key(properties: str, body: bytes) -> str:
    """What a run calls a message: its first key, or else the first word of its body."""
    keys = property_texts.decode(properties).get(prop.KEYS, "")
    return keys.split(prop.KEY_SEPARATOR)[0] if keys else bytes(body[:64]).decode("ascii", "replace").split(" ")[0]
