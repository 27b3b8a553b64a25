"""The three faces of the client behind one shape: a behaviour is written once, with `await`, and played by each.

On trio and asyncio its calls are the face's own.  On the blocking face `Waits` gives every call the shape of a coroutine that
never waits: the behaviour runs in the test's thread.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Any, ClassVar, Final

import trio

from rmq_client import aio, blocking
from rmq_client import client as core
from tests.support.talk import PATIENCE_S

POLL_S: Final = 0.005
Work = Callable[[], Awaitable[object]]


class Face(ABC):
    """One of the three.  `listen_async`: it takes listeners that are async."""

    name: ClassVar[str]
    listen_async: ClassVar[bool] = True

    def __repr__(self) -> str:
        return self.name

    @abstractmethod
    def play(self, behaviour: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run it to its end, and see that nothing of it goes on."""

    @abstractmethod
    def connect(self, namesrv: str, **options: Any) -> Any:
        """A client, for an `async with`."""

    @abstractmethod
    async def at_once(self, *work: Work) -> None:
        """All of them at the same time, to their ends."""

    @abstractmethod
    async def pause(self, seconds: float) -> None:
        """Let others go on."""

    async def until(self, true: Callable[[], Any], what: str) -> None:
        """What a listener in another thread has noted, or a broker says: `true` may be a coroutine function."""
        ends = time.monotonic() + PATIENCE_S
        while True:
            found = true()
            if await found if inspect.isawaitable(found) else found:
                return
            assert time.monotonic() < ends, f"{what} did not come within {PATIENCE_S} s"
            await self.pause(POLL_S)


class OnTrio(Face):
    """The core itself."""

    name = "trio"

    def play(self, behaviour: Callable[[], Coroutine[Any, Any, None]]) -> None:
        trio.run(behaviour)

    def connect(self, namesrv: str, **options: Any) -> Any:
        return core.connect(namesrv, **options)

    async def at_once(self, *work: Work) -> None:
        async with trio.open_nursery() as nursery:
            for one in work:
                nursery.start_soon(one)

    async def pause(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await trio.Event().wait()


class OnAsyncio(Face):
    """`rmq_client.aio`."""

    name = "asyncio"

    def play(self, behaviour: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            await behaviour()
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(whole(), debug=False)
        no_thread_is_left()

    def connect(self, namesrv: str, **options: Any) -> Any:
        return aio.connect(namesrv, **options)

    async def at_once(self, *work: Work) -> None:
        await asyncio.gather(*(one() for one in work))

    async def pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.Event().wait()


class OnThreads(Face):
    """`rmq_client.blocking`."""

    name = "blocking"
    listen_async = False

    def play(self, behaviour: Callable[[], Coroutine[Any, Any, None]]) -> None:
        driven(behaviour())
        no_thread_is_left()

    def connect(self, namesrv: str, **options: Any) -> Any:
        return entered(blocking.connect(namesrv, **options))

    async def at_once(self, *work: Work) -> None:
        wrong: list[BaseException] = []

        def run(one: Work) -> None:
            try:
                driven(one())
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=run, args=(one,)) for one in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for error in wrong:
            raise error

    async def pause(self, seconds: float) -> None:
        threading.Event().wait(seconds)


FACES: Final[list[Face]] = [OnTrio(), OnAsyncio(), OnThreads()]


def no_thread_is_left() -> None:
    """Of a client; trio's idle workers stay for a while."""
    assert not [thread for thread in threading.enumerate() if thread.name == "rmq-client"]


def driven(coroutine: Any) -> Any:
    """What comes of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("it waits")


class Waits:
    """An object of the blocking face; its calls may be awaited."""

    def __init__(self, own: Any) -> None:
        self.__dict__["own"] = own

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.own, name, value)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.own, name)
        if name in ("producer", "puller", "pause", "resume"):  # no coroutines on the other faces, either
            return lambda *args, **kwargs: awaiting(found(*args, **kwargs))
        return shaped(found) if callable(found) else awaiting(found)


def awaiting(found: Any) -> Any:
    """The same, where it is an object of the client's."""
    return Waits(found) if type(found).__module__.startswith(("rmq_client.blocking", "rmq_client.faces")) else found


def shaped(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call in the shape that it has on the other faces."""

    @functools.wraps(call)
    def shape(*args: Any, **kwargs: Any) -> Any:
        if inspect.isgeneratorfunction(call):
            return one_by_one(call(*args, **kwargs))
        if hasattr(call, "__wrapped__") and inspect.isgeneratorfunction(call.__wrapped__):
            return entered(call(*args, **kwargs))
        return done(call, args, kwargs)

    return shape


async def done(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return call(*args, **kwargs)


async def one_by_one(found: Iterator[Any]) -> AsyncIterator[Any]:
    for one in found:
        yield one


@asynccontextmanager
async def entered(block: AbstractContextManager[Any]) -> AsyncIterator[Any]:
    with block as found:
        yield awaiting(found)
