"""Which topic and group names are lawful, which belong to the system, and how names are made from names.

Texts and limits are those of `TopicValidator`, `MixAll` and `KeyBuilder` of 5.5.0 (read out of the running classes).
Topic names become directories, so there is a second, independent question, `path_problem`: names that the broker makes itself
(from a host or cluster name) never pass the first one, and the store asks the second for every name.
"""

from __future__ import annotations

import re
from typing import Final

TOPIC_CHARACTERS_MAX: Final = 127
GROUP_CHARACTERS_MAX: Final = 120
"""Shorter than a topic, since retry and dead-letter topics are made of it."""
RETRY_TOPIC_CHARACTERS_MAX: Final = 255
LAWFUL: Final = "^[%|a-zA-Z0-9_-]+$"
"""As the remarks spell it."""

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LMQ_PREFIX: Final = "%LMQ%"
V1_SEPARATOR: Final = "_"
V2_SEPARATOR: Final = "+"
"""Between group and topic in the names of POP's retry topics, of either version."""
GROUP_SEPARATOR: Final = "@"
"""Between topic and group in the keys of a broker's tables; no topic's name has it."""
REPLY_SUFFIX: Final = "_REPLY_TOPIC"
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

AUTO_CREATE_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
TRANS_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANS_OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
ROCKSDB_TRANS_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_TRANS_OP_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT: Final = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC: Final = "CHECKPOINT_TOPIC"
WHEEL_TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
REVIVE_LOG_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
SYNC_BROKER_MEMBER_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"

NOT_SENDABLE_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        TRANS_HALF_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        ROCKSDB_TRANS_HALF_TOPIC,
        ROCKSDB_TRANS_OP_HALF_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
    }
)
"""`TopicValidator.getNotAllowedSendTopicSet`."""
SYSTEM_TOPICS: Final = NOT_SENDABLE_TOPICS | {AUTO_CREATE_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC, CHECKPOINT_TOPIC}
"""`TopicValidator.getSystemTopicSet` before a broker adds those that carry its own and its cluster's name."""

TRANS_GROUP: Final = "CID_RMQ_SYS_TRANS"
TOOLS_CONSUMER_GROUP: Final = "TOOLS_CONSUMER"
SELF_TEST_CONSUMER_GROUP: Final = "SELF_TEST_C_GROUP"
PREDEFINED_GROUPS: Final = frozenset(
    {
        "DEFAULT_CONSUMER",
        "DEFAULT_PRODUCER",
        TOOLS_CONSUMER_GROUP,
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "CLIENT_INNER_PRODUCER",
        "SELF_TEST_P_GROUP",
        SELF_TEST_CONSUMER_GROUP,
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
        TRANS_GROUP,
    }
)
"""`MixAll.PREDEFINE_GROUP_SET`."""

_UNLAWFUL: Final = re.compile(r"[^%|a-zA-Z0-9_-]")
_JAVA_BLANKS: Final = (
    "\t\n\x0b\f\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a\u2028\u2029\u205f\u3000"
)
"""`Character.isWhitespace`: unlike Python's it leaves out the no-break spaces."""
_PATH_BYTES_MAX: Final = 255
"""What one name may hold on every file system in use."""
_UNSAFE: Final = re.compile(r"[/\\\x00-\x1f\x7f]")
_UNSAFE_ON_WINDOWS: Final = re.compile(r'[<>:"|?*]|[. ]$|^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)', re.IGNORECASE)


def is_blank(text: str | None) -> bool:
    """`UtilAll.isBlank`."""
    return not text or not text.strip(_JAVA_BLANKS)


def has_illegal_characters(text: str) -> bool:
    """`TopicValidator.isTopicOrGroupIllegal`."""
    return _UNLAWFUL.search(text) is not None


def topic_problem(topic: str | None) -> str | None:
    """The remark of `TopicValidator.validateTopic`, or None for a lawful name.  The reference answers it with code 29."""
    if topic is None or is_blank(topic):
        return "The specified topic is blank."
    if has_illegal_characters(topic):
        return f"The specified topic: {topic}, contains illegal characters, allowing only {LAWFUL}"
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        if len(topic) > RETRY_TOPIC_CHARACTERS_MAX:
            return (
                f"The specified topic is DLQ or Retry topic: {topic}, "
                f"and it's longer than topic max length: {RETRY_TOPIC_CHARACTERS_MAX}"
            )
    elif len(topic) > TOPIC_CHARACTERS_MAX:
        return f"The specified topic: {topic}, is longer than topic max length: {TOPIC_CHARACTERS_MAX}"
    return None


def group_problem(group: str | None) -> str | None:
    """The remark of `TopicValidator.validateGroup`, or None for a lawful name."""
    if group is None or is_blank(group):
        return "The specified group is blank."
    if has_illegal_characters(group):
        return f"The specified group: {group}, contains illegal characters, allowing only {LAWFUL}"
    if len(group) > GROUP_CHARACTERS_MAX:
        return f"The specified group: {group}, is longer than group max length: {GROUP_CHARACTERS_MAX}"
    return None


def path_problem(name: str, *, windows: bool = False) -> str | None:
    """Why this name must not become a file or directory, or None.  Says nothing about what may be sent."""
    if not name or name in (".", ".."):
        return "it names no file"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "it is not Unicode text"
    if size > _PATH_BYTES_MAX:
        return f"it has {size} bytes, a file name holds {_PATH_BYTES_MAX}"
    if _UNSAFE.search(name):
        return "it has a separator or a control character"
    if windows and _UNSAFE_ON_WINDOWS.search(name):
        return "Windows keeps this name for itself"
    return None


def is_system_topic(topic: str) -> bool:
    """`TopicValidator.isSystemTopic` for names that do not depend on a broker."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_not_sendable(topic: str) -> bool:
    """`TopicValidator.isNotAllowedSendTopic`: answered with code 16."""
    return topic in NOT_SENDABLE_TOPICS


def takes_no_sends(topic: str) -> bool:
    """A broker of ours refuses sends to it (*differs*: Java takes those to timers and revival: anybody can forge)."""
    return is_not_sendable(topic) or topic == WHEEL_TIMER_TOPIC or topic.startswith(REVIVE_LOG_PREFIX)


def not_sendable_remark(topic: str) -> str:
    """What a send to such a topic is answered (`AbstractSendMessageProcessor.msgCheck`)."""
    return f"Sending message to topic[{topic}] is forbidden."


def is_system_group(group: str) -> bool:
    """`MixAll.isSysConsumerGroup`."""
    return group.startswith(SYSTEM_GROUP_PREFIX)


def is_predefined_group(group: str) -> bool:
    """`MixAll.isPredefinedGroup`."""
    return group in PREDEFINED_GROUPS


def is_retry_topic(topic: str) -> bool:
    """Messages in it wait to be consumed once more by one group."""
    return topic.startswith(RETRY_PREFIX)


def is_lmq(name: str | None) -> bool:
    """`MixAll.isLmq`: a light message queue, not a topic."""
    return name is not None and name.startswith(LMQ_PREFIX)


def retry_topic(group: str) -> str:
    """`MixAll.getRetryTopic`."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """`MixAll.getDLQTopic`."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """`MixAll.getReplyTopic`."""
    return cluster + REPLY_SUFFIX


def pop_retry_topic(topic: str, group: str, *, v2: bool = False) -> str:
    """`KeyBuilder.buildPopRetryTopic`: version 1 joins with `_`, version 2 with `+`."""
    return f"{RETRY_PREFIX}{group}{V2_SEPARATOR if v2 else V1_SEPARATOR}{topic}"


def group_of_retry_topic(topic: str) -> str:
    """`KeyBuilder.parseGroup`: the group between the prefix and, in version 2 names, the one `+`."""
    if topic.startswith(RETRY_PREFIX) and topic.count("+") == 1 and not topic.endswith("+"):
        topic = topic.partition("+")[0]
    return topic[len(RETRY_PREFIX) :]
