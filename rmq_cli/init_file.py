"""The file of `rmq dev --init`: topics, groups and messages in TOML, read and checked before anything starts.

What is wrong is named with file, line and what is expected.  TOML readers give no lines of what they have read; the line of an
item is found afterwards, among the lines that look like its header and do not begin within a text of several lines.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from broker_impl.capabilities.groups import RETRY_QUEUES_MAX
from broker_impl.capabilities.topics import QUEUES_MAX
from broker_impl.config import BrokerConfig
from broker_impl.dev_differences import DEV_DEFAULTS
from broker_impl.engine.answers import Refusal
from broker_impl.foreseen import Foreseen
from broker_impl.intake import NotTaken, PutStatus
from broker_impl.state.attributes import GROUP_ATTRIBUTES, TOPIC_ATTRIBUTES, Attribute, BadAttribute
from rmq_cli.complaint import Complaint, Denied
from rmq_wire import names
from rmq_wire import properties as wire
from rmq_wire import property_names as prop
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.implied.delay_levels import parse_delay_levels

FILE_BYTES_MAX: Final = 16 << 20
"""It is read at once: some 100,000 small messages."""
FAULTS_MAX: Final = 20
PERMS: Final = {"R": 4, "W": 2, "RW": 6}
_TEXT: Final = re.compile(
    r'''#[^\n]*+|"""(?:[^"\\]++|\\[\s\S]|"(?!""))*+"{3,5}|"(?:[^"\\\n]++|\\.)*+"''' r"|'''(?:[^']++|'(?!''))*+'{3,5}|'[^'\n]*+'"
)
"""A comment, or a text in any of TOML's four kinds of quotes, one that ends with up to two quotes of its own included."""
_PROPERTIES: Final = {"tags": prop.TAGS, "keys": prop.KEYS, "hashKey": prop.SHARDING_KEY}
"""Keys of a message that become properties."""
UNIQUE_KEY_BYTES: Final = 16
"""As a Java client's unique key has, in hexadecimal digits."""

Queues = Annotated[int, msgspec.Meta(ge=1, le=QUEUES_MAX)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class BadInit(Complaint):
    """The file is not what it has to be."""

    status = 2


class _Item(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Keys are Java's names."""


class InitTopic(_Item):
    """`queues` says `readQueueNums` and `writeQueueNums` at once.  `perm`: R, W, RW, or Java's number."""

    name: str
    queues: Queues | None = None
    read_queue_nums: Queues | None = None
    write_queue_nums: Queues | None = None
    perm: str | Annotated[int, msgspec.Meta(ge=0, le=7)] | None = None
    order: bool | None = None
    attributes: dict[str, str] = {}


class InitGroup(_Item):
    """Of `SubscriptionGroupConfig`, what users set."""

    name: str
    consume_enable: bool | None = None
    consume_from_min_enable: bool | None = None
    consume_broadcast_enable: bool | None = None
    consume_message_orderly: bool | None = None
    retry_queue_nums: Annotated[int, msgspec.Meta(ge=0, le=RETRY_QUEUES_MAX)] | None = None
    retry_max_times: Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)] | None = None
    broker_id: Count | None = None
    which_broker_when_consume_slowly: Count | None = None
    notify_consumer_ids_changed_enable: bool | None = None
    consume_timeout_minute: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None
    attributes: dict[str, str] = {}


class InitMessage(_Item):
    """`delay`: a level, or a time as `10s`.  `hash_key` decides the queue as `SelectMessageQueueByHash` does."""

    topic: str
    body: str
    tags: str = ""
    keys: str | list[str] = ""
    properties: dict[str, str] = {}
    delay: Annotated[int, msgspec.Meta(ge=1, le=18)] | str | None = None
    hash_key: str | None = None

    @property
    def delay_ms(self) -> int | None:
        """Of a delay that is a time."""
        return parse_delay_levels(self.delay)[0] if isinstance(self.delay, str) else None

    def pairs(self, unique_key: str) -> dict[str, str]:
        """The properties with which it is sent."""
        pairs = {prop.UNIQ_KEY: unique_key, prop.WAIT: "true", **self.properties}
        if self.keys:
            pairs[prop.KEYS] = self.keys if isinstance(self.keys, str) else prop.KEY_SEPARATOR.join(self.keys)
        if self.tags:
            pairs[prop.TAGS] = self.tags
        if self.hash_key is not None:
            pairs[prop.SHARDING_KEY] = self.hash_key
        if isinstance(self.delay, int):
            pairs[prop.DELAY] = str(self.delay)
        elif self.delay_ms is not None:
            pairs[prop.TIMER_DELAY_MS] = str(self.delay_ms)
        return pairs


KINDS: Final[Mapping[str, type[_Item]]] = {"topic": InitTopic, "group": InitGroup, "message": InitMessage}


class Placed(NamedTuple):
    """An item and the line at which it begins."""

    item: Any
    where: str


class InitFile(NamedTuple):
    """What the file says, in its order.  Each message with the unique key by which it is recognised."""

    topics: Sequence[Placed]
    groups: Sequence[Placed]
    messages: Sequence[tuple[str, Placed]]


def read_init(path: Path, brokers: Sequence[BrokerConfig] = ()) -> InitFile:
    """brokers: those that are to take it; one of `rmq dev` without options when none is named.  Raises `BadInit`, `Denied`."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except PermissionError:
        raise Denied(path) from None
    except OSError as error:
        raise BadInit(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise BadInit(f"{path} has more than {FILE_BYTES_MAX} bytes: send so many messages with a producer")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInit(f"{path}, line {line}: not UTF-8, which TOML has to be") from None
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInit(f"{path}: not TOML: {error}") from None
    return _Reading(path, text, document, [Foreseen(one) for one in brokers or (BrokerConfig(DEV_DEFAULTS),)]).read()


class _Reading:
    """Gathers everything that is wrong, so that one look at the file mends it."""

    def __init__(self, path: Path, text: str, document: Mapping[str, Any], brokers: Sequence[Foreseen]) -> None:
        self._path = path
        self._lines = Lines(text)
        self._document = document
        self._brokers = brokers
        self._attributes: dict[str, dict[str, str]] = {}
        """Of the file's topics, by name."""
        self._faults: list[str] = []

    def read(self) -> InitFile:
        for name, value in self._document.items():
            if name not in KINDS:
                self._fault(self._lines.of_key(None, 0, name), f"{name}: expected [[topic]], [[group]] or [[message]]")
            elif not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
                self._fault(self._lines.of_key(None, 0, name), f"{name}: expected [[{name}]], once for each {name}")
        found = {kind: list(self._items(kind)) for kind in KINDS}
        self._once("topic", found["topic"])
        self._once("group", found["group"])
        if self._faults:
            more = len(self._faults) - FAULTS_MAX
            rest = [f"and {more} more"] if more > 0 else []
            raise BadInit("\n".join([*self._faults[:FAULTS_MAX], *rest]))
        return InitFile(found["topic"], found["group"], list(_recognisable(found["message"])))

    def _items(self, kind: str) -> Iterator[Placed]:
        rows = self._document.get(kind, [])
        for number, row in enumerate(rows if isinstance(rows, list) else []):
            if not isinstance(row, dict):
                continue
            try:
                item = msgspec.convert(row, KINDS[kind])
            except msgspec.ValidationError as wrong:
                key, what = _worded(str(wrong), KINDS[kind])
                self._fault(self._lines.of_key(kind, number, key), what)
                continue
            if isinstance(item, InitTopic):
                self._attributes[item.name] = item.attributes
            for key, what in self._problems(item):
                self._fault(self._lines.of_key(kind, number, key), f"{key}: {what}")
            yield Placed(item, f"{self._path}, line {self._lines.of_key(kind, number, None) or '?'}")

    def _problems(self, item: Any) -> Iterator[tuple[str, str]]:
        """What types do not say: (key, what is expected)."""
        if isinstance(item, InitMessage):
            problems = list(_of_message(item))
            return iter(problems or _of_whole_message(item, self._attributes.get(item.topic, {}), self._brokers[0]))
        return _of_topic(item, self._brokers) if isinstance(item, InitTopic) else _of_group(item)

    def _once(self, kind: str, rows: Sequence[Placed]) -> None:
        seen: dict[str, str] = {}
        for item, where in rows:
            if item.name in seen:
                self._faults.append(f"{where}: {kind} {item.name} stands at {seen[item.name].rpartition(', ')[2]} already")
            seen.setdefault(item.name, where)

    def _fault(self, line: int | None, what: str) -> None:
        self._faults.append(f"{self._path}: {what}" if line is None else f"{self._path}, line {line}: {what}")


def _worded(wrong: str, kind: type[_Item]) -> tuple[str | None, str]:
    """msgspec's complaint as (key, words)."""
    what, _, place = wrong.partition(" - at `")
    what = what.replace("`", "").replace(" | null", "")
    key = re.match(r"\$\.([^.\[`]+)", place)
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    if (unknown := re.search(r"unknown field (.+)", what)) is not None:
        close = difflib.get_close_matches(unknown[1], known, 1)
        hint = f", did you mean {close[0]}?" if close else ""
        return unknown[1], f"{unknown[1]} is no key here{hint} Expected one of {', '.join(known)}"
    if (missing := re.search(r"missing required field (.+)", what)) is not None:
        least = ", ".join([f'{name} = "…"' for name in _required(kind)])
        return None, f"{missing[1]} is missing: expected {least} at least"
    if key is None:
        return None, what[:1].lower() + what[1:]
    return key[1], f"{key[1]}: {what[:1].lower()}{what[1:]}"


def _required(kind: type[_Item]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(kind) if field.required]


def _of_topic(item: InitTopic, brokers: Sequence[Foreseen]) -> Iterator[tuple[str, str]]:
    problem = next(filter(None, (broker.topic_name_problem(item.name) for broker in brokers)), None)
    if problem is not None:
        yield "name", problem
    if isinstance(item.perm, str) and item.perm not in PERMS:
        yield "perm", f'expected "R", "W", "RW", or a number; seen "{item.perm}"'
    if item.queues is not None and (item.read_queue_nums is not None or item.write_queue_nums is not None):
        yield "queues", "says readQueueNums and writeQueueNums at once: leave it or them out"
    change = {f"+{name}": value for name, value in item.attributes.items()}
    problem = brokers[0].topic_problem(TopicConfig(topic_name=item.name, attributes=change))
    if problem is not None:
        yield "attributes", problem
    yield from _of_attributes(item.attributes, TOPIC_ATTRIBUTES)


def _of_group(item: InitGroup) -> Iterator[tuple[str, str]]:
    problem = names.group_problem(item.name)
    if problem is not None:
        yield "name", problem
    yield from _of_attributes(item.attributes, GROUP_ATTRIBUTES)


def _of_attributes(said: Mapping[str, str], known: Mapping[str, Attribute]) -> Iterator[tuple[str, str]]:
    for name, value in said.items():
        if name not in known:
            yield "attributes", f"{name} is no attribute; expected one of {', '.join(known)}"
            continue
        try:
            known[name].verify(value)
        except BadAttribute as wrong:
            yield "attributes", f"{name}: {wrong}"


def _of_message(item: InitMessage) -> Iterator[tuple[str, str]]:
    problem = names.topic_problem(item.topic)
    if problem is None and names.takes_no_sends(item.topic):
        problem = names.not_sendable_remark(item.topic)
    if problem is not None:
        yield "topic", problem
    if not item.body:
        yield "body", "expected at least one character: a broker takes no empty message"
    keys = [item.keys] if isinstance(item.keys, str) else item.keys
    for name, texts in (("tags", [item.tags]), ("keys", keys), ("hashKey", [item.hash_key or ""])):
        if any(map(_has_mark, texts)):
            yield name, "expected a text without the characters 1 and 2, which separate properties"
    if not isinstance(item.keys, str) and any(not key or prop.KEY_SEPARATOR in key for key in keys):
        yield "keys", "expected texts that are not empty and have no blank, which separates keys"
    for name, value in item.properties.items():
        if name in prop.RESERVED:
            yield "properties", f"{name} is a name of the system's own"
        elif not name or not value or _has_mark(name + value):
            yield "properties", f"{name!r}: expected a name and a value, without the characters 1 and 2"
    if isinstance(item.delay, str):
        try:
            [_] = parse_delay_levels(item.delay)
        except ValueError:
            yield "delay", f'expected a level (1 to 18) or a time as "10s" (ms, s, m, h, d); seen "{item.delay}"'


def _of_whole_message(item: InitMessage, attributes: Mapping[str, str], broker: Foreseen) -> Iterator[tuple[str, str]]:
    """attributes: those that the file gives its topic."""
    pairs = item.pairs("0" * 2 * UNIQUE_KEY_BYTES)
    try:
        broker.check_message(item.topic, attributes, item.body.encode(), wire.encode(pairs))
    except Refusal as no:
        yield "keys", str(no.remark)
    except NotTaken as no:
        if no.status is PutStatus.WHEEL_TIMER_NOT_ENABLE:
            yield "delay", "expected a level, for timerWheelEnable is false"
        elif no.status is PutStatus.WHEEL_TIMER_MSG_ILLEGAL:
            most = broker.config.timer_max_delay_sec
            yield "delay", f"expected {most} s at most, the broker's timerMaxDelaySec; seen {item.delay}"
        elif no.status is PutStatus.PROPERTIES_SIZE_EXCEEDED:
            sizes = {name: len(pairs.get(known, "")) for name, known in _PROPERTIES.items()}
            sizes["properties"] = len(wire.encode(item.properties))
            yield max(sizes, key=sizes.__getitem__), f"too long: {no.why}"
        else:
            yield "properties" if prop.INNER_NUM in pairs else "body", no.why


def _has_mark(text: str) -> bool:
    return wire.NAME_END in text or wire.PAIR_END in text


def _recognisable(rows: Sequence[Placed]) -> Iterator[tuple[str, Placed]]:
    """Each message with a unique key made of everything that it says; the second of two equal ones has another."""
    seen: Counter[bytes] = Counter()
    for row in rows:
        said = msgspec.json.encode(row.item, order="sorted")
        seen[said] += 1
        digest = hashlib.sha256(b"%d " % seen[said] + said).hexdigest()
        yield digest[: 2 * UNIQUE_KEY_BYTES].upper(), row


class Lines:
    """Where in the text an item of an array of tables, or a key of it, stands."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._within = _lines_within_texts(text)
        self._headers: dict[str, list[int]] = {}

    def of_key(self, kind: str | None, number: int, key: str | None) -> int | None:
        """The line of a key of the number-th `[[kind]]`, or of its header; from 1.  None when it is not there in that form."""
        begin, end = 0, len(self._lines)
        if kind is not None:
            headers = self._of_headers(kind)
            if number >= len(headers):
                return None
            begin = headers[number]
            end = headers[number + 1] if number + 1 < len(headers) else end
        if key is None:
            return begin + 1
        looks = re.compile(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*(=|\.|\])|.*[.]\s*{re.escape(key)}\s*\]")
        for at in range(begin, end):
            if looks.match(self._lines[at]) and at not in self._within:
                return at + 1
        return begin + 1 if kind is not None else None

    def _of_headers(self, kind: str) -> list[int]:
        if kind not in self._headers:
            looks = re.compile(rf"\s*\[\[\s*[\"']?{kind}[\"']?\s*\]\]")
            self._headers[kind] = [at for at, line in enumerate(self._lines) if looks.match(line) and at not in self._within]
        return self._headers[kind]


def _lines_within_texts(text: str) -> set[int]:
    """The lines, from 0, that begin within a text of several lines.  text: a TOML document that has been read already."""
    within: set[int] = set()
    line = end = 0
    for found in _TEXT.finditer(text):
        line += text.count("\n", end, found.start())
        last = line + text.count("\n", found.start(), found.end())
        within.update(range(line + 1, last + 1))
        line, end = last, found.end()
    return within
