"""What a case gets: the server's addresses, names of its own, the usual requests in one line, and checks that are kept.

Every check is recorded with what was expected and seen, whether it holds or not; the first that does not hold ends the case.
Topics and groups of a case carry the run's mark, so that any number of cases and runs share one server.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeVar
from zlib import crc32

import trio

from conformance.suite.link import ANSWER_S, Answer, Form, Frame, Link
from conformance.version import Version, by_version
from rmq_wire import properties as property_text
from rmq_wire import property_names
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.codes import LanguageCode, ResponseCode
from rmq_wire.headers.groups import UpdateAndCreateSubscriptionGroup
from rmq_wire.headers.pull import PullMessage, PullMessageResponse
from rmq_wire.headers.send import SendMessageResponse, SendMessageV2
from rmq_wire.headers.topics import CreateTopic
from rmq_wire.message import StoredMessage, read_unit
from rmq_wire.sys_flag import PULL_SUBSCRIPTION, PULL_SUSPEND

if TYPE_CHECKING:
    from conformance.subjects.base import Target

T = TypeVar("T")
PREFIX: Final = "CONF"
"""What every name of the suite begins with."""
READERS: Final = f"{PREFIX}_consumers"
"""The group of pulls where it does not matter which group pulls."""
MAKES_TOPICS: Final = ("autoCreateTopicEnable", "true")
MAKES_GROUPS: Final = ("autoCreateSubscriptionGroup", "true")
"""For `Trial.wants`."""
UNIQUE_KEY_START: Final = "7F000001000018B4"
"""Address, process and class loader of a client on loopback (`MessageClientIDSetter`)."""
READ_WRITE: Final = 6
POLL_S: Final = 0.05
SETTLE_S: Final = 20.0
"""How long a server may take until something that it does behind the answer has happened (dispatch, registration)."""
SEEN_CHARACTERS_MAX: Final = 2_000


Restart = Callable[[bool], Awaitable[None]]
"""Stops the broker, by SIGKILL when true, starts it again on the same store and port, and waits until it is registered."""


class CaseFailed(Exception):
    """A check did not hold; the last one recorded says which."""


class CaseSkipped(Exception):
    """The case finds that it does not apply here; says why."""


class Check(NamedTuple):
    """One judged statement."""

    what: str
    holds: bool
    expected: str
    seen: str


class Pulled(NamedTuple):
    """An answer to a pull, decoded."""

    answer: Answer
    header: PullMessageResponse | None
    messages: list[StoredMessage]


class Trial:
    """One run of one case against one target."""

    def __init__(
        self, target: Target, nursery: trio.Nursery, *, mark: str, restart: Restart | None = None, patience: float = 1.0
    ) -> None:
        """mark: what makes names unique over cases and runs; letters and digits.  restart: of `restart_broker`.

        patience: a slow machine's factor.  So many times as long may take what a case waits for, so late may be what has a time,
        and so long is what has to be over before something else happens.
        """
        self.target = target
        self.checks: list[Check] = []
        self.notes: dict[str, str] = {}
        self.evidence: list[Frame] = []
        self.links: list[Link] = []
        self._nursery = nursery
        self.patience = patience
        self._mark = mark
        self._restart = restart
        self._named = 0
        self._began = trio.current_time()
        self.broker = self.connect()
        """A connection to the broker, opened when it is used first."""
        self.names = self.connect(target.namesrv)
        """A connection to the name server."""

    # Where and who

    @property
    def version(self) -> Version | None:
        """Of the reference whose behaviour is expected here; None when it is not known."""
        return self.target.version

    @property
    def store(self) -> Path:
        """The store directory (`Need.STORE`)."""
        assert self.target.store is not None
        return self.target.store

    def by_version(self, expected: Mapping[str, T]) -> T:
        """What is expected of the target's version: `conformance.version.by_version`."""
        return by_version(self.version, expected)

    def connect(
        self, address: str = "", *, form: Form = Form.JSON, language: int = LanguageCode.JAVA, version: int | None = None
    ) -> Link:
        """One more connection, to the broker or to this address.  version: that the client says of itself, as a number."""
        options = {} if version is None else {"version": version}
        link = Link(
            address or self.target.broker,
            self._nursery,
            self.evidence,
            number=len(self.links),
            form=form,
            language=language,
            began=self._began,
            patience=self.patience,
            **options,
        )
        self.links.append(link)
        return link

    async def restart_broker(self, *, kill: bool = False) -> None:
        """Stop the broker, cleanly or by SIGKILL, and start it again (`Need.RESTART`); its connections end."""
        assert self._restart is not None
        await self._restart(kill)

    def name(self, word: str = "t") -> str:
        """A topic or group name that nobody else uses."""
        self._named += 1
        return f"{PREFIX}_{self._mark}_{word}_{self._named}"

    def unique_key(self) -> str:
        """A message's unique key that no other message has, also not of another case; as long as those that clients make."""
        return f"{UNIQUE_KEY_START}{crc32(self.name().encode()):016X}"

    def beside(self, work: Callable[[], Awaitable[object]]) -> None:
        """Let this run beside the case: a client that answers what the server asks it.  It ends with the case."""
        self._nursery.start_soon(work)

    # Checks

    def check(self, what: str, holds: bool, *, expected: Any = "", seen: Any = "") -> None:
        """Record a statement; the case ends here when it does not hold."""
        self.checks.append(Check(what, bool(holds), _text(expected), _text(seen)))
        if not holds:
            raise CaseFailed(what)

    def equal(self, what: str, seen: Any, expected: Any) -> None:
        """`seen` is, or fits, what is expected: a value, a compiled pattern (searched in the text), a type or a predicate."""
        self.check(what, fits(seen, expected), expected=expected, seen=seen)

    def fail(self, what: str, *, expected: Any = "", seen: Any = "") -> NoReturn:
        """End the case: this does not hold."""
        self.checks.append(Check(what, False, _text(expected), _text(seen)))
        raise CaseFailed(what)

    def skip(self, why: str) -> NoReturn:
        """End the case: it does not apply to this server."""
        raise CaseSkipped(why)

    def wants(self, setting: str, value: str) -> None:
        """End the case, as one that does not apply, where the broker says that it is set otherwise."""
        if (seen := self.target.config.get(setting, value)) != value:
            self.skip(f"here {setting} is {seen}")

    def note(self, name: str, value: Any) -> None:
        """Put into the report what was seen, unjudged."""
        self.notes[name] = _text(value)

    def answer(
        self,
        what: str,
        answer: Answer,
        *,
        code: Any = 0,
        remark: Any = ...,
        ext: Mapping[str, Any] | None = None,
        body: Any = ...,
        absent: Sequence[str] = (),
    ) -> Answer:
        """Judge an answer's code, remark, ext fields (of those named) and body; `...` is not looked at.  Returns it.

        Values as in `equal`.  absent: wire names that must not be among the ext fields.
        """
        self.check(f"{what}: code", fits(answer.code, code), expected=code, seen=f"{answer.code} {answer.remark or ''}".strip())
        if remark is not ...:
            self.equal(f"{what}: remark", answer.remark, remark)
        for name, value in (ext or {}).items():
            self.equal(f"{what}: ext field {name}", answer.ext.get(name), value)
        for name in absent:
            self.equal(f"{what}: no ext field {name}", answer.ext.get(name), None)
        if body is not ...:
            self.equal(f"{what}: body", answer.body, body)
        return answer

    async def until(self, what: str, ask: Callable[[], Awaitable[T | None]], *, seconds: float = SETTLE_S) -> T:
        """Ask again and again until the result is true; return it.  A failed check when that does not come in time."""
        seen: T | None = None
        seconds *= self.patience
        with trio.move_on_after(seconds):
            while not (seen := await ask()):
                await trio.sleep(POLL_S)
        if not seen:
            self.fail(what, expected=f"within {seconds:g} s", seen=seen)
        self.check(what, True, seen=seen)
        return seen

    # The usual requests

    async def topic(
        self,
        queues: int = 1,
        *,
        name: str = "",
        write: int | None = None,
        perm: int = READ_WRITE,
        attributes: str = "",
        order: bool = False,
    ) -> str:
        """Make a topic on the broker (17); its name.  queues: read queues, and write queues unless given."""
        name = name or self.name()
        asked = CreateTopic(
            topic=name,
            default_topic="TBW102",
            read_queue_nums=queues,
            write_queue_nums=queues if write is None else write,
            perm=perm,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=order,
            attributes=attributes or None,
        )
        self.answer(f"topic {name} is made", await self.broker.ask(asked))
        return name

    async def group(self, name: str = "", **settings: Any) -> str:
        """Make a consumer group (200) with these fields of `SubscriptionGroupConfig`; its name."""
        name = name or self.name("g")
        config = SubscriptionGroupConfig(group_name=name, **settings)
        self.answer(f"group {name} is made", await self.broker.ask(UpdateAndCreateSubscriptionGroup(), config.encode()))
        return name

    def message(
        self,
        topic: str,
        properties: Mapping[str, str] | None = None,
        *,
        queue: int = 0,
        tags: str = "",
        keys: str = "",
        unique_key: str = "",
        sys_flag: int = 0,
        flag: int = 0,
        born_ms: int = 1_700_000_000_000,
        group: str = "",
        kind: type[SendMessageV2] = SendMessageV2,
        **fields: Any,
    ) -> SendMessageV2:
        """The header of a send (310, or of that kind) as a stock producer fills it in.  fields: others of `SendMessageV2`."""
        pairs = {
            property_names.UNIQ_KEY: unique_key,
            property_names.KEYS: keys,
            property_names.TAGS: tags,
            **(properties or {}),
        }
        return kind(
            **{
                "producer_group": group or "CONF_producers",
                "topic": topic,
                "default_topic": "TBW102",
                "default_topic_queue_nums": 4,
                "queue_id": queue,
                "sys_flag": sys_flag,
                "born_timestamp": born_ms,
                "flag": flag,
                "properties": property_text.encode({name: value for name, value in pairs.items() if value}),
                "reconsume_times": 0,
                "unit_mode": False,
                "batch": False,
                **fields,
            }
        )

    async def send(
        self,
        topic: str,
        body: bytes = b"body",
        properties: Mapping[str, str] | None = None,
        *,
        link: Link | None = None,
        **more: Any,
    ) -> SendMessageResponse:
        """Send one message (310), which must succeed; the answer's header.  more: as of `message`."""
        answer = await (link or self.broker).ask(self.message(topic, properties, **more), body)
        return self.answer(f"send to {topic}", answer).header(SendMessageResponse)

    async def pull(
        self,
        topic: str,
        offset: int = 0,
        *,
        group: str = "",
        queue: int = 0,
        count: int = 32,
        tags: str = "*",
        hold_ms: int = 0,
        link: Link | None = None,
        seconds: float = ANSWER_S,
        **fields: Any,
    ) -> Pulled:
        """Pull (11) with the subscription in the request; not judged.  hold_ms: how long the broker may wait.  fields: others."""
        flags = PULL_SUBSCRIPTION | (PULL_SUSPEND if hold_ms else 0)
        asked = PullMessage(
            **{
                "consumer_group": group or READERS,
                "topic": topic,
                "queue_id": queue,
                "queue_offset": offset,
                "max_msg_nums": count,
                "sys_flag": flags,
                "commit_offset": 0,
                "suspend_timeout_millis": hold_ms,
                "subscription": tags,
                "sub_version": 0,
                "expression_type": "TAG",
                **fields,
            }
        )
        answer = await (link or self.broker).ask(asked, seconds=seconds + hold_ms / 1e3)
        found = answer.header(PullMessageResponse) if "nextBeginOffset" in answer.ext else None
        return Pulled(answer, found, units(answer.body) if answer.code == ResponseCode.SUCCESS else [])

    async def pull_all(self, topic: str, count: int, *, queue: int = 0, offset: int = 0, **more: Any) -> list[StoredMessage]:
        """So many messages of a queue from an offset on, waiting until they can be pulled; a failed check when they cannot."""
        found: list[StoredMessage] = []

        async def enough() -> bool:
            pulled = await self.pull(topic, offset + len(found), queue=queue, count=count - len(found), hold_ms=1_000, **more)
            found.extend(pulled.messages)
            return len(found) >= count

        await self.until(f"{count} messages of {topic} queue {queue} can be pulled from {offset} on", enough)
        return found


def units(body: bytes) -> list[StoredMessage]:
    """The message units that a pull's or a query's answer holds, one after the other.  Raises `BadRecord`."""
    found = []
    at = 0
    while at < len(body):
        unit = read_unit(body, at)
        found.append(unit)
        at += unit.total_size
    return found


def properties_of(unit: StoredMessage) -> dict[str, str]:
    """The properties of a stored message."""
    return property_text.decode(bytes(unit.properties).decode())


def fits(seen: Any, expected: Any) -> bool:
    """A pattern is searched in the text, a type is that of the value or of the number that the text spells, a predicate is asked,
    a frozenset lists what may be; all else must be equal."""
    if isinstance(expected, re.Pattern):
        return seen is not None and expected.search(seen if isinstance(seen, type(expected.pattern)) else str(seen)) is not None
    if expected is int:
        return isinstance(seen, int) or (isinstance(seen, str) and re.fullmatch(r"-?\d+", seen) is not None)
    if isinstance(expected, type):
        return isinstance(seen, expected)
    if isinstance(expected, frozenset):
        return any(fits(seen, one) for one in expected)
    if callable(expected):
        return bool(expected(seen))
    return bool(seen == expected)


def _text(value: Any) -> str:
    if isinstance(value, re.Pattern):
        return f"/{value.pattern!s}/"
    if isinstance(value, enum.IntEnum):
        value = f"{value.value} {value.name}"
    text = value if isinstance(value, str) else getattr(value, "__name__", None) or repr(value)
    return text if len(text) <= SEEN_CHARACTERS_MAX else f"{text[:SEEN_CHARACTERS_MAX]}… ({len(text)} characters)"
