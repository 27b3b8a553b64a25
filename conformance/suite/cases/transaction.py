"""Transactions: a half message that nobody sees, its end, and the question how it ended.  The case plays the producer.

A producer sends a half message (property `TRAN_MSG`, prepared bit 4 in `sysFlag`), does work of its own, and ends the
transaction by commit or rollback (37, one-way).  Where the end stays away the broker asks any producer of the group (39,
one-way, with the half message), which answers by another 37 with `fromTransactionCheck`.
"""

from __future__ import annotations

import time
from functools import partial

from conformance.suite.kit import MUST, QUIRK, SHOULD, Answer, Code, Need, ResponseCode, Trial, properties_of
from conformance.suite.kit import case as declare
from conformance.suite.means.members import Member
from rmq_wire import property_names as prop
from rmq_wire.encoding import ONE_WAY
from rmq_wire.headers.send import SendMessageResponse
from rmq_wire.headers.transactions import CheckTransactionState, EndTransaction
from rmq_wire.message import StoredMessage, read_unit
from rmq_wire.message_id import parse_offset_message_id
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_NOT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, transaction_type

PROCESSOR = "EndTransactionProcessor"
CHECK = (Code.END_TRANSACTION, Code.CHECK_TRANSACTION_STATE)
WITNESS_S = 60.0
"""For the question that is not judged, on a machine that does much else."""


case = partial(declare, codes=(Code.END_TRANSACTION, Code.SEND_MESSAGE_V2))


class Half:
    """A half message that a producer has sent."""

    def __init__(self, t: Trial, producer: Member, group: str, topic: str) -> None:
        self.t, self.producer, self.group, self.topic = t, producer, group, topic
        self.sent: SendMessageResponse | None = None
        self.unique_key = ""
        self.born_ms = 0

    async def send(self, body: bytes = b"half", *, age_ms: int = 0, **more: str) -> Half:
        """Send it.  Born so long ago: the broker asks about no half message that is older than the log is kept."""
        self.unique_key = self.t.unique_key()
        self.born_ms = int(time.time() * 1e3) - age_ms
        properties = {prop.TRAN_MSG: "true", prop.PGROUP: self.group, **more}
        self.sent = await self.t.send(
            self.topic,
            body,
            properties,
            link=self.producer.link,
            sys_flag=TRANSACTION_PREPARED,
            unique_key=self.unique_key,
            group=self.group,
            born_ms=self.born_ms,
        )
        return self

    async def end(self, how: int, *, checked: CheckTransactionState | None = None) -> None:
        """Commit it, roll it back, or say that it is not known yet; one-way, as clients do."""
        await self.producer.link.send_oneway(self._ending(how, checked=checked))

    async def ended(self, how: int, *, group: str = "", checked: CheckTransactionState | None = None) -> Answer:
        """The same, asked with an answer, which shows that it has been carried out; not judged."""
        return await self.producer.link.ask(self._ending(how, group=group, checked=checked))

    def _ending(self, how: int, *, group: str = "", checked: CheckTransactionState | None = None) -> EndTransaction:
        assert self.sent is not None
        return EndTransaction(
            producer_group=group or self.group,
            tran_state_table_offset=checked.tran_state_table_offset if checked else self.sent.queue_offset,
            commit_log_offset=checked.commit_log_offset if checked else parse_offset_message_id(self.sent.msg_id).physical_offset,
            commit_or_rollback=how,
            msg_id=self.unique_key,
            transaction_id=self.sent.transaction_id,
            from_transaction_check=checked is not None,
            topic=self.topic,
        )


async def half(t: Trial, *, topic: str = "", age_ms: int = 0, **more: str) -> Half:
    """A topic, a producer that is online, and its half message."""
    producer, group = Member(t), t.name("p")
    await producer.produces(group)
    return await Half(t, producer, group, topic or await t.topic()).send(b"half", age_ms=age_ms, **more)


async def unseen(t: Trial, topic: str, *, before: int = 0) -> None:
    """No more than so many messages have come into the topic: one that is sent now is the next."""
    sent = await t.send(topic, b"the next")
    t.equal("messages in the topic", sent.queue_offset, before)


async def asked_about(t: Trial, one: Half, *, seconds: float = 20.0) -> CheckTransactionState:
    """The broker asks the producer how the transaction ended (39)."""
    command = await one.producer.link.request(Code.CHECK_TRANSACTION_STATE, seconds=seconds)
    t.check("the producer is asked", command is not None)
    assert command is not None
    t.check("one-way", bool(command.flag & ONE_WAY), seen=command.flag)
    unit = read_unit(bytes(command.body))
    t.equal("the half message comes along", (bytes(unit.body), properties_of(unit).get(prop.UNIQ_KEY)), (b"half", one.unique_key))
    header = command.header(CheckTransactionState)
    t.equal("its unique key", header.msg_id, one.unique_key)
    return header


async def questions(t: Trial, one: Half) -> list[CheckTransactionState]:
    """What the broker has asked about this one until it comes to ask about another, which is sent now.

    It goes over the half messages in their order: by then it has come by this one, too.
    """
    witness = await half(t)
    await asked_about(t, witness, seconds=WITNESS_S)
    await witness.end(TRANSACTION_ROLLBACK)
    asked = await one.producer.told(Code.CHECK_TRANSACTION_STATE)
    return [command.header(CheckTransactionState) for command in asked]


def most_questions(t: Trial) -> int:
    """How often a half message is asked about before it is given up."""
    return int(t.target.config.get("transactionCheckMax", 15))


@case("transaction.half-unseen", MUST, rests_on="TransactionalMessageBridge.putHalfMessage")
async def half_unseen(t: Trial) -> None:
    """A half message is stored and not to be seen.

    The answer is that of any send; its offsets are those of the topic where half messages wait.
    """
    one = await half(t)
    t.answer("pull", (await t.pull(one.topic)).answer, code=ResponseCode.PULL_NOT_FOUND)
    await unseen(t, one.topic)


@case("transaction.commit", MUST, rests_on=f"{PROCESSOR}.endMessageTransaction")
async def commit(t: Trial) -> None:
    """A committed message is there, as if it had been sent now."""
    one = await half(t, TAGS="a", KEYS="k", mine="value")
    await one.end(TRANSACTION_COMMIT)
    [unit] = await t.pull_all(one.topic, 1)
    found = properties_of(unit)
    t.equal("body", bytes(unit.body), b"half")
    t.equal("tags, keys, own property", [found.get(name) for name in ("TAGS", "KEYS", "mine")], ["a", "k", "value"])
    t.equal("unique key", found.get(prop.UNIQ_KEY), one.unique_key)
    t.equal("transaction bits", transaction_type(unit.sys_flag), TRANSACTION_COMMIT)
    t.equal(
        "where it was half",
        unit.prepared_transaction_offset,
        parse_offset_message_id(one.sent.msg_id).physical_offset if one.sent else None,
    )


@case("transaction.commit-once", QUIRK, rests_on=f"{PROCESSOR}: the half message is found again, whatever became of it")
async def commit_once(t: Trial) -> None:
    """A second commit makes the message a second time.

    The second one comes after the first was carried out.  Only a producer that does not get its answer says it twice; a server
    that delivers the message once is better.
    """
    one = await half(t)
    await one.end(TRANSACTION_COMMIT)
    await t.pull_all(one.topic, 1)
    await one.ended(TRANSACTION_COMMIT)
    await unseen(t, one.topic, before=2)


@case("transaction.commit-after-rollback", QUIRK, rests_on=f"{PROCESSOR}: the half message is found again, whatever became of it")
async def commit_after_rollback(t: Trial) -> None:
    """A commit that comes after the rollback makes the message all the same.

    Only a producer that changes its mind sends it; a server that holds to the first end is better.
    """
    one = await half(t)
    t.answer("rollback", await one.ended(TRANSACTION_ROLLBACK))
    await one.ended(TRANSACTION_COMMIT)
    await unseen(t, one.topic, before=1)


@case("transaction.rollback", MUST, needs=Need.OWN, rests_on=f"{PROCESSOR}; TransactionalMessageServiceImpl.deletePrepareMessage")
async def rollback(t: Trial) -> None:
    """What is rolled back never appears, and nobody is asked about it.

    The reference writes ends down in batches: a question may cross the rollback.  It is answered as clients do, by another
    one, until the broker comes by without a question; what is not rolled back is asked about to the last.
    """
    one = await half(t)
    await one.end(TRANSACTION_ROLLBACK)
    times = 0
    while crossing := await questions(t, one):
        times += len(crossing)
        t.check("not asked about to the last", times < most_questions(t), expected=f"< {most_questions(t)}", seen=times)
        for checked in crossing:
            await one.end(TRANSACTION_ROLLBACK, checked=checked)
    t.note("questions that crossed the rollback", times)
    await unseen(t, one.topic)


@case(
    "transaction.check-then-commit",
    MUST,
    codes=CHECK,
    needs=Need.OWN,
    rests_on="TransactionalMessageServiceImpl.check, AbstractTransactionalMessageCheckListener",
)
async def check_then_commit(t: Trial) -> None:
    """When the end stays away the producer is asked, and its answer counts."""
    one = await half(t)
    header = await asked_about(t, one)
    await one.end(TRANSACTION_COMMIT, checked=header)
    [unit] = await t.pull_all(one.topic, 1)
    t.equal("body", bytes(unit.body), b"half")


@case("transaction.unknown-asks-again", MUST, codes=CHECK, needs=Need.OWN, rests_on="TransactionalMessageServiceImpl.check")
async def unknown_asks_again(t: Trial) -> None:
    """An end that is not known yet: the producer is asked again."""
    one = await half(t)
    await one.end(TRANSACTION_NOT)
    header = await asked_about(t, one)
    await one.end(TRANSACTION_NOT, checked=header)
    header = await asked_about(t, one)
    await one.ended(TRANSACTION_ROLLBACK, checked=header)
    await unseen(t, one.topic)


@case(
    "transaction.left-in-peace",
    MUST,
    codes=CHECK,
    needs=Need.OWN,
    rests_on="MessageConst.PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS",
)
async def left_in_peace(t: Trial) -> None:
    """A producer that asks for time (CHECK_IMMUNITY_TIME_IN_SECONDS) is asked when it is over, not before.

    Three times what is given without it, which a check each second makes up to twice (own subjects: 1 s).  In the reference a
    check that leaves it in peace counts as well, so that it cannot be more.
    """
    one = await half(t, CHECK_IMMUNITY_TIME_IN_SECONDS="3")
    header = await asked_about(t, one)
    aged_s = time.time() - one.born_ms / 1e3
    t.check("after three seconds", aged_s >= 2.9, expected="3 s", seen=f"{aged_s:.1f} s")
    await one.end(TRANSACTION_COMMIT, checked=header)
    await t.pull_all(one.topic, 1)


@case(
    "transaction.end-too-late",
    SHOULD,
    codes=CHECK,
    needs=Need.OWN,
    since=(5,),
    rests_on=f"{PROCESSOR}.rejectCommitOrRollback",
)
async def end_too_late(t: Trial) -> None:
    """An end that comes after the time that its producer asked for is refused: code 604; the answer to a question counts."""
    one = await half(t, age_ms=60_000, CHECK_IMMUNITY_TIME_IN_SECONDS="2")
    for how in (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK):
        t.answer("end", await one.ended(how), code=ResponseCode.ILLEGAL_OPERATION)
    header = await asked_about(t, one)
    await one.end(TRANSACTION_COMMIT, checked=header)
    await t.pull_all(one.topic, 1)


@case(
    "transaction.given-up",
    SHOULD,
    codes=CHECK,
    needs=Need.OWN,
    rests_on="DefaultTransactionalMessageCheckListener.resolveDiscardMsg",
)
async def given_up(t: Trial) -> None:
    """After transactionCheckMax questions the broker gives a half message up.

    Own subjects have it at 4.  It goes to TRANS_CHECK_MAX_TIME_TOPIC, and the producer is left in peace.
    """
    one = await half(t)
    most, times = most_questions(t), 0
    while (asked := await questions(t, one)) or times < 2:
        times += len(asked)
        t.check("not for ever", times <= most + 1, expected=most, seen=times)
    t.note("asked", times)


@case("transaction.any-of-the-group", MUST, codes=CHECK, needs=Need.OWN, rests_on="ProducerManager.getAvailableChannel")
async def any_of_the_group(t: Trial) -> None:
    """Another producer of the group is asked when the first has gone."""
    one = await half(t)
    second = Member(t)
    await second.produces(one.group)
    await one.producer.leaves(producer=one.group)
    await one.producer.link.close()
    one.producer = second
    header = await asked_about(t, one)
    await one.end(TRANSACTION_COMMIT, checked=header)
    await t.pull_all(one.topic, 1)


@case("transaction.order-of-commits", MUST, rests_on=PROCESSOR)
async def order_of_commits(t: Trial) -> None:
    """Half messages end in any order, independently of each other."""
    topic = await t.topic()
    first, second, third = [await half(t, topic=topic, KEYS=key) for key in ("first", "second", "third")]
    await third.end(TRANSACTION_COMMIT)
    await t.pull_all(topic, 1)
    await second.end(TRANSACTION_ROLLBACK)
    await first.end(TRANSACTION_COMMIT)
    stored: list[StoredMessage] = await t.pull_all(topic, 2)
    t.equal("keys in the order of commits", [properties_of(unit)[prop.KEYS] for unit in stored], ["third", "first"])


@case("transaction.wrong-group", SHOULD, rests_on=f"{PROCESSOR}.checkPrepareMessage")
async def wrong_group(t: Trial) -> None:
    """Another group's producer cannot end it."""
    one = await half(t)
    await one.ended(TRANSACTION_COMMIT, group=t.name("unknown"))
    await unseen(t, one.topic)
    await one.end(TRANSACTION_COMMIT)
    [unit] = await t.pull_all(one.topic, 1, offset=1)
    t.equal("body", bytes(unit.body), b"half")


@case("transaction.end-of-nothing", SHOULD, rests_on=f"{PROCESSOR}.checkPrepareMessage")
async def end_of_nothing(t: Trial) -> None:
    """The end of a message that is none changes nothing."""
    topic = await t.topic()
    unique_key = t.unique_key()
    sent = await t.send(topic, b"no half", unique_key=unique_key)
    await t.pull_all(topic, 1)
    asked = EndTransaction(
        producer_group=t.name("p"),
        tran_state_table_offset=0,
        msg_id=unique_key,
        commit_or_rollback=TRANSACTION_COMMIT,
        commit_log_offset=parse_offset_message_id(sent.msg_id).physical_offset,
        topic=topic,
    )
    answer = await t.broker.ask(asked)
    t.answer("the end, asked with an answer", answer, code=ResponseCode.SYSTEM_ERROR)
    await unseen(t, topic, before=1)
