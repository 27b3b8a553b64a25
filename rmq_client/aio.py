"""The same client for code on asyncio.

A thread runs the client's loop; a call here is a task there, and comes back with its result or its error.  Who is cancelled here
cancels that task and goes on when it has ended; where the client ends first, the caller gets `ClientClosed`.  An async listener
is a task of the loop that `push_consumer` was called in, and is cancelled when the consumer waits for it no more.  What is no
coroutine waits for one turn of the client's loop; hooks and selectors run in its thread.  Nothing is decided here: what a call
does stands in the class of the same name in `rmq_client`.  The first `connect` of a process imports what talks to servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from rmq_client.errors import ClientClosed
from rmq_client.faces import aio_methods
from rmq_client.faces.aio_methods import Groups, Producer, Puller, Topics
from rmq_client.faces.push_consumer import PushConsumer

if TYPE_CHECKING:
    from rmq_client.consuming.listener import Listener
    from rmq_client.consuming.subscriptions import Subscription

__all__ = ["Client", "Groups", "Producer", "Puller", "PushConsumer", "Topics", "connect"]


class Client(aio_methods.Client):
    """As `rmq_client.client.Client`; made by `connect`."""

    @asynccontextmanager
    async def push_consumer(
        self, group: str, topics: Mapping[str, Subscription | str], listener: Listener, **settings: Any
    ) -> AsyncIterator[PushConsumer]:
        """Consumes these topics as a member of the group, for as long as the block lasts.

        listener: async, a task of this loop for each call; or a plain function, which runs in another thread.  settings: as of
        `rmq_client.client.Client.push_consumer`.  An error of the block comes out as it is.
        """
        from rmq_client.consuming.listener import is_async
        from rmq_client.faces.asyncio_thread import ListenerHere
        from rmq_client.faces.loop_thread import Membership

        heard: Listener = ListenerHere(listener) if is_async(listener) else listener
        member = Membership(self._loop, group, topics, heard, settings)
        try:
            yield PushConsumer(self._loop, await self._loop.call(member.join))
        finally:
            with suppress(ClientClosed):  # the client ended before: nobody is a member any more
                await self._loop.call(member.leave, to_the_end=True)


@asynccontextmanager
async def connect(name_servers: str | Sequence[str] | None = None, **options: Any) -> AsyncIterator[Client]:
    """As `rmq_client.client.connect`."""
    from rmq_client.faces.asyncio_thread import AsyncioThread, soon_in, to_the_end

    loop = asyncio.get_running_loop()
    ready, ended = asyncio.Event(), asyncio.Event()

    def over() -> None:
        soon_in(loop, ended.set)
        soon_in(loop, ready.set)

    thread = AsyncioThread(lambda: soon_in(loop, ready.set), over)
    thread.start(name_servers, options)
    try:
        await ready.wait()
        if not ended.is_set():
            yield Client(thread, thread.client)
    finally:
        if thread.is_here:  # as in the blocking face
            thread.end()
            await to_the_end(ended)
            thread.join()
