"""The mqadmin calls that are compared, and what is taken out of their output before: addresses, times, counters, ids.

Each `Call` runs on both subjects with the same topics, groups and messages.  `RULES` replace by placeholders what must differ in
any output; where a table has more of it (rates, counters of a running server) the call names the comparison that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
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


def complaints(text: str) -> list[str]:
    """Of a stack trace the lines that say what went wrong: `...Exception: why` and `Caused by`, not where."""
    said = [line for line in normalise(text) if re.match(r"(?:Caused by: )?[\w.$]+(?:Exception|Error)\b", line)]
    return [re.sub(r"\(?[\w$]+\.java:\d+\)?", "", line) for line in said]


class Call(NamedTuple):
    """One command line, with {placeholders} for names, and how its two outputs are compared."""

    line: str
    compare: Comparison = normalise


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
)
"""Calls that change nothing."""

CHANGING = (
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
)
"""Calls that are answered with an error."""
