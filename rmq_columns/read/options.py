"""What is read and how: one frozen value, made from options as Spark hands them over (texts) or as Python does.

Names are those of the table in the docs, in any case; a name that there is not is an error, since a filter that was misspelt
would read everything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any, Final

from rmq_columns.decode.scan import BLOCK_BYTES
from rmq_columns.errors import BadOption, CannotRead
from rmq_columns.files.filesystem import FILE_URI, SCHEME, local_path
from rmq_columns.read.offsets import Bounds, ending, starting, topics_named
from rmq_columns.shown import Zone
from rmq_columns.times_and_sizes import NO_ZONE, size_bytes, zone_of

MIB: Final = 1 << 20


class Table(StrEnum):
    """What a store is read as."""

    MESSAGES = "messages"
    CONSUME_QUEUE = "consumequeue"
    INDEX = "index"
    FILES = "files"
    TOPICS = "topics"
    CONSUMER_OFFSETS = "consumerOffsets"
    GAPS = "gaps"


class Mode(StrEnum):
    """What becomes of bytes that are no message (or no queue unit, no entry): the words of Spark's CSV and JSON."""

    FAILFAST = "FAILFAST"
    """`Malformed` is raised"""
    PERMISSIVE = "PERMISSIVE"
    """a row whose column `_corrupt` says what is wrong"""
    DROPMALFORMED = "DROPMALFORMED"
    """left out"""


class Layout(StrEnum):
    """What a path is."""

    AUTO = "auto"
    STORE = "store"
    """a broker's storePathRootDir"""
    BROKERS = "brokers"
    """a directory of such directories, or of brokers' directories with a `store` in each"""
    COMMIT_LOG = "commitlog"
    """files of a commit log"""
    FILE = "file"
    """one commit log file"""


class Strategy(StrEnum):
    """How files are cut into splits."""

    AUTO = "auto"
    """by queue units where there are some, else by magic words"""
    FILE = "file"
    """not at all"""
    MAGIC = "magic"
    CONSUME_QUEUE = "consumequeue"


class Kept(StrEnum):
    """How properties are shown."""

    MAP = "map"
    RAW = "raw"
    NONE = "none"


class Pruning(StrEnum):
    """Whether the consume queues say which bytes of the log are read, where topics are chosen."""

    AUTO = "auto"
    """where they can be believed"""
    OFF = "off"


class Tail(StrEnum):
    """What `gaps` says of the part of the last file that was never written."""

    IGNORE_ZEROS = "ignoreZeros"
    REPORT = "report"


@dataclass(frozen=True)
class Options:
    """Everything that decides which rows there are, and what they look like.  Times in ms, ranges without their end."""

    paths: tuple[str, ...]
    path_layout: Layout = Layout.AUTO
    table: Table = Table.MESSAGES
    topics: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    starting_ms: int | None = None
    ending_ms: int | None = None
    starting_offset: int | None = None
    ending_offset: int | None = None
    starting_offsets: Bounds = ()
    ending_offsets: Bounds = ()
    split_bytes: int = 512 * MIB
    block_bytes: int = BLOCK_BYTES
    batch_rows: int = 8192
    columns: tuple[str, ...] | None = None
    properties: Kept = Kept.MAP
    include_body: bool = True
    decompress: bool = False
    kafka_compatible: bool = False
    verify_crc: bool = False
    mode: Mode = Mode.FAILFAST
    split_strategy: Strategy = Strategy.AUTO
    include_system_topics: bool = False
    pruning: Pruning = Pruning.OFF
    tail: Tail = Tail.IGNORE_ZEROS
    broker_names: tuple[str, ...] = ()
    commit_logs: tuple[str, ...] = ()
    hash_slots: int | None = None
    filesystem: Any = field(default=None, compare=False)

    def wants_time(self) -> bool:
        """Whether rows are chosen by their store time."""
        return self.starting_ms is not None or self.ending_ms is not None

    def wants_queue_offset(self) -> bool:
        """Whether rows are chosen by their queue offset."""
        return bool(self.starting_offsets or self.ending_offsets)

    def wants_offset(self) -> bool:
        """Whether rows are chosen by their place in the log."""
        return self.starting_offset is not None or self.ending_offset is not None


def _texts(value: Any) -> tuple[str, ...]:
    """A list, its JSON, or names with commas between them."""
    if isinstance(value, str):
        value = json.loads(value) if value.lstrip().startswith("[") else value.split(",")
    return tuple(text for one in value if (text := str(one).strip()))


def _paths(value: Any) -> tuple[str, ...]:
    """One path (with commas, if it has some), a list, or its JSON."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = json.loads(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(str(one) for one in value)
    return (str(value),)


def _logs(value: Any) -> tuple[str, ...]:
    """As the broker's own setting: paths with `:` between them, or with commas; URIs with commas; a list, or its JSON."""
    if not isinstance(value, str) or value.lstrip().startswith("["):
        return _paths(value)
    is_uri = SCHEME in value or value.startswith(FILE_URI)
    return tuple(one for one in (value if is_uri else value.replace(":", ",")).split(",") if one)


def _plain(places: Iterable[str]) -> tuple[str, ...]:
    """`file:` URIs as the paths that they mean: nobody after this has to know of them."""
    try:
        return tuple(one if (own := local_path(one)) is None else own for one in places)
    except CannotRead as reason:
        raise BadOption(str(reason)) from reason


def _number(value: Any) -> int:
    return int(value)


def size_of(value: Any) -> int:
    """Bytes, at least one, as `size_bytes` reads them."""
    return _at_least_one(size_bytes(value))


def _at_least_one(value: Any) -> int:
    if int(value) < 1:
        raise ValueError("below 1")
    return int(value)


def _ms(value: Any, zone: Zone = None) -> int:
    """ms since 1970, a datetime, or an ISO text.  zone: of those that have none."""
    if isinstance(value, str) and not value.strip().lstrip("-").isdigit():
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        if value.tzinfo is None and zone is None:
            raise ValueError(f"{NO_ZONE}; give it, or the option {ZONE}")
        value = value if value.tzinfo is not None else value.replace(tzinfo=zone)
        return round(value.timestamp() * 1000)
    return int(value)


def _truth(value: Any) -> bool:
    found = {"true": True, "false": False}.get(str(value).strip().lower())
    if found is None:
        raise ValueError("neither true nor false")
    return found


def _word(words: type[StrEnum]) -> Callable[[Any], Any]:
    def read(value: Any) -> StrEnum:
        for word in words:
            if word.value.lower() == str(value).strip().lower():
                return word
        raise ValueError(f"not one of {', '.join(words)}")

    return read


def _set(value: Any) -> frozenset[str]:
    return frozenset(_texts(value))


def _numbers(value: Any) -> frozenset[int]:
    return frozenset([value] if isinstance(value, int) else map(int, _texts(value)))


NAMES: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "path": ("paths", _paths),
    "paths": ("paths", _paths),
    "pathLayout": ("path_layout", _word(Layout)),
    "table": ("table", _word(Table)),
    "topics": ("topics", _set),
    "queueIds": ("queue_ids", _numbers),
    "startingTimestamp": ("starting_ms", _ms),
    "endingTimestamp": ("ending_ms", _ms),
    "startingOffsets": ("starting_offsets", starting),
    "endingOffsets": ("ending_offsets", ending),
    "startingPhysicalOffset": ("starting_offset", _number),
    "endingPhysicalOffset": ("ending_offset", _number),
    "splitBytes": ("split_bytes", size_of),
    "blockBytes": ("block_bytes", size_of),
    "batchRows": ("batch_rows", _at_least_one),
    "columns": ("columns", _texts),
    "includeProperties": ("properties", _word(Kept)),
    "includeBody": ("include_body", _truth),
    "decompress": ("decompress", _truth),
    "kafkaCompatible": ("kafka_compatible", _truth),
    "verifyCrc": ("verify_crc", _truth),
    "mode": ("mode", _word(Mode)),
    "splitStrategy": ("split_strategy", _word(Strategy)),
    "includeSystemTopics": ("include_system_topics", _truth),
    "pruning": ("pruning", _word(Pruning)),
    "tail": ("tail", _word(Tail)),
    "brokerName": ("broker_names", _texts),
    "storePathCommitLog": ("commit_logs", _logs),
    "hashSlots": ("hash_slots", _at_least_one),
}
"""Option -> field, how its value is read."""
ZONE: Final = "timeZone"
"""Of times that have none; the name that Spark's CSV and JSON sources have for it."""
_BY_LOWER: Final = {name.lower(): name for name in (*NAMES, ZONE)}
RANGES: Final = ("startingOffsets", "endingOffsets")


def _read(name: str, read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except (ValueError, TypeError) as reason:
        said = str(reason)
        raise BadOption(f"{name}: {said if repr(value) in said else f'{value!r}: {said}'}") from reason


def _choose_topics(named: Mapping[str, Any], fields: dict[str, Any]) -> None:
    """Ranges of offsets name their topics.  Raises `BadOption` for one that `topics` leaves out."""
    found = {topic: name for name in RANGES if name in named for topic in topics_named(named[name])}
    if not found:
        return
    topics = fields.setdefault("topics", frozenset(found))
    if strange := sorted(found.keys() - topics):
        raise BadOption(f"{found[strange[0]]}: {strange[0]}, which topics leaves out")


def parse_options(given: Mapping[str, Any], filesystem: Any = None) -> Options:
    """Raises `BadOption`.  Values may be texts; None means that the option was not given."""
    named: dict[str, Any] = {}
    for asked, value in given.items():
        name = _BY_LOWER.get(asked.lower())
        if name is None:
            raise BadOption(f"no option {asked}; there are {', '.join((*NAMES, ZONE))}")
        if value is not None:
            named[name] = value
    zone = _read(ZONE, zone_of, named.pop(ZONE)) if ZONE in named else None
    fields: dict[str, Any] = {}
    for name, value in named.items():
        key, read = NAMES[name]
        fields[key] = _read(name, partial(_ms, zone=zone) if read is _ms else read, value)
    _choose_topics(named, fields)
    if not fields.get("paths") or not all(one.strip() for one in (*fields["paths"], *fields.get("commit_logs", ()))):
        raise BadOption("path: where the store is")
    if fields.get("broker_names") and len(fields["broker_names"]) not in (1, len(fields["paths"])):
        raise BadOption("brokerName: one name, or one for each path")
    if fields.get("kafka_compatible"):
        if fields.get("table", Table.MESSAGES) is not Table.MESSAGES:
            raise BadOption(f"kafkaCompatible: of messages only, not of {fields['table']}")
        fields.setdefault("decompress", True)  # as a Kafka consumer, and RocketMQ's own, gets its values
    if filesystem is None:
        fields |= {name: _plain(fields[name]) for name in ("paths", "commit_logs") if name in fields}
    return Options(**fields, filesystem=filesystem)
