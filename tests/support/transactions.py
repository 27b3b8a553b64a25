"""A producer of half messages on a broker without sockets."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from broker_impl.capabilities.send import Send
from rmq_wire.bodies.heartbeat import HeartbeatData, ProducerData
from rmq_wire.command import Command
from rmq_wire.headers.clients import Heartbeat
from rmq_wire.headers.transactions import CheckTransactionState, EndTransaction
from rmq_wire.message import StoredMessage
from rmq_wire.property_shapes import SIGHTINGS, Shapes
from rmq_wire.sys_flag import TRANSACTION_PREPARED
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.requests import pairs, props, send

HALF, OP, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
UNIQUE = "7F0000010000000000000000{:08X}"


def learn_at_once(patch: pytest.MonkeyPatch) -> None:
    """Also the first send of its kind takes the fast path."""
    rewrite_once, send_ = Shapes.rewrite, Send.send

    def rewrite(self: Shapes, text: str | None, added: tuple[str, ...] = ()) -> tuple[Any, ...] | None:
        found = None
        for _ in range(SIGHTINGS + 1):
            found = found or rewrite_once(self, text, added)
        return found

    @functools.wraps(send_)
    def sent(self: Send, call: Any, asked: Any) -> Any:
        topic = self._topics.get(asked.topic)
        if topic is not None and asked.topic not in self._paths:
            self._open_path(topic)
        return send_(self, call, asked)

    patch.setattr(Shapes, "rewrite", rewrite)
    patch.setattr(Send, "send", sent)


@pytest.fixture(autouse=True, params=[False, True], ids=["by the rules", "at once"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of a half message and of its end: the general one, and the one that busy producers take."""
    if request.param:
        learn_at_once(monkeypatch)


def half(
    harness: Harness, number: int = 0, client: Client | None = None, body: bytes = b"half", **properties: str
) -> StoredMessage:
    """Send a half message of group P for queue 1 of topic T, born now; as it is stored."""
    given = pairs(TRAN_MSG="true", PGROUP="P", UNIQ_KEY=UNIQUE.format(number), WAIT="true", **properties)
    request = send(queue_id=1, properties=given, sys_flag=TRANSACTION_PREPARED, born_timestamp=harness.env.wall_ms)
    answer = (client or harness.connect()).ask(request, body)
    assert (answer.code, answer.ext_map()["queueId"], answer.ext_map()["transactionId"]) == (0, "1", UNIQUE.format(number))
    unit = harness.stored(HALF)[-1]
    assert int(answer.ext_map()["queueOffset"]) == unit.queue_offset
    return unit


def ending(unit: StoredMessage, how: int, **more: Any) -> EndTransaction:
    """As the producer of this half message says how its transaction ended."""
    header: dict[str, Any] = {
        "producer_group": "P",
        "tran_state_table_offset": unit.queue_offset,
        "commit_log_offset": unit.physical_offset,
        "commit_or_rollback": how,
        "msg_id": props(unit)["UNIQ_KEY"],
        "topic": "T",
    }
    return EndTransaction(**{**header, **more})


def end(harness: Harness, unit: StoredMessage, how: int, **more: Any) -> Command:
    """The same, with the answer."""
    return harness.connect().ask(ending(unit, how, **more))


def bodies(units: list[StoredMessage]) -> list[bytes]:
    return [bytes(unit.body) for unit in units]


class Producer:
    """A member of group P.  `says`: how it answers questions (0: it does not know)."""

    def __init__(self, harness: Harness, group: str = "P", says: int = 0) -> None:
        self.client = harness.connect()
        self.group = group
        self.says = says
        self.beat()

    def beat(self) -> None:
        """Show that it lives."""
        data = HeartbeatData(client_id=f"p{self.client.peer.id}", producer_data_set=[ProducerData(group_name=self.group)])
        assert self.client.ask(Heartbeat(), data.encode()).code == 0

    def questions(self) -> list[tuple[CheckTransactionState, bytes]]:
        """What it was asked since the last time, each answered; and the half messages that came along."""
        asked, self.client.asked = self.client.asked, []
        found = [(command.header(CheckTransactionState), bytes(command.body)) for command in asked]
        for question, _ in found:
            self.client.send_oneway(
                EndTransaction(
                    producer_group=self.group,
                    tran_state_table_offset=question.tran_state_table_offset,
                    commit_log_offset=question.commit_log_offset,
                    commit_or_rollback=self.says,
                    msg_id=question.msg_id or "",
                    from_transaction_check=True,
                )
            )
        return found
