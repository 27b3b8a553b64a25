"""What a broker registers of itself with a name server (code 103), in its three spellings.

JSON is the usual one.  `compressedRegister` sends a zlib stream of length-prefixed pieces instead, which some Java versions do
not announce in the header: the first byte shows it.  Brokers before 3.0.11 send the topic table alone.  A stream is inflated
piece by piece against a cap and each length is checked before anything of that size exists, for a name server takes these
bytes from anybody (Java: `RegisterBrokerBody.decode` allocates what the length says).
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Generator, Iterable, Iterator
from typing import ClassVar, Final

import msgspec
from msgspec import field

from rmq_wire import fastjson
from rmq_wire.bodies.body import Body
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.route import TopicQueueMappingInfo
from rmq_wire.bodies.topics import TopicConfig, TopicConfigTable
from rmq_wire.errors import BadBody
from rmq_wire.layout.registration import COUNT_FLAT

V3_0_11: Final = 37
"""`MQVersion`: the first that sends a `RegisterBrokerBody`."""
V5_0_0: Final = 413
"""`MQVersion`: the first whose compressed body ends with topic queue mappings."""

INFLATED_BYTES_MAX: Final = 64 << 20
"""Of a whole stream: six times as much as `TOPICS_MAX` topics of 100 bytes need."""
TOPICS_MAX: Final = 100_000
"""Of one registration.  Java has no limit; its brokers register in parts when they have thousands (`enableSplitRegistration`)."""
PIECE_BYTES_MAX: Final = 1 << 16
"""Of one topic, version or list in a stream, and of one decode: what follows is decoded later."""
ODD_BYTES_MAX: Final = 1 << 20
"""Of a registration in JSON that is not strict, which is not decoded in parts: of brokers with static topics, of none else."""
TOPICS_PER_SLICE: Final = 64
"""Topics decoded between two yields, 5 µs each."""
_BLOCK_BYTES: Final = 1 << 16
_ZLIB_MARK: Final = 0x78
"""First byte of a zlib stream with the usual window; no JSON starts with it (`x`)."""
_LEVEL: Final = 9
_COUNT: Final = COUNT_FLAT.packed
_TOPIC_FIELDS_MIN: Final = 5
_FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")


class RegisterBrokerBody(Body):
    """Request 103 (`org.apache.rocketmq.remoting.protocol.body.RegisterBrokerBody`)."""

    odd_bytes_max: ClassVar[int] = ODD_BYTES_MAX
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
    reading = reading_register_body(body, compressed=compressed, version=version)
    while True:
        try:
            next(reading)
        except StopIteration as end:
            found: RegisterBrokerBody = end.value
            return found


def reading_register_body(
    body: bytes | memoryview, *, compressed: bool, version: int
) -> Generator[None, None, RegisterBrokerBody]:
    """The same in slices.  Only the first may look at a body that is a view."""
    if not body:
        return RegisterBrokerBody()
    if compressed or body[0] == _ZLIB_MARK:
        return (yield from _read_compressed(bytes(body), mappings_follow=version >= V5_0_0))
    if len(body) > PIECE_BYTES_MAX:
        return (yield from _read_large(bytes(body), table_alone=version < V3_0_11))
    if version < V3_0_11:
        return RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigTable.read(body))
    return RegisterBrokerBody.read(body)


class _RawTable(msgspec.Struct, rename="camel"):
    """A `TopicConfigTable` whose members are still text."""

    data_version: msgspec.Raw = msgspec.Raw()
    topic_config_table: msgspec.Raw = msgspec.Raw()
    topic_queue_mapping_info_map: msgspec.Raw = msgspec.Raw()


class _RawBody(msgspec.Struct, rename="camel"):
    filter_server_list: msgspec.Raw = msgspec.Raw()
    topic_config_serialize_wrapper: _RawTable = msgspec.field(default_factory=_RawTable)


_TEXT: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_FLAT: Final = rb'[^{}"]*+(?:' + _TEXT + rb'[^{}"]*+)*+'
_ROW: Final = re.compile(
    rb"\s*+" + _TEXT + rb"\s*+:\s*+\{" + _FLAT + rb"(?:\{" + _FLAT + rb"\}" + _FLAT + rb")*+\}\s*+([,}])", re.DOTALL
)
"""One topic of a table: a flat object, but for its attributes."""


def _read_large(body: bytes, *, table_alone: bool) -> Generator[None, None, RegisterBrokerBody]:
    """JSON of a size that is decoded in parts: its outline first, which costs 0.5 ms for a megabyte, then the topics."""
    try:
        if table_alone:
            outline = _RawBody(topic_config_serialize_wrapper=msgspec.json.decode(body, type=_RawTable))
        else:
            outline = msgspec.json.decode(body, type=_RawBody)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _read_odd(body, table_alone)
    table = outline.topic_config_serialize_wrapper
    small = (outline.filter_server_list, table.data_version, table.topic_queue_mapping_info_map)
    if sum(map(len, map(bytes, small))) > ODD_BYTES_MAX:
        raise BadBody(f"register body: more than {ODD_BYTES_MAX} bytes beside its topics")
    members = (b"filterServerList", b"dataVersion", b"topicQueueMappingInfoMap")
    outer, version, mappings = (
        b'"%b":%b' % (name, bytes(text)) if bytes(text) else b"" for name, text in zip(members, small, strict=True)
    )
    inner = b",".join(filter(None, (version, mappings)))
    rest = b",".join(filter(None, (outer, b'"topicConfigSerializeWrapper":{%b}' % inner)))
    found = RegisterBrokerBody.read(b"{%b}" % rest)
    topics = found.topic_config_serialize_wrapper.topic_config_table
    text = bytes(table.topic_config_table)
    at, chunk_at, rows, end = 1, 1, 0, b"," if text[:1] == b"{" and text[1:-1].strip() else b"}"
    while end == b",":
        row = _ROW.match(text, at)
        if row is None:
            return _read_odd(body, table_alone)
        at, end = row.end(), row[1]
        rows += 1
        if rows % TOPICS_PER_SLICE == 0 or at - chunk_at > PIECE_BYTES_MAX or end == b"}":
            part = TopicConfigTable.read(b'{"topicConfigTable":{%b}}' % text[chunk_at : at - 1])
            topics.update(part.topic_config_table)
            chunk_at = at
            _check_count(len(topics))
            yield
    return found


def _read_odd(body: bytes, table_alone: bool) -> RegisterBrokerBody:
    """At once."""
    if len(body) > ODD_BYTES_MAX:
        raise BadBody(f"register body: JSON of {len(body)} bytes that cannot be read in parts")
    if table_alone:
        return RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigTable.read(body))
    return RegisterBrokerBody.read(body)


def _check_count(count: int) -> None:
    if count > TOPICS_MAX:
        raise BadBody(f"register body: more than {TOPICS_MAX} topics")


def write_compressed(body: RegisterBrokerBody) -> bytes:
    """The zlib spelling, for a name server that is sent `compressed`=true."""
    return b"".join(compressed_pieces(body))


def compressed_pieces(body: RegisterBrokerBody) -> Iterator[bytes]:
    """The same, a row at a time."""
    packer = zlib.compressobj(_LEVEL)
    yield from map(packer.compress, _inflated_pieces(body))
    yield packer.flush()


def _inflated_pieces(body: RegisterBrokerBody) -> Iterator[bytes]:
    table = body.topic_config_serialize_wrapper
    yield _sized(table.data_version.encode()) + _COUNT.pack(len(table.topic_config_table))
    for config in table.topic_config_table.values():
        yield _sized(_topic_text(config).encode())
    yield _sized(msgspec.json.encode(body.filter_server_list or []))
    mappings = table.topic_queue_mapping_info_map or {}
    yield _COUNT.pack(len(mappings))
    for mapping in mappings.values():
        yield _sized(fastjson.dumps_fastjson(mapping))


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
        if length < 0 or PIECE_BYTES_MAX < length <= INFLATED_BYTES_MAX:
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


def _read_compressed(stream: bytes, *, mappings_follow: bool) -> Generator[None, None, RegisterBrokerBody]:
    pieces = _Pieces(stream)
    version = DataVersion.read(pieces.piece())
    topics: dict[str, TopicConfig] = {}
    count = pieces.count()
    for number in range(count):
        if number % TOPICS_PER_SLICE == TOPICS_PER_SLICE - 1:
            _check_count(number)
            yield
        config = _topic_of(pieces.text())
        topics[config.topic_name] = config
    filters = _filter_servers(pieces.piece())
    mappings = {}
    if mappings_follow:
        for number in range(pieces.count()):
            if number % TOPICS_PER_SLICE == TOPICS_PER_SLICE - 1:
                _check_count(number)
                yield
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
