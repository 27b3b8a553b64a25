"""The same random POP requests to two brokers: what they answer must be equal, but for times, ids and what is documented.

Topics with one queue are popped as a whole, others queue by queue: where a pop of all queues begins is chance.  Messages are
known by their place, receipts are each broker's own.  What comes again does so when a round is over, and is popped in the next.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from rmq_wire import names, pop_receipt
from rmq_wire import property_names as prop
from rmq_wire.bodies.pop import bits_text
from rmq_wire.codes import RequestCode as Code
from tests.support.process import until
from tests.support.remoting import Answer
from tests.support.requests import pairs, props, units
from tests.support.talk import Talk

QUEUES: Final = {"A": 1, "B": 1, "M": 3, "PR": 3}
ORDERLY: Final = "O1"
GROUPS: Final = ("G1", "G2", ORDERLY)
ASKERS: Final = (*GROUPS * 4, "OFF", "NEW", "bad group!")
TOPICS: Final = (*"AAAAAABBBBMMMM", "PR", "W", "nosuch", "%RETRY%G1_A")
LONG_MS, SHORT_MS = 3_600_000, 1_000
AGAIN_S: Final = 120.0
CHANGE: Final = Code.CHANGE_MESSAGE_INVISIBLETIME
ORDERED: Final = f" {pop_receipt.ORDER_QUEUE} "
ALL: Final = 1_000
KEPT: Final = 60
"""Of receipts."""
WRONG: Final = 0.2
"""Of the ends of messages."""
EXPRESSIONS: Final = (
    ("TAG", "x"),
    ("TAG", "x || y"),
    ("TAG", "*"),
    ("TAG", "||"),
    ("TAG", ""),
    (None, "x"),
    ("SQL92", "a > 2"),
    ("SQL92", "a >"),
    ("OTHER", "x"),
    ("TAG", " x ||  "),
    ("SQL92", "TAGS = 'x'"),
    ("tag", "x"),
    ("sql92", "a>1"),
)
Fields = dict[str, Any]
Answers = tuple[Answer, Answer]


class Handle(NamedTuple):
    """A message that both handed out: each one's receipt for it."""

    receipts: tuple[str, str]
    topic: str
    group: str


class Duel:
    """Of one seed.  `first`, `second`: addresses of brokers of one name and configuration.  `v2`: of retry topics.

    `ORDERLY` pops in order, the other groups do not: where one does both, check points of the real broker set progress back that
    an ordered pop has made, when their turn comes; ours do not.
    """

    def __init__(self, first: str, second: str, broker_name: str, seed: int, *, v2: bool = False) -> None:
        self.talks = (Talk(first), Talk(second))
        self.broker_name, self.v2 = broker_name, v2
        self.rng = random.Random(seed)
        self.handles: list[Handle] = []
        self.number = 0
        for topic, queues in QUEUES.items():
            self.make(topic, queues, attributes="+message.type=PRIORITY" if topic == "PR" else None)
        self.make("W", 2, perm=2)
        for group in (*GROUPS, "OFF"):
            body = {"groupName": group, "consumeEnable": group != "OFF", "retryQueueNums": 1, "retryMaxTimes": 16}
            self.both(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(body).encode())

    def close(self) -> None:
        for talk in self.talks:
            talk.close()

    def play(self, steps: int) -> None:
        """Raises `AssertionError` when the brokers do not say the same."""
        doings: dict[Callable[[], None], int] = {
            self.send: 22,
            self.pop: 34,
            self.ack: 14,
            self.change: 6,
            self.batch: 6,
            self.peek: 5,
            self.notification: 6,
            self.polling: 1,
            self.progress: 4,
            self.reset: 1,
        }
        for doing in self.rng.choices(list(doings), list(doings.values()), k=steps):
            doing()
        self.come_again()

    def come_again(self) -> None:
        """One message of each topic and group is given back, and comes: of several the order is chance."""
        expected = self.ends(0)
        for handle in {(handle.topic, handle.group): handle for handle in self.handles}.values():
            if ORDERED not in handle.receipts[0]:
                fields = {"invisibleTime": SHORT_MS}
                answers = [talk.call(CHANGE, self.of(handle, side, fields, {})) for side, talk in enumerate(self.talks)]
                if self.same(CHANGE, (answers[0], answers[1]), handle):
                    retry = pop_receipt.topic_of_flag(handle.receipts[0].split(" ")[4], handle.topic, handle.group)
                    plain = not retry.startswith(names.RETRY_PREFIX)
                    expected[names.pop_retry_topic(retry, handle.group, v2=self.v2) if plain else retry] += 1
        self.handles.clear()
        until(
            lambda: expected == self.ends(0) == self.ends(1), "what was given back, in the retry topics of both", seconds=AGAIN_S
        )

    def ends(self, side: int) -> dict[str, int]:
        """How much there is in every retry topic of one."""
        found = [names.pop_retry_topic(topic, group, v2=v2) for group in GROUPS for topic in QUEUES for v2 in (False, True)]
        found += [names.pop_retry_topic("%RETRY%G1_A", group) for group in GROUPS]
        answers = {name: self.talks[side].call(Code.GET_MAX_OFFSET, {"topic": name, "queueId": 0}) for name in found}
        return {name: int(answer.ext.get("offset", 0)) for name, answer in answers.items()}

    # Asking both

    def both(self, code: Code, fields: Fields, body: bytes = b"") -> Answers:
        one, other = (talk.call(code, fields, body) for talk in self.talks)
        return one, other

    def same(self, code: Code, answers: Answers, asked: object) -> bool:
        """They are equal; says whether they are good."""
        one, other = (said(code, answer) for answer in answers)
        assert one == other, f"{code.name} {asked}"
        return answers[0].code == 0

    def ask(self, code: Code, fields: Fields, body: bytes = b"") -> Answers | None:
        """Both answers; None for refusals."""
        answers = self.both(code, fields, body)
        return answers if self.same(code, answers, (fields, body)) else None

    def make(self, topic: str, queues: int, *, perm: int = 6, attributes: str | None = None) -> None:
        fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": perm}
        more = {"topicFilterType": "SINGLE_TAG", "order": "false", "attributes": attributes}
        self.ask(Code.UPDATE_AND_CREATE_TOPIC, {**fields, **more})

    # Messages

    def send(self) -> None:
        self.number += 1
        topic = self.rng.choice("AABM") if self.rng.random() < 0.8 else "PR"
        queue = self.rng.randrange(QUEUES[topic])
        values = {"UNIQ_KEY": f"U{self.number:08}", "WAIT": "true", "a": str(self.rng.randrange(5))}
        if tag := self.rng.choice("xyz "):
            values |= {"TAGS": tag} if tag.strip() else {}
        fields = {"a": "P", "b": topic, "c": "TBW102", "d": 4, "e": queue, "f": 0, "g": 1_700_000_000_000, "h": 0}
        fields |= {"i": pairs(**values), "j": 0, "k": "false", "m": "false", "n": self.broker_name}
        self.ask(Code.SEND_MESSAGE_V2, fields, b"m%d" % self.number)
        until(lambda: self.end(0, topic, queue) == self.end(1, topic, queue), f"queue {queue} of {topic}")

    def end(self, side: int, topic: str, queue: int) -> int:
        return int(self.talks[side].good(Code.GET_MAX_OFFSET, {"topic": topic, "queueId": queue}).ext["offset"])

    def place(self) -> Fields:
        """A topic, a queue of it or beyond it, a group."""
        topic, one = self.rng.choice(TOPICS), self.rng.random()
        queues = QUEUES.get(topic, 3)
        queue = self.rng.randrange(queues) if one < 0.7 or queues > 1 else -1
        if one > 0.95:
            queue = self.rng.choice((queues, 1_000, 2**31 - 1, *((-2,) if queues == 1 else ())))
        return {"consumerGroup": self.rng.choice(ASKERS), "topic": topic, "queueId": queue}

    def pop(self) -> None:
        fields = self.place()
        if self.rng.random() < 0.2:
            fields["consumerGroup"] = ORDERLY
        order = fields["consumerGroup"] == ORDERLY
        now = int(time.time() * 1e3)
        born = now - 5_000 if self.rng.random() < 0.03 else self.rng.choice((0, now + 60_000))
        count = self.rng.choice((1, 2, 3, 5, 8, 32)) if self.rng.random() < 0.8 else self.rng.choice((0, 33, -1))
        fields |= {"maxMsgNums": count, "pollTime": 0, "bornTime": born}
        fields |= {"invisibleTime": LONG_MS, "initMode": self.rng.choice((0, 0, 1, 2, -1))}
        if self.rng.random() < 0.35:
            fields["expType"], fields["exp"] = self.rng.choice(EXPRESSIONS)
        fields["order"] = "true" if order else self.rng.choice((None, "false", "junk"))
        fields["attemptId"] = self.rng.choice((None, None, None, "a1", "a2"))
        self.take(fields)

    def take(self, fields: Fields) -> None:
        """A pop, and the messages that both have handed out."""
        answers = self.ask(Code.POP_MESSAGE, fields)
        if answers is not None:
            topic, group = fields["topic"], fields["consumerGroup"]
            (known, one), (other_known, other) = (handed(answer, self.broker_name) for answer in answers)
            assert known == other_known, f"POP_MESSAGE {fields}"
            self.handles += [Handle(receipts, topic, group) for receipts in zip(one, other, strict=True)]
            del self.handles[:-KEPT]

    def peek(self) -> None:
        fields = self.place()
        answers = self.ask(Code.PEEK_MESSAGE, {**fields, "maxMsgNums": self.rng.choice((ALL, ALL, ALL, -1))})
        if answers is not None:  # whether retries come first is chance
            one, other = (sorted((unit.topic, unit.queue_offset, unit.body) for unit in units(answer.body)) for answer in answers)
            assert one == other, f"PEEK_MESSAGE {fields}"

    def notification(self) -> None:
        fields = {**self.place(), "pollTime": 0, "bornTime": 0}
        if self.rng.random() < 0.4:
            fields["expType"], fields["exp"] = self.rng.choice(EXPRESSIONS)
        fields |= {"order": self.rng.choice((None, None, "true")), "attemptId": self.rng.choice((None, "a1"))}
        self.ask(Code.NOTIFICATION, fields)

    def polling(self) -> None:
        self.ask(Code.POLLING_INFO, self.place())

    def progress(self) -> None:
        topic = self.rng.choice(("A", "B", "%RETRY%G1_A"))
        fields = {"consumerGroup": self.rng.choice(GROUPS), "topic": topic, "queueId": 0}

        def equal() -> bool:
            """Soon: with a buffer the real broker's moves when it looks through that."""
            one, other = (said(Code.QUERY_CONSUMER_OFFSET, answer) for answer in self.both(Code.QUERY_CONSUMER_OFFSET, fields))
            return one == other

        until(equal, f"the same progress, {fields}", seconds=AGAIN_S)

    def reset(self) -> None:
        topic = self.rng.choice("AB")
        offset = self.rng.randrange(max(self.end(0, topic, 0), 1))
        group = self.rng.choice(GROUPS)
        fields = {"topic": topic, "group": group, "timestamp": -1, "isForce": "true", "queueId": 0}
        self.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, {**fields, "offset": offset})
        if group == ORDERLY:  # the real broker keeps a batch until a pop, and its notifications say that the queue is taken
            first = {"consumerGroup": group, "topic": topic, "queueId": 0, "maxMsgNums": 1, "pollTime": 0, "bornTime": 0}
            self.take({**first, "invisibleTime": LONG_MS, "initMode": 0, "order": "true"})

    # Giving them back

    def of(self, handle: Handle, side: int, fields: Fields, words: Mapping[int, int]) -> Fields:
        """The fields of an end of a message.  `words`: what is added to words of the receipt."""
        receipt = handle.receipts[side].split(" ")
        topic = pop_receipt.topic_of_flag(receipt[4], handle.topic, handle.group)
        said = {"topic": topic, "consumerGroup": handle.group, "queueId": receipt[6], "offset": receipt[7]}
        for at, more in words.items():
            receipt[at] = str(int(receipt[at]) + more)
        return {**said, "extraInfo": " ".join(receipt), **fields}

    def wrong(self, handle: Handle) -> tuple[Fields, dict[int, int]]:
        """Mostly nothing.

        An ordered one stays in its queue: where nothing is known of a batch, what is acknowledged moves the real broker's
        progress, and not ours.
        """
        odd: tuple[tuple[Fields, dict[int, int]], ...] = (
            ({"offset": self.rng.choice((-1, 0, 1, 100_000))}, {}),
            ({"queueId": self.rng.choice((-1, 0, 1, 5))}, {}),
            ({"topic": self.rng.choice(("A", "B", "nosuch", "W"))}, {}),
            ({"consumerGroup": self.rng.choice(("G1", "O1", "ghost"))}, {}),
            ({}, {1: self.rng.choice((1, -1, -1_000))}),
        )
        if self.rng.random() >= WRONG:
            return {}, {}
        return self.rng.choice((odd[0], odd[-1]) if ORDERED in handle.receipts[0] else odd)

    def end_of(self, code: Code, handle: Handle, more: Fields) -> Answers | None:
        fields, words = self.wrong(handle)
        one, other = (talk.call(code, self.of(handle, side, {**more, **fields}, words)) for side, talk in enumerate(self.talks))
        good = self.same(code, (one, other), (handle, more, fields, words))
        return (one, other) if good and not fields and not words else None

    def ack(self) -> None:
        if self.handles:
            handle = self.rng.choice(self.handles)
            if self.end_of(Code.ACK_MESSAGE, handle, {}) is not None and self.rng.random() < 0.7:
                self.handles.remove(handle)

    def change(self) -> None:
        if not self.handles:
            return
        at = self.rng.randrange(len(self.handles))
        handle = self.handles[at]
        soon = 0 if ORDERED in handle.receipts[0] else LONG_MS  # an ordered one may be had again at once
        more = {"invisibleTime": self.rng.choice((LONG_MS, soon)), "suspend": self.rng.choice((None, "true"))}
        answers = self.end_of(CHANGE, handle, more)
        if answers is not None and self.rng.random() < 0.7:
            one, other = (renewed(text, answer) for text, answer in zip(handle.receipts, answers, strict=True))
            self.handles[at] = handle._replace(receipts=(one, other))

    def batch(self) -> None:
        several = self.rng.sample(self.handles, min(len(self.handles), self.rng.randrange(1, 5)))
        odd = [self.rng.choice(({"q": 7}, {"t": "nosuch"}, {"b": bits_text((0, 1, 2, 40))})) for _ in several]
        odd = [one if self.rng.random() < 0.1 else {} for one in odd]
        named = self.rng.random() < 0.9
        answers = []
        for side, talk in enumerate(self.talks):
            acks = [{**ack_of(handle, side), **more} for handle, more in zip(several, odd, strict=True)]
            body = {"acks": acks, **({"brokerName": self.broker_name} if named else {})}
            answers.append(talk.call(Code.BATCH_ACK_MESSAGE, {}, json.dumps(body).encode()))
        self.same(Code.BATCH_ACK_MESSAGE, (answers[0], answers[1]), (several, odd, named))


def ack_of(handle: Handle, side: int) -> Fields:
    start, popped, invisible, revive, flag, _, queue, offset = handle.receipts[side].split(" ")
    said = {"so": int(start), "q": int(queue), "rq": int(revive), "pt": int(popped), "it": int(invisible)}
    return {"c": handle.group, "t": handle.topic, "r": flag, **said, "b": bits_text([int(offset) - int(start)])}


def renewed(receipt: str, answer: Answer) -> str:
    """After its time was changed; an ordered one stays as it is."""
    words = receipt.split(" ")
    if words[3] != str(pop_receipt.ORDER_QUEUE):
        words[:3] = words[7], answer.ext["popTime"], answer.ext["invisibleTime"]
    return " ".join(words)


def handed(answer: Answer, broker_name: str) -> tuple[list[object], list[str]]:
    """What tells the messages of a pop apart, and their receipts."""
    ext = answer.ext
    starts = pop_receipt.read_start_offsets(ext.get("startOffsetInfo"))
    offsets = {key: list(found) for key, found in pop_receipt.read_msg_offsets(ext.get("msgOffsetInfo")).items()}
    known: list[object] = []
    receipts = []
    for unit in units(answer.body):
        values = props(unit)
        receipt = values.get(prop.POP_CK)
        if receipt is None:
            key = f"{pop_receipt.flag_of(unit.topic.decode())}@{unit.queue_id}"
            words = (starts[key], ext["popTime"], ext["invisibleTime"], ext["reviveQid"], key[0], broker_name, unit.queue_id)
            receipt = " ".join(map(str, (*words, offsets[key].pop(0))))
        known.append((unit.topic, unit.queue_id, unit.queue_offset, unit.body, unit.reconsume_times, sorted(values)))
        receipts.append(receipt)
    return known, receipts


def said(code: Code, answer: Answer) -> object:
    """An answer without times, ids, addresses and the words of exceptions; without the fields of one that refuses."""
    remark = re.sub(r"/?127\.0\.0\.1(:\d+)?", "HOST", answer.remark or "")
    if answer.code == 1:
        return 1
    times = {"popTime", "msgId", "transactionId", "reviveQid", "broker"}
    if code is CHANGE:
        times.add("invisibleTime")
    ext = {name: value for name, value in answer.ext.items() if name not in times}
    return answer.code, remark, ext if answer.code in (0, 209) or (answer.code == 210 and "timeout" not in remark) else None
