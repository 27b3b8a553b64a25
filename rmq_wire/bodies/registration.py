"""What a broker tells a name server about itself (code 103), in its three spellings.

JSON is the usual one.  `compressedRegister` sends a zlib stream of length-prefixed pieces instead, which some Java versions do
not announce in the header: the first byte tells.  Brokers before 3.0.11 send the topic table alone.  A stream is inflated
piece by piece against a cap and each length is checked before anything of that size exists, for a name server takes these
bytes from anybody (Java: `RegisterBrokerBody.decode` allocates what the length says).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import ClassVar, Final

import msgspec
from msgspec import field

from rmq_wire import fastjson
from rmq_wire.bodies.body import Body
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.route import TopicQueueMappingInfo
from rmq_wire.bodies.topics import TopicConfig, TopicConfigTable
from rmq_wire.errors import BadBody
from rmq_wire.layout.flat import flat
from rmq_wire.layout.registration import COUNT

V3_0_11: Final = 37
"""`MQVersion`: the first that sends a `RegisterBrokerBody`."""
V5_0_0: Final = 413
"""`MQVersion`: the first whose compressed body ends with topic queue mappings."""

INFLATED_BYTES_MAX: Final = 64 << 20
"""Room for some 400,000 topics, and no more for a stream that says it holds the world."""
_BLOCK_BYTES: Final = 1 << 16
_ZLIB_MARK: Final = 0x78
"""First byte of a zlib stream with the usual window; no JSON starts with it (`x`)."""
_LEVEL: Final = 9
_COUNT: Final = flat(COUNT).packed
_TOPIC_FIELDS_MIN: Final = 5
_FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")


class RegisterBrokerBody(Body):
    """Request 103 (`org.apache.rocketmq.remoting.protocol.body.RegisterBrokerBody`)."""

    odd_bytes_max: ClassVar[int] = INFLATED_BYTES_MAX
    filter_server_list: list[str] | None = field(default_factory=list)
    topic_config_serialize_wrapper: TopicConfigTable = field(default_factory=TopicConfigTable)

    def queue_mappings(self) -> dict[str, TopicQueueMappingInfo]:
        """The static topics' mappings by topic, read as what they should be.  Raises `BadBody`."""
        found = self.topic_config_serialize_wrapper.topic_queue_mapping_info_map or {}
        return {topic: TopicQueueMappingInfo.from_plain(info) for topic, info in found.items()}


def read_register_body(body: bytes | memoryview, *, compressed: bool, version: int) -> RegisterBrokerBody:
    """The body of request 103 as sent by a broker of this `MQVersion`; an empty one is an empty table with version 0.

    Raises `BadBody`.
    """
    if not body:
        return RegisterBrokerBody()
    if compressed or body[0] == _ZLIB_MARK:
        return _read_compressed(bytes(body), mappings_follow=version >= V5_0_0)
    if version < V3_0_11:
        return RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigTable.read(body))
    return RegisterBrokerBody.read(body)


def write_compressed(body: RegisterBrokerBody) -> bytes:
    """The zlib spelling, for a name server that is told `compressed`=true."""
    table = body.topic_config_serialize_wrapper
    pieces: list[bytes] = [_sized(table.data_version.encode()), _COUNT.pack(len(table.topic_config_table))]
    pieces += [_sized(_topic_text(config).encode()) for config in table.topic_config_table.values()]
    pieces.append(_sized(msgspec.json.encode(body.filter_server_list or [])))
    mappings = table.topic_queue_mapping_info_map or {}
    pieces.append(_COUNT.pack(len(mappings)))
    pieces += [_sized(fastjson.dumps_fastjson(mapping)) for mapping in mappings.values()]
    return zlib.compress(b"".join(pieces), _LEVEL)


def _sized(piece: bytes) -> bytes:
    return _COUNT.pack(len(piece)) + piece


def _topic_text(config: TopicConfig) -> str:
    """Blank-separated, attributes as JSON last (Java: `TopicConfig.encode`)."""
    fields: Iterable[object] = (
        config.topic_name,
        config.read_queue_nums,
        config.write_queue_nums,
        config.perm,
        config.topic_filter_type,
        json.dumps(config.attributes, separators=(",", ":"), ensure_ascii=False),
    )
    return " ".join(str(part) for part in fields)


class _Pieces:
    """Length-prefixed pieces out of a zlib stream, inflated no further than they are asked for."""

    def __init__(self, stream: bytes) -> None:
        self._stream = memoryview(stream)
        self._fed = 0
        self._inflate = zlib.decompressobj()
        self._out = bytearray()
        self._at = 0
        self._taken = 0

    def number(self) -> int:
        """A signed 32-bit integer."""
        return int(_COUNT.unpack(self._take(_COUNT.size))[0])

    def count(self) -> int:
        """A number of pieces.  Java's loop takes a negative one for none."""
        return max(self.number(), 0)

    def piece(self) -> bytes:
        """The next piece."""
        length = self.number()
        if length < 0:
            raise BadBody(f"register body: a piece of {length} bytes")
        return self._take(length)

    def text(self) -> str:
        """The next piece as UTF-8."""
        try:
            return self.piece().decode()
        except UnicodeDecodeError as wrong:
            raise BadBody(f"register body: {wrong.reason}") from None

    def _take(self, length: int) -> bytes:
        self._taken += length
        if self._taken > INFLATED_BYTES_MAX:
            raise BadBody(f"register body: inflates to more than {INFLATED_BYTES_MAX} bytes")
        while len(self._out) - self._at < length:
            self._more()
        piece = bytes(self._out[self._at : self._at + length])
        self._at += length
        return piece

    def _more(self) -> None:
        """One more block of output.  What has been taken already makes room for it."""
        del self._out[: self._at]
        self._at = 0
        tail = self._inflate.unconsumed_tail
        if not tail:
            tail = bytes(self._stream[self._fed : self._fed + _BLOCK_BYTES])
            self._fed += len(tail)
        if self._inflate.eof or (not tail and not self._inflate.unconsumed_tail):
            raise BadBody("register body: ends in the middle of a piece")
        try:
            self._out += self._inflate.decompress(tail, _BLOCK_BYTES)
        except zlib.error as wrong:
            raise BadBody(f"register body: {wrong}") from None


def _read_compressed(stream: bytes, *, mappings_follow: bool) -> RegisterBrokerBody:
    pieces = _Pieces(stream)
    version = DataVersion.read(pieces.piece())
    topics: dict[str, TopicConfig] = {}
    for _ in range(pieces.count()):
        config = _topic_of(pieces.text())
        topics[config.topic_name] = config
    filters = _filter_servers(pieces.piece())
    mappings = {}
    if mappings_follow:
        for _ in range(pieces.count()):
            info = TopicQueueMappingInfo.read(pieces.piece())
            if info.topic is None:
                raise BadBody("register body: a topic queue mapping without topic")
            mappings[info.topic] = info.plain()
    table = TopicConfigTable(data_version=version, topic_config_table=topics, topic_queue_mapping_info_map=mappings)
    return RegisterBrokerBody(filter_server_list=filters, topic_config_serialize_wrapper=table)


def _topic_of(text: str) -> TopicConfig:
    """Java: `TopicConfig.decode`; attributes that do not parse are left out, as there."""
    parts = text.split(" ")
    if len(parts) < _TOPIC_FIELDS_MIN or parts[4] not in _FILTER_TYPES:
        raise BadBody(f"register body: not a topic: {text[:64]!r}")
    try:
        read_queues, write_queues, perm = (_java_int(part) for part in parts[1:4])
    except ValueError:
        raise BadBody(f"register body: not a topic: {text[:64]!r}") from None
    attributes: dict[str, str] = {}
    if len(parts) > _TOPIC_FIELDS_MIN:
        try:
            attributes = msgspec.json.decode(parts[5], type=dict[str, str])
        except (msgspec.DecodeError, UnicodeDecodeError):
            attributes = {}
    return TopicConfig(
        topic_name=parts[0],
        read_queue_nums=read_queues,
        write_queue_nums=write_queues,
        perm=perm,
        topic_filter_type=parts[4],
        attributes=attributes,
    )


def _java_int(text: str) -> int:
    """Java's `Integer.parseInt`: an optional sign and ASCII digits, 32 bits.  Raises `ValueError`."""
    digits = text[1:] if text[:1] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(text[:64])
    number = int(text)
    if not -(2**31) <= number < 2**31:
        raise ValueError(text[:64])
    return number


def _filter_servers(piece: bytes) -> list[str]:
    """Java logs and goes on with an empty list when this JSON does not parse."""
    try:
        return msgspec.json.decode(piece, type=list[str])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
