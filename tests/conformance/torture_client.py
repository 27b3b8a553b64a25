"""A small client to torment, good by itself, with defects that can be planted: the judge must pass the one and catch the others.

It sends and consumes over bare trio streams and `rmq_wire`.  Each defect is one of the mistakes that a client's author makes.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec
import trio

from conformance.torture.client import Report
from conformance.torture.script import ClientPart
from rmq_wire import property_names as prop
from rmq_wire.bodies.heartbeat import HeartbeatData
from rmq_wire.bodies.route import MASTER_ID, TopicRouteData
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command
from rmq_wire.conversation import Conversation
from rmq_wire.declare import Request
from rmq_wire.encoding import Form, encode_request, encode_response
from rmq_wire.errors import BadBody, BadFrame, BadHeader, BadRecord
from rmq_wire.headers.clients import Heartbeat
from rmq_wire.headers.naming import GetRouteInfo
from rmq_wire.headers.pull import PullMessage, PullMessageResponse
from rmq_wire.headers.send import SendMessageResponse, SendMessageV2
from rmq_wire.message import read_unit
from rmq_wire.properties import decode
from rmq_wire.sys_flag import PULL_SUSPEND

Defect = Literal[
    "answers-in-any-order",
    "crashes-on-new-fields",
    "hides-failures",
    "ignores-questions",
    "keeps-broken-connections",
    "never-retries",
    "one-read-one-frame",
    "reconnects-for-each-request",
    "retries-everything",
    "retries-same-broker",
    "sends-twice",
    "skips-after-errors",
    "stays-with-first-route",
]
DEFECTS: Final[tuple[Defect, ...]] = Defect.__args__  # type: ignore[attr-defined]
GOOD_CODES: Final = {0, ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE}
RETRIED: Final = {
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.NO_PERMISSION,
    ResponseCode.GO_AWAY,
}
ERROR_PAUSE_S: Final = 1.0
SUSPEND_MS: Final = 15_000
KNOWN_EXT: Final = {"msgId", "queueId", "queueOffset", "suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"}
Queue = tuple[str, str, int]
"""Broker, its address, queue."""


class Lost(Exception):
    """The connection, or the answer."""


class Link:
    """One connection, one question at a time."""

    def __init__(self, stream: trio.SocketStream, defects: frozenset[Defect]) -> None:
        self._stream, self._defects = stream, defects
        self._conversation = Conversation()
        self._opaques = itertools.count()
        self._read: list[Command] = []

    async def ask(self, request: Request, body: bytes, timeout_s: float) -> Command:
        """The answer to it.  Raises `Lost`."""
        opaque = next(self._opaques)
        try:
            with trio.fail_after(timeout_s):
                await self._stream.send_all(encode_request(request.code, request, body, opaque=opaque))
                while True:
                    for command in await self._more():
                        if not command.is_response:
                            await self._answer(command)
                        elif command.opaque == opaque or "answers-in-any-order" in self._defects:
                            return command
        except (OSError, trio.BrokenResourceError, trio.TooSlowError, BadFrame, BadHeader) as wrong:
            raise Lost(str(wrong) or type(wrong).__name__) from None

    async def _answer(self, command: Command) -> None:
        if "ignores-questions" not in self._defects:
            code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            frame = encode_response(code, command.opaque, form=Form.JSON, remark="not supported")
            await self._stream.send_all(frame if isinstance(frame, bytes) else b"".join(frame))

    async def _more(self) -> list[Command]:
        """What has been read and not yet handed out, one command at a time; reads when there is none."""
        while not self._read:
            data = await self._stream.receive_some(65_536)
            if not data:
                raise Lost("closed")
            if "one-read-one-frame" in self._defects:
                self._conversation = Conversation()
            self._read = [one.kept() for one in self._conversation.feed(data) if isinstance(one, Command)]
            if "one-read-one-frame" in self._defects and self._conversation.bytes_pending:
                raise Lost("half a frame")
        first, *self._read = self._read
        if "crashes-on-new-fields" in self._defects and not first.ext_map().keys() <= KNOWN_EXT:
            raise ValueError(f"a field that I do not know: {first.ext_map()}")
        return [first]

    async def close(self) -> None:
        """Close it."""
        await trio.aclose_forcefully(self._stream)


class PythonClient:
    """A producer and a consumer, as a `conformance.torture.client.Client`."""

    behaves_like: tuple[int, ...] = (5, 5, 0)
    quirks = False
    at_once = 16
    is_resident = False

    def __init__(self, *defects: Defect) -> None:
        self.label = "python" + "".join(f" that {defect}" for defect in defects)
        self._defects = frozenset(defects)

    async def run(self, part: ClientPart, namesrv: str, topic: str, report: Report) -> None:
        """One run; a bug in it is reported as a crash."""
        try:
            await _Run(part, namesrv, topic, report, self._defects).go()
        except ValueError as bug:
            report({"event": "crashed", "error": str(bug)})


class _Run:
    def __init__(self, part: ClientPart, namesrv: str, topic: str, report: Report, defects: frozenset[Defect]) -> None:
        self._part, self._namesrv, self._topic, self._report, self._defects = part, namesrv, topic, report, defects
        self._links: dict[str, Link] = {}
        self._route: list[Queue] = []
        self._turn = 0
        self._seen: set[str] = set()
        self._all_seen = trio.Event()

    async def go(self) -> None:
        if self._part.program == "send":
            for number in range(self._part.count):
                await self._send(f"m-{number}")
                await trio.sleep(self._part.pause_ms / 1e3)
        else:
            await self._consume()
        for link in self._links.values():
            await link.close()
        self._report({"event": "done"})

    async def _ask(self, address: str, request: Request, body: bytes, timeout_s: float) -> Command:
        """Raises `Lost`; the connection is gone then."""
        link = self._links.get(address)
        if link is None or "reconnects-for-each-request" in self._defects:
            host, _, port = address.partition(":")
            try:
                link = self._links[address] = Link(await _connect(host, int(port)), self._defects)
            except OSError as wrong:
                raise Lost(str(wrong)) from None
        try:
            return await link.ask(request, body, timeout_s)
        except Lost:
            if "keeps-broken-connections" not in self._defects:
                await self._forget(address)
            raise

    async def _forget(self, address: str) -> None:
        link = self._links.pop(address, None)
        if link is not None:
            await link.close()

    async def _find_route(self) -> None:
        """Raises `Lost` when the name server cannot be asked or does not know the topic."""
        for attempt in range(2):
            try:
                answer = await self._ask(self._namesrv, GetRouteInfo(topic=self._topic, accept_standard_json_only=True), b"", 3.0)
                break
            except Lost:
                if attempt:
                    raise
        if answer.code:
            raise Lost(f"no route: code {answer.code}")
        try:
            route = TopicRouteData.read(answer.body)
        except BadBody as wrong:
            raise Lost(str(wrong)) from None
        addresses = {broker.broker_name: broker.broker_addrs[MASTER_ID] for broker in route.broker_datas}
        counts = max((queues.write_queue_nums for queues in route.queue_datas), default=0)
        self._route = [
            (queues.broker_name, addresses[queues.broker_name], number)
            for number in range(counts)
            for queues in route.queue_datas
            if number < queues.write_queue_nums
        ]

    def _queue(self, avoid: str) -> Queue:
        """The next queue, of another broker where there is one."""
        self._turn += 1
        turned = self._route[self._turn % len(self._route) :] + self._route[: self._turn % len(self._route)]
        if avoid and "retries-same-broker" in self._defects:
            return next(queue for queue in turned if queue[0] == avoid)
        return next((queue for queue in turned if queue[0] != avoid), turned[0])

    async def _send(self, key: str) -> None:
        wrong: dict[str, Any] = {"error": "Lost", "code": 0}
        tries = 1 if "never-retries" in self._defects else 1 + self._part.retries
        avoid = ""
        for _ in range(tries):
            try:
                if not self._route or "stays-with-first-route" not in self._defects:
                    await self._find_route()
                broker, address, number = self._queue(avoid)
                avoid = broker
                answer = await self._send_once(key, address, number)
            except Lost as lost:
                wrong = {"error": str(lost), "code": 0}
                continue
            if answer.code in GOOD_CODES:
                at = answer.header(SendMessageResponse)
                status = "SEND_OK" if not answer.code else ResponseCode(answer.code).name
                place = {"broker": broker, "queue": at.queue_id, "offset": at.queue_offset, "status": status}
                self._report({"event": "sent", "message": key, **place})
                return
            wrong = {"error": "MQBrokerException", "code": answer.code}
            if answer.code == ResponseCode.GO_AWAY:
                avoid = ""
                await self._forget(address)
            elif answer.code not in RETRIED and "retries-everything" not in self._defects:
                break
        self._report({"event": "sent" if "hides-failures" in self._defects else "failed", "message": key, **wrong})

    async def _send_once(self, key: str, address: str, queue: int) -> Command:
        request = SendMessageV2(
            producer_group="p",
            topic=self._topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=queue,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            properties=f"{prop.KEYS}\x01{key}\x02",
        )
        body = f"{key} ".encode().ljust(self._part.body_bytes, b"x")
        answer = await self._ask(address, request, body, self._part.timeout_ms / 1e3)
        if "sends-twice" in self._defects:
            answer = await self._ask(address, request, body, self._part.timeout_ms / 1e3)
        return answer

    async def _consume(self) -> None:
        with trio.move_on_after(self._part.patience_ms / 1e3):
            while not self._route:
                try:
                    await self._find_route()
                except Lost:
                    await trio.sleep(ERROR_PAUSE_S)
            async with trio.open_nursery() as nursery:
                for queue in self._route:
                    nursery.start_soon(self._pull, queue)
                await self._all_seen.wait()
                await trio.sleep(self._part.linger_ms / 1e3)
                nursery.cancel_scope.cancel()

    async def _pull(self, queue: Queue) -> None:
        """A connection of its own for each queue: a held pull blocks it."""
        _, address, number = queue
        own = _Run(self._part, self._namesrv, self._topic, self._report, self._defects)
        offset = 0
        try:
            while True:
                try:
                    await own._ask(address, Heartbeat(), HeartbeatData(client_id="python").encode(), 5.0)
                    offset = await self._pull_once(own, address, number, offset)
                except Lost:
                    offset += "skips-after-errors" in self._defects
                    await trio.sleep(ERROR_PAUSE_S)
        finally:
            with trio.CancelScope(shield=True):
                for link in own._links.values():
                    await link.close()

    async def _pull_once(self, own: _Run, address: str, number: int, offset: int) -> int:
        """Where to go on.  Raises `Lost`."""
        request = PullMessage(
            consumer_group="c",
            topic=self._topic,
            queue_id=number,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=PULL_SUSPEND,
            commit_offset=0,
            suspend_timeout_millis=SUSPEND_MS,
            sub_version=0,
            subscription="*",
        )
        answer = await own._ask(address, request, b"", 2 * SUSPEND_MS / 1e3)
        if answer.code == ResponseCode.GO_AWAY:
            await own._forget(address)
            return offset
        if answer.code not in (0, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY):
            raise Lost(f"code {answer.code}")
        reported = answer.header(PullMessageResponse)
        if answer.code:
            return reported.next_begin_offset
        for at, key in _units(bytes(answer.body)):
            self._report({"event": "received", "message": key, "queue": number, "offset": at})
            self._seen.add(key)
            offset = at + 1
        if len(self._seen) >= self._part.count:
            self._all_seen.set()
        return offset


def _units(body: bytes) -> Iterable[tuple[int, str]]:
    """Queue offset and key of each whole message."""
    at = 0
    while at < len(body):
        try:
            unit = read_unit(body, at)
        except BadRecord:
            return
        yield unit.queue_offset, decode(unit.properties.decode())[prop.KEYS]
        at += unit.total_size


async def _connect(host: str, port: int) -> trio.SocketStream:
    return await trio.open_tcp_stream(host, port)


def main(words: list[str]) -> None:
    """As a command: `name=value` words in, JSON lines out."""
    given = dict(word.split("=", 1) for word in words)
    namesrv, topic = given.pop("namesrv"), given.pop("topic")
    client = PythonClient(*(name for name in DEFECTS if name == given.get("defect")))
    given.pop("defect", None)
    part = msgspec.convert(given, ClientPart, strict=False)
    trio.run(client.run, part, namesrv, topic, lambda line: print(json.dumps(line), flush=True))


if __name__ == "__main__":
    main(sys.argv[1:])
