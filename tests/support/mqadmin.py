"""The mqadmin calls that are compared, and what is taken out of their output before: addresses, times, counters, ids.

Each `Call` runs on both subjects with the same topics, groups and messages.  `RULES` replace by placeholders what must differ in
any output; where a table has more of it (rates, counters of a running server) the call names the comparison that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

RULES: tuple[tuple[str, str, str], ...] = (
    ("addresses", r"\b127\.0\.0\.\d+:\d+", "<address>"),
    ("message ids: 16 or 28 bytes in hex", r"\b(?:[0-9A-F]{56}|[0-9A-F]{32})\b", "<id>"),
    ("times of day", r"\b\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d(?:[,.:]\d+)?", "<time>"),
    ("times in ms since 1970", r"\b1[0-9]{12}\b", "<ms>"),
    ("directories of the test run", r"/[^\s,;:=]*/mqadmin-\w+/", "<directory>/"),
)
"""(what, pattern, placeholder), in this order."""

Comparison = Callable[[str], object]


def normalise(text: str) -> list[str]:
    """The lines with placeholders; runs of blanks become one, since columns are as wide as what stands in them."""
    for _, pattern, placeholder in RULES:
        text = re.sub(pattern, placeholder, text)
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]


def without_numbers(text: str) -> list[str]:
    """Without any number: for tables of counters and rates."""
    return [re.sub(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])", "<n>", line) for line in normalise(text)]


def any_order(text: str) -> list[str]:
    """Without the order of lines: the reference's is that of a hash map."""
    return sorted(normalise(text))


def producers(text: str) -> list[str]:
    """In any order; without tools, which are there for a moment: what one says of itself, or one that has just ended."""
    return [line for line in any_order(text) if "(CLIENT_INNER_PRODUCER)" not in line]


def any_order_without_numbers(text: str) -> list[str]:
    """Both."""
    return sorted(without_numbers(text))


def keys_only(text: str) -> list[str]:
    """Of lines `key : value` or `key = value` only the keys: for values of a running server."""
    return sorted({re.split(r"\s*[:=]\s*", line, maxsplit=1)[0] for line in normalise(text) if line})


OWN_NUMBERS = "haListenPort|listenPort|bitMapLengthConsumeQueueExt"
"""Ports that each server has for itself; and a size that the reference computes for a Bloom filter that we do not have."""


def configuration(text: str) -> list[str]:
    """In any order, without `OWN_NUMBERS`, and without the environment variable ROCKETMQ_HOME that only Java needs."""
    lines = [line for line in any_order(text) if not line.startswith("rocketmqHome")]
    return [re.sub(rf"^({OWN_NUMBERS}) = \d+$", r"\1 = <n>", line) for line in lines]


def paragraphs(text: str) -> list[list[str]]:
    """Parts between rules or empty lines, in any order: listings by queue."""
    return sorted(normalise(part) for part in re.split(r"-{20,}\n|\n\s*\n", text) if part.strip())


def without_rates(text: str) -> list[str]:
    """Without rates and round trips; offsets and lags stay."""
    text = re.sub(r"(Consume TPS:|Avg RT:) *[\d.]+", r"\1 <n>", text)
    text = re.sub(r"\brt=\d+ms", "rt=<n>", text)
    return normalise(re.sub(r"(?m)^(\S+ +\d+ +true +)\d+ *$", r"\1<n>", text))


def running_info(text: str) -> list[str]:
    """What a consumer says of itself, without the names that its JVM gives objects and lambdas."""
    text = re.sub(r"\$\$Lambda\S*", "<lambda>", text)
    return any_order_without_numbers(re.sub(r"@[0-9a-f]{5,8}\b", "@<object>", text))


def complaints(text: str) -> list[str]:
    """Of a stack trace the lines that say what went wrong: `...Exception: why` and `Caused by`, not where."""
    said = [line for line in normalise(text) if re.match(r"(?:Caused by: )?[\w.$]+(?:Exception|Error)\b", line)]
    return [re.sub(r"\(?[\w$]+\.java:\d+\)?", "", line) for line in said]


class Call(NamedTuple):
    """One command line, with {placeholders} for names, and how its two outputs are compared."""

    line: str
    compare: Comparison = normalise
    writes: str | None = None
    """A file of JSON that the tool writes into {files}; it is compared in the same way."""

    @property
    def command(self) -> str:
        return self.line.partition(" ")[0]


class Unbuilt(NamedTuple):
    """A command line that the reference serves, and the code that ours refuses of it."""

    line: str
    code: int

    @property
    def command(self) -> str:
        return self.line.partition(" ")[0]


FILES = {
    "topics.json": [
        {"topicName": "Listed-a", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6},
        {"topicName": "Listed-b", "readQueueNums": 3, "writeQueueNums": 1, "perm": 4},
    ],
    "bad-topics.json": [{"topicName": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}],
    "groups.json": [{"groupName": "GID-listed-a", "retryQueueNums": 2}, {"groupName": "GID-listed-b", "consumeEnable": False}],
}
"""What the tool reads from {files}."""


READING = (
    Call("clusterList", without_numbers),
    Call("clusterList -m", without_numbers),
    Call("topicList", any_order),
    Call("topicList -c", any_order),
    Call("topicRoute -t {topic}"),
    Call("topicRoute -t {topic} -l"),
    Call("topicStatus -t {topic}", without_numbers),
    Call("topicClusterList -t {topic}"),
    Call("consumerProgress", any_order_without_numbers),
    Call("consumerProgress -g {group}", without_numbers),
    Call("consumerConnection -g {group}", any_order),
    Call("producerConnection -g {producers} -t {topic}"),
    Call("brokerStatus -b {broker}", keys_only),
    Call("getBrokerConfig -b {broker}", configuration),
    Call("getNamesrvConfig", configuration),
    Call("queryMsgById -i {offset_id} -t {topic}"),
    Call("queryMsgByKey -t {topic} -k key2"),
    Call("queryMsgByUniqueKey -i {unique_id} -t {topic}"),
    Call("queryMsgByOffset -t {topic} -b {name} -i 1 -o 0"),
    Call("printMsg -t {topic} -d true", paragraphs),
    Call("consumeMessage -t {topic} -b {name} -i 1 -o 0 -c 2"),
    Call("allocateMQ -t {topic} -i 127.0.0.1@a,127.0.0.1@b"),
    Call("statsAll -t {topic}", without_numbers),
    Call("consumerProgress -g {group} -t {topic}", without_rates),
    Call("consumerProgress -g {group} -s true", without_rates),
    Call("consumerProgress -g {group} -c DefaultCluster", without_rates),
    Call("consumerStatus -g {group}"),
    Call("consumerStatus -g {group} -i 127.0.0.1@c", running_info),
    Call("consumerProgress -g {popping}", without_rates),
    Call("consumerConnection -g {popping}", any_order),
    Call("consumerStatus -g {popping}"),
    Call("consumerStatus -g {popping} -i 127.0.0.1@pop", running_info),
    Call("printMsgByQueue -t {topic} -a {name} -i 1 -p true -d true"),
    Call("printMsgByQueue -t {topic} -a {name} -i 1 -p true -d true -f true"),
    Call("producer -b {broker}", producers),
    Call("brokerConsumeStats -b {broker}", any_order),
    Call("brokerConsumeStats -b {broker} -o true -t 3000", any_order),
    Call("getConsumerConfig -g {group}"),
    Call("queryCq -t {topic} -q 0 -i 0 -c 3 -b {broker}"),
    Call("queryCq -t {topic} -q 0 -i 0 -c 3"),
    Call("queryCq -t {topic} -q 0 -i 1 -c 3 -g {group} -b {broker}"),
    Call("exportMetadata -c DefaultCluster -f {files}", any_order, "metadata.json"),
    Call("exportMetadata -b {broker} -t -f {files}", any_order, "topic.json"),
    Call("exportMetadata -b {broker} -g -f {files}", any_order, "subscriptionGroup.json"),
    Call("exportConfigs -c DefaultCluster -f {files}", configuration, "configs.json"),
    Call("exportMetrics -c DefaultCluster -f {files}", any_order_without_numbers, "metrics.json"),
    Call("switchTimerEngine -b {broker} -e F"),
)
"""Calls that change nothing."""

CHANGING = (
    Call("exportPopRecord -b {broker}"),
    Call("updateTopic -b {broker} -t {topic}-made -r 3 -w 2 -p 6"),
    Call("updateTopic -b {broker} -t {topic}-made -r 5 -w 5 -p 4"),
    Call("updateTopic -c DefaultCluster -t {topic}-other -r 1 -w 1"),
    Call("topicRoute -t {topic}-made"),
    Call("topicStatus -t {topic}-made", without_numbers),
    Call("topicStatus -t {topic}-other", without_numbers),
    Call("updateSubGroup -b {broker} -g GID-made -s true -m false -d true -q 2 -r 5 -i 0 -w 1 -a true"),
    Call("updateSubGroup -c DefaultCluster -g GID-other"),
    Call("updateBrokerConfig -b {broker} -k maxDelayTime -v 50"),
    Call("updateBrokerConfig -c DefaultCluster -k traceOn -v true"),
    Call("sendMessage -t {topic} -p hello -k sent -c TagS -b {name} -i 3"),
    Call("sendMessage -t {topic}-other -p hello"),
    Call("queryMsgByKey -t {topic} -k sent"),
    Call("updateKvConfig -s NAMESPACE -k key -v value"),
    Call("deleteKvConfig -s NAMESPACE -k key"),
    Call("wipeWritePerm -b {name}"),
    Call("topicRoute -t {topic}"),
    Call("addWritePerm -b {name}"),
    Call("topicRoute -t {topic}"),
    Call("deleteTopic -c DefaultCluster -t {topic}-made"),
    Call("topicRoute -t {topic}-made"),
    Call("topicList", any_order),
    Call("cleanExpiredCQ -b {broker}"),
    Call("cleanExpiredCQ -c DefaultCluster"),
    Call("cleanUnusedTopic -b {broker}"),
    Call("cleanUnusedTopic -c DefaultCluster"),
    Call("deleteExpiredCommitLog -b {broker}"),
    Call("deleteExpiredCommitLog -c DefaultCluster"),
    Call("topicStatus -t {topic}", without_numbers),
    Call("updateTopicPerm -b {broker} -t {topic} -p 4"),
    Call("updateTopicPerm -b {broker} -t {topic} -p 4"),
    Call("updateTopicPerm -c DefaultCluster -t {topic} -p 6"),
    Call("updateTopicList -b {broker} -f {files}/topics.json"),
    Call("topicRoute -t Listed-b"),
    Call("updateTopicList -b {broker} -f {files}/bad-topics.json"),
    Call("updateSubGroupList -b {broker} -f {files}/groups.json"),
    Call("getConsumerConfig -g GID-listed-b"),
    Call("deleteSubGroup -b {broker} -g GID-listed-b"),
    Call("deleteSubGroup -c DefaultCluster -g GID-listed-b -r true"),
    Call("getConsumerConfig -g GID-listed-b"),
    Call("sendMsgStatus -b {name} -s 10 -c 3", without_rates),
    Call("checkMsgSendRT -t {topic} -a 8 -s 10", without_rates),
    Call("brokerConsumeStats -b {broker} -l 1000", without_numbers),
    Call("resetOffsetByTime -g {group} -t {topic} -s 1000", any_order),
    Call("resetOffsetByTime -g {group} -t {topic} -s now", any_order),
    Call("resetOffsetByTime -g {group} -t {topic} -s now -b {broker} -q 0 -o 1"),
    Call("skipAccumulatedMessage -g {group} -t {topic}", any_order),
    Call("resetOffsetByTime -g GID-offline -t {topic} -s 1000", any_order),
    Call("skipAccumulatedMessage -g GID-offline -t {topic}", any_order),
    Call("consumerProgress -g GID-offline", without_rates),
    Call("cloneGroupOffset -s {group} -d GID-clone -t {topic}"),
    Call("consumerProgress -g GID-clone", without_numbers),
    Call("updateNamesrvConfig -k serverAsyncSemaphoreValue -v 65"),
    Call("getNamesrvConfig", configuration),
    Call("updateColdDataFlowCtrGroupConfig -b {broker} -g {group} -v 1000"),
    Call("getColdDataFlowCtrInfo -b {broker}"),
    Call("removeColdDataFlowCtrGroupConfig -b {broker} -g {group}"),
    Call("setCommitLogReadAheadMode -b {broker} -m 1"),
    Call("setCommitLogReadAheadMode -b {broker} -m 0"),
    Call("updateOrderConf -t {topic} -m put -v broker-a:4"),
    Call("updateOrderConf -t {topic} -m get"),
    Call("updateOrderConf -t {topic} -m delete"),
    Call("setConsumeMode -b {broker} -t {topic} -g {group} -m POP -q 2"),
    Call("setConsumeMode -c DefaultCluster -t {topic} -g GID-popping -m POP"),
    Call("setConsumeMode -b {broker} -t {topic} -g {group} -m PULL"),
)
"""Calls that change something, and what others show of it."""

REFUSED = (
    Call("topicRoute -t absent"),
    Call("topicStatus -t absent"),
    Call("topicClusterList -t absent"),
    Call("updateTopic -b {broker} -t not/a/topic"),
    Call("updateTopic -b {broker} -t TBW102"),
    Call("updateSubGroup -b {broker} -g not/a/group"),
    Call("consumerProgress -g absent"),
    Call("consumerConnection -g absent"),
    Call("producerConnection -g absent -t {topic}"),
    Call("updateBrokerConfig -b {broker} -k notAKey -v 1"),
    Call("updateBrokerConfig -b {broker} -k brokerConfigPath -v /elsewhere"),
    Call("queryMsgById -i 7F00000100002A9F0000000000FFFFFF -t {topic}"),
    Call("queryMsgByKey -t {topic} -k absent"),
    Call("queryMsgByUniqueKey -i 7F0000010001000000000000000000FF -t {topic}"),
    Call("queryMsgByOffset -t {topic} -b {name} -i 1 -o 99"),
    Call("sendMessage -t not/a/topic -p hello"),
    Call("wipeWritePerm -b absent"),
    Call("deleteTopic -c DefaultCluster -t absent"),
    Call("cleanExpiredCQ -c absent"),
    Call("cleanUnusedTopic -c absent"),
    Call("deleteExpiredCommitLog -c absent"),
    Call("topicRoute"),
    Call("notACommand -x"),
    Call("updateTopicPerm -b {broker} -t absent -p 6"),
    Call("queryCq -t {topic} -q 0 -i 99 -c 3 -b {broker}"),
    Call("queryCq -t {topic} -q 9 -i 0 -c 3 -b {broker}"),
    Call("queryCq -t absent -q 0 -i 0 -c 3 -b {broker}"),
    Call("resetOffsetByTime -g {group} -t absent -s now"),
    Call("skipAccumulatedMessage -g {group} -t absent"),
    Call("updateTopicList -b {broker} -f {files}/absent.json"),
    Call("deleteSubGroup -b {broker} -g absent"),
    Call("consumerStatus -g absent"),
    Call("getConsumerConfig -g GID-nobody"),
    Call("cloneGroupOffset -s absent -d GID-clone -t {topic}"),
    Call("updateNamesrvConfig -k kvConfigPath -v /elsewhere"),
    Call("updateOrderConf -t {topic} -m get"),
    Call("addBroker -c {broker} -b {files}/broker.conf"),
    Call("removeBroker -c {broker} -b DefaultCluster:broker-a:0"),
    Call("remappingStaticTopic -t {topic} -c DefaultCluster"),
    Call("exportMetadataInRocksDB -p {files}/none -t topics"),
    Call("getSyncStateSet -a {broker} -b {name}"),
    Call("getControllerMetaData -a {broker}"),
    Call("getControllerConfig -a {broker}"),
    Call("updateControllerConfig -a {broker} -k key -v value"),
    Call("electMaster -a {broker} -b 0 -bn {name} -c DefaultCluster"),
    Call("cleanBrokerMetadata -a {broker} -bn {name} -c DefaultCluster"),
    Call("dumpCompactionLog -f {files}/none"),
    Call("switchTimerEngine -b {broker} -e R"),
    Call("getParentTopicInfo -p {topic}"),
    Call("getLiteTopicInfo -p {topic} -l lite"),
    Call("getLiteClientInfo -p {topic} -g {group} -c me"),
    Call("getLiteGroupInfo -p {topic} -g {group}", without_numbers),
    Call("triggerLiteDispatch -p {topic} -g {group}"),
    Call("queryMsgTraceById -i {unique_id} -t RMQ_SYS_NOT_A_TRACE"),
    Call("setConsumeMode -b {broker} -t absent -g {group} -m POP"),
    Call("setConsumeMode -b {broker} -t {topic} -g not/a/group -m POP"),
    Call("setConsumeMode -b {broker} -t %RETRY%{group} -g {group} -m POP"),
    Call("setConsumeMode -b {broker} -t {topic} -g {group} -m SHOVE"),
)
"""Calls that are answered with an error, by a broker without controller, container or lite topics too."""

ENDLESS = ("clusterRT", "startMonitoring")
"""Commands that never end: processes of their own, ended when they have done something."""

UNBUILT = (
    Unbuilt("resetMasterFlushOffset -b {broker} -o 100", 908),
    Unbuilt("updateStaticTopic -t {topic}-static -qn 4 -c DefaultCluster", 513),
    Unbuilt("haStatus -b {broker}", 907),
    Unbuilt("getBrokerEpoch -b {name}", 1007),
    Unbuilt("createUser -b {broker} -u me -p secret", 3001),
    Unbuilt("updateUser -b {broker} -u me -p secret", 3002),
    Unbuilt("deleteUser -b {broker} -u me", 3003),
    Unbuilt("getUser -b {broker} -u me", 3004),
    Unbuilt("listUser -b {broker}", 3005),
    Unbuilt("copyUser -f {broker} -t {broker}", 3005),
    Unbuilt("createAcl -b {broker} -s User:me -r Topic:* -a Pub -d ALLOW", 3006),
    Unbuilt("updateAcl -b {broker} -s User:me -r Topic:* -a Pub -d ALLOW", 3007),
    Unbuilt("deleteAcl -b {broker} -s User:me", 3008),
    Unbuilt("getAcl -b {broker} -s User:me", 3009),
    Unbuilt("listAcl -b {broker}", 3010),
    Unbuilt("copyAcl -f {broker} -t {broker}", 3010),
    Unbuilt("rocksDBConfigToJson -c DefaultCluster", 355),
    Unbuilt("checkRocksdbCqWriteProgress -c DefaultCluster -t {topic}", 354),
    Unbuilt("getBrokerLiteInfo -b {broker}", 200074),
)
"""What the reference's broker serves, or answers with words of its own, and ours refuses as every unknown request: 3."""


def rows(refusals: Mapping[int, str]) -> list[tuple[str, str]]:
    """(command, what becomes of it on our broker) for each stock command.  `refusals`: code -> why ours does not answer it."""
    found: dict[str, str] = {}
    for call in (*READING, *CHANGING):
        found[f"`{call.command}`"] = "the same output"
    for command in ENDLESS:
        found[f"`{command}`"] = "the same output; it never ends, and is ended"
    for unbuilt in UNBUILT:
        found.setdefault(f"`{unbuilt.command}`", f"refused: 3 to code {unbuilt.code}; {refusals[unbuilt.code]}")
    for call in REFUSED:
        if call.line != "notACommand -x":
            found.setdefault(f"`{call.command}`", "the same refusal as the reference's")
    return sorted(found.items(), key=lambda row: row[0].lower())
