"""What the grid says of codes that nobody answers, and of the fields that every request may carry.

A server that does not know a code says REQUEST_CODE_NOT_SUPPORTED (3) and keeps the connection; stock clients take that as a
plain no, and go on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from conformance.suite.grid.expect import SILENCE_S
from conformance.suite.grid.goods import producer
from conformance.suite.grid.grid import ROWS
from conformance.suite.kit import MUST, SHOULD, Code, Link, Need, ResponseCode, Trial, case
from conformance.suite.trial import CaseFailed
from rmq_wire.declare import REQUESTS, Role
from rmq_wire.encoding import encode_request
from rmq_wire.headers.configuration import UpdateBrokerConfig
from rmq_wire.headers.naming import GetBrokerClusterInfo
from rmq_wire.headers.offsets import QueryConsumerOffset, UpdateConsumerOffset
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.send_back import ConsumerSendMsgBack
from rmq_wire.message_id import parse_offset_message_id
from rmq_wire.registry import rows

UNDECLARED: Final = (0, 1, 9, 16, 999, 4_999, 32_767)
"""Numbers that no version of the reference declares."""
FAST: Final = (
    Code.PULL_MESSAGE,
    Code.LITE_PULL_MESSAGE,
    Code.POP_MESSAGE,
    Code.PEEK_MESSAGE,
    Code.NOTIFICATION,
    Code.POLLING_INFO,
    Code.POP_LITE_MESSAGE,
)
"""What the fast port leaves to the main one (`BrokerController.registerProcessor`)."""
WRITE, READ, READ_WRITE = 2, 4, 6
FAST_OFFSET: Final = -2
FIRST_OPAQUE: Final = 1_000_000
"""Of requests that nobody waits for."""
NO = re.compile(r"request type \d+ not supported")
DECLARED: Final = len(rows())


def unanswered(role: Role) -> list[int]:
    """The codes that the reference declares and this role does not answer."""
    return [int(code) for code in Code if (role, int(code)) not in REQUESTS]


async def refused(t: Trial, link: Link, codes: Iterable[int]) -> None:
    """Each of these codes is answered 3, on one connection that stays."""
    failed = []
    for code in codes:
        try:
            t.answer(f"code {code}", await link.ask_raw(code), code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=NO)
        except CaseFailed as failure:
            failed.append(str(failure))
    if failed:
        raise CaseFailed("; ".join(failed))


async def refused_by_names(t: Trial, codes: Iterable[int]) -> None:
    """A name server of 4.x leaves such a request unanswered, and goes on."""
    if t.by_version({"": True, "4": False}):
        await refused(t, t.names, codes)
        return
    for number, code in enumerate(codes):
        await t.names.send(encode_request(code, None, b"", opaque=FIRST_OPAQUE + number))
    t.equal("an answer to any of them", await t.names.stray(seconds=SILENCE_S), None)
    t.answer("the connection stays", await t.names.ask(GetBrokerClusterInfo()))


@case("grid.not-supported.broker", MUST, codes=unanswered(Role.BROKER), rests_on="AdminBrokerProcessor.getUnknownCmdResponse")
async def not_a_brokers(t: Trial) -> None:
    """A broker answers 3 to every declared code that is not a broker's.

    Codes of name servers, clients, controllers and containers, and those that nobody uses any more.
    """
    await refused(t, t.broker, unanswered(Role.BROKER))


@case(
    "grid.not-supported.name-server",
    MUST,
    codes=unanswered(Role.NAME_SERVER),
    rests_on="namesrv DefaultRequestProcessor.processRequest",
)
async def not_a_name_servers(t: Trial) -> None:
    """A name server answers 3 to every declared code that is not a name server's.

    All that brokers and controllers answer, too.  Name servers of 4.x keep silent.
    """
    await refused_by_names(t, unanswered(Role.NAME_SERVER))


@case("grid.not-supported.undeclared", MUST, rests_on="NettyRemotingAbstract.processRequestCommand")
async def undeclared(t: Trial) -> None:
    """Numbers that nobody declares are answered 3 by both.

    Also those next to declared ones.
    """
    await refused(t, t.broker, UNDECLARED)
    await refused_by_names(t, UNDECLARED)


@case("grid.not-supported.fast-port", SHOULD, needs=Need.FAST_PORT, rests_on="BrokerController.registerProcessor")
async def not_on_the_fast_port(t: Trial) -> None:
    """The fast port leaves all that waits for messages to the main port.

    Pulling and popping hold requests back; a port that is to be quick does without.
    """
    host, _, port = t.target.broker.rpartition(":")
    await refused(t, t.connect(f"{host}:{int(port) + FAST_OFFSET}"), FAST)


@case(
    "grid.fast-port.answers",
    SHOULD,
    codes=(Code.SEND_MESSAGE_V2, Code.GET_MAX_OFFSET, Code.HEART_BEAT, Code.UPDATE_CONSUMER_OFFSET),
    needs=Need.FAST_PORT,
    rests_on="BrokerController.registerProcessor",
)
async def answered_on_the_fast_port(t: Trial) -> None:
    """The fast port answers sends, offsets, heartbeats and administration as the main port does.

    What is sent there is found here.
    """
    host, _, port = t.target.broker.rpartition(":")
    quick = t.connect(f"{host}:{int(port) + FAST_OFFSET}")
    topic, group = await t.topic(), await t.group()
    await producer(t, t.name("producers"), link=quick)
    sent = await t.send(topic, b"quick", link=quick)
    t.equal("queue offset of the first message", sent.queue_offset, 0)
    [found] = await t.pull_all(topic, 1)
    t.equal("body on the main port", bytes(found.body), b"quick")
    t.answer("30", await quick.ask(GetMaxOffset(topic=topic, queue_id=0)), ext={"offset": "1"})
    commit = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=0, commit_offset=1)
    t.answer("15", await quick.ask(commit))
    asked = await t.broker.ask(QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=0))
    t.answer("14 on the main port", asked, ext={"offset": "1"})


@case("grid.not-supported.newer", SHOULD, rests_on="AdminBrokerProcessor.getUnknownCmdResponse")
async def newer(t: Trial) -> None:
    """An older broker answers 3 to the codes that came after it.

    What a client of 5.x relies on when it falls back: the code that is not known is refused, the connection stays.
    """
    version = t.version
    codes = [
        code for code, row in ROWS.items() if Role.BROKER in row.request.to and version and version[: len(row.since)] < row.since
    ]
    if not codes:
        t.skip("this version knows every code of the grid")
    await refused(t, t.broker, codes)


@case(
    "grid.broker-permission.no-reading",
    MUST,
    codes=(Code.PULL_MESSAGE, Code.UPDATE_BROKER_CONFIG),
    needs=Need.OWN,
    alone=True,
    rests_on="PullMessageProcessor.processRequest, PopMessageProcessor.processRequest",
)
async def no_reading(t: Trial) -> None:
    """A broker that may not be read refuses pulls and pops with 16, and takes messages.

    `brokerPermission` 2, set while it runs (25).
    """
    topic = await t.topic()
    await t.send(topic)
    await t.pull_all(topic, 1)
    try:
        await permit(t, WRITE)
        pulled = await t.pull(topic)
        t.answer("pull", pulled.answer, code=ResponseCode.NO_PERMISSION, remark=re.compile("pulling message is forbidden"))
        await t.send(topic)
    finally:
        await permit(t, READ_WRITE)
    t.answer("pull once it may be read again", (await t.pull(topic)).answer)


@case(
    "grid.broker-permission.no-writing",
    MUST,
    codes=(Code.CONSUMER_SEND_MSG_BACK, Code.UPDATE_BROKER_CONFIG),
    needs=Need.OWN,
    alone=True,
    rests_on="AbstractSendMessageProcessor.consumerSendMsgBack",
)
async def no_writing(t: Trial) -> None:
    """A broker that may not be written gives nothing back with 16, and is read.

    `brokerPermission` 4, set while it runs (25).  Sends to ordinary topics are not looked at: producers obey the route.
    """
    topic, group = await t.topic(), await t.group()
    sent = await t.send(topic)
    await t.pull_all(topic, 1)
    at = parse_offset_message_id(sent.msg_id).physical_offset
    back = ConsumerSendMsgBack(offset=at, group=group, delay_level=1, origin_topic=topic)
    try:
        await permit(t, READ)
        refused = await t.broker.ask(back)
        t.answer("36", refused, code=ResponseCode.NO_PERMISSION, remark=re.compile("sending message is forbidden"))
        t.answer("pull", (await t.pull(topic)).answer)
    finally:
        await permit(t, READ_WRITE)
    t.answer("36 once it may be written again", await t.broker.ask(back))


async def permit(t: Trial, perm: int) -> None:
    """Set what may be done with the broker."""
    t.answer(f"brokerPermission={perm}", await t.broker.ask(UpdateBrokerConfig(), f"brokerPermission={perm}\n".encode()))


@case(
    "grid.base-fields.passed-over",
    MUST,
    codes=(Code.GET_MAX_OFFSET, Code.UPDATE_CONSUMER_OFFSET),
    rests_on="RpcRequestHeader, TopicRequestHeader",
)
async def base_fields(t: Trial) -> None:
    """The fields of the base classes change nothing on a broker without static topics.

    Name space, the broker's name, the one-way mark and the mark of logical queues, as 5.x clients and proxies send them.
    """
    topic, group = await t.topic(), await t.group()
    await t.send(topic)
    for fields in (
        {"ns": "space", "nsd": "true"},
        {"bname": t.target.broker_name},
        {"bname": "another"},
        {"lo": "false"},
        {"lo": "true"},
        {"oway": "false"},
        {"nsd": "perhaps", "lo": "perhaps", "oway": "perhaps"},
    ):
        asked = await t.broker.ask(GetMaxOffset(topic=topic, queue_id=0), ext=fields)
        t.answer(f"30 with {fields}", asked, ext={"offset": lambda found: found in ("0", "1")})
        commit = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=0, commit_offset=1)
        t.answer(f"15 with {fields}", await t.broker.ask(commit, ext=fields))
