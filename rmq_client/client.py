"""A client: made by `connect`, lives as long as its `async with` block, and makes producers, pullers and what manages topics.

`connect` opens nothing: a server is called when somebody needs it.  Everything that runs has ended when the block has; who
cancels the block does not cancel that, so that its last words reach the servers.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import trio

from rmq_client.consuming.pulling import Puller
from rmq_client.consuming.subscriptions import TOOLS_GROUP, Subscription
from rmq_client.core import ClientCore
from rmq_client.errors import CallerError
from rmq_client.name_servers import addresses_of
from rmq_client.own_tasks import own_nursery
from rmq_client.producing.producer import Producer, SendHook
from rmq_client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from rmq_client.signing import Credentials
from rmq_client.topics import Topics
from rmq_client.world import World, dial_with

if TYPE_CHECKING:  # what a push consumer takes is imported for the first of them: who sends need not wait for it
    from rmq_client.consuming.allocation import AllocateStrategy
    from rmq_client.consuming.listener import ConsumeHook, Listener
    from rmq_client.consuming.push_consumer import PushConsumer
    from rmq_client.groups import Groups

__all__ = ["Client", "Producer", "Puller", "Topics", "connect"]


class Client(ClientCore):
    """Producers, pullers and topics of one cluster; they share its connections and routes."""

    def producer(self, group: str, *, hooks: Sequence[SendHook] = (), **settings: Any) -> Producer:
        """A producer of this group.  settings: those of `ProducerSettings`.  Raises `CallerError`."""
        with _known_settings():
            told = ProducerSettings(**settings)
        return Producer(self, group, told, hooks)

    def puller(self, group: str = TOOLS_GROUP) -> Puller:
        """Reads queues from any offset on, with the progress of this group if you want it.  Raises `InvalidName`."""
        return Puller(self, group)

    def push_consumer(
        self,
        group: str,
        topics: Mapping[str, Subscription | str],
        listener: Listener,
        *,
        strategy: AllocateStrategy | None = None,
        hooks: Sequence[ConsumeHook] = (),
        **settings: Any,
    ) -> AbstractAsyncContextManager[PushConsumer]:
        """Consumes these topics as a member of the group, for as long as the block lasts.

        topics: name -> subscription, a text is one of tags.  listener: gets messages, async or a plain function that runs in a
        thread.  hooks: look on at each call.  settings: those of `ConsumerSettings`.  Raises `CallerError`.
        """
        from rmq_client.consuming.allocation import AllocateMessageQueueAveragely
        from rmq_client.consuming.push_consumer import consuming

        with _known_settings():
            told = ConsumerSettings(**settings)
        wanted = {name: Subscription(one) if isinstance(one, str) else one for name, one in topics.items()}
        return consuming(self, group, wanted, listener, strategy or AllocateMessageQueueAveragely(), told, hooks)

    @property
    def topics(self) -> Topics:
        """Lists, shows, makes and deletes topics."""
        return Topics(self)

    @property
    def groups(self) -> Groups:
        """Shows how far groups are behind, and who has their queues."""
        from rmq_client.groups import Groups  # by tools alone

        return Groups(self)


@asynccontextmanager
async def connect(
    name_servers: str | Sequence[str] | None = None,
    *,
    credentials: Credentials | None = None,
    tls: ssl.SSLContext | None = None,
    world: World | None = None,
    **settings: Any,
) -> AsyncIterator[Client]:
    """A client of the cluster that these name servers know: `host:port`, several joined by `;`, else NAMESRV_ADDR.

    settings: those of `ClientSettings`.  tls: all servers are called in TLS.  world: for tests.  An error of the block comes out
    as it is.  Raises `CallerError`.
    """
    addresses = addresses_of(name_servers if name_servers is not None else os.environ.get("NAMESRV_ADDR"))
    machine = world or World()
    if tls is not None:
        machine.dial = dial_with(tls)
    with _known_settings():
        told = ClientSettings(**settings)
    async with own_nursery() as nursery:
        client = Client(nursery, addresses, told, machine, credentials)
        nursery.start_soon(client.keep_routes)
        nursery.start_soon(client.keep_beating)
        try:
            yield client
        finally:
            with trio.CancelScope(shield=True):
                await client.leave()


@contextmanager
def _known_settings() -> Iterator[None]:
    try:
        yield
    except TypeError as wrong:
        raise CallerError(f"no such setting: {wrong}") from None
