"""The tormenting server: a name server and brokers on loopback ports of their own, honest but for what the script says.

One task reads each connection and decides at once what each request gets; one task writes what was decided, in order, so that a
frame in pieces is never mixed with another.  Waits run beside.  Everything that happens goes to `events`.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from typing import Final

import trio

from conformance.torture import torments
from conformance.torture.cluster import About, Answer, Cluster, Hold, about, blank
from conformance.torture.events import Event, Events
from conformance.torture.log import HOST, QueueKey
from conformance.torture.script import ANY, BROKERS, NAME_SERVER, Script, Step, request_code
from conformance.torture.torments import ASKED_OPAQUE, End, Move, Put, StopReading, Wait
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command
from rmq_wire.conversation import Conversation, Unreadable
from rmq_wire.errors import BadBody, BadFrame, BadHeader

RECEIVE_BYTES: Final = 64 * 1024
SEND_BYTES_QUEUED: Final = 1_000_000
"""Items of a connection's outgoing queue: a bound that no run comes near."""
LINGER_OFF: Final = b"".join(number.to_bytes(4, sys.byteorder) for number in (1, 0))
"""SO_LINGER, on with zero seconds: it turns a close into a reset."""
TOPIC: Final = "TortureTopic"


class Held:
    """Answers that a `glue` or `reorder` keeps back."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.scope: trio.CancelScope | None = None


class Peer:
    """One connection of a client."""

    def __init__(self, number: int, where: str, stream: trio.SocketStream) -> None:
        self.number, self.where, self.stream = number, where, stream
        self.outgoing, self.unsent = trio.open_memory_channel[Put | End](SEND_BYTES_QUEUED)
        self.read_again_at = 0.0
        self.held: defaultdict[int, Held] = defaultdict(Held)
        self.ended_here = False

    def put(self, move: Put | End) -> None:
        """Send, or close, after what was put before; nothing after the end."""
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            self.outgoing.send_nowait(move)


class Server:
    """Made by `serving`.  `events` says what happened; `connections` counts the open ones."""

    def __init__(self, script: Script, nursery: trio.Nursery, listeners: dict[str, trio.SocketListener]) -> None:
        self.script = script
        self.events = Events(trio.current_time)
        self.topic = TOPIC
        self.ports = {name: int(listener.socket.getsockname()[1]) for name, listener in listeners.items()}
        brokers = {name: port for name, port in self.ports.items() if name != NAME_SERVER}
        self.cluster = Cluster(TOPIC, script.server.queues, brokers, self.events)
        if script.server.route:
            self.cluster.route = list(script.server.route)
        self.cluster.fill(script.server.messages)
        self.connections: dict[int, Peer] = {}
        self.changed = trio.Event()
        """Set (and replaced) whenever a connection comes or goes."""
        self._grown = trio.Event()
        self._nursery = nursery
        self._listeners = listeners
        self._accepting: dict[str, trio.CancelScope] = {}
        self._met: defaultdict[int, int] = defaultdict(int)
        self._numbers = 0

    @property
    def namesrv(self) -> str:
        """The name server's address, for the client."""
        return f"{HOST}:{self.ports[NAME_SERVER]}"

    def start(self) -> None:
        """Accept connections from now on."""
        for where, listener in self._listeners.items():
            self._nursery.start_soon(self._accept, where, listener)

    async def _accept(self, where: str, listener: trio.SocketListener) -> None:
        with trio.CancelScope() as scope:
            self._accepting[where] = scope
            await trio.serve_listeners(functools.partial(self._serve, where), [listener], handler_nursery=self._nursery)

    async def _serve(self, where: str, stream: trio.SocketStream) -> None:
        self._numbers += 1
        peer = Peer(self._numbers, where, stream)
        self.events.add("connect", where, connection=peer.number)
        self.connections[peer.number] = peer
        self._signal_change()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, peer, nursery.cancel_scope)
                await self._read(peer, nursery)
                nursery.cancel_scope.cancel()
        finally:
            del self.connections[peer.number]
            self.events.add("closed-by-server" if peer.ended_here else "closed-by-client", where, connection=peer.number)
            self._signal_change()
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)

    def _signal_change(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def _read(self, peer: Peer, nursery: trio.Nursery) -> None:
        conversation = Conversation()
        try:
            while data := await peer.stream.receive_some(RECEIVE_BYTES):
                for command in conversation.feed(data):
                    self._take(peer, command, nursery)
                await trio.sleep_until(peer.read_again_at) if peer.read_again_at > trio.current_time() else None
        except BadFrame as wrong:
            self.events.add("closed-by-server", peer.where, connection=peer.number, note=f"the client sent {wrong}")
            peer.ended_here = True
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def _write(self, peer: Peer, scope: trio.CancelScope) -> None:
        try:
            async for move in peer.unsent:
                if isinstance(move, End):
                    peer.ended_here = True
                    if move.reset:
                        peer.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_OFF)
                    break
                size = move.chunk_bytes or len(move.data)
                for at in range(0, len(move.data), max(size, 1)):
                    if at and move.pause_ms:
                        await trio.sleep(move.pause_ms / 1e3)
                    await peer.stream.send_all(move.data[at : at + size])
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()

    # One request

    def _take(self, peer: Peer, command: Command | Unreadable, nursery: trio.Nursery) -> None:
        if isinstance(command, Unreadable):
            self.events.add(
                "request", peer.where, connection=peer.number, opaque=command.opaque, note=f"unreadable: {command.why}"
            )
            return
        if command.is_response:
            known = "" if command.opaque == ASKED_OPAQUE else "to a question that nobody asked"
            self.events.add(
                "client-answer", peer.where, connection=peer.number, code=command.code, opaque=command.opaque, note=known
            )
            return
        kept = command.kept()
        where, note = peer.where, "one-way" if kept.is_oneway else ""
        try:
            of = about(kept)
        except (BadHeader, BadBody) as wrong:
            of, note = About(), str(wrong)
        parts = {"connection": peer.number, "code": kept.code, "opaque": kept.opaque, **of._asdict()}
        self.events.add("request", where, note=note, **parts)
        number, step = self._step_for(where, kept.code, of.topic)
        torment = None if step is None else self.events.add("torment", where, step=number, note=step.do, **parts)
        if step is not None and step.do == "route":
            self.cluster.route = list(step.brokers)
        answer = self._honest(peer, kept, stored=step is None or step.stored)
        if isinstance(answer, Hold):
            nursery.start_soon(self._hold, peer, kept, answer, step, torment, nursery)
        elif not kept.is_oneway or step is not None:
            self._deliver(peer, kept, answer, step, torment, nursery)

    def _step_for(self, where: str, code: int, topic: str) -> tuple[int, Step | None]:
        """The first step that this request meets, and its number; counts it for all steps that look at such requests."""
        found: tuple[int, Step | None] = (0, None)
        for number, step in enumerate(self.script.step, start=1):
            if request_code(step.on) not in (None, code) or not is_at(step.where, where):
                continue
            if step.topic_only and topic not in ("", self.topic):
                continue
            self._met[number] += 1
            if found[1] is None and (not step.nth or self._met[number] in step.nth):
                found = number, step
        return found

    def _honest(self, peer: Peer, command: Command, *, stored: bool) -> Answer | Hold:
        if not stored:
            return blank(command)
        try:
            answer = self.cluster.answer(peer.where, command)
        except (BadHeader, BadBody) as wrong:
            answer = blank(command, ResponseCode.SYSTEM_ERROR, str(wrong))
        self._grown.set()
        self._grown = trio.Event()
        return answer

    async def _hold(
        self, peer: Peer, command: Command, hold: Hold, step: Step | None, torment: Event | None, nursery: trio.Nursery
    ) -> None:
        """Answer when the queue has grown, or in the end."""
        with trio.move_on_after(hold.ms / 1e3):
            while not self._is_longer(hold.queue, hold.offset):
                await self._grown.wait()
        answer = hold.again()
        self._deliver(peer, command, answer, step, torment, nursery)

    def _is_longer(self, queue: QueueKey, offset: int) -> bool:
        return self.cluster.log.end(queue) > offset

    def _deliver(
        self, peer: Peer, command: Command, answer: Answer, step: Step | None, torment: Event | None, nursery: trio.Nursery
    ) -> None:
        """Send what the script makes of this answer."""
        note = f"{step.do} {step.code}".strip() if step is not None else ""
        number = torment.step if torment is not None else 0
        self.events.add(
            "answer", peer.where, connection=peer.number, code=answer.code, opaque=answer.opaque, step=number, note=note
        )
        if step is None:
            peer.put(Put(torments.encode(answer)))
            return
        if step.do in ("glue", "reorder"):
            self._keep_back(peer, number, step, torments.encode(answer), nursery)
            return
        if step.do == "down":
            self._take_down(peer.where)
        moves = torments.moves(step, answer)
        if command.is_oneway:  # nobody waits for an answer, but a connection can still be closed
            moves = [move for move in moves if not isinstance(move, Put)]
        self._carry_out(peer, moves, nursery)

    def _carry_out(self, peer: Peer, moves: Sequence[Move], nursery: trio.Nursery) -> None:
        """Up to the first wait at once, so that answers keep their order."""
        for at, move in enumerate(moves):
            if isinstance(move, Wait):
                nursery.start_soon(self._carry_out_later, peer, move.ms, moves[at + 1 :], nursery)
                return
            if isinstance(move, StopReading):
                peer.read_again_at = trio.current_time() + move.ms / 1e3
            else:
                peer.put(move)

    async def _carry_out_later(self, peer: Peer, ms: int, moves: Sequence[Move], nursery: trio.Nursery) -> None:
        await trio.sleep(ms / 1e3)
        self._carry_out(peer, moves, nursery)

    def _keep_back(self, peer: Peer, number: int, step: Step, frame: bytes, nursery: trio.Nursery) -> None:
        held = peer.held[number]
        held.frames.append(frame)
        if len(held.frames) >= step.count:
            self._let_go(peer, step, held)
        elif held.scope is None:
            held.scope = trio.CancelScope()
            nursery.start_soon(self._let_go_later, peer, step, held, held.scope)

    async def _let_go_later(self, peer: Peer, step: Step, held: Held, scope: trio.CancelScope) -> None:
        with scope:
            await trio.sleep(step.ms / 1e3)
            held.scope = None
            self._let_go(peer, step, held)

    def _let_go(self, peer: Peer, step: Step, held: Held) -> None:
        if held.scope is not None:
            held.scope.cancel()
            held.scope = None
        frames, held.frames = held.frames, []
        if step.do == "reorder":
            for frame in reversed(frames):
                peer.put(Put(frame))
        else:
            peer.put(Put(b"".join(frames)))

    def _take_down(self, where: str) -> None:
        """Close the port and all connections of one server, for good."""
        self._accepting[where].cancel()
        self._listeners[where].socket.close()
        for peer in list(self.connections.values()):
            if peer.where == where:
                peer.put(End())


def is_at(wanted: str, where: str) -> bool:
    """Whether a server's name is what a script means."""
    return wanted in (ANY, where) or (wanted == "broker" and where in BROKERS)


@contextlib.asynccontextmanager
async def serving(script: Script, port: int = 0) -> AsyncIterator[Server]:
    """A running server.  port: of its name server, 0 for a free one.  Raises `OSError` when it is taken."""
    places = [NAME_SERVER, *BROKERS[: script.server.brokers]]
    listeners: dict[str, trio.SocketListener] = {}
    async with contextlib.AsyncExitStack() as stack:
        for place in places:
            [listeners[place]] = await trio.open_tcp_listeners(port if place == NAME_SERVER else 0, host=HOST)
            stack.push_async_callback(trio.aclose_forcefully, listeners[place])
        async with trio.open_nursery() as nursery:
            server = Server(script, nursery, listeners)
            server.start()
            try:
                yield server
            finally:
                nursery.cancel_scope.cancel()
