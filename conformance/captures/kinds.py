"""What in a conversation is tied to the server that took part in it, and when two such values mean the same.

`UNDERSTOOD` is the table: member names, in ext fields, JSON bodies, stored messages and their properties, and the kind of value
that each holds.  A kind says what another server's value must have in common with the recorded one: a time must be a time, an id
must be one to which no other id was matched.  What a match teaches is kept (`Learned`), for later answers and for the requests
that carry such a value back to the server.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, Final, NamedTuple

from rmq_wire import property_names as properties

EPOCH_MS_MIN: Final = 10**12
"""Greater numbers are wall times in milliseconds (from September 2001 on)."""
RECORDED_MARGIN_MS: Final = 3_600_000
"""A time in a request that is this near to the recording was read off the client's clock."""


class Kind(StrEnum):
    """What a value is."""

    TIME = "time"
    """Wall ms: another time, or the same zero or negative number."""
    MESSAGE_ID = "message id"
    """Where a message is stored: one id here for one id there; joined by commas for a batch."""
    PHYSICAL_OFFSET = "commit log offset"
    """One offset here for one there; negative ones are the same."""
    QUEUE_OFFSET = "queue offset"
    """The same distance to the recorded one for all offsets of a queue: none on a server that did not have the topic before."""
    ADDRESS = "address"
    """`host:port` of a server or client: the one that it has here."""
    COUNTER = "counter"
    """Any number that is not negative: depends on what the server did before."""
    FIGURE = "figure"
    """Any number: a measurement."""
    HANDLE = "handle"
    """A text that only the server understands: one here for one there."""
    PLACE = "place"
    """Any text: where and how the server was installed."""


THE_SAME: Final = {
    Kind.TIME: "another time, or the same 0 or -1",
    Kind.MESSAGE_ID: "one id here for one there",
    Kind.PHYSICAL_OFFSET: "one offset here for one there",
    Kind.QUEUE_OFFSET: "the same distance for all of a queue",
    Kind.ADDRESS: "the address of who has the same part",
    Kind.COUNTER: "any number that is not negative",
    Kind.FIGURE: "any number",
    Kind.HANDLE: "one text here for one there",
}
"""Said to readers: when two values of a kind mean the same."""


class Row(NamedTuple):
    """One line of the table of what is understood where."""

    kind: Kind
    names: tuple[str, ...]
    where: str


UNDERSTOOD: Final = (
    Row(Kind.TIME, ("storeTimestamp", "bornTimestamp"), "stored messages"),
    Row(
        Kind.TIME,
        (
            properties.BORN_TIMESTAMP,
            properties.TIMER_DELIVER_MS,
            properties.TIMER_ENQUEUE_MS,
            properties.TIMER_DEQUEUE_MS,
            properties.TIMER_OUT_MS,
            properties.FIRST_POP_TIME,
            properties.ARRIVE_TIME,
            properties.PUSH_REPLY_TIME,
            properties.CONSUME_START_TIME,
        ),
        "properties of stored messages",
    ),
    Row(Kind.TIME, ("timestamp",), "data versions; answer of GET_EARLIEST_MSG_STORETIME"),
    Row(Kind.TIME, ("popTime",), "answers of POP_MESSAGE"),
    Row(Kind.TIME, ("lastUpdateTimestamp", "lastTimestamp"), "statistics of topics, groups and producers"),
    Row(Kind.TIME, ("minTimeStamp", "maxTimeStamp", "consumeTimeStamp"), "answer of QUERY_CONSUME_TIME_SPAN"),
    Row(Kind.MESSAGE_ID, ("msgId", "offsetMsgId"), "answers of sends; stored messages"),
    Row(
        Kind.MESSAGE_ID,
        (properties.ORIGIN_MESSAGE_ID, properties.DLQ_ORIGIN_MESSAGE_ID),
        "properties of stored messages that were sent back",
    ),
    Row(Kind.PHYSICAL_OFFSET, ("physicalOffset", "preparedTransactionOffset", "commitLogOffset"), "messages, transactions"),
    Row(Kind.PHYSICAL_OFFSET, ("physicOffset",), "answer of QUERY_CONSUME_QUEUE"),
    Row(Kind.QUEUE_OFFSET, ("queueOffset",), "answers of sends; stored messages"),
    Row(Kind.QUEUE_OFFSET, ("nextBeginOffset", "minOffset", "maxOffset", "offset"), "pulls and questions for offsets"),
    Row(Kind.QUEUE_OFFSET, ("brokerOffset", "consumerOffset", "pullOffset"), "progress of groups"),
    Row(Kind.QUEUE_OFFSET, ("tranStateTableOffset",), "transactions"),
    Row(Kind.ADDRESS, ("brokerAddr", "haServerAddr", "masterAddr", "clientAddr", "remoteIP"), "brokers and clients"),
    Row(Kind.ADDRESS, ("storeHost", "bornHost"), "stored messages"),
    Row(Kind.COUNTER, ("counter",), "data versions"),
    Row(
        Kind.COUNTER,
        ("indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"),
        "answer of QUERY_MESSAGE: how far the index is, which is written in the background",
    ),
    Row(Kind.FIGURE, ("topicPutTps", "consumeTps", "tps", "sum", "avgpt"), "statistics"),
    Row(Kind.HANDLE, ("recallHandle",), "answers of delayed sends"),
    Row(Kind.HANDLE, (properties.POP_CK,), "properties of popped messages"),
)
PROPERTY_NAMES: Final = frozenset(name for row in UNDERSTOOD if "propert" in row.where for name in row.names)
KINDS: Final[dict[str, Kind]] = {name: row.kind for row in UNDERSTOOD for name in row.names}

FIGURES_OF: Final = frozenset({"GET_BROKER_RUNTIME_INFO", "VIEW_BROKER_STATS_DATA"})
"""Answers whose values are all measurements: only the names of their members are compared."""
PLACES_OF: Final = frozenset({"GET_BROKER_CONFIG", "GET_NAMESRV_CONFIG"})
"""Answers whose values say how the server was installed: only the names of their members are compared."""
UNORDERED: Final = frozenset(
    {
        "topicList",
        "groupList",
        "consumerIdList",
        "connectionSet",
        "lockOKMQSet",
        "clusterAddrTable",
        "brokerDatas",
        "queueDatas",
        "subscriptionDataSet",
        "tagsSet",
        "codeSet",
        "consumeStatsList",
        "messageQueueAssignments",
    }
)
"""Members that are sets in Java, written as lists in no order."""
ANY_NUMBER_OF: Final = frozenset({"NOTIFY_CONSUMER_IDS_CHANGED"})
"""What a server says once or several times about one change, as its threads meet."""

_ADDRESS: Final = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}:\d{1,5}")
_ID_DIGITS: Final = re.compile(r"[0-9A-F]{32}(?:[0-9A-F]{24})?")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")

Queue = tuple[str, str]
"""Topic and queue id."""


class Learned:
    """What values of the recording are on the other server."""

    def __init__(self, known: dict[str, str] | None = None, shift_ms: int = 0, recorded: tuple[int, int] = (0, 0)) -> None:
        """known: addresses and names that are given.  shift_ms: how much later than the recording this is.

        recorded: wall ms of its beginning and end.
        """
        self.known = dict(known or {})
        self._shift_ms = shift_ms
        self._recorded = recorded
        self._pairs: dict[Kind, dict[str, str]] = {kind: {} for kind in Kind}
        self._back: dict[Kind, dict[str, str]] = {kind: {} for kind in Kind}
        self._deltas: dict[Queue, int] = {}

    # Recorded -> here, for requests

    def text(self, old: str) -> str:
        """A text in which recorded addresses, or that as a whole is a name or address that is another here."""
        if old in self.known:
            return self.known[old]
        return _ADDRESS.sub(lambda found: self.known.get(found[0], found[0]), old)

    def here(self, kind: Kind, old: str, queue: Queue | None = None) -> str:
        """What to say here for a recorded value; itself when nothing is known about it."""
        match kind:
            case Kind.TIME:
                return self._time_here(old)
            case Kind.QUEUE_OFFSET:
                delta = self._deltas.get(queue, 0) if queue is not None else 0
                return str(int(old) + delta) if delta and _NUMBER.fullmatch(old) and int(old) >= 0 else old
            case Kind.ADDRESS:
                return self.text(old)
            case Kind.MESSAGE_ID:
                return ",".join(self._pairs[kind].get(one, one) for one in old.split(","))
            case _:
                return self._pairs[kind].get(old, old)

    def _time_here(self, old: str) -> str:
        if old in self._pairs[Kind.TIME]:
            return self._pairs[Kind.TIME][old]
        if not old.isascii() or not old.isdigit():
            return old
        first, last = self._recorded
        near = first - RECORDED_MARGIN_MS <= int(old) <= last + RECORDED_MARGIN_MS
        return str(int(old) + self._shift_ms) if near else old

    # Recorded against here, for answers

    def problem(self, kind: Kind, old: Any, new: Any, queue: Queue | None = None) -> str | None:
        """Why a value is not what the recorded one was, or None; learns from it when it is."""
        if isinstance(old, bool) or isinstance(new, bool) or old is None or new is None or isinstance(old, list | dict):
            return None if old == new and type(old) is type(new) else "another value"
        if isinstance(new, list | dict):
            return "another type"
        if isinstance(old, str) != isinstance(new, str):
            return "another type"
        return self._problem(kind, str(old), str(new), queue)

    def _problem(self, kind: Kind, old: str, new: str, queue: Queue | None) -> str | None:
        match kind:
            case Kind.MESSAGE_ID:
                return self._ids(old, new)
            case Kind.ADDRESS:
                return self._address(old, new)
            case Kind.HANDLE:
                return self._pair(kind, old, new) if bool(old) == bool(new) else "one is empty"
            case Kind.PLACE:
                return None
            case _:
                pass
        if not _NUMBER.fullmatch(old):
            return None if self.text(old) == new else "another text"
        if not _NUMBER.fullmatch(new):
            return "not a number"
        if kind is Kind.FIGURE:
            return None
        before, now = int(float(old)), int(float(new))
        if kind is Kind.COUNTER:
            return None if (before < 0) == (now < 0) else "another sign"
        if before < 0 or now < 0:
            return None if before == now else "only one is negative"
        if kind is Kind.TIME:
            self._pairs[kind][old] = new
            same = (before >= EPOCH_MS_MIN) == (now >= EPOCH_MS_MIN) and (before == 0) == (now == 0)
            return None if same else "only one is a time"
        if kind is Kind.QUEUE_OFFSET:
            return self._queue_offset(before, now, queue)
        if before == now == 0:  # the log's first message, or no transaction: two meanings
            return None
        return self._pair(kind, old, new)

    def _queue_offset(self, before: int, now: int, queue: Queue | None) -> str | None:
        if queue is None:
            return None if before == now else "another offset"
        delta = self._deltas.setdefault(queue, now - before)
        return None if now - before == delta else f"offsets of this queue are {delta:+d} here, this is {now - before:+d}"

    def _ids(self, old: str, new: str) -> str | None:
        before, now = old.split(","), new.split(",")
        if len(before) != len(now):
            return f"{len(now)} ids instead of {len(before)}"
        for one, other in zip(before, now, strict=True):
            if bool(_ID_DIGITS.fullmatch(one)) != bool(_ID_DIGITS.fullmatch(other)) or len(one) != len(other):
                return "only one is a message id" if len(one) == len(other) else "ids of another length"
            if wrong := self._pair(Kind.MESSAGE_ID, one, other):
                return wrong
        return None

    def _address(self, old: str, new: str) -> str | None:
        before, now = old.removeprefix("/"), new.removeprefix("/")
        if (before == old) != (now == new):
            return "another form"
        if before in self.known:
            return None if self.known[before] == now else f"that address is {self.known[before]} here"
        if bool(_ADDRESS.fullmatch(before)) != bool(_ADDRESS.fullmatch(now)):
            return "only one is an address"
        return self._pair(Kind.ADDRESS, before, now) if _ADDRESS.fullmatch(before) else None if before == now else "another text"

    def _pair(self, kind: Kind, old: str, new: str) -> str | None:
        """One here for one there."""
        before = self._pairs[kind].setdefault(old, new)
        if before != new:
            return f"the same {kind} was {before} before"
        first = self._back[kind].setdefault(new, old)
        return None if first == old else f"another {kind} ({first}) is this here, too"
