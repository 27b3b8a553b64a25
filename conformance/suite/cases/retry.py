"""Messages that a consumer gives back: delivered to its group again, later; at last to the dead letters.

A consumer that cannot handle a message gives it back (36), naming its place in the log and a delay level.  The broker stores a
copy in `%RETRY%<group>`, which the group's members read beside their topics, by way of the delay; after the group's most
attempts, or for a negative level, in `%DLQ%<group>`, which nobody reads who does not subscribe to it.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from conformance.suite.cases.locks import locked, unlock
from conformance.suite.kit import INFO, MUST, QUIRK, SHOULD, Answer, Code, ResponseCode, Trial, properties_of
from conformance.suite.kit import case as declare
from conformance.suite.trial import SETTLE_S
from rmq_wire import property_names as prop
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.send_back import ConsumerSendMsgBack
from rmq_wire.message import StoredMessage

PROCESSOR = "AbstractSendMessageProcessor.consumerSendMsgBack"
DEAD_LETTERS = "%DLQ%"
RETRY = "%RETRY%"


case = partial(declare, codes=Code.CONSUMER_SEND_MSG_BACK)


async def give_back(t: Trial, group: str, unit: StoredMessage, *, level: int = 1, attempts_max: int | None = None) -> Answer:
    """Give a message back (36) as stock clients do, not judged.  level 1: again after 1 s."""
    asked = ConsumerSendMsgBack(
        offset=unit.physical_offset,
        group=group,
        delay_level=level,
        origin_topic=bytes(unit.topic).decode(),
        origin_msg_id=properties_of(unit).get(prop.UNIQ_KEY),
        max_reconsume_times=attempts_max,
    )
    return await t.broker.ask(asked)


async def consumed(t: Trial, body: bytes = b"again", **more: Any) -> tuple[str, str, StoredMessage]:
    """A topic, a group, and a message of the topic that the group has pulled."""
    topic, group = await t.topic(), await t.group()
    await t.send(topic, body, **more)
    [unit] = await t.pull_all(topic, 1, group=group)
    return topic, group, unit


async def arrives(t: Trial, topic: str, count: int = 1, *, group: str = "", seconds: float = SETTLE_S) -> list[StoredMessage]:
    """So many messages of a topic that may not be there yet."""
    found: list[StoredMessage] = []

    async def there() -> bool:
        pulled = await t.pull(topic, len(found), hold_ms=500, group=group)
        found.extend(pulled.messages)
        return len(found) >= count

    await t.until(f"{count} messages arrive in {topic}", there, seconds=seconds)
    return found


@case("retry.again", MUST, rests_on=PROCESSOR)
async def again(t: Trial) -> None:
    """A message given back comes to the group's retry topic after the delay.

    It keeps its body, tags, keys and unique key, counts one attempt more and names the topic that it came from.
    """
    unique_key = t.unique_key()
    topic, group, unit = await consumed(t, tags="a", keys="k", unique_key=unique_key)
    t.answer("give back", await give_back(t, group, unit), remark=None)
    [retried] = await arrives(t, RETRY + group)
    t.equal("body", bytes(retried.body), b"again")
    t.equal("attempts", retried.reconsume_times, 1)
    found = properties_of(retried)
    t.equal("topic that it came from", found.get(prop.RETRY_TOPIC), topic)
    kept = (prop.TAGS, prop.KEYS, prop.UNIQ_KEY)
    t.equal("tags, keys, unique key", [found.get(name) for name in kept], ["a", "k", unique_key])
    t.equal("born when the first was", retried.born_timestamp, unit.born_timestamp)
    t.equal("born where the first was", retried.born_host, unit.born_host)
    t.check(
        "not before its time",
        retried.store_timestamp - unit.store_timestamp >= 900,
        seen=retried.store_timestamp - unit.store_timestamp,
    )


@case("retry.origin-id", MUST, rests_on="MessageAccessor.setOriginMessageId")
async def origin(t: Trial) -> None:
    """A retried message names the id of the first."""
    topic, group = await t.topic(), await t.group()
    sent = await t.send(topic, b"first")
    [unit] = await t.pull_all(topic, 1, group=group)
    t.answer("give back", await give_back(t, group, unit))
    [once] = await arrives(t, RETRY + group, group=group)
    t.equal("ORIGIN_MESSAGE_ID", properties_of(once).get(prop.ORIGIN_MESSAGE_ID), sent.msg_id)
    t.answer("give back again", await give_back(t, group, once))
    twice = (await arrives(t, RETRY + group, 2, group=group))[1]
    t.equal("attempts", twice.reconsume_times, 2)
    t.equal("ORIGIN_MESSAGE_ID of the second", properties_of(twice).get(prop.ORIGIN_MESSAGE_ID), sent.msg_id)
    t.equal("topic that it came from", properties_of(twice).get(prop.RETRY_TOPIC), topic)


@case("retry.dead-letters.at-once", MUST, rests_on=f"{PROCESSOR}: delayLevel < 0")
async def dead_at_once(t: Trial) -> None:
    """A negative delay level: to the dead letters at once."""
    _, group, unit = await consumed(t, b"dead", keys="k")
    t.answer("give back", await give_back(t, group, unit, level=-1))
    [dead] = await arrives(t, DEAD_LETTERS + group)
    t.equal("body", bytes(dead.body), b"dead")
    t.equal("attempts", dead.reconsume_times, 1)
    found = properties_of(dead)
    t.equal("keys", found.get(prop.KEYS), "k")
    t.check("no delay", prop.DELAY not in found or found[prop.DELAY] == "0", seen=found)


@case("retry.dead-letters.after-attempts", MUST, rests_on=f"{PROCESSOR}: retryMaxTimes")
async def dead_after_attempts(t: Trial) -> None:
    """After the group's most attempts: to the dead letters."""
    topic, group = await t.topic(), await t.group(retry_max_times=1)
    await t.send(topic, b"twice")
    [unit] = await t.pull_all(topic, 1, group=group)
    t.answer("first time", await give_back(t, group, unit))
    [retried] = await arrives(t, RETRY + group, group=group)
    t.answer("second time", await give_back(t, group, retried))
    [dead] = await arrives(t, DEAD_LETTERS + group)
    t.equal("body, attempts", (bytes(dead.body), dead.reconsume_times), (b"twice", 2))


@case("retry.dead-letters.clients-limit", MUST, rests_on=f"{PROCESSOR}: maxReconsumeTimes")
async def clients_limit(t: Trial) -> None:
    """The client's own limit of attempts counts.

    From clients of 3.4.9 on, which state it in the request.
    """
    _, group, unit = await consumed(t)
    t.answer("give back", await give_back(t, group, unit, attempts_max=0))
    [dead] = await arrives(t, DEAD_LETTERS + group)
    t.equal("body", bytes(dead.body), b"again")


@case(
    "retry.dead-letters.readable", SHOULD, codes=Code.PULL_MESSAGE, since=(5,), rests_on="TopicConfigManager: perm of a DLQ topic"
)
async def dead_readable(t: Trial) -> None:
    """Dead letters can be read by any group."""
    _, group, unit = await consumed(t)
    t.answer("give back", await give_back(t, group, unit, level=-1))
    await arrives(t, DEAD_LETTERS + group)
    pulled = await t.pull(DEAD_LETTERS + group, 0, group=await t.group())
    t.answer("pull", pulled.answer)


@case("retry.switched-off", SHOULD, rests_on=f"{PROCESSOR}: retryQueueNums <= 0")
async def switched_off(t: Trial) -> None:
    """A group without retry queues: accepted, and nothing happens.

    Another group, to which the same message comes again, shows that the time is over.
    """
    topic, group, other = await t.topic(), await t.group(retry_queue_nums=0), await t.group()
    await t.send(topic, b"never again")
    [unit] = await t.pull_all(topic, 1, group=group)
    for name in (group, other):
        t.answer(f"{name} gives it back", await give_back(t, name, unit))
    await arrives(t, RETRY + other)
    for name in (RETRY, DEAD_LETTERS):
        ended = await t.broker.ask(GetMaxOffset(topic=name + group, queue_id=0))
        t.answer(f"the end of {name}{group}", ended, ext={"offset": "0"})


@case("retry.refused.no-message", MUST, rests_on=PROCESSOR)
async def no_message(t: Trial) -> None:
    """A place where no message is: an error."""
    group = await t.group()
    answer = await t.broker.ask(ConsumerSendMsgBack(offset=1 << 50, group=group, delay_level=1, origin_topic="x"))
    t.answer("give back", answer, code=ResponseCode.SYSTEM_ERROR, remark=re.compile("look message by offset failed"))


@case("retry.refused.unknown-group", INFO, rests_on=f"{PROCESSOR}: SUBSCRIPTION_GROUP_NOT_EXIST")
async def unknown_group(t: Trial) -> None:
    """What a group that nobody made is answered.

    0 from a broker that makes groups as they come (autoCreateSubscriptionGroup), 26 from one that does not; a broker that
    looks whether the group may have read the message may refuse it with 16.
    """
    _, _, unit = await consumed(t)
    answer = await give_back(t, t.name("unknown"), unit)
    t.note("answer", f"{answer.code} {answer.remark}")
    t.check("answered", answer.code >= 0, seen=answer.code)


@case("retry.send-to-retry-topic", MUST, codes=Code.SEND_MESSAGE_V2, rests_on="SendMessageProcessor.handleRetryAndDLQ")
async def send_to_retry_topic(t: Trial) -> None:
    """A client that cannot give back sends to the retry topic itself.

    With more attempts than allowed it becomes a dead letter.
    """
    group = await t.group()
    sent = t.message(RETRY + group, {prop.RETRY_TOPIC: "somewhere"}, reconsume_times=3, max_reconsume_times=16)
    t.answer("third attempt", await t.broker.ask(sent, b"third"))
    [unit] = await arrives(t, RETRY + group)
    t.equal("attempts", unit.reconsume_times, 3)
    sent = t.message(RETRY + group, {prop.RETRY_TOPIC: "somewhere"}, reconsume_times=17, max_reconsume_times=16)
    t.answer("too many", await t.broker.ask(sent, b"too many"))
    [dead] = await arrives(t, DEAD_LETTERS + group)
    t.equal("body", bytes(dead.body), b"too many")


@case(
    "retry.send-while-locked",
    MUST,
    codes=(Code.SEND_MESSAGE_V2, Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ),
    since=(5,),
    rests_on="SendMessageProcessor.handleRetryAndDLQ: isLockAllExpired",
)
async def send_while_locked(t: Trial) -> None:
    """While a member of the group holds a queue, what the group sends to its retry topic is a dead letter.

    An ordered consumer gives up that way.  Whatever the count, and whatever queue it is; once it is given back, no more.
    """
    group, topic = await t.group(), await t.topic()
    sent = t.message(RETRY + group, {prop.RETRY_TOPIC: "somewhere"}, reconsume_times=1, max_reconsume_times=16)
    t.equal("held", await locked(t, group, "one", topic, (0,)), [0])
    t.answer("while it is held", await t.broker.ask(sent, b"held"))
    [dead] = await arrives(t, DEAD_LETTERS + group)
    t.equal("dead letter", bytes(dead.body), b"held")
    await unlock(t, group, "one", topic, (0,))
    t.answer("when it is free", await t.broker.ask(sent, b"free"))
    [retried] = await arrives(t, RETRY + group)
    t.equal("retry", bytes(retried.body), b"free")


@case("retry.default-delay", MUST, rests_on=f"{PROCESSOR}: 3 + reconsumeTimes")
async def default_delay(t: Trial) -> None:
    """Delay level 0: the number of attempts chooses, 10 s for the first."""
    _, group, unit = await consumed(t)
    t.answer("give back", await give_back(t, group, unit, level=0))
    [retried] = await arrives(t, RETRY + group, seconds=25)
    waited_ms = retried.store_timestamp - unit.store_timestamp
    t.check("after 10 s", 9_500 <= waited_ms <= 10_000 + 6_000 * t.patience, expected="10 s", seen=f"{waited_ms} ms")


@case("retry.without-origin-topic", QUIRK, since=(5,), rests_on=f"{PROCESSOR}: a null pointer in TopicValidator")
async def without_origin_topic(t: Trial) -> None:
    """Without the name of its topic a message cannot become a dead letter.

    `originTopic` is optional in the request, and every stock client fills it in; the reference answers 1 where it does not.
    """
    _, group, unit = await consumed(t)
    answer = await t.broker.ask(ConsumerSendMsgBack(offset=unit.physical_offset, group=group, delay_level=-1))
    t.answer("give back", answer, code=ResponseCode.SYSTEM_ERROR)
