"""Names: the reference's verdicts word for word, and what may become a path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire import names, sys_flag
from tests.support.given import GOLDEN


@pytest.mark.parametrize(("name", "topic_remark", "group_remark", "is_system"), GOLDEN["names"])
def test_verdicts_of_java(name: str, topic_remark: str, group_remark: str, is_system: bool) -> None:
    assert (names.topic_problem(name) or "") == topic_remark
    assert (names.group_problem(name) or "") == group_remark
    assert names.is_system_topic(name) == is_system


def test_sets_of_java() -> None:
    assert sorted(names.SYSTEM_TOPICS) == GOLDEN["sets"]["system_topics"]
    assert sorted(names.NOT_SENDABLE_TOPICS) == GOLDEN["sets"]["not_sendable_topics"]
    assert [sys_flag.perm_text(perm) for perm in (0, 2, 6, 7)] == GOLDEN["perms"]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\\b", "../x", "a\0", "a\n", "\x1b[0m", "x" * 256, "é" * 128, "\ud800", "a\x7f"]
)
def test_what_must_not_become_a_path(name: str) -> None:
    assert names.path_problem(name)


@pytest.mark.parametrize("name", ["CON", "nul", "Com1.txt", "a|b", "a:b", "a.", "a ", "a?"])
def test_what_windows_keeps_for_itself(name: str) -> None:
    assert names.path_problem(name, windows=True)
    assert names.path_problem(name) is None


@given(st.text(max_size=60))
def test_lawful_names_are_safe_paths(name: str) -> None:
    if names.topic_problem(name) is None or names.group_problem(name) is None:
        assert names.path_problem(name) is None
        assert names.path_problem(names.retry_topic(name)) is None


def test_names_made_from_names() -> None:
    assert names.retry_topic("g") == "%RETRY%g"
    assert names.dlq_topic("g") == "%DLQ%g"
    assert names.reply_topic("DefaultCluster") == "DefaultCluster_REPLY_TOPIC"
    assert names.pop_retry_topic("t", "g") == "%RETRY%g_t"
    assert names.pop_retry_topic("t", "g", v2=True) == "%RETRY%g+t"
    assert names.group_of_retry_topic("%RETRY%g") == "g"
    assert names.group_of_retry_topic("%RETRY%g+t") == "g"
    assert names.group_of_retry_topic("%RETRY%g+t+u") == "g+t+u"
    assert names.group_of_retry_topic("%RETRY%g_t") == "g_t"
    assert names.is_retry_topic("%RETRY%g")
    assert names.is_lmq("%LMQ%x")
    assert not names.is_lmq(None)
    assert names.is_system_group("CID_RMQ_SYS_TRANS")
    assert names.is_predefined_group("TOOLS_CONSUMER")
    assert names.is_not_sendable("SCHEDULE_TOPIC_XXXX")
    assert names.not_sendable_remark("T") == "Sending message to topic[T] is forbidden."


def test_flags() -> None:
    assert sys_flag.transaction_type(0x3F) == sys_flag.TRANSACTION_ROLLBACK
    assert sys_flag.with_transaction_type(0x3F, sys_flag.TRANSACTION_COMMIT) == 0x3B
    assert sys_flag.topic_sys_flag(unit=True, subscribed=False) == 1
    assert sys_flag.topic_sys_flag(unit=False, subscribed=True) == 2
