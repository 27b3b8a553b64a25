"""Says the client's side of a capture to another server, and reports in what its answers differ.

The events of the capture are gone through in their order: what the client said is said (after the recorded pause, up to a limit),
what the server said is awaited and compared at its place.  So everything that had happened before a question in the recording has
happened before it here.  Connections go to the server that has the same part here: brokers are matched by name, or in order.
Questions keep their opaque; what is tied to the first server is translated (`translate`) by what earlier answers taught.
"""

from __future__ import annotations

import time
from collections import defaultdict
from itertools import pairwise
from typing import Any, Final, NamedTuple

import trio

from conformance.captures.asking import CannotReach, Listed, listed_brokers
from conformance.captures.compare import ABSENT, Finding, findings
from conformance.captures.decoding import ANSWERS, ASKS, ONEWAY, UNREADABLE, Said, decode_all, request_name, said
from conformance.captures.file import BROKER, Capture
from conformance.captures.kinds import ANY_NUMBER_OF, Learned
from conformance.captures.recorder import Frame, Mark
from conformance.captures.translate import answer_here, request_here
from conformance.captures.turns import in_turn as in_turn_of
from conformance.captures.turns import no_turns
from conformance.frames import RESPONSE
from conformance.relay import text_of
from conformance.suite.link import Heard, Link, NoAnswer
from conformance.suite.runner import run_trio
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.command import Command

ANSWER_S: Final = 10.0
"""Beyond the time that the recorded answer took."""
PAUSE_MS_MAX: Final = 100.0
"""A recorded pause before a question is kept up to this: what a server does in the background has passed by then."""
ROUTE_AGAIN_S: Final = 0.05
"""Brokers report a topic to the name servers on their own time: a route that the recording found is asked again after this."""
SETTLE_S: Final = 0.2
"""At the end of a connection that the server had not ended: time for answers that nobody expects."""


class CannotReplay(Exception):
    """The capture or the server does not allow it.  One line."""


class Difference(NamedTuple):
    """One difference from the recording, and at which event."""

    event: int
    at_ms: float
    connection: int
    opaque: int
    asked: str
    """Name of the request code."""
    finding: Finding

    def as_json(self) -> dict[str, Any]:
        decoded = {
            "event": self.event,
            "ms": self.at_ms,
            "connection": self.connection,
            "opaque": self.opaque,
            "asked": self.asked,
        }
        return {"type": "difference", **decoded, **self.finding._asdict()}


class Report(NamedTuple):
    """What a replay found."""

    requests: int
    """Sent."""
    compared: int
    """Frames of the server that were compared."""
    differences: tuple[Difference, ...]


def replay(
    capture: Capture,
    namesrv: str,
    *,
    answer_s: float = ANSWER_S,
    pause_ms_max: float = PAUSE_MS_MAX,
    in_turn: bool = False,
) -> Report:
    """Replay to the servers behind `namesrv` (`host:port`).

    answer_s: how long an answer is awaited beyond the time that it took.  in_turn: what was asked together is asked one by one,
    in the order of the answers (`turns`); else the order of the answers is compared, too.  Raises `CannotReplay`.
    """
    if not capture.servers:
        raise CannotReplay("the capture does not say which servers were recorded")
    if any(isinstance(event, Mark) and event.what == "lost" for event in capture.events):
        raise CannotReplay("a part of the capture is no frames of this protocol: it was not kept")
    return run_trio(_Replay(capture, namesrv, answer_s, pause_ms_max).run, in_turn)


class _Replay:
    """State of one replay."""

    def __init__(self, capture: Capture, namesrv: str, answer_s: float, pause_ms_max: float) -> None:
        self._capture = capture
        self._said = decode_all(capture.events)
        self._answer_s, self._pause_ms_max = answer_s, pause_ms_max
        try:
            brokers = listed_brokers(namesrv)
        except CannotReach as wrong:
            raise CannotReplay(str(wrong)) from None
        known = self._places(namesrv, brokers)
        last = max((event.at_ms for event in capture.events), default=0)
        recorded = (capture.wall_ms, capture.wall_ms + int(last))
        self._learned = Learned(known, time.time_ns() // 1_000_000 - capture.wall_ms, recorded)
        self._nursery: trio.Nursery
        self._live: dict[int, Link] = {}
        self._numbers: dict[int, int] = {}
        """Event of a server's question -> its opaque here."""
        self._arrivals: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
        """Connection, code asked -> (event, place among what was heard) of its answers, in recorded order."""
        self._ended: set[int] = set()
        self._found: list[Difference] = []
        self._requests = self._compared = 0

    def _places(self, namesrv: str, brokers: list[Listed]) -> dict[str, str]:
        """Recorded addresses and names -> those that have the same part here."""
        known: dict[str, str] = {}
        self._address: dict[str, str] = {}
        left = list(brokers)
        recorded = sorted(
            (server for server in self._capture.servers if server.role == BROKER),
            key=lambda server: (server.broker_id, server.name),
        )
        for server in self._capture.servers:
            if server.role != BROKER:
                known[server.address] = self._address[server.reached_at] = namesrv
        for server in recorded:
            same = [broker for broker in left if (broker.name, broker.broker_id) == (server.name, server.broker_id)]
            alike = [broker for broker in left if broker.broker_id == server.broker_id]
            if not (same or alike):
                raise CannotReplay(f"{namesrv} lists no broker that can take the part of {server.name} (id {server.broker_id})")
            here = (same or alike)[0]
            left.remove(here)
            known |= {server.address: here.address, server.name: here.name, server.cluster: here.cluster}
            self._address[server.reached_at] = here.address
        return known

    async def run(self, in_turn: bool) -> Report:
        async with trio.open_nursery() as self._nursery:
            await self._go_through(in_turn)
            self._nursery.cancel_scope.cancel()
        return Report(self._requests, self._compared, tuple(sorted(self._found, key=lambda difference: difference.event)))

    async def _go_through(self, in_turn: bool) -> None:
        turns = in_turn_of(self._said, self._servers()) if in_turn else no_turns()
        before_ms = 0.0
        for at, event in enumerate(self._capture.events):
            pause_ms, before_ms = event.at_ms - before_ms, event.at_ms
            heard = self._said[at]
            if isinstance(event, Frame):
                if event.connection in self._ended:
                    continue
                assert heard is not None
                if event.to_server:
                    await trio.sleep(min(max(pause_ms, 0.0), self._pause_ms_max) / 1000)
                    if at not in turns.late:
                        await self._say(at, event, heard)
                else:
                    await self._hear(at, event, heard)
                    for question in turns.after.get(at, ()):
                        await self._say_late(question)
            elif event.what == "open":
                await self._open(at, event)
            elif event.connection in self._live and event.connection not in self._ended:
                await self._end(at, event)
        for connection in list(self._live):
            await self._leftovers(connection, settle=connection not in self._ended)
        if not in_turn:
            self._orders()

    def _servers(self) -> list[str]:
        """Of each event."""
        opened = {mark.connection: mark.server for mark in self._capture.events if isinstance(mark, Mark) and mark.what == "open"}
        return [opened.get(event.connection, "") for event in self._capture.events]

    async def _open(self, at: int, mark: Mark) -> None:
        if mark.server not in self._address:
            raise CannotReplay(f"event {at}: the capture does not say what server {mark.server} is")
        server = self._address[mark.server]
        live = self._live[mark.connection] = Link(server, self._nursery, [], number=mark.connection)
        try:
            await live.open()
        except NoAnswer as wrong:
            raise CannotReplay(f"{server} cannot be reached: {wrong}") from None
        self._learned.known[mark.client] = text_of(live.local)

    def _of(self, at: int, event: Frame | Mark) -> Link:
        if event.connection not in self._live:
            raise CannotReplay(f"event {at}: connection {event.connection} was never opened")
        return self._live[event.connection]

    async def _say_late(self, at: int) -> None:
        event, heard = self._capture.events[at], self._said[at]
        assert isinstance(event, Frame)
        assert heard is not None
        if event.connection not in self._ended:
            await self._say(at, event, heard)

    async def _say(self, at: int, event: Frame, heard: Said) -> None:
        live = self._of(at, event)
        if heard.what == ANSWERS:
            number = self._numbers.get(-1 if heard.question is None else heard.question)
            if number is not None:
                await live.send(answer_here(event.data, heard, number, self._learned))
            return
        self._requests += heard.what in (ASKS, ONEWAY)
        data = event.data if heard.what == UNREADABLE else request_here(event.data, heard, self._learned)
        if not await live.send(data):
            self._note(at, event, heard, Finding("connection", "open", live.why_ended or "closed", "it could not be said"))

    async def _hear(self, at: int, event: Frame, heard: Said) -> None:
        live = self._of(at, event)
        question = None if heard.question is None else self._said[heard.question]
        took_ms = 0.0 if heard.question is None else event.at_ms - self._capture.events[heard.question].at_ms
        again = heard.name in ANY_NUMBER_OF and self._came_before(at, event, heard)
        seconds = SETTLE_S if again else self._answer_s + took_ms / 1000
        got = await live.take(
            lambda frame: frame.answers(heard.opaque) if heard.what == ANSWERS else frame.asks(heard.code), seconds=seconds
        )
        if got is None and again:
            return
        if got is None:
            why = live.why_ended or f"nothing came within {self._answer_s:g} s"
            self._note(at, event, heard, Finding("answer" if heard.what == ANSWERS else "request", heard.name, ABSENT, why))
            return
        if _found_a_route(heard):
            got = await self._route(heard, got)
        self._compare(at, event, heard, question, got)

    async def _route(self, heard: Said, got: Heard) -> Heard:
        """The answer to a question for a route, once the broker has reported the topic, or as it was when the time is over."""
        assert heard.question is not None
        question, asked = self._capture.events[heard.question], self._said[heard.question]
        assert isinstance(question, Frame)
        assert asked is not None
        live = self._of(heard.question, question)
        deadline = trio.current_time() + self._answer_s  # between two questions: one cut off leaves an answer nobody asked for
        while isinstance(got.command, Command) and got.command.code == ResponseCode.TOPIC_NOT_EXIST:
            await trio.sleep(ROUTE_AGAIN_S)
            if trio.current_time() >= deadline:
                break
            await live.send(request_here(question.data, asked, self._learned))
            later = await live.take(lambda frame: frame.answers(heard.opaque), seconds=self._answer_s)
            if later is None:
                break
            got = later
        return got

    def _came_before(self, at: int, event: Frame, heard: Said) -> bool:
        """Whether the same had come on this connection already: its number does not count."""
        earlier = zip(self._capture.events[:at], self._said[:at], strict=True)
        return any(
            one.connection == event.connection and decoded is not None and decoded.name == heard.name and decoded.to_client
            for one, decoded in earlier
        )

    def _compare(self, at: int, event: Frame, heard: Said, question: Said | None, got: Heard) -> None:
        self._compared += 1
        if heard.what == ANSWERS:
            self._arrivals[event.connection, heard.asked_name].append((at, got.place))
        elif heard.what == ASKS:
            self._numbers[at] = got.command.opaque
        new = said(got.command, Frame(event.connection, False, got.data), heard.asked)
        for finding in findings(heard, new, self._learned, question):
            self._note(at, event, heard, finding)

    async def _end(self, at: int, mark: Mark) -> None:
        live = self._live[mark.connection]
        if mark.by_server:
            if not await live.ends(seconds=self._answer_s):
                self._note(at, mark, None, Finding("connection", "closed by the server", "open", "the server did not close it"))
        elif live.why_ended:
            self._note(at, mark, None, Finding("connection", "open", live.why_ended, "the client had closed it"))
        else:
            await self._leftovers(mark.connection, settle=False)
        await live.close()
        self._ended.add(mark.connection)

    async def _leftovers(self, connection: int, *, settle: bool) -> None:
        """What came and was in no place of the recording: answers nobody waits for, questions that had not been asked."""
        live = self._live[connection]
        if settle:
            await live.ends(seconds=SETTLE_S)
        if connection in self._ended:
            return
        unanswered = self._unanswered(connection)
        for _, command, _ in live.unread:
            is_response, code = bool(command.flag & RESPONSE), command.code if isinstance(command, Command) else -1
            name = request_name(code)
            if is_response and command.opaque in unanswered:
                unanswered.discard(command.opaque)  # the recording ended before this answer
                continue
            if not is_response and name in ANY_NUMBER_OF:
                continue
            what = f"answer {command.opaque} with code {code}" if is_response else name
            last = len(self._capture.events) - 1
            at_ms = self._capture.events[last].at_ms
            finding = Finding("unasked", ABSENT, what, "the server said what it had not said")
            self._found.append(Difference(last, at_ms, connection, command.opaque, "", finding))

    def _unanswered(self, connection: int) -> set[int]:
        """Opaques of the questions of a connection that have no answer in the recording."""
        answered = {decoded.question for decoded in self._said if decoded is not None and decoded.what == ANSWERS}
        return {
            decoded.opaque
            for at, (event, decoded) in enumerate(zip(self._capture.events, self._said, strict=True))
            if decoded is not None and decoded.what == ASKS and event.connection == connection and at not in answered
        }

    def _orders(self) -> None:
        """The first answers of each connection that have changed places with another to the same code.

        A server has a pool of threads for each kind of request: between kinds the order means nothing.
        """
        for arrived in self._arrivals.values():
            for (first, place), (second, next_place) in pairwise(arrived):
                if place > next_place:
                    one, other = self._said[first], self._said[second]
                    assert one is not None
                    assert other is not None
                    decoded = f"after the answer to {one.asked_name} {one.opaque}"
                    finding = Finding("order", decoded, decoded.replace("after", "before", 1), "answers in another order")
                    self._note(second, self._capture.events[second], other, finding)
                    break

    def _note(self, at: int, event: Frame | Mark, heard: Said | None, finding: Finding) -> None:
        opaque, asked = (heard.opaque, heard.asked_name) if heard is not None else (-1, "")
        self._found.append(Difference(at, event.at_ms, event.connection, opaque, asked, finding))


def _found_a_route(heard: Said) -> bool:
    return heard.what == ANSWERS and heard.asked == RequestCode.GET_ROUTEINFO_BY_TOPIC and heard.code == ResponseCode.SUCCESS
