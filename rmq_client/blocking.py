"""The same client for code that knows no async: scripts, Django, tests.

A thread runs the client's loop; a call here runs there and comes back with its result or its error.  Any number of threads may
call at once.  Nothing is decided here: what a call does stands in the class of the same name in `rmq_client`.  Hooks and
selectors run in the client's thread.  The first `connect` of a process imports what talks to servers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rmq_client.errors import ClientClosed
from rmq_client.faces import blocking_methods
from rmq_client.faces.blocking_methods import Groups, Producer, Puller, Topics
from rmq_client.faces.push_consumer import PushConsumer

if TYPE_CHECKING:
    from rmq_client.consuming.listener import Listener
    from rmq_client.consuming.subscriptions import Subscription

__all__ = ["Client", "Groups", "Producer", "Puller", "PushConsumer", "Topics", "connect"]


class Client(blocking_methods.Client):
    """As `rmq_client.client.Client`; made by `connect`."""

    @contextmanager
    def push_consumer(
        self, group: str, topics: Mapping[str, Subscription | str], listener: Listener, **settings: Any
    ) -> Iterator[PushConsumer]:
        """Consumes these topics as a member of the group, for as long as the block lasts; the listener runs in other threads.

        settings: as of `rmq_client.client.Client.push_consumer`.  An error of the block comes out as it is.
        """
        from rmq_client.faces.loop_thread import Membership

        member = Membership(self._loop, group, topics, listener, settings)
        try:
            yield PushConsumer(self._loop, self._loop.call(member.join))
        finally:
            with suppress(ClientClosed):  # the client ended before: nobody is a member any more
                self._loop.call(member.leave)


@contextmanager
def connect(name_servers: str | Sequence[str] | None = None, **options: Any) -> Iterator[Client]:
    """As `rmq_client.client.connect`, for a `with` block."""
    from rmq_client.faces.loop_thread import BlockingThread

    ready, ended = threading.Event(), threading.Event()

    def over() -> None:
        ended.set()
        ready.set()

    loop = BlockingThread(ready.set, over)
    try:
        loop.start(name_servers, options)
        ready.wait()
        if not ended.is_set():
            yield Client(loop, loop.client)
    finally:
        if loop.is_here:  # not in a child of a fork, where nothing ends: the client is the parent's
            loop.end()
            ended.wait()
            loop.join()
