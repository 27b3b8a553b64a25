"""A conversation of administration calls, and what the real broker answered: the judge of our answers.

`CALLS` is sent in order to a fresh broker.  `python -m tests.broker.admin_calls` asks Apache RocketMQ 5.5.0 and writes
`golden/admin_answers.json` and the configuration files that it leaves behind; the tests ask our engine and compare.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

GOLDEN = Path(__file__).parent / "golden"
ANSWERS = GOLDEN / "admin_answers.json"
CONFIG_FILES = ("topics.json", "subscriptionGroup.json", "consumerOffset.json")
BROKER_NAME = "broker-a"


class Ask(NamedTuple):
    """One request: a label, its code, header fields and body."""

    label: str
    code: int
    ext: dict[str, str] = {}
    body: str = ""


def topic(name: str, **fields: str) -> dict[str, str]:
    """Header of 17."""
    base = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    return {**base, **fields}


def group(name: str, **fields: Any) -> str:
    """Body of 200."""
    return json.dumps({"groupName": name, **fields})


def heartbeat(client: str, consumers: list[dict[str, Any]], producers: list[str], **fields: Any) -> str:
    """Body of 34."""
    return json.dumps(
        {
            "clientID": client,
            "consumerDataSet": consumers,
            "producerDataSet": [{"groupName": p} for p in producers],
            "heartbeatFingerprint": 0,
            "withoutSub": False,
            **fields,
        }
    )


def consumer(name: str, *topics: str, model: str = "CLUSTERING") -> dict[str, Any]:
    """One consumer group of a heartbeat."""
    subscriptions = [
        {
            "topic": t,
            "subString": "a || b",
            "tagsSet": ["a", "b"],
            "codeSet": [97, 98],
            "subVersion": 1700000000000,
            "expressionType": "TAG",
            "classFilterMode": False,
        }
        for t in topics
    ]
    return {
        "groupName": name,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": model,
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": subscriptions,
        "unitMode": False,
    }


def offset(group_name: str, topic_name: str, queue: str, commit: str) -> dict[str, str]:
    """Header of 15."""
    return {"consumerGroup": group_name, "topic": topic_name, "queueId": queue, "commitOffset": commit}


def reset(group_name: str, **fields: str) -> dict[str, str]:
    """Header of 222: to the end of every queue, unless the fields say otherwise."""
    base = {"topic": "TopicA", "group": group_name, "timestamp": "-1", "isForce": "true", "queueId": "-1"}
    return {**base, **fields}


def send(topic_name: str, queue: str, text: str) -> tuple[dict[str, str], str]:
    """Header and body of 310."""
    return {
        "a": "PG",
        "b": topic_name,
        "c": "TBW102",
        "d": "4",
        "e": queue,
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": f"UNIQ_KEY\u0001{text.upper():0>32}\u0002TAGS\u0001a\u0002",
        "j": "0",
        "k": "false",
        "m": "false",
    }, text


CALLS: tuple[Ask, ...] = (
    Ask("runtime", 28),
    Ask("config", 26),
    Ask("topics: all", 21),
    Ask("groups: all", 201),
    Ask("system topics", 305),
    Ask("create", 17, topic("TopicA")),
    Ask("create again", 17, topic("TopicA")),
    Ask("create with attributes", 17, topic("TopicB", attributes="+message.type=FIFO", readQueueNums="8", order="true")),
    Ask("create: attribute without sign", 17, topic("TopicC", attributes="message.type=FIFO")),
    Ask("create: attribute removed", 17, topic("TopicC", attributes="-message.type")),
    Ask("create: attribute unknown", 17, topic("TopicC", attributes="+no.such=1")),
    Ask("create: attribute not in set", 17, topic("TopicC", attributes="+message.type=XXX")),
    Ask("create: queue type not in set", 17, topic("TopicC", attributes="+queue.type=XXX")),
    Ask("create: mixed", 17, topic("TopicC", attributes="+message.type=MIXED")),
    Ask("create: reserve time", 17, topic("TopicC", attributes="+reserve.time=5")),
    Ask("create: expiration out of range", 17, topic("TopicC", attributes="+lite.topic.expiration=99999")),
    Ask("create: expiration no number", 17, topic("TopicC", attributes="+lite.topic.expiration=x")),
    Ask("create: attribute twice", 17, topic("TopicC", attributes="+message.type=FIFO,+message.type=DELAY")),
    Ask("create: attribute without value", 17, topic("TopicC", attributes="+message.type=")),
    Ask("update: unchangeable", 17, topic("TopicB", attributes="+queue.type=BatchCQ")),
    Ask("update: remove absent", 17, topic("TopicB", attributes="-cleanup.policy")),
    Ask("update: remove", 17, topic("TopicB", attributes="-message.type")),
    Ask("create: illegal name", 17, topic("Topic/../x")),
    Ask("create: blank name", 17, topic(" ")),
    Ask("create: long name", 17, topic("x" * 128)),
    Ask("create: long retry name", 17, topic("%RETRY%" + "x" * 249)),
    Ask("create: system name", 17, topic("SELF_TEST_TOPIC")),
    Ask("create: own system name", 17, topic("DefaultCluster")),
    Ask("create: filter type", 17, topic("TopicC", topicFilterType="NO")),
    Ask("create: number", 17, topic("TopicC", readQueueNums="x")),
    Ask(
        "list: create",
        18,
        {},
        json.dumps(
            {
                "topicConfigList": [
                    {
                        "topicName": "TopicL1",
                        "readQueueNums": 2,
                        "writeQueueNums": 2,
                        "perm": 6,
                        "attributes": {"+message.type": "DELAY"},
                    },
                    {"topicName": "TopicL2"},
                ]
            }
        ),
    ),
    Ask("list: illegal", 18, {}, json.dumps({"topicConfigList": [{"topicName": "TopicL3"}, {"topicName": "a b"}]})),
    Ask("topic config", 351, {"topic": "TopicL1", "lo": "true"}),
    Ask("topic config: absent", 351, {"topic": "Nope", "lo": "true"}),
    Ask("topic stats: absent", 202, {"topic": "Nope"}),
    Ask("send 1", 310, *send("TopicA", "0", "one")),
    Ask("send 2", 310, *send("TopicA", "0", "two")),
    Ask("send 3", 310, *send("TopicA", "3", "three")),
    Ask("topic stats", 202, {"topic": "TopicA"}),
    Ask("group: create", 200, {}, group("GroupA", retryMaxTimes=3)),
    Ask("group: create with attributes", 200, {}, group("GroupB", attributes={"+priority.factor": "50"})),
    Ask("group: attribute unknown", 200, {}, group("GroupC", attributes={"+no.such": "1"})),
    Ask("group: attribute out of range", 200, {}, group("GroupC", attributes={"+priority.factor": "101"})),
    Ask("group: attribute no boolean", 200, {}, group("GroupC", attributes={"+lite.sub.reset.offset.exclusive": "x"})),
    Ask("group: attribute not in set", 200, {}, group("GroupC", attributes={"+lite.sub.model": "x"})),
    Ask("group: blank", 200, {}, group("")),
    Ask("group: illegal", 200, {}, group("a/b")),
    Ask("group: long", 200, {}, group("g" * 121)),
    Ask("group: empty body", 200),
    Ask("group list: create", 225, {}, json.dumps({"groupConfigList": [{"groupName": "GroupL1"}, {"groupName": "GroupL2"}]})),
    Ask("group config", 352, {"group": "GroupA"}),
    Ask("group config: made", 352, {"group": "GroupM"}),
    Ask("group config: illegal", 352, {"group": "a/b"}),
    Ask("forbid", 353, {"group": "GroupA", "topic": "TopicB", "readable": "false"}),
    Ask("forbidden?", 353, {"group": "GroupA", "topic": "TopicB"}),
    Ask("not forbidden?", 353, {"group": "GroupA", "topic": "TopicA"}),
    Ask("consumers: none", 38, {"consumerGroup": "GroupA"}),
    Ask("consumer connections: none", 203, {"consumerGroup": "GroupA"}),
    Ask("producer connections: none", 204, {"producerGroup": "PG"}),
    Ask("heartbeat", 34, {}, heartbeat("1.2.3.4@7", [consumer("GroupA", "TopicA", "%RETRY%GroupA")], ["PG"])),
    Ask("heartbeat: broadcasting", 34, {}, heartbeat("1.2.3.4@7", [consumer("GroupC", "TopicA", model="BROADCASTING")], [])),
    Ask("heartbeat: illegal group", 34, {}, heartbeat("1.2.3.4@7", [consumer("a/b", "TopicA")], [])),
    Ask("heartbeat V2", 34, {}, heartbeat("1.2.3.4@7", [consumer("GroupV", "TopicA")], [], heartbeatFingerprint=77)),
    Ask("heartbeat V2 same", 34, {}, heartbeat("1.2.3.4@7", [consumer("GroupV")], [], heartbeatFingerprint=77, withoutSub=True)),
    Ask("heartbeat V2 other", 34, {}, heartbeat("1.2.3.4@7", [consumer("GroupV", "TopicB")], [], heartbeatFingerprint=78)),
    Ask("consumers", 38, {"consumerGroup": "GroupA"}),
    Ask("consumer connections", 203, {"consumerGroup": "GroupA"}),
    Ask("producer connections", 204, {"producerGroup": "PG"}),
    Ask("all producers", 328),
    Ask(
        "check client: tag",
        46,
        {},
        json.dumps({"subscriptionData": {"topic": "TopicA", "subString": "a", "expressionType": "TAG"}}),
    ),
    Ask(
        "check client: sql off",
        46,
        {},
        json.dumps(
            {
                "clientId": "c",
                "group": "GroupA",
                "subscriptionData": {"topic": "TopicA", "subString": "a > 1", "expressionType": "SQL92"},
            }
        ),
    ),
    Ask("check client: empty", 46),
    Ask("offset: young queue", 14, {"consumerGroup": "GroupA", "topic": "TopicA", "queueId": "0"}),
    Ask(
        "offset: young queue, not zero",
        14,
        {"consumerGroup": "GroupA", "topic": "TopicA", "queueId": "0", "setZeroIfNotFound": "false"},
    ),
    Ask("offset: empty queue", 14, {"consumerGroup": "GroupA", "topic": "TopicA", "queueId": "1"}),
    Ask("offset: no topic", 14, {"consumerGroup": "GroupA", "topic": "Nope", "queueId": "0"}),
    Ask("commit: no group", 15, offset("Nobody", "TopicA", "0", "1")),
    Ask("commit: no topic", 15, offset("GroupA", "Nope", "0", "1")),
    Ask("commit", 15, offset("GroupA", "TopicA", "0", "1")),
    Ask("commit other queue", 15, offset("GroupA", "TopicA", "3", "1")),
    Ask("commit other group", 15, offset("GroupB", "TopicA", "0", "2")),
    Ask("commit retry", 15, offset("GroupA", "%RETRY%GroupA", "0", "0")),
    Ask("offset", 14, {"consumerGroup": "GroupA", "topic": "TopicA", "queueId": "0"}),
    Ask("consume stats", 208, {"consumerGroup": "GroupA"}),
    Ask("consume stats: topic", 208, {"consumerGroup": "GroupA", "topic": "TopicA"}),
    Ask("consume stats: list", 208, {"consumerGroup": "GroupA", "topicList": "TopicA;TopicB"}),
    Ask("consume stats: unsubscribed", 208, {"consumerGroup": "GroupA", "topic": "TopicB"}),
    Ask("consume stats: nobody", 208, {"consumerGroup": "Nobody"}),
    Ask("broker consume stats", 317, {"isOrder": "false"}),
    Ask("broker consume stats: ordered", 317, {"isOrder": "true"}),
    Ask("who consumes", 300, {"topic": "TopicA"}),
    Ask("who consumes: nobody", 300, {"topic": "Nope"}),
    Ask("topics of group", 343, {"group": "GroupA"}),
    Ask("time spans", 303, {"topic": "TopicA", "group": "GroupA"}),
    Ask("time spans: nobody", 303, {"topic": "TopicA", "group": "Nobody"}),
    Ask("time spans: no topic", 303, {"topic": "Nope", "group": "GroupA"}),
    Ask("subscription", 345, {"topic": "TopicA", "group": "GroupA"}),
    Ask("subscription: none", 345, {"topic": "TopicB", "group": "GroupA"}),
    Ask("subscription: nobody", 345, {"topic": "TopicA", "group": "Nobody"}),
    Ask("entries", 321, {"topic": "TopicA", "queueId": "0", "index": "0", "count": "10"}),
    Ask("entries: one", 321, {"topic": "TopicA", "queueId": "0", "index": "1", "count": "1"}),
    Ask("entries: none", 321, {"topic": "TopicA", "queueId": "0", "index": "0", "count": "0"}),
    Ask("entries: count below zero", 321, {"topic": "TopicA", "queueId": "0", "index": "0", "count": "-3"}),
    Ask("entries: beyond", 321, {"topic": "TopicA", "queueId": "0", "index": "2", "count": "1"}),
    Ask("entries: before", 321, {"topic": "TopicA", "queueId": "0", "index": "-1", "count": "1"}),
    Ask("entries: no topic", 321, {"topic": "Never", "queueId": "0", "index": "0", "count": "1"}),
    Ask(
        "entries: of a member",
        321,
        {"topic": "TopicA", "queueId": "0", "index": "0", "count": "10", "consumerGroup": "GroupA"},
    ),
    Ask("entries: of nobody", 321, {"topic": "TopicA", "queueId": "0", "index": "0", "count": "10", "consumerGroup": "Nobody"}),
    Ask("correction", 308, {"topic": "TopicA", "compareGroup": "GroupA"}),
    Ask("correction: the other", 308, {"topic": "TopicA", "compareGroup": "GroupB"}),
    Ask("correction: nobody", 308, {"topic": "TopicA", "compareGroup": "Nobody"}),
    Ask("correction: no topic", 308, {"topic": "Nope", "compareGroup": "GroupA"}),
    Ask("clone", 314, {"srcGroup": "GroupA", "destGroup": "GroupD", "topic": "TopicA"}),
    Ask("clone: offline", 314, {"srcGroup": "GroupB", "destGroup": "GroupE", "topic": "TopicA", "offline": "true"}),
    Ask("clone: nobody", 314, {"srcGroup": "Nobody", "destGroup": "GroupF", "topic": "TopicA"}),
    Ask("clone: no topic", 314, {"srcGroup": "GroupA", "destGroup": "GroupF", "topic": "Nope"}),
    Ask("reset", 222, reset("GroupB")),
    Ask("reset: no group", 222, reset("Nobody")),
    Ask("reset: no topic", 222, reset("GroupE", topic="Nope")),
    Ask("reset: to an offset", 222, reset("GroupB", queueId="0", offset="0")),
    Ask("reset: one beyond the end", 222, reset("GroupB", queueId="3", offset="2")),
    Ask("reset: two beyond the end", 222, reset("GroupB", queueId="3", offset="3")),
    Ask("reset: below zero", 222, reset("GroupB", queueId="0", offset="-2")),
    Ask("reset: one queue to the beginning", 222, reset("GroupB", queueId="3", timestamp="0")),
    Ask("offset: reset", 14, {"consumerGroup": "GroupB", "topic": "TopicA", "queueId": "0"}),
    Ask("commit: reset", 15, offset("GroupB", "TopicA", "0", "2")),
    Ask("all offsets", 43),
    Ask("all delay offsets", 45),
    Ask("stats: put", 315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "TopicA"}),
    Ask("stats: none", 315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "Nope"}),
    Ask("stats: no name", 315, {"statsName": "NOPE", "statsKey": "Nope"}),
    Ask(
        "lock",
        41,
        {},
        json.dumps(
            {
                "clientId": "c1",
                "consumerGroup": "GroupA",
                "onlyThisBroker": False,
                "mqSet": [
                    {"brokerName": "broker-a", "queueId": 0, "topic": "TopicA"},
                    {"brokerName": "broker-a", "queueId": 1, "topic": "TopicA"},
                ],
            }
        ),
    ),
    Ask(
        "lock: taken",
        41,
        {},
        json.dumps(
            {
                "clientId": "c2",
                "consumerGroup": "GroupA",
                "mqSet": [
                    {"brokerName": "broker-a", "queueId": 0, "topic": "TopicA"},
                    {"brokerName": "broker-a", "queueId": 2, "topic": "TopicA"},
                ],
            }
        ),
    ),
    Ask(
        "unlock by another",
        42,
        {},
        json.dumps(
            {"clientId": "c2", "consumerGroup": "GroupA", "mqSet": [{"brokerName": "broker-a", "queueId": 0, "topic": "TopicA"}]}
        ),
    ),
    Ask(
        "unlock",
        42,
        {},
        json.dumps(
            {"clientId": "c1", "consumerGroup": "GroupA", "mqSet": [{"brokerName": "broker-a", "queueId": 0, "topic": "TopicA"}]}
        ),
    ),
    Ask(
        "lock: free again",
        41,
        {},
        json.dumps(
            {"clientId": "c2", "consumerGroup": "GroupA", "mqSet": [{"brokerName": "broker-a", "queueId": 0, "topic": "TopicA"}]}
        ),
    ),
    Ask("running info: not online", 307, {"consumerGroup": "GroupA", "clientId": "nobody"}),
    Ask("config: change", 25, {}, "maxMessageSize=4194305\nnosuchkey=1\n"),
    Ask("config: black list", 25, {}, "maxMessageSize=5\nbrokerConfigPath=/tmp/x\n"),
    Ask("config: empty", 25),
    Ask("topics: first page", 21, {"topicSeq": "0", "maxTopicNum": "3", "dataVersion": ""}),
    Ask("topics: page, other version", 21, {"topicSeq": "3", "maxTopicNum": "3", "dataVersion": '{"counter":1}'}),
    Ask("groups: first page", 201, {"groupSeq": "0", "maxGroupNum": "3", "dataVersion": ""}),
    Ask("groups: after changes", 201),
    Ask("unregister", 35, {"clientID": "1.2.3.4@7", "producerGroup": "PG", "consumerGroup": "GroupA"}),
    Ask("consumers: left", 38, {"consumerGroup": "GroupA"}),
    Ask("producers: left", 204, {"producerGroup": "PG"}),
    Ask("group: delete", 207, {"groupName": "GroupB", "cleanOffset": "true"}),
    Ask("group: delete absent", 207, {"groupName": "Nobody", "cleanOffset": "true"}),
    Ask("delete", 215, {"topic": "TopicB"}),
    Ask("delete: absent", 215, {"topic": "Nope"}),
    Ask("delete: blank", 215, {"topic": " "}),
    Ask("delete: system", 215, {"topic": "TBW102"}),
    Ask("topics: after changes", 21),
    Ask("offsets: after changes", 43),
)
"""In this order: later calls see what earlier ones made."""


def record(address: str) -> dict[str, dict[str, Any]]:
    """Ask a server everything on one connection; answers by label, bodies as text.  Unasked requests are passed over."""
    from tests.support import remoting
    from tests.support.talk import Talk

    found: dict[str, dict[str, Any]] = {}
    with Talk(address) as talk:
        for number, ask in enumerate(CALLS, 1):
            talk.raw(remoting.frame(ask.code, ask.ext, ask.body.encode(), opaque=number))
            answer = talk.answer(number)
            found[ask.label] = {
                "code": answer.code,
                "remark": answer.remark,
                "ext": answer.ext_map(),
                "body": bytes(answer.body).decode("utf-8", "replace"),
            }
    return found


def main() -> None:
    """Start the real broker, ask it, keep what it said and wrote."""
    from tests.support.reference import JavaBroker, JavaNameServer

    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        with JavaNameServer(home / "ns") as names, JavaBroker(home / "broker", names.address, name=BROKER_NAME) as broker:
            answers = record(broker.address)
            text = json.dumps(answers, indent=1, ensure_ascii=False, sort_keys=True)
            for old, new in ((str(home), "/scratch"), (broker.address, "127.0.0.1:10911"), (str(broker.port), "10911")):
                text = text.replace(old, new)
            ANSWERS.write_text(text + "\n")
            broker.stop()
            for name in CONFIG_FILES:
                (GOLDEN / name).write_bytes((broker.store / "config" / name).read_bytes())
    sys.stdout.write(f"{len(answers)} answers, {len(CONFIG_FILES)} files\n")


if __name__ == "__main__":
    main()
