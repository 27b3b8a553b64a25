"""Reading all queues of a topic at once, by held pulls, until enough is there or nothing is left.

Queues are read beside one another, so messages of different queues come in the order of their arrival here, those of one queue in
theirs.  New queues are seen when the route is asked for again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import click
import trio

from rmq_cli.client_options import said
from rmq_cli.message_lines import Where
from rmq_cli.printing import until_unread
from rmq_client.client import Client
from rmq_client.consuming.checking import check_subscription
from rmq_client.consuming.pull_result import PullStatus, ask_again_s
from rmq_client.consuming.pulling import Puller
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.consuming.subscriptions import TOOLS_GROUP, Subscription
from rmq_client.errors import ClientError, NoRoute
from rmq_wire.bodies.heartbeat import TAG
from rmq_wire.fastjson import MessageQueue

LOOK_AGAIN_S = 30.0
"""How often new queues are looked for."""
PAUSE_S = 1.0
"""After a call that a broker did not answer or had no time for: it may be starting again."""

Show = Callable[[ReceivedMessage], None]


async def check(client: Client, topic: str, subscription: Subscription) -> None:
    """Whether brokers can evaluate it: one that is broken would select everything.  Raises `ClientError`."""
    if subscription.expression_type != TAG:
        await client.puller().queues(topic)  # what is wrong with the name is said as without an expression
        await check_subscription(client, client.group_on_wire(TOOLS_GROUP), subscription.data(client.on_wire(topic), 0))


class Tail:
    """One run over a topic."""

    def __init__(self, puller: Puller, subscription: Subscription, hold_ms: int, show: Show) -> None:
        self._puller = puller
        self._subscription = subscription
        self._hold_ms = hold_ms
        self._show = show
        self._left: int | None = None
        self._enough: trio.CancelScope
        self._outage = _Outage()

    async def run(self, topic: str, *, begin: Where, count: int | None, follow: bool) -> None:
        """Ends after `count` messages, and unless it follows at what was the end.

        Raises `ClientError`; where it follows, and has begun, servers that do not answer for a while or are busy are waited for.
        """
        self._left = count
        known: set[MessageQueue] = set()
        is_again = False
        with trio.CancelScope() as self._enough:
            async with trio.open_nursery() as nursery:
                if follow:
                    nursery.start_soon(until_unread)
                while True:
                    try:
                        found: list[tuple[MessageQueue, int, int | None]] = []
                        for queue in await self._puller.queues(topic):
                            if queue not in known:
                                offset = await self._begin(queue, begin if not is_again else Where("start"))
                                found.append((queue, offset, None if follow else await self._puller.max_offset(queue)))
                        for one in found:  # what is shown is of a run that has begun: all queues have answered
                            nursery.start_soon(self._read, *one)
                            known.add(one[0])
                        self._outage.over(None)
                    except ClientError as error:
                        if not (is_again and _may_pass(error)):
                            raise
                        if not self._outage:  # brokers that answer again are not to wait for the next look to be said so
                            self._outage.failed(None, error)
                    if not follow:
                        break
                    is_again = True
                    await trio.sleep(LOOK_AGAIN_S)

    async def _begin(self, queue: MessageQueue, begin: Where) -> int:
        match begin.point:
            case "offset":
                return begin.number
            case "time":
                return await self._puller.offset_at(queue, begin.number)
            case "start":
                return await self._puller.min_offset(queue)
            case "end":
                return await self._puller.max_offset(queue)

    async def _read(self, queue: MessageQueue, offset: int, end: int | None) -> None:
        while end is None or offset < end:
            began_s = trio.current_time()
            held = end is None and not self._outage.has(queue)  # that it answers again shows at once
            try:
                result = await self._puller.pull(
                    queue, offset, subscription=self._subscription, hold_ms=self._hold_ms if held else 0
                )
            except ClientError as error:
                if end is not None or not _may_pass(error):
                    raise
                self._outage.failed(queue, error)
                await trio.sleep(PAUSE_S)
                continue
            self._outage.over(queue)
            for message in result.messages:
                if end is not None and message.queue_offset >= end:
                    return
                self._show(message)
                if self._left is not None:
                    self._left -= 1
                    if self._left <= 0:
                        self._enough.cancel()
                        return
            stayed = not result.messages and result.next_offset == offset
            if end is not None and (stayed or result.status is PullStatus.NO_NEW_MSG):
                return
            if stayed:
                await trio.sleep_until(ask_again_s(began_s, self._hold_ms))
            offset = result.next_offset


class _Outage:
    """What does not answer: queues, and None, the look for new ones.  Its first and its last moment are a line each."""

    def __init__(self) -> None:
        self._silent: set[MessageQueue | None] = set()

    def __bool__(self) -> bool:
        return bool(self._silent)

    def has(self, what: MessageQueue | None) -> bool:
        """Its last question failed."""
        return what in self._silent

    def failed(self, what: MessageQueue | None, error: ClientError) -> None:
        """It did not answer."""
        if not self._silent:
            _say(f"{said(error)}; it is asked again until it answers")
        self._silent.add(what)

    def over(self, what: MessageQueue | None) -> None:
        """It has answered."""
        if what in self._silent:
            self._silent.remove(what)
            if not self._silent:
                _say("it answers again")


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        click.echo(f"rmq: {text}", err=True)


def _may_pass(error: ClientError) -> bool:
    """There was a route; all brokers may be away for a while, each of them longer than a name server remembers it."""
    return error.may_pass or isinstance(error, NoRoute)
