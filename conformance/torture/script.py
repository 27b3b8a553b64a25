"""What a torture script says: a TOML file with what the server does wrong, to which request, and what the client must do next.

A script is data: `[client]` names the program that the client runs, `[server]` the little cluster that it finds, each `[[step]]`
one torment with the requests that it meets, each `[[expect]]` one thing that is judged over the recorded events.  Unknown keys,
torments and checks are refused with one line that names the file.  `docs/torture.md` lists the scripts of this package.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from rmq_wire.codes import RequestCode, ResponseCode

SCRIPTS: Final = Path(__file__).parent / "scripts"
BROKERS: Final = ("broker-a", "broker-b")
NAME_SERVER: Final = "name-server"
NOWHERE: Final = "nowhere"
"""In a route: a broker whose address refuses connections."""
ANY: Final = "any"

Torment = Literal[
    "answer-code",
    "ask",
    "bare-keys",
    "binary",
    "close",
    "cut-body",
    "delay",
    "double",
    "down",
    "drop",
    "extra-fields",
    "flip-body",
    "garbage",
    "glue",
    "half",
    "null-fields",
    "numbers",
    "oversized",
    "reorder",
    "reset",
    "route",
    "split",
    "stop-reading",
    "unknown-opaque",
]
"""What a step does: each is explained in `conformance.torture.torments`."""

Check = Literal[
    "asked-answered",
    "closed-by-client",
    "connections",
    "delivered",
    "kept",
    "repeats",
    "reported",
    "requests",
    "retried",
    "sent-copies",
    "stored-copies",
    "waits",
]
"""What an expectation looks at: each is explained in `conformance.torture.judge`."""

Program = Literal["send", "send-async", "send-oneway", "push", "orderly"]
"""What a client does: send messages one after the other, all at once, without answers; consume as they come, or in order."""


class ScriptError(Exception):
    """The script cannot be used; one line says why."""


class _Part(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, kw_only=True):
    """Refuses keys that it does not know: a misspelt one would be a torment that never happens."""


class ClientPart(_Part):
    """The program.  `count` messages are sent, or awaited; `timeout_ms` of one send; `retries` after a first failure; a consumer
    gives up after `patience_ms` (by default two rebalances of a Java client, which come every 20 s) and stays for `linger_ms`
    after its last message; `fail_first`: each message is refused once."""

    program: Program = "send"
    count: int = 3
    timeout_ms: int = 6_000
    retries: int = 2
    body_bytes: int = 16
    pause_ms: int = 0
    patience_ms: int = 45_000
    linger_ms: int = 300
    poll_route_ms: int = 30_000
    fail_first: bool = False


class ServerPart(_Part):
    """The cluster: how many brokers, how many queues in each, how many messages are there from the beginning.

    route: the brokers that the name server names at first; all when empty."""

    brokers: int = 1
    queues: int = 2
    messages: int = 0
    route: list[str] = []


class Step(_Part):
    """One torment.  Meets requests of code `on` (a name of `RequestCode`, a number, `any`) that come to `where` (a broker's name,
    `name-server`, `broker` for each of them, `any`), or only the `nth` of them, counted from 1.

    topic_only: requests about another topic (a group's retry topic) are left in peace and not counted
    stored: whether the server does what is asked before it torments
    whole: the answer with another code keeps its fields and its body
    The other keys belong to single torments.
    """

    do: Torment
    on: str = ANY
    where: str = ANY
    nth: list[int] = []
    topic_only: bool = True
    stored: bool = True
    chunk_bytes: int = 1
    ms: int = 0
    count: int = 2
    code: str = ""
    whole: bool = False
    remark: str = "tormented"
    brokers: list[str] = []


class Expect(_Part):
    """One thing that the client must do.  `what` says it for people; `since` and `before` are client versions for which it holds
    (`5.1.0`); `level` is MUST, or QUIRK for what Java does and nobody need copy."""

    what: str
    check: Check
    level: Literal["MUST", "QUIRK"] = "MUST"
    since: str = ""
    before: str = ""
    step: int = 1
    on: str = ANY
    where: str = ANY
    min: int = 0
    max: int | None = None
    within_ms: int = 15_000
    other: Literal["", "broker", "queue", "same-broker"] = ""
    messages: list[int] = []
    outcome: Literal["ok", "failed", "any"] = "ok"
    error: str = ""
    code: str = ""
    status: str = ""
    ordered: bool = False


class Script(_Part):
    """A whole file.  `rests_on`: the Java classes in which this behaviour can be read."""

    name: str
    title: str
    rests_on: list[str]
    step: list[Step]
    expect: list[Expect]
    client: ClientPart = msgspec.field(default_factory=ClientPart)
    server: ServerPart = msgspec.field(default_factory=ServerPart)


def load(path: Path) -> Script:
    """The script of one file.  Raises `ScriptError`."""
    try:
        plain: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        script = msgspec.convert(plain, Script)
        _check(script)
    except (OSError, ValueError) as wrong:
        raise ScriptError(f"{path}: {wrong}") from None
    return script


def find(name: str) -> Script:
    """The script of a file, or of a name of those that come with the package.  Raises `ScriptError`."""
    known = SCRIPTS / f"{name}.toml"
    path = known if known.exists() else Path(name)
    if not path.is_file():
        raise ScriptError(f"no script {name!r}: neither a file nor one of {', '.join(names())}")
    return load(path)


def names() -> list[str]:
    """All scripts that come with the package."""
    return sorted(path.stem for path in SCRIPTS.glob("*.toml"))


def find_all(only: Iterable[str] = ()) -> list[Script]:
    """The scripts of these names, or all."""
    return [find(name) for name in (list(only) or names())]


def request_code(text: str) -> int | None:
    """The number of a request code by name or digits; None for any.  Raises ValueError."""
    return None if text == ANY else _number(text, RequestCode)


def response_code(text: str) -> int:
    """The number of a response code by name or digits.  Raises ValueError."""
    return _number(text, ResponseCode)


def version(text: str) -> tuple[int, ...]:
    """A version as numbers.  Raises ValueError."""
    return tuple(int(part) for part in text.split("."))


def applies(expect: Expect, of: tuple[int, ...]) -> bool:
    """Whether this is expected of a client that behaves like this version."""
    return not (expect.since and of < version(expect.since)) and not (expect.before and of >= version(expect.before))


def _number(text: str, kind: type[RequestCode] | type[ResponseCode]) -> int:
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        return int(kind[text])
    except KeyError:
        raise ValueError(f"{text!r} is no {kind.__name__}") from None


def _check(script: Script) -> None:
    """Everything that is read later, while a client waits."""
    if not 1 <= script.server.brokers <= len(BROKERS):
        raise ValueError(f"{script.server.brokers} brokers: 1 or {len(BROKERS)}")
    if not script.step or not script.expect:
        raise ValueError("a script needs a step and an expectation")
    places = (ANY, NAME_SERVER, "broker", *BROKERS)
    for step in script.step:
        request_code(step.on)
        if step.do in ("answer-code",):
            response_code(step.code)
        if step.do == "ask":
            request_code(step.code)
        if step.where not in places:
            raise ValueError(f"no place {step.where!r}: {', '.join(places)}")
        if step.do == "route" and not step.brokers:
            raise ValueError("a change of route names brokers")
    for name in (*script.server.route, *(name for step in script.step for name in step.brokers)):
        if name not in (*BROKERS, NOWHERE):
            raise ValueError(f"no broker {name!r}: {', '.join(BROKERS)}, {NOWHERE}")
    for expect in script.expect:
        request_code(expect.on)
        if expect.code:
            response_code(expect.code)
        if expect.where not in places:
            raise ValueError(f"no place {expect.where!r}: {', '.join(places)}")
        if not 1 <= expect.step <= len(script.step):
            raise ValueError(f"no step {expect.step}: {expect.what}")
        version(expect.since or "0")
        version(expect.before or "0")
