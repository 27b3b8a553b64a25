"""A client's connection, by hand: what its server says is what a test writes into the other end."""

from __future__ import annotations

import signal
import socket

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rmq_net.connection import Connection, open_stream
from rmq_wire.command import Command, Form, encode_response
from rmq_wire.conversation import Conversation
from rmq_wire.headers.positions import GetMaxOffset

QUESTIONS = 20
"""In which order a reader and a clock that wake together run is drawn by lot."""


async def test_what_has_come_while_the_process_stood_still_is_in_time(mock_clock: MockClock) -> None:
    """The answer lies in the socket and the time is over when the loop goes on."""
    server, client = socket.socketpair()
    with server:
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(client))
        async with trio.open_nursery() as nursery:
            connection = await Connection.over(stream, nursery=nursery)
            heard = Conversation()
            answered: list[int] = []

            async def ask() -> None:
                answered.append((await connection.ask(GetMaxOffset(topic="T", queue_id=0), timeout_ms=3_000)).code)

            for number in range(QUESTIONS):
                nursery.start_soon(ask)
                await wait_all_tasks_blocked()
                [asked] = heard.feed(server.recv(1 << 16))
                answer = encode_response(number, asked.opaque, form=Form.JSON)
                assert isinstance(answer, bytes)
                server.sendall(answer)
                mock_clock.jump(10)
                await wait_all_tasks_blocked()
            await connection.close()
    assert answered == list(range(QUESTIONS))


@pytest.mark.parametrize("task", ["reader", "writer", "clock"])
def test_ctrl_c_in_a_task_of_a_connection_is_no_lost_connection(monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    """Who asks is cancelled: it would report that its server has gone, and the program is being ended."""
    outcomes: list[BaseException] = []
    request = GetMaxOffset(topic="T", queue_id=0)

    def interrupt(_: Command) -> None:
        signal.raise_signal(signal.SIGINT)

    async def interrupted_send(_: bytes) -> None:
        signal.raise_signal(signal.SIGINT)

    def interrupted_look(*_: object) -> list[object]:
        signal.raise_signal(signal.SIGINT)
        return []

    async def main() -> None:
        server, client = socket.socketpair()
        with server:
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(client))
            if task == "writer":
                monkeypatch.setattr(stream, "send_all", interrupted_send)
            if task == "clock":
                monkeypatch.setattr(Conversation, "expire", interrupted_look)
            async with trio.open_nursery() as nursery:
                connection = await Connection.over(stream, nursery=nursery, on_request=interrupt)

                async def ask() -> None:
                    try:
                        await connection.ask(request)
                    except BaseException as error:
                        outcomes.append(error)
                        raise

                nursery.start_soon(ask)
                if task == "reader":
                    await wait_all_tasks_blocked()
                    server.sendall(Conversation().ask(request, tag=None, deadline_ms=0)[1])

    with pytest.raises(BaseException) as caught:
        trio.run(main, clock=MockClock(autojump_threshold=0.01))
    assert isinstance(caught.value, BaseExceptionGroup)
    assert caught.value.subgroup(KeyboardInterrupt) is not None
    assert [type(outcome) for outcome in outcomes] == [trio.Cancelled]


@pytest.mark.parametrize("host", ["bad..host", ".", "a" * 64, "\ud800"])
async def test_a_name_that_no_host_can_have_is_an_error_of_the_network(host: str) -> None:
    with pytest.raises(OSError, match="no host has the name"):
        await open_stream(host, 10_911)
