"""Whether a client did what a script expects, judged over the recorded events alone.

One function per check, named after it; each returns whether it holds and one line on what was seen instead of an opinion.  What
only the client's own program can report (`reported`, `delivered`, that it lives) is not judged when it reported nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from conformance.torture.events import Event, Events
from conformance.torture.script import Expect, Script, applies, request_code, response_code
from conformance.torture.server import is_at

ALIVE: Final = "the client lives on and ends when its program does"
SENDS: Final = ("send", "send-async", "send-oneway")
Judgement = tuple[bool | None, str]
"""Whether it holds (None: cannot be judged), and what was seen."""


class Judged(msgspec.Struct, kw_only=True):
    """One expectation and its outcome."""

    what: str
    level: str
    passed: bool | None
    seen: str


class Verdict(msgspec.Struct, kw_only=True):
    """One script run against one client.

    outcome  passed, failed, or broken when its program could not run
    """

    script: str
    title: str
    rests_on: list[str]
    client: str
    outcome: str
    seconds: float
    expectations: list[Judged]
    timeline: list[Event]


def judge(script: Script, events: Events, *, client: str, behaves_like: tuple[int, ...], quirks: bool, reports: bool) -> Verdict:
    """The verdict.  behaves_like: whose behaviour is expected; quirks: whether the client owes Java's oddities, too;
    reports: whether its program printed what its application saw."""
    judged: list[Judged] = []
    for expect in script.expect:
        if applies(expect, behaves_like):
            passed, seen = _CHECKS[expect.check](script, expect, events)
            judged.append(Judged(what=expect.what, level=expect.level, passed=passed, seen=seen))
    if reports:
        passed, seen = _alive(events)
        judged.append(Judged(what=ALIVE, level="MUST", passed=passed, seen=seen))
    if not any(event.kind == "torment" for event in events.all):
        judged.append(Judged(what="the client meets the torment", level="MUST", passed=False, seen="it never asked for it"))
    bad = any(one.passed is False and (quirks or one.level == "MUST") for one in judged)
    return Verdict(
        script=script.name,
        title=script.title,
        rests_on=script.rests_on,
        client=client,
        outcome="failed" if bad else "passed",
        seconds=round(events.all[-1].ms / 1e3, 1) if events.all else 0.0,
        expectations=judged,
        timeline=events.all,
    )


def _alive(events: Events) -> Judgement:
    ends = [line["event"] for line in _app(events) if line["event"] in ("done", "crashed", "ended")]
    return ends == ["done"], f"its program said {', '.join(ends) or 'nothing'} at the end"


def _app(events: Events, *kinds: str) -> list[dict[str, Any]]:
    """The lines that the program printed, of these kinds."""
    lines = [event.app for event in events.of("app") if event.app is not None]
    return [line for line in lines if not kinds or line["event"] in kinds]


def _keys(script: Script, expect: Expect) -> list[str]:
    """The messages that an expectation is about."""
    everything = range(max(script.client.count, script.server.messages))
    return [f"m-{number}" for number in (expect.messages or everything)]


def _in(count: int, expect: Expect) -> bool:
    return count >= expect.min and (expect.max is None or count <= expect.max)


def _torments(expect: Expect, events: Events) -> list[Event]:
    return [event for event in events.of("torment") if event.step == expect.step]


def _reported(script: Script, expect: Expect, events: Events) -> Judgement:
    """How many of the messages the application heard this outcome for, with this error, code and status where they are named."""
    lines = _app(events, "sent", "failed")
    if not _app(events):
        return None, "the program reported nothing"
    wanted = {"ok": ("sent",), "failed": ("failed",), "any": ("sent", "failed")}[expect.outcome]
    code = response_code(expect.code) if expect.code else None
    keys = _keys(script, expect)
    found = [
        line
        for line in lines
        if line["event"] in wanted
        and line["message"] in keys
        and expect.error in line.get("error", "")
        and code in (None, line.get("code"))
        and expect.status in ("", line.get("status"))
    ]
    untrue = _untrue(lines, events)
    if untrue:
        return (
            False,
            f"{untrue['message']} was reported at offset {untrue['offset']} of queue {untrue['queue']}: not stored there",
        )
    errors = Counter(f"{line.get('error')} (code {line.get('code')})" for line in lines if line["event"] == "failed")
    seen = f"{sum(line['event'] == 'sent' for line in lines)} ok, {sum(errors.values())} failed"
    return _in(len(found), expect), seen + "".join(f"; {error}" for error in errors)


def _untrue(lines: Sequence[dict[str, Any]], events: Events) -> dict[str, Any] | None:
    """The first success that names a place where that message does not lie: the answer to another question."""
    places = {(event.message, event.where, event.queue, event.offset) for event in events.of("stored")}
    for line in lines:
        if "offset" in line and (line["message"], line["broker"], line["queue"], line["offset"]) not in places:
            return line
    return None


def _delivered(script: Script, expect: Expect, events: Events) -> Judgement:
    """How often each message was accepted by the application; ordered: within each queue in the order of offsets."""
    lines = [line for line in _app(events, "received") if not line.get("refused")]
    if not _app(events):
        return None, "the program reported nothing"
    counts = Counter(line["message"] for line in lines)
    good = all(_in(counts[key], expect) for key in _keys(script, expect))
    seen = f"{_count(len(counts), 'different message')}, given {_count(sum(counts.values()), 'time')}"
    if not expect.ordered:
        return good, seen
    last: dict[int, int] = {}
    for line in lines:
        if line["offset"] < last.get(line["queue"], -1):
            return False, f"{seen}; offset {line['offset']} of queue {line['queue']} after {last[line['queue']]}"
        last[line["queue"]] = line["offset"]
    return good, seen + ", in order"


def _sent_copies(script: Script, expect: Expect, events: Events) -> Judgement:
    """How many requests the client made to send each of the messages."""
    counts = Counter(event.message for event in events.of("request") if event.message)
    keys = _keys(script, expect)
    return all(_in(counts[key], expect) for key in keys), _tally("requests", [counts[key] for key in keys])


def _stored_copies(script: Script, expect: Expect, events: Events) -> Judgement:
    """How many times each of the messages was stored."""
    counts = Counter(event.message for event in events.of("stored"))
    keys = _keys(script, expect)
    return all(_in(counts[key], expect) for key in keys), _tally("copies stored", [counts[key] for key in keys])


def _tally(what: str, counts: Sequence[int]) -> str:
    tallied = [f"{count} ({_count(times, 'message')})" for count, times in sorted(Counter(counts).items())]
    return f"{what} for a message: {', '.join(tallied)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _requests(script: Script, expect: Expect, events: Events) -> Judgement:
    """How many requests of a code came to a place in the whole run."""
    code = request_code(expect.on)
    found = [event for event in events.of("request") if code in (None, event.code) and is_at(expect.where, event.where)]
    return _in(len(found), expect), _count(len(found), "request")


def _retried(script: Script, expect: Expect, events: Events) -> Judgement:
    """After each torment the same message is sent again in time; `other` says whether to another broker or queue."""
    return _each(expect, events, lambda torment, event: event.code == torment.code and event.message == torment.message)


def _repeats(script: Script, expect: Expect, events: Events) -> Judgement:
    """After each torment a request of this code (or the tormented one's) comes in time."""
    code = request_code(expect.on)

    def asks(torment: Event, event: Event) -> bool:
        return event.code == (torment.code if code is None else code) and is_at(expect.where, event.where)

    return _each(expect, events, asks)


def _each(expect: Expect, events: Events, is_next: Callable[[Event, Event], bool]) -> Judgement:
    """The first request after each torment that `is_next`: whether it is there, in time and in the right place."""
    torments = _torments(expect, events)
    after: list[int] = []
    for torment in torments:
        later = [event for event in events.after(torment) if event.kind == "request" and is_next(torment, event)]
        if not later:
            return False, f"nothing after the torment of {torment.message or torment.code} at {torment.ms} ms"
        event = later[0]
        if not _elsewhere(expect.other, torment, event):
            return False, f"asked {event.where} queue {event.queue} after {torment.where} queue {torment.queue}"
        after.append(event.ms - torment.ms)
    good = bool(torments) and max(after) <= expect.within_ms and min(after) >= expect.min
    if len(after) < 2:
        return good, f"after {after[0]} ms" if after else "no torment"
    return good, f"after {min(after)} to {max(after)} ms, each of {len(after)} times"


def _elsewhere(other: str, torment: Event, event: Event) -> bool:
    if other == "broker":
        return event.where != torment.where
    if other == "queue":
        return (event.where, event.queue) != (torment.where, torment.queue)
    return other != "same-broker" or event.where == torment.where


def _waits(script: Script, expect: Expect, events: Events) -> Judgement:
    """After each torment the same queue is asked again, not before `min` ms and within `within_ms`."""
    return _each(expect, events, lambda torment, event: _same(torment, event))


def _same(torment: Event, event: Event) -> bool:
    return (event.code, event.where, event.topic, event.queue) == (torment.code, torment.where, torment.topic, torment.queue)


def _kept(script: Script, expect: Expect, events: Events) -> Judgement:
    """The connection of the first torment (at that place) goes on being used."""
    torments = [torment for torment in _torments(expect, events) if is_at(expect.where, torment.where)]
    if not torments:
        return False, "no torment"
    first = torments[0]
    later = [event for event in events.after(first) if event.connection == first.connection]
    used = [event for event in later if event.kind in ("request", "client-answer")]
    return bool(used), f"{_count(len(used), 'frame')} came over it afterwards"


def _closed_by_client(script: Script, expect: Expect, events: Events) -> Judgement:
    """The client itself closes the connection of each torment in time."""
    after: list[int] = []
    for torment in _torments(expect, events):
        for event in events.after(torment):
            if event.kind == "app" and event.app and event.app["event"] == "done":
                return False, "not before its program had ended"
            if event.connection == torment.connection and event.kind == "closed-by-client":
                after.append(event.ms - torment.ms)
                break
        else:
            return False, "it did not"
    return bool(after) and max(after) <= expect.within_ms, f"after {max(after)} ms" if after else "no torment"


def _connections(script: Script, expect: Expect, events: Events) -> Judgement:
    """How many connections the client made to a place in the whole run."""
    count = sum(is_at(expect.where, event.where) for event in events.of("connect"))
    return _in(count, expect), _count(count, "connection")


def _asked_answered(script: Script, expect: Expect, events: Events) -> Judgement:
    """What was asked of the client is answered with this code; with `max = 0`, not at all."""
    answers = [event for event in events.of("client-answer") if not event.note]
    seen = f"answered with {[event.code for event in answers]}" if answers else "not answered"
    if expect.max == 0:
        return not answers, seen
    code = response_code(expect.code) if expect.code else None
    return bool(answers) and all(code in (None, event.code) for event in answers), seen


_CHECKS: Final[dict[str, Callable[[Script, Expect, Events], Judgement]]] = {
    "asked-answered": _asked_answered,
    "closed-by-client": _closed_by_client,
    "connections": _connections,
    "delivered": _delivered,
    "kept": _kept,
    "repeats": _repeats,
    "reported": _reported,
    "requests": _requests,
    "retried": _retried,
    "sent-copies": _sent_copies,
    "stored-copies": _stored_copies,
    "waits": _waits,
}
