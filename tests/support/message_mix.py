"""Every kind of message for one broker, by plain requests: the same mix for ours and for Java's, from a seed.

Plain, several keys, tags, batch, compressed, delayed, sent back (retry and dead letter), one-way, big bodies, odd properties,
topics of more than 127 bytes (version 2 units); where the broker can: half messages committed, rolled back and left open, and
messages timed to the millisecond.  What a mix was answered is kept, so that it can be looked for in the log.
"""

from __future__ import annotations

import json
import random
import struct
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field

from rmq_wire.batch import Item, pack_items
from rmq_wire.codes import RequestCode
from tests.support.process import until
from tests.support.remoting import Answer
from tests.support.store_questions import OPS, pull_all
from tests.support.talk import Talk

QUEUES = 4
TOPIC = "mix"
GROUP = "GID_mix"
LONG_GROUP = "GID_" + "long" * 32
"""Too long for a new group; a store may have one from before, and its retry topic makes version 2 units."""
OFFSET_GROUPS = ("GID_offsets_0", "GID_offsets_1")
DEAD_TAG = "Dead"
COMMIT, ROLLBACK = 8, 12
ZLIB_FLAG = 0x1
ELSEWHERE = ("DELAY\1", "TIMER_DELAY_MS\1", "TRAN_MSG\1")
"""What is sent with one of these properties is first stored under another topic."""
HALVES = "RMQ_SYS_TRANS_HALF_TOPIC"
TIMERS = "rmq_sys_wheel_timer"
DELAY_S_MAX = 240.0
"""Only a hang takes as long."""
TIMED_MS, TIMED_WITHIN_MS = 1_100, 2_500
"""Of a timed message: its delay, and when it is delivered at the latest: at the next whole second."""

ODD_PROPERTIES = {
    "blank in name": " blank around ",
    "quotes": "\"'`\\",
    "grün": "Größe 你好 🍎",
    "equals=": "a=b;c=d",
    "braces": "{}[]<>$ref",
    "new\nline": "tab\tand\rreturn",
    "0": "1",
}
ODD_TEXT = "".join(f"{name}\1{value}\2" for name, value in ODD_PROPERTIES.items())


@dataclass
class Stored:
    """What the broker answered to a send."""

    topic: str
    queue_id: int
    queue_offset: int
    message_id: str
    body: bytes


@dataclass
class Mix:
    """Messages from a seed, for one broker after the other."""

    seed: int
    body_bytes_max: int
    born_ms: int
    long_names: bool = True
    """The broker has version 2 units."""
    acknowledged: list[Stored] = field(default_factory=list)
    expected: Counter[str] = field(default_factory=Counter)
    """topic -> messages that will be in its queues when all delays have passed"""
    deleted: set[str] = field(default_factory=set)
    ended: int = 0
    """Half messages committed or rolled back: each is named in some op message."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._number = 0
        self._timed_at_ms: int | None = None

    def properties(self, unique: bool = True, **more: object) -> str:
        """What a producer would send."""
        self._number += 1
        pairs = {"UNIQ_KEY": f"7F0000010001{self.seed:04X}{self._number:016X}", "WAIT": "true"} if unique else {}
        return "".join(f"{name}\1{value}\2" for name, value in {**pairs, **more}.items() if value is not None)

    def body(self, size: int | None = None) -> bytes:
        count = size or self._random.choice((0, 1, 7, 30, 100, 300, 1000, 3000)) + 1
        return self._random.randbytes(count)

    def send(
        self,
        line: Talk,
        body: bytes,
        properties: str,
        *,
        topic: str = TOPIC,
        queue: int | None = None,
        sys_flag: int = 0,
        flag: int = 0,
        batch: bool = False,
        one_way: bool = False,
        lands: str | None = None,
        count: int = 1,
    ) -> Answer | None:
        """One send; `lands`: the topic where it will be readable at last."""
        queue_id = self._random.randrange(QUEUES) if queue is None else queue
        self.born_ms += self._random.randrange(50)
        fields = {
            "a": "PID_mix",
            "b": topic,
            "c": "TBW102",
            "d": QUEUES,
            "e": queue_id,
            "f": sys_flag,
            "g": self.born_ms,
            "h": flag,
            "i": properties,
            "j": 0,
            "k": False,
            "m": batch,
        }
        code = RequestCode.SEND_BATCH_MESSAGE if batch else RequestCode.SEND_MESSAGE_V2
        self.expected[lands or topic] += count
        if one_way:
            line.send_oneway(code, fields, body)
            return None
        answer = line.good(code, fields, body)
        stored = Stored(topic, int(answer.ext["queueId"]), int(answer.ext["queueOffset"]), answer.ext["msgId"], body)
        if topic == TOPIC and not batch and not any(name in properties for name in ELSEWHERE):
            self.acknowledged.append(stored)
        return answer

    def everything(self, line: Talk, count: int) -> None:
        """`count` times round all kinds that both brokers have."""
        for turn in range(count):
            self.at_once(line, turn)
            self.later(line, turn)
        self.send(line, self.body(self.body_bytes_max), self.properties(TAGS="TagA", p="v" * 9_000))

    def at_once(self, line: Talk, turn: int) -> None:
        """What can be read as soon as it is answered."""
        number = f"{self.seed}-{self._number}"
        self.send(line, self.body(), "")
        self.send(line, self.body(), self.properties(unique=turn % 2 == 0), flag=turn)
        self.send(line, self.body(), self.properties(KEYS=f"one-{number}  two-{number} shared", TAGS="TagA"))
        self.send(line, self.body(), self.properties(KEYS="schlüssel 钥匙", TAGS="🍎 tag || x") + ODD_TEXT)
        self.send(line, b"one-way", self.properties(TAGS="TagB"), one_way=True)
        self.send(line, zlib.compress(b"pressed " * 500), self.properties(TAGS="TagB"), sys_flag=ZLIB_FLAG)
        self.batch(line, 1 + turn % 5, self._random.choice((10, 900)))
        self.send(line, self.body(self._random.randrange(self.body_bytes_max)), self.properties(KEYS="big"))
        self.send(line, b"dead", self.properties(TAGS=DEAD_TAG))
        self.send_back(line, GROUP, -1)

    def later(self, line: Talk, turn: int) -> None:
        """What comes after a delay: by level, and sent back."""
        number = f"{self.seed}-{self._number}"
        self.send(line, self.body(), self.properties(DELAY=1 + turn % 2, KEYS=f"late-{number}", TAGS="TagA"))
        self.send(line, b"to be sent back", self.properties(TAGS="Back", KEYS=f"back-{number}"))
        self.send_back(line, GROUP, 1)
        self.send(line, b"long", self.properties(TAGS="Back"))
        self.send_back(line, LONG_GROUP if self.long_names else GROUP, 1)

    def batch(self, line: Talk, count: int, size: int) -> None:
        items = [
            Item(number, self.body(size + number), self.properties(KEYS=f"item-{number}", TAGS="TagA").encode())
            for number in range(count)
        ]
        self.send(line, pack_items(items), self.properties(), batch=True, count=count)

    def send_back(self, line: Talk, group: str, delay_level: int) -> None:
        """The last message comes again in the group's retry topic, or, with a negative delay, in its dead letter topic."""
        last = self.acknowledged[-1]
        fields = {
            "offset": int(last.message_id[-16:], 16),
            "group": group,
            "delayLevel": delay_level,
            "originMsgId": last.message_id,
            "originTopic": TOPIC,
            "unitMode": False,
            "maxReconsumeTimes": 16,
        }
        line.good(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
        self.expected[("%DLQ%" if delay_level < 0 else "%RETRY%") + group] += 1

    def transactions(self, line: Talk) -> None:
        """Three half messages: one is committed, one rolled back, one stays open."""
        for outcome in (COMMIT, ROLLBACK, None):
            properties = self.properties(TRAN_MSG="true", PGROUP="PID_mix", KEYS="tx", TAGS="Tx")
            lands = TOPIC if outcome == COMMIT else HALVES
            answer = self.send(line, b"half", properties, lands=lands)
            assert answer is not None
            if outcome is None:
                continue
            self.expected[HALVES] += outcome == COMMIT
            fields = {
                "producerGroup": "PID_mix",
                "tranStateTableOffset": answer.ext["queueOffset"],
                "commitLogOffset": int(answer.ext["msgId"][-16:], 16),
                "commitOrRollback": outcome,
                "fromTransactionCheck": False,
                "msgId": properties.split("\1")[1].split("\2")[0],
                "topic": TOPIC,
            }
            line.good(RequestCode.END_TRANSACTION, fields)
            self.ended += 1

    def timed(self, line: Talk) -> None:
        """By TIMER_DELAY_MS, within two seconds."""
        self._timed_at_ms = now_ms()
        self.send(line, b"timed", self.properties(TIMER_DELAY_MS=TIMED_MS, KEYS="timed"))

    def topics(self, line: Talk, turn: int) -> None:
        """A topic for this turn, filled; the one of the turn before is deleted, whoever made it. Names come again."""
        made, gone = f"temporary-{turn % 2}", f"temporary-{(turn + 1) % 2}"
        make_topic(line, made)
        self.deleted.discard(made)
        for number in range(5):
            properties = self.properties(TAGS="T", KEYS=f"temporary temporary-{turn}")
            self.send(line, self.body(), properties, topic=made, queue=number % QUEUES)
        if turn:
            line.good(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": gone})
            self.deleted.add(gone)
            del self.expected[gone]

    def commit_offsets(self, line: Talk, turn: int) -> None:
        """A consumer group's progress, other queues in other turns."""
        fields = {"consumerGroup": OFFSET_GROUPS[turn % 2], "topic": TOPIC, "queueId": turn % QUEUES, "commitOffset": 1 + turn}
        line.good(RequestCode.UPDATE_CONSUMER_OFFSET, fields)

    def settle(self, line: Talk) -> None:
        """Wait until nothing is on its way any more: delays passed, everything dispatched, ends of transactions written."""
        for topic, count in self.expected.items():
            until(lambda: messages_in(line, topic) >= count, f"{count} in {topic}", seconds=DELAY_S_MAX)  # noqa: B023
            assert messages_in(line, topic) == count, topic
        if self.ended:
            until(lambda: self._ends(line) >= self.ended, f"{self.ended} ends of transactions", seconds=DELAY_S_MAX)
        if self._timed_at_ms is not None and self.long_names:
            until(lambda: self._timers_are_noted(line), "the timer's checkpoint", seconds=DELAY_S_MAX)
        self._timed_at_ms = None
        until(lambda: _behind(line) == 0, "dispatch", seconds=DELAY_S_MAX)

    def _timers_are_noted(self, line: Talk) -> bool:
        """Whether the real broker's timer has written that it is past all that was timed.

        It writes so once a second (`TimerFlushService`); stopped before, its next start delivers once more what is already there.
        """
        read_ms, _, _, next_offset = struct.unpack_from(">4q", line.good(RequestCode.GET_TIMER_CHECK_POINT).body)
        assert self._timed_at_ms is not None
        return read_ms > self._timed_at_ms + TIMED_WITHIN_MS and next_offset >= max_offset(line, TIMERS, 0)

    def _ends(self, line: Talk) -> int:
        """How many half messages the op messages name: each of them some, with a comma after each; in 4.x each of them one."""
        count = messages_in(line, OPS)
        if not count or not self.long_names:
            return count
        return sum(bytes(unit.body).count(b",") for unit in pull_all(line, OPS, 0))


def make_topic(line: Talk, topic: str, queues: int = QUEUES) -> None:
    """As mqadmin updateTopic."""
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    line.good(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


def messages_in(line: Talk, topic: str) -> int:
    """Over all queues."""
    return sum(max_offset(line, topic, queue_id) for queue_id in range(QUEUES))


def max_offset(line: Talk, topic: str, queue_id: int) -> int:
    """One past the queue's last message."""
    return int(line.good(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": queue_id}).ext["offset"])


def _behind(line: Talk) -> int:
    """Bytes of the log that are not in queues and index yet."""
    table = line.good(RequestCode.GET_BROKER_RUNTIME_INFO).json()["table"]
    assert isinstance(table, dict)
    return int(table["dispatchBehindBytes"])


def first_configuration() -> dict[str, str]:
    """Files of a new store's `config` directory: the topic, and a group from a time when names could be longer."""
    topic = {"topicName": TOPIC, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6, "topicFilterType": "SINGLE_TAG"}
    groups = {name: {"groupName": name, "retryQueueNums": 1, "retryMaxTimes": 16} for name in (GROUP, LONG_GROUP, *OFFSET_GROUPS)}
    return {
        "topics.json": json.dumps({"topicConfigTable": {TOPIC: topic}}),
        "subscriptionGroup.json": json.dumps({"subscriptionGroupTable": groups}),
    }


def now_ms() -> int:
    return time.time_ns() // 1_000_000
