"""The thread of a face that ends otherwise than its block: who uses the client learns it, and nothing of it stays."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from rmq_client import aio, blocking
from rmq_client.errors import ClientClosed
from rmq_client.faces.loop_thread import BlockingThread, LoopThread
from tests.support.client_faces import no_thread_is_left
from tests.support.talk import PATIENCE_S

NOBODY = "127.0.0.1:1"


def _end_by_a_bug(loop: LoopThread) -> None:
    async def fail() -> None:
        raise ZeroDivisionError("a bug of ours")

    loop.run_sync(lambda: loop.client.nursery.start_soon(fail))
    loop._thread.join(PATIENCE_S)


def _told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line.getMessage() for line in caplog.records if line.levelno == logging.ERROR and line.exc_info]


def test_a_client_that_ends_by_itself_says_so_in_the_log_and_to_whoever_calls(caplog: pytest.LogCaptureFixture) -> None:
    wrong: list[str] = []  # looked at afterwards: what ended the client comes out of the block in place of all else

    def whole() -> None:
        with blocking.connect(NOBODY) as client:
            puller = client.puller()
            _end_by_a_bug(client._loop)
            for call in (lambda: puller.queues("T"), client.puller):
                try:
                    call()
                except ClientClosed as error:
                    wrong.append(str(error))

    with pytest.raises(ExceptionGroup) as ended:
        whole()
    assert isinstance(ended.value.exceptions[0], ZeroDivisionError)
    assert len(wrong) == 2
    assert all("a bug of ours" in text for text in wrong)
    assert len(_told(caplog)) == 1
    no_thread_is_left()


def test_the_same_of_asyncio(caplog: pytest.LogCaptureFixture) -> None:
    wrong: list[str] = []

    async def whole() -> None:
        async with aio.connect(NOBODY) as client:
            puller = client.puller()
            _end_by_a_bug(client._loop)
            try:
                await puller.queues("T")
            except ClientClosed as error:
                wrong.append(str(error))

    with pytest.raises(ExceptionGroup):
        asyncio.run(whole())
    assert len(wrong) == 1
    assert "a bug of ours" in wrong[0]
    assert len(_told(caplog)) == 1
    no_thread_is_left()


def test_who_is_interrupted_while_it_connects_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    start: Callable[..., None] = BlockingThread.start

    def interrupted(self: BlockingThread, name_servers: Any, options: Mapping[str, Any]) -> None:
        start(self, name_servers, options)
        raise KeyboardInterrupt

    monkeypatch.setattr(BlockingThread, "start", interrupted)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt), blocking.connect(NOBODY):
            pytest.fail("it was interrupted")
    no_thread_is_left()


def test_a_machine_without_another_thread_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", full)
    with pytest.raises(RuntimeError, match="new thread"), blocking.connect(NOBODY):
        pytest.fail("there is no thread")
