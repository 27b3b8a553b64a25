"""Half messages that take a while once they are committed: their commit counts while it waits, and only what can wait is taken.

*Differs*: Java diverts and drops them (docs/differences.md).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rmq_wire.codes import ResponseCode
from rmq_wire.sys_flag import TRANSACTION_PREPARED
from tests.support.engine import Harness
from tests.support.requests import pairs, send
from tests.support.transactions import GIVEN_UP, HALF, UNIQUE, Producer, end, half

COMMIT = 8
LATER = [{"DELAY": "5"}, {"TIMER_DELAY_SEC": "60"}, {"TIMER_DELAY_MS": "60000"}, {"DELAY": "1"}, {}]


def begun(root: Path, **settings: str) -> Harness:
    return Harness(root, transactionCheckInterval="10000", transactionTimeOut="6000", **settings).begun()


@pytest.mark.parametrize("later", LATER)
def test_a_commit_before_a_kill_counts_while_it_waits(tmp_path: Path, later: dict[str, str]) -> None:
    """The op message that says so is not written yet."""
    harness = begun(tmp_path)
    assert end(harness, half(harness, 1, body=b"pay", **later), COMMIT).code == 0
    harness.driver.advance(500)
    harness.restart(kill=True)
    producer = Producer(harness, says=COMMIT)
    asked = 0
    for _ in range(60):
        harness.driver.advance(1_000)
        asked += len(producer.questions())
        producer.beat()
    harness.driver.advance(120_000)
    assert asked == 0
    assert [bytes(unit.body) for unit in harness.stored("T", 1)] == [b"pay"]


@pytest.mark.parametrize("later", LATER)
def test_of_one_that_was_given_up_the_first_commit_counts(tmp_path: Path, later: dict[str, str]) -> None:
    harness = begun(tmp_path, transactionCheckMax="1")
    unit = half(harness, 2, body=b"pay", **later)
    harness.driver.advance(60_000)
    assert len(harness.stored(GIVEN_UP)) == 1
    codes = []
    for _ in range(3):
        codes.append(end(harness, unit, COMMIT).code)
        harness.driver.advance(100)
    assert codes == [0, 1, 1]
    harness.driver.advance(200_000)
    assert len(harness.stored("T", 1)) == 1


@pytest.mark.parametrize(
    ("time", "wheel", "code"),
    [
        ("9999999", "true", ResponseCode.MESSAGE_ILLEGAL),
        ("soon", "true", ResponseCode.MESSAGE_ILLEGAL),
        ("5", "false", ResponseCode.SYSTEM_ERROR),
        ("5", "true", ResponseCode.SUCCESS),
    ],
)
def test_a_time_that_no_timer_takes_is_refused_at_once(tmp_path: Path, time: str, wheel: str, code: ResponseCode) -> None:
    """As it is of a message that is none of a transaction."""
    harness = begun(tmp_path, timerWheelEnable=wheel)
    client = harness.connect()
    said = {"UNIQ_KEY": UNIQUE.format(1), "WAIT": "true", "TIMER_DELAY_SEC": time}
    plain = client.ask(send(queue_id=1, properties=pairs(**said)), b"plain")
    asked = send(
        queue_id=1,
        properties=pairs(TRAN_MSG="true", PGROUP="P", **said),
        sys_flag=TRANSACTION_PREPARED,
        born_timestamp=harness.env.wall_ms,
    )
    answer = client.ask(asked, b"half")
    assert (answer.code, answer.remark) == (plain.code, plain.remark or None)
    assert answer.code == code
    assert len(harness.stored(HALF)) == (code == ResponseCode.SUCCESS)
