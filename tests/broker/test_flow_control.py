"""What waits too long for its turn is answered 2, as `BrokerFastFailure` answers what waits too long for a thread.

A backlog is made by allowing one request of a peer in a turn; the test says how much time passes between turns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_impl.engine.limits import Limits
from rmq_wire.codes import ResponseCode
from rmq_wire.declare import Request
from rmq_wire.headers.configuration import UpdateBrokerConfig
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.pull import LitePullMessage, PullMessage
from rmq_wire.headers.timers import RecallMessage
from rmq_wire.headers.transactions import EndTransaction
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.requests import pull, send

WAIT_MS = 200
"""waitTimeMillsInSendQueue."""
REMARK = "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: {}ms, size of queue: 0"


def broker(path: Path, **settings: Any) -> Harness:
    made = Harness(path, Limits(requests_max=1), **settings)
    made.topic("T")
    return made


def behind_one(made: Harness, client: Client, *requests: Request, after_ms: int, oneway: bool = False) -> None:
    """A send that is served at once, and these requests, for which the turn has no room: so much later comes the next."""
    first = client.frame(send("T"), b"first")
    made.driver.turn((client, first + b"".join(client.frame(request, b"more", oneway=oneway) for request in requests)))
    assert client.peer.backlog
    made.env.mono_ms += after_ms
    made.driver.run()


@pytest.mark.parametrize(("after_ms", "code"), [(WAIT_MS - 1, 0), (WAIT_MS, ResponseCode.SYSTEM_BUSY)])
def test_a_send_that_waited_too_long(tmp_path: Path, after_ms: int, code: int) -> None:
    made = broker(tmp_path)
    client = made.connect()
    behind_one(made, client, send("T"), after_ms=after_ms)
    assert client.answers[1].code == 0
    assert client.answers[2].code == code
    if code:
        assert client.answers[2].remark == REMARK.format(after_ms)
    assert len(made.stored()) == (1 if code else 2)
    assert client.ask(send("T"), b"next").code == 0, "the next one is not concerned"


def test_all_that_waited_are_refused_each_in_its_turn(tmp_path: Path) -> None:
    made = broker(tmp_path)
    client = made.connect()
    behind_one(made, client, *[send("T")] * 5, after_ms=WAIT_MS)
    assert [client.answers[n].code for n in range(1, 7)] == [0, 2, 2, 2, 2, 2]
    assert len(made.stored()) == 1


def test_waiting_is_counted_over_many_turns(tmp_path: Path) -> None:
    made = broker(tmp_path)
    client = made.connect()
    made.driver.turn((client, b"".join(client.frame(send("T"), b"x") for _ in range(5))))
    for _ in range(4):
        made.env.mono_ms += WAIT_MS // 2
        made.driver.turn()
    made.driver.run()
    assert [client.answers[n].code for n in range(1, 6)] == [0, 0, 2, 2, 2]


def test_one_way_is_dropped(tmp_path: Path) -> None:
    made = broker(tmp_path)
    client = made.connect()
    behind_one(made, client, send("T"), after_ms=WAIT_MS, oneway=True)
    assert list(client.answers) == [1]
    assert len(made.stored()) == 1


def test_switched_off_and_on_while_it_runs(tmp_path: Path) -> None:
    made = broker(tmp_path, brokerFastFailureEnable="false")
    client = made.connect()
    behind_one(made, client, send("T"), after_ms=60_000)
    assert client.answers[2].code == 0
    assert client.ask(UpdateBrokerConfig(), b"brokerFastFailureEnable=true\nwaitTimeMillsInSendQueue=1000\n").code == 0
    client.answers.clear()
    behind_one(made, client, send("T"), after_ms=999)
    behind_one(made, client, send("T"), after_ms=1_000)
    assert [answer.code for answer in client.answers.values()] == [0, 0, 0, ResponseCode.SYSTEM_BUSY]


def test_what_else_has_patience(tmp_path: Path) -> None:
    """Pulls, heartbeats and ends of transactions have theirs; administration waits for as long as it takes."""
    made = broker(tmp_path)
    client = made.connect()
    end = EndTransaction(producer_group="P", tran_state_table_offset=0, commit_log_offset=0, commit_or_rollback=8)
    behind_one(made, client, pull("T"), end, GetMaxOffset(topic="T", queue_id=0), after_ms=3_000)
    assert [client.answers[n].code for n in (1, 3, 4)] == [0, ResponseCode.SYSTEM_BUSY, 0]
    assert client.answers[2].code != ResponseCode.SYSTEM_BUSY
    client = made.connect()
    behind_one(made, client, pull("T"), GetMaxOffset(topic="T", queue_id=0), after_ms=5_000)
    assert [client.answers[n].code for n in (1, 2, 3)] == [0, ResponseCode.SYSTEM_BUSY, 0]


def test_recalls_wait_as_sends_do_and_lite_pulls_by_a_time_of_their_own(tmp_path: Path) -> None:
    made = broker(tmp_path, waitTimeMillsInLitePullQueue="100")
    client = made.connect()
    lite = LitePullMessage(**{name: getattr(pull("T"), name) for name in PullMessage.__struct_fields__})
    behind_one(made, client, lite, RecallMessage(topic="T", recall_handle="x"), pull("T"), after_ms=WAIT_MS)
    assert [client.answers[n].code for n in (1, 2, 3, 4)] == [0, ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_BUSY, 0]


def test_who_does_not_read_its_answers_makes_itself_wait(tmp_path: Path) -> None:
    made = Harness(tmp_path, Limits(requests_max=1, output_bytes_max=100))
    made.topic("T")
    client = made.connect()
    client.reads = False
    made.driver.run((client, b"".join(client.frame(send("T"), b"x") for _ in range(3))))
    assert client.peer.backlog
    made.env.mono_ms += 10_000
    made.driver.run()
    client.read()
    assert [answer.code for answer in client.answers.values()] == [0, 0, 0]


@pytest.mark.parametrize("clock_of_the_turn_before", [False, True])
def test_a_send_that_waited_for_the_disk_to_take_its_new_topic_is_served(tmp_path: Path, clock_of_the_turn_before: bool) -> None:
    """A thread's job ends between turns, when the clock still shows the last one: what it took is not the send's waiting."""
    made = broker(tmp_path)
    client = made.connect()
    made.driver.held = True
    client.send(send("Made"), b"x")
    assert not client.answers
    if clock_of_the_turn_before:
        while made.driver.jobs:
            made.driver.end_job()
    made.env.mono_ms += 10_000
    made.driver.held = False
    made.driver.run()
    assert client.answers[1].code == 0
