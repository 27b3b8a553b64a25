"""What a broker says of itself: runtime figures, configuration, consumption figures."""

from __future__ import annotations

import re

from conformance.suite.kit import MUST, Code, Need, ResponseCode, Trial, case
from conformance.suite.means.figures import sampled
from conformance.suite.means.settings import configuration, configured
from rmq_wire.headers.configuration import UpdateBrokerConfig
from rmq_wire.headers.offsets import UpdateConsumerOffset
from rmq_wire.headers.stats import GetConsumeStats

ADMIN = "AdminBrokerProcessor"
KEYS = (
    "bootTimestamp",
    "brokerVersionDesc",
    "commitLogMaxOffset",
    "commitLogMinOffset",
    "getTotalTps",
    "msgGetTotalTodayNow",
    "msgPutTotalTodayNow",
    "pullThreadPoolQueueSize",
    "putMessageDistributeTime",
    "putMessageEntireTimeMax",
    "putMessageTimesTotal",
    "putTps",
    "remainTransientStoreBufferNumbs",
    "runtime",
    "sendThreadPoolQueueSize",
    "dispatchMaxBuffer",
    "earliestMessageTimeStamp",
    "commitLogDirCapacity",
)
"""Those that tools read."""


async def figures(t: Trial) -> dict[str, str]:
    """The broker's runtime table (28)."""
    table = t.answer("runtime figures", await sampled(t)).json()["table"]
    return {str(name): str(value) for name, value in table.items()}


@case("runtime.figures", MUST, codes=Code.GET_BROKER_RUNTIME_INFO, rests_on=f"{ADMIN}.prepareRuntimeInfo")
async def runtime(t: Trial) -> None:
    """The runtime table has the entries that tools read."""
    found = await figures(t)
    t.equal("missing", [key for key in KEYS if key not in found], [])
    # Over 10, 60 and 600 s; one of which there are no samples yet is empty.
    t.equal("TPS: three figures", found["putTps"], re.compile(r"^[\d.]* [\d.]* [\d.]*$"))
    t.check("a time of start", int(found["bootTimestamp"]) > 1_600_000_000_000, seen=found["bootTimestamp"])


@case("runtime.counts", MUST, codes=Code.GET_BROKER_RUNTIME_INFO, rests_on="StoreStatsService")
async def counts(t: Trial) -> None:
    """What was put is counted, and the log's end moves."""
    topic = await t.topic()
    before = await figures(t)
    for _ in range(5):
        await t.send(topic, b"x")
    after = await figures(t)
    grown = int(after["putMessageTimesTotal"]) - int(before["putMessageTimesTotal"])
    t.check("puts", grown >= 5, expected=">= 5", seen=grown)
    moved = int(after["commitLogMaxOffset"]) - int(before["commitLogMaxOffset"])
    t.check("bytes", moved >= 5 * 90, expected=">= 450", seen=moved)


@case("runtime.config.read", MUST, codes=Code.GET_BROKER_CONFIG, rests_on=f"{ADMIN}.getBrokerConfig")
async def config(t: Trial) -> None:
    """The configuration is the text of a properties file with every key."""
    found = await configuration(t)
    wanted = (
        "brokerName",
        "brokerClusterName",
        "listenPort",
        "autoCreateTopicEnable",
        "storePathRootDir",
        "flushDiskType",
        "maxMessageSize",
    )
    t.equal("missing", [key for key in wanted if key not in found], [])
    t.equal("broker, cluster", (found["brokerName"], found["brokerClusterName"]), (t.target.broker_name, t.target.cluster))


@case(
    "runtime.config.update",
    MUST,
    codes=Code.UPDATE_BROKER_CONFIG,
    needs=Need.OWN,
    alone=True,
    rests_on=f"{ADMIN}.updateBrokerConfig",
)
async def update(t: Trial) -> None:
    """A setting that is changed is reported and counts.

    Shown by autoCreateSubscriptionGroup: without it a group that nobody made cannot pull.
    """
    async with configured(t, autoCreateSubscriptionGroup="false"):
        topic = await t.topic()
        pulled = await t.pull(topic, 0, group=t.name("unknown"))
        t.answer("a pull of a group that nobody made", pulled.answer, code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)


FLOW_KEYS = {
    "brokerFastFailureEnable": "false",
    "waitTimeMillsInSendQueue": "1234",
    "waitTimeMillsInPullQueue": "1234",
    "waitTimeMillsInHeartbeatQueue": "1234",
    "waitTimeMillsInTransactionQueue": "1234",
    "coldCtrStrategyEnable": "true",
    "cgColdReadThreshold": "1234",
    "globalColdReadThreshold": "12345",
}
"""Properties of flow control, and values that hurt nobody meanwhile."""


@case(
    "runtime.config.flow-control",
    MUST,
    codes=Code.UPDATE_BROKER_CONFIG,
    needs=Need.OWN,
    since=(5,),
    alone=True,
    rests_on="BrokerFastFailure, ColdDataCgCtrService",
)
async def flow_control(t: Trial) -> None:
    """What says how long requests may wait, and which groups read cold data, may be changed while the broker runs."""
    async with configured(t, **FLOW_KEYS):
        await t.send(await t.topic(), b"x")


@case(
    "runtime.config.forbidden",
    MUST,
    codes=Code.UPDATE_BROKER_CONFIG,
    needs=Need.OWN,
    since=(5,),
    alone=True,
    rests_on=f"{ADMIN}: configBlackList",
)
async def forbidden(t: Trial) -> None:
    """Paths cannot be changed over the wire."""
    for key in ("brokerConfigPath", "rocketmqHome", "configBlackList"):
        answer = await t.broker.ask(UpdateBrokerConfig(), f"{key}=/tmp/elsewhere\n".encode())
        t.answer(key, answer, code=ResponseCode.NO_PERMISSION, remark=re.compile("Can not update config"))


@case("runtime.consume-stats", MUST, codes=Code.GET_CONSUME_STATS, rests_on=f"{ADMIN}.getConsumeStats")
async def consume_stats(t: Trial) -> None:
    """A group's lag: each queue's end, the group's place, and when the last message before that place was stored.

    0 where the group is at the queue's beginning.
    """
    topic, group = await t.topic(queues=2), await t.group()
    for number in range(6):
        await t.send(topic, b"x", queue=number % 2)
    for queue in range(2):
        units = await t.pull_all(topic, 3, queue=queue)
        asked = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=queue, commit_offset=queue)
        t.answer("commit", await t.broker.ask(asked))
    text = t.answer("stats", await t.broker.ask(GetConsumeStats(consumer_group=group, topic=topic))).body.decode()
    t.equal("ends", re.findall(r'"brokerOffset":(\d+)', text), ["3", "3"])
    t.equal("places", sorted(re.findall(r'"consumerOffset":(\d+)', text)), ["0", "1"])
    t.equal("times", sorted(map(int, re.findall(r'"lastTimestamp":(\d+)', text))), [0, units[0].store_timestamp])
