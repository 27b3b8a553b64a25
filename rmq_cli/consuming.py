"""A member of a group from the command line: each message is worked on once, then it is done or comes again later.

It ends when enough were worked on, when what it prints cannot be written, and at Ctrl-C or SIGTERM: then nothing new is begun,
what is at work is finished, progress is told and the group is left.  A second Ctrl-C does not wait for that.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import click
import trio

from rmq_cli.client_options import Cluster
from rmq_cli.complaint import Complaint, Unread
from rmq_cli.printing import until_unread
from rmq_cli.stopping import STATUS_OF_SIGNAL
from rmq_cli.work import Spent, Work
from rmq_client.consuming.listener import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus, Context, Outcome
from rmq_client.consuming.push_consumer import PushConsumer
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.consuming.subscriptions import Subscription
from rmq_wire.property_names import ORIGIN_MESSAGE_ID

FINISH_MS_MAX = 600_000
"""What is at work at the end may take so long; nobody waits longer than until the second Ctrl-C."""

NOT_DONE = 1


class Member:
    """`spent`: called with each message's times.  `beside`: runs while it consumes; when it returns, that is the end."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topics: Mapping[str, Subscription],
        settings: Mapping[str, Any],
        work: Work,
        count: int | None,
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._topics = topics
        self._settings = settings
        self._work = work
        self._count = count
        self._begun = 0
        self._ended = 0
        self._end = trio.Event()
        self._wrong: Complaint | None = None
        self._ended_by: int | None = None
        self._failed: set[str] = set()
        """Messages whose last try, here, was in vain."""
        self.consumer: PushConsumer | None = None
        self.spent: Callable[[Spent], None] = lambda _: None
        self.beside: Callable[[], Awaitable[None]] = trio.sleep_forever

    async def run(self) -> None:
        """Join, consume, leave.  Raises `ClientError`, and the `Complaint` of a work."""
        async with self._cluster.connect() as client, trio.open_nursery() as nursery:
            nursery.start_soon(self._heed_signals)
            settings = {**self._settings, "await_termination_ms": FINISH_MS_MAX}
            async with client.push_consumer(self._group, self._topics, self._listen, **settings) as self.consumer:
                if sys.stderr.isatty():
                    click.echo(f"member {client.client_id} of {self._group}; Ctrl-C ends it", err=True)
                nursery.start_soon(self._run_beside)
                nursery.start_soon(self._heed_output)
                await self._end.wait()
            nursery.cancel_scope.cancel()
        if self._wrong is not None:
            raise self._wrong

    def exit(self) -> None:
        """After `run`: a signal that ended it is the status of the command; else 1 if of those that were counted one is not done.

        What it was that failed has been said of each.
        """
        if self._ended_by is not None:
            raise SystemExit(STATUS_OF_SIGNAL + self._ended_by)
        if self._count is not None and self._failed:
            raise SystemExit(NOT_DONE)

    async def _heed_signals(self) -> None:
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # a shell has its background jobs ignore Ctrl-C
        with trio.open_signal_receiver(*({signal.SIGTERM} if ignored else {signal.SIGINT, signal.SIGTERM})) as signals:
            async for number in signals:
                self._ended_by = number
                break
        self._finish()

    async def _run_beside(self) -> None:
        await self.beside()
        self._finish()

    async def _heed_output(self) -> None:
        try:
            await until_unread()
        except Unread as unread:
            self._wrong = self._wrong or unread
            self._finish()

    def _finish(self) -> None:
        """Nothing new is begun from here on."""
        if self.consumer is not None:
            self.consumer.take_no_more()
        self._end.set()

    async def _listen(self, messages: Sequence[ReceivedMessage], context: Context) -> Outcome:
        for message in messages:  # one, since settings ask for no batches
            self._begun += 1
            if self._begun == self._count and self.consumer is not None:
                self.consumer.take_no_more()
            if not await self._worked(message):
                return self._again
        return None

    async def _worked(self, message: ReceivedMessage) -> bool:
        try:
            spent = await self._work(message)
        except Complaint as wrong:
            self._wrong = self._wrong or wrong
            self._finish()
            return False
        self.spent(spent)
        (self._failed.discard if spent.done else self._failed.add)(_first_id(message))
        self._ended += 1
        if self._ended == self._count:
            self._end.set()
        return spent.done

    @property
    def _again(self) -> Outcome:
        if self._settings["orderly"]:
            return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        return ConsumeConcurrentlyStatus.RECONSUME_LATER


def _first_id(message: ReceivedMessage) -> str:
    """Where it was stored first: a retry is another message, which says of which one."""
    return message.properties.get(ORIGIN_MESSAGE_ID) or message.offset_message_id
