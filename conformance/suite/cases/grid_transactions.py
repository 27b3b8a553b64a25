"""The grid's rows about transactions: 37, 323."""

from __future__ import annotations

from conformance.suite.grid.expect import NO_LIMIT, NO_PERMISSION, REFUSED, UNREAD, Expect
from conformance.suite.grid.grid import Asked, Cell, Good, grid
from conformance.suite.kit import Trial
from rmq_wire import property_names
from rmq_wire.headers.send import SendMessageResponse
from rmq_wire.headers.transactions import EndTransaction, ResumeCheckHalfMessage
from rmq_wire.message_id import parse_offset_message_id
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK

GROUP = "CONF_producers"


async def half(t: Trial) -> tuple[str, SendMessageResponse]:
    """A half message; its topic, and the answer to it."""
    topic = await t.topic()
    properties = {property_names.TRAN_MSG: "true", property_names.PGROUP: GROUP}
    return topic, await t.send(topic, b"half", properties, sys_flag=TRANSACTION_PREPARED, unique_key=t.name("unique"))


def ending(how: int) -> Good:
    """Commit or roll back a half message."""

    async def good(t: Trial) -> Asked:
        topic, sent = await half(t)
        return EndTransaction(
            topic=topic,
            producer_group=GROUP,
            tran_state_table_offset=sent.queue_offset,
            commit_log_offset=parse_offset_message_id(sent.msg_id).physical_offset,
            commit_or_rollback=how,
            msg_id=sent.transaction_id or "",
            transaction_id=sent.transaction_id,
        )

    return good


async def resuming(t: Trial) -> Asked:
    """Check a half message again."""
    topic, sent = await half(t)
    return ResumeCheckHalfMessage(topic=topic, msg_id=sent.msg_id)


grid(
    EndTransaction,
    ending(TRANSACTION_COMMIT),
    "EndTransactionProcessor.processRequest",
    each=True,
    cells={
        "rollback": Cell(ask=ending(TRANSACTION_ROLLBACK), expect=Expect()),
        "unknown-half-message": Cell(change={"commitLogOffset": str(2**62)}, expect=REFUSED),
        "unknown-group": Cell(change={"producerGroup": "CONF_others"}, expect=REFUSED),
        "unknown-queue-offset": Cell(change={"tranStateTableOffset": "99999"}, expect=REFUSED),
        "unknown-end": Cell(
            change={"commitOrRollback": "0"},
            expect=Expect(silent=True),
            title="Neither committed nor rolled back: nobody is answered",
        ),
        "odd-end": Cell(
            change={"commitOrRollback": "1"},
            expect=REFUSED,
            title="An end that is none of the three is refused",
        ),
    },
    missing={"msgId": UNREAD},
    none={"permission": NO_PERMISSION, "limit": NO_LIMIT},
)
grid(
    ResumeCheckHalfMessage,
    resuming,
    "AdminBrokerProcessor.resumeCheckHalfMessage",
    missing={"msgId": REFUSED},
    each=True,
    cells={"unknown-message": Cell(change={"msgId": "7F00000100002A9F00FFFFFFFFFFFFFF"}, expect=REFUSED)},
    none={"permission": NO_PERMISSION, "limit": NO_LIMIT},
)
