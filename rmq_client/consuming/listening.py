"""Calling a listener, async or a plain function in a thread, so many at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import trio

from rmq_client.consuming.listener import (
    Called,
    ConsumeContext,
    ConsumeHook,
    Context,
    Listener,
    checked,
    is_async,
    return_type,
)
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.errors import CallerError
from rmq_net.log import Log


class Listening:
    """Calls a listener, at most so many times at once.  `working`: how many batches are in its hands or wait for that."""

    def __init__(
        self,
        listener: Listener,
        most: int,
        log: Log,
        *,
        group: str = "",
        hooks: Sequence[ConsumeHook] = (),
        timeout_ms: int,
    ) -> None:
        """group: as its caller knows it.  timeout_ms: from then on hooks are told that a call was late."""
        self._listener = listener
        self._group = group
        self._hooks = tuple(hooks)
        self._timeout_ms = timeout_ms
        self._is_async = is_async(listener)
        self._limiter = trio.CapacityLimiter(most)
        self._threads = trio.CapacityLimiter(math.inf)
        self._log = log
        self.on_more: Callable[[], None] | None = None
        """Called when there are more at once than before."""

    @property
    def most(self) -> int:
        """How many at once; may be set."""
        return int(self._limiter.total_tokens)

    @most.setter
    def most(self, most: int) -> None:
        if most < 1:
            raise CallerError("consume_thread_max must be at least 1")
        self._limiter.total_tokens = most
        if self.on_more is not None:
            self.on_more()

    async def call(self, messages: Sequence[ReceivedMessage], context: Context, begins: Callable[[], bool]) -> Called | None:
        """Wait for a turn, ask `begins` whether it is still wanted, call.  None: it was not."""
        async with self._limiter:
            return await self.call_in_turn(messages, context) if begins() else None

    async def call_in_turn(self, messages: Sequence[ReceivedMessage], context: Context) -> Called:
        """The same for who has its turn already: hooks look on."""
        if not self._hooks:
            return await self.call_now(messages, context)
        seen = ConsumeContext(self._group, messages, context.queue)
        for hook in self._hooks:
            self._tell(hook.before, seen)
        called = seen.called = await self.call_now(messages, context)
        seen.return_type = return_type(called, self._timeout_ms)
        for hook in self._hooks:
            self._tell(hook.after, seen)
        return called

    def _tell(self, hook: Callable[[ConsumeContext], None], seen: ConsumeContext) -> None:
        try:
            hook(seen)
        except Exception as error:
            self._log.error("a consume hook failed", error=error)

    async def call_now(self, messages: Sequence[ReceivedMessage], context: Context) -> Called:
        """The same beside all turns and hooks."""
        began_s = trio.current_time()
        status, failed = None, None
        try:
            status = checked(await self._call(messages, context), context)
        except BaseException as raised:
            failed = failure(raised)
            if failed is None:
                raise
            self._log.error("a listener failed", error=failed)
        return Called(status, failed, int((trio.current_time() - began_s) * 1e3))

    async def _call(self, messages: Sequence[ReceivedMessage], context: Context) -> object:
        if self._is_async:
            return await self._listener(messages, context)  # type: ignore[arg-type, misc]  # the settings say which kind it is
        return await trio.to_thread.run_sync(self._in_thread, messages, context, abandon_on_cancel=True, limiter=self._threads)

    def _in_thread(self, messages: Sequence[ReceivedMessage], context: Context) -> object:
        try:
            return self._listener(messages, context)  # type: ignore[arg-type]
        except (Exception, KeyboardInterrupt, SystemExit, trio.Cancelled):
            raise
        except BaseException as error:  # such as asyncio's CancelledError, of a loop that the listener runs
            raise RuntimeError(f"the listener raised {error!r}") from error


def failure(raised: BaseException) -> Exception | None:
    """How a listener failed; None: it did not, somebody ends it.  One that wants to exit ends nobody beside itself."""
    if isinstance(raised, Exception):
        return raised
    exits = isinstance(raised, SystemExit)
    if isinstance(raised, BaseExceptionGroup):  # of a nursery of its own
        exits = raised.split((Exception, SystemExit))[1] is None
    if not exits:
        return None
    failed = RuntimeError(f"the listener raised {raised!r}")
    failed.__cause__ = raised
    return failed
