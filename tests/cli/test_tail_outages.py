"""`rmq tail` while servers are away: one line when they do not answer any more, one when they do again."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmq_cli import tailing
from rmq_cli.message_lines import Where
from rmq_cli.tailing import LOOK_AGAIN_S, Tail
from rmq_client.consuming.pull_result import PullResult, PullStatus
from rmq_client.consuming.subscriptions import EVERYTHING, Subscription
from rmq_client.errors import BrokerError, ClientError, Unreachable
from rmq_wire.codes import ResponseCode
from rmq_wire.fastjson import MessageQueue
from tests.support.client_shell import Shell
from tests.support.mock_time import pass_time
from tests.support.subject import Subject
from tests.support.talk import PATIENCE_S

START = Where("offset", 0)
AWAY = "rmq: 10.0.0.1:10911: Connection refused; it is asked again until it answers\n"
BACK = "rmq: it answers again\n"
HOLD_MS = 15_000
REFUSED = Unreachable("10.0.0.1:10911: Connection refused")
Spans = Sequence[tuple[float, float]]


@pytest.fixture(autouse=True)
def read_by_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tailing, "until_unread", trio.sleep_forever)


class Fake:
    """A puller of two queues without messages.  Its brokers and its name servers are away in these spans of seconds."""

    def __init__(self, *, brokers: Spans = (), name_servers: Spans = (), error: ClientError = REFUSED) -> None:
        self._began_s = trio.current_time()
        self._brokers, self._name_servers, self._error = brokers, name_servers, error

    async def queues(self, topic: str) -> list[MessageQueue]:
        self._look(self._name_servers)
        return [MessageQueue(topic, "broker-a", number) for number in range(2)]

    async def pull(self, queue: MessageQueue, offset: int, *, subscription: Subscription, hold_ms: int) -> PullResult:
        self._look(self._brokers)
        await pass_time(hold_ms / 1e3)
        self._look(self._brokers)
        return PullResult(PullStatus.NO_NEW_MSG, offset, 0, 0, ())

    def _look(self, away: Spans) -> None:
        if any(begin <= trio.current_time() - self._began_s < end for begin, end in away):
            raise self._error


@asynccontextmanager
async def tailing_of(fake: Any) -> AsyncIterator[None]:
    """It runs in the block."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: Tail(fake, EVERYTHING, HOLD_MS, print).run("T", begin=START, count=None, follow=True))
        yield
        nursery.cancel_scope.cancel()


async def test_brokers_that_are_away_are_said_once_and_that_they_answer_again_at_once(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first pull that is answered is not held for a message."""
    async with tailing_of(Fake(brokers=[(0, 4.5), (7, 25)])):
        await pass_time(4.4)
        assert capsys.readouterr().err == AWAY
        await pass_time(1)
        assert capsys.readouterr().err == BACK
        await pass_time(18)  # what was held has ended meanwhile
        assert capsys.readouterr().err == AWAY
        await pass_time(3)
        assert capsys.readouterr().err == BACK
        await pass_time(60)
        assert capsys.readouterr().err == ""


async def test_name_servers_that_are_away_are_said_where_brokers_answer(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with tailing_of(Fake(name_servers=[(1, 2.5 * LOOK_AGAIN_S)])):
        await pass_time(0.9 * LOOK_AGAIN_S)
        assert capsys.readouterr().err == ""
        await pass_time(1.5 * LOOK_AGAIN_S)
        assert capsys.readouterr().err == AWAY
        await pass_time(LOOK_AGAIN_S)
        assert capsys.readouterr().err == BACK


async def test_where_both_are_away_brokers_that_answer_are_enough(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next look for new queues is half a minute away."""
    away = [(1.0, LOOK_AGAIN_S + 1)]
    async with tailing_of(Fake(brokers=away, name_servers=away)):
        await pass_time(LOOK_AGAIN_S + 0.5)
        assert capsys.readouterr().err == AWAY
        await pass_time(2)
        assert capsys.readouterr().err == BACK


async def test_nothing_is_shown_of_a_run_that_cannot_begin() -> None:
    """Not even of the queues that have answered: who has seen a message sees the run go over outages."""
    asked: list[MessageQueue] = []

    class SecondIsAway(Fake):
        async def min_offset(self, queue: MessageQueue) -> int:
            await pass_time(0)
            if asked:
                raise REFUSED
            asked.append(queue)
            return 0

        async def pull(self, queue: MessageQueue, offset: int, *, subscription: Subscription, hold_ms: int) -> PullResult:
            raise AssertionError("a queue is read")

    tail: Any = SecondIsAway()
    with pytest.raises(ExceptionGroup) as caught:
        await Tail(tail, EVERYTHING, HOLD_MS, print).run("T", begin=Where("start", 0), count=None, follow=True)
    assert caught.value.exceptions == (REFUSED,)
    assert len(asked) == 1


async def test_of_what_a_broker_says_the_first_line(autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]) -> None:
    busy = BrokerError(ResponseCode.SYSTEM_BUSY, "busy\x1b[2J\nand more\n", "10.0.0.1:10911")
    async with tailing_of(Fake(brokers=[(0, 60)], error=busy)):
        await pass_time(5)
        [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("rmq: 10.0.0.1:10911 answers 2 (SYSTEM_BUSY): busy\\x1b[2J; ")


def test_over_a_restart(shell: Shell, ours: Subject) -> None:
    shell.good("topic", "create", "away", "-q", "4")
    shell.good("send", "away", "before")
    with shell.running("tail", "away", "--from", "start") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline().endswith(b"before\n")
        ours.server.stop()
        try:
            assert running.stderr.readline().endswith(b"; it is asked again until it answers\n")
        finally:
            ours.server.start()
        assert running.stderr.readline() == BACK.encode()
        shell.good("send", "away", "after")
        assert running.stdout.readline().endswith(b"after\n")
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == 130
        assert running.stderr.read() == b""
