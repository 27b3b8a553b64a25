"""Topics, groups and progress as tables: what creates a row, what changes it, what the file says, in any order of events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_impl.config import BrokerConfig, Machine
from broker_impl.engine.slices import finished
from broker_impl.env import Env
from broker_impl.state.attributes import TOPIC_ATTRIBUTES, BadAttribute, altered, parse_modification
from broker_impl.state.consumer_offsets import ABSENT, ConsumerOffsets
from broker_impl.state.groups import BUILTIN_GROUPS, READ_INDEX, GroupTable
from broker_impl.state.persisted import PersistedTable
from broker_impl.state.topics import TopicTable
from rmq_wire import fastjson
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.errors import BadBody
from tests.broker.admin_calls import GOLDEN

WALL_MS = 1_700_000_000_000
slow = settings(deadline=None, max_examples=60)


def config(**entries: str) -> BrokerConfig:
    return BrokerConfig({"brokerName": "broker-a", **entries}, Machine())


def topics(**entries: str) -> TopicTable:
    return TopicTable(config(**entries), Env(wall_ms=WALL_MS))


def groups(**entries: str) -> GroupTable:
    return GroupTable(config(**entries), Env(wall_ms=WALL_MS))


def offsets(**entries: str) -> ConsumerOffsets:
    return ConsumerOffsets(config(**entries), Env(wall_ms=WALL_MS))


# -- topics


def test_the_fifteen_built_in_topics() -> None:
    table = topics()
    found = {name: (row.read_queue_nums, row.perm) for name, row in table.table.items()}
    assert found == {
        "SELF_TEST_TOPIC": (1, 6),
        "TBW102": (8, 7),
        "BenchmarkTest": (1024, 6),
        "DefaultCluster": (16, 7),
        "broker-a": (1, 7),
        "OFFSET_MOVED_EVENT": (1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 6),
        "DefaultCluster_REPLY_TOPIC": (1, 6),
        "rmq_sys_REVIVE_LOG_DefaultCluster": (8, 6),
        "rmq_sys_SYNC_BROKER_MEMBER_broker-a": (1, 1),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6),
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC": (1, 6),
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC": (1, 6),
        "rmq_sys_wheel_timer": (1, 6),
    }
    assert table.data_version.counter == 0
    assert not table.dirty


def test_switches_decide_about_built_in_topics() -> None:
    table = topics(
        autoCreateTopicEnable="false",
        timerWheelEnable="false",
        traceTopicEnable="true",
        clusterTopicEnable="false",
        brokerTopicEnable="false",
    )
    assert "TBW102" not in table
    assert "rmq_sys_wheel_timer" not in table
    assert "RMQ_SYS_TRACE_TOPIC" in table
    assert (table.get("DefaultCluster") or TopicConfig()).perm == 1
    assert (table.get("broker-a") or TopicConfig()).perm == 1


def test_a_send_makes_a_topic_after_its_template() -> None:
    table = topics()
    heard: list[list[str]] = []
    table.on_change.append(lambda changed: heard.append([topic.topic_name for topic in changed]))
    made = table.create_in_send("T", "TBW102", 4, "1.2.3.4:5", 2)
    assert made is not None
    assert (made.read_queue_nums, made.write_queue_nums, made.perm, made.topic_sys_flag) == (4, 4, 6, 2)
    assert heard == [["T"]]
    assert table.dirty
    assert table.create_in_send("T", "TBW102", 8, "x") is made
    wide = table.create_in_send("W", "TBW102", 99, "x")
    none = table.create_in_send("N", "TBW102", -1, "x")
    assert wide is not None
    assert none is not None
    assert (wide.write_queue_nums, none.write_queue_nums) == (8, 0)


@pytest.mark.parametrize("template", ["T-absent", "SELF_TEST_TOPIC"])
def test_a_template_must_exist_and_pass_on(template: str) -> None:
    table = topics()
    assert table.create_in_send("T", template, 4, "x") is None
    assert not table.dirty


def test_switching_automatic_creation_off_takes_the_inherit_bit_at_the_next_send() -> None:
    table = topics()
    table._config.change({"autoCreateTopicEnable": "false"})
    assert table.create_in_send("T", "TBW102", 4, "x") is None
    assert (table.get("TBW102") or TopicConfig()).perm == 6


def test_send_back_makes_a_topic_and_keeps_its_order_flag_up_to_date() -> None:
    table = topics()
    made = table.create_in_send_back("%RETRY%G", 1, topic_sys_flag=2)
    assert (made.read_queue_nums, made.perm, made.order) == (1, 6, False)
    version = table.data_version.counter
    assert table.create_in_send_back("%RETRY%G", 9) is made
    assert table.data_version.counter == version
    assert table.create_in_send_back("%RETRY%G", 9, order=True).order
    assert table.data_version.counter == version + 1


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\x00", "a\nb", "x" * 300])
def test_no_name_gets_in_that_cannot_be_a_directory(name: str) -> None:
    table = topics()
    with pytest.raises(ValueError):
        table.create_in_send(name, "TBW102", 4, "x")
    row = {"topicName": name, "perm": 6}
    table.load(json.dumps({"topicConfigTable": {name: row, "T": {**row, "topicName": "T"}}, "dataVersion": {}}).encode())
    assert name not in table
    assert "T" in table


def test_a_row_under_a_foreign_name_is_left_out() -> None:
    table = topics()
    table.load(b'{"topicConfigTable":{"A":{"topicName":"../B"}},"dataVersion":{"counter":7}}')
    assert "A" not in table
    assert table.data_version.counter == 7


def test_the_file_wins_over_built_in_topics() -> None:
    table = topics()
    table.load(b'{"topicConfigTable":{"TBW102":{"topicName":"TBW102","readQueueNums":3,"writeQueueNums":3,"perm":7}}}')
    made = table.create_in_send("T", "TBW102", 8, "x")
    assert made is not None
    assert made.write_queue_nums == 3


def test_attributes_are_changed_not_set() -> None:
    table = topics()
    table.put(TopicConfig(topic_name="T", attributes={"+message.type": "FIFO"}))
    table.put(TopicConfig(topic_name="T", perm=4))
    found = table.get("T")
    assert found is not None
    assert (found.attributes, found.perm) == ({"message.type": "FIFO"}, 4)
    table.put(TopicConfig(topic_name="T", attributes={"-message.type": ""}))
    assert (table.get("T") or TopicConfig(attributes={"x": "y"})).attributes == {}


def test_several_are_put_or_none() -> None:
    table = topics()
    with pytest.raises(BadAttribute):
        table.put_all([TopicConfig(topic_name="A"), TopicConfig(topic_name="B", attributes={"+no.such": "1"})])
    assert "A" not in table
    assert not table.dirty


def test_order_topics_of_the_name_server() -> None:
    table = topics()
    table.create_in_send("T", "TBW102", 4, "x")
    version = table.data_version.counter
    table.set_order_topics(["T", "absent"])
    table.set_order_topics(["T"])
    assert table.is_order("T")
    assert table.data_version.counter == version + 1


def test_pages_run_over_all_topics_and_start_over_when_the_version_changed() -> None:
    table = topics()
    version = table.data_version.encode().decode()
    seen: list[str] = []
    while page := table.page(version, len(seen), 4):
        seen += page
    assert seen == sorted(table.table)
    for other in (None, "", " ", "junk", '{"counter":99}'):
        assert list(table.page(other, 4, 4)) == sorted(table.table)[:4]


# -- groups


def test_built_in_groups() -> None:
    assert list(groups().table) == list(BUILTIN_GROUPS)


def test_a_group_is_made_when_it_is_looked_for() -> None:
    table = groups()
    assert table.get("G") is None
    assert table.find("G") is table.get("G") is not None
    assert table.dirty


@pytest.mark.parametrize("name", ["", " ", "a/b", "..", "g" * 121, "ü"])
def test_an_unlawful_group_is_not_made(name: str) -> None:
    table = groups()
    assert table.find(name) is None
    assert not table.dirty


def test_only_system_groups_are_made_when_automatic_creation_is_off() -> None:
    table = groups(autoCreateSubscriptionGroup="false")
    assert table.find("G") is None
    assert table.find("CID_RMQ_SYS_X") is not None
    assert groups(autoCreateSubscriptionGroup="false", enableCreateSysGroup="false").find("CID_RMQ_SYS_X") is None


def test_forbidding_sets_one_bit_and_clearing_the_last_clears_the_group() -> None:
    table = groups()
    table.set_forbidden("G", "T1", READ_INDEX, True)
    table.set_forbidden("G", "T2", READ_INDEX, True)
    assert table.is_forbidden("G", "T1")
    assert not table.is_forbidden("G", "T3")
    table.set_forbidden("G", "T1", READ_INDEX, False)
    assert table.forbidden_table == {}  # Java: updateForbiddenValue removes the whole row
    table.set_forbidden("G", "T1", READ_INDEX, True)
    table.delete("G")
    assert not table.is_forbidden("G", "T1")


# -- progress


def test_progress_is_kept_by_queue() -> None:
    table = offsets()
    assert table.query("G", "T", 0) == ABSENT
    table.commit("G", "T", 0, 5, "c")
    table.commit("G", "T", 1, 6, "c")
    table.commit("G", "T", 0, 3, "c")
    assert (table.query("G", "T", 0), table.query("G", "T", 1), table.query("G", "T", 2)) == (3, 6, ABSENT)
    assert (table.topics_of("G"), table.groups_of("T")) == (["T"], ["G"])
    assert table.knows("G", "T", 1)
    assert not table.knows("G", "T", 2)


def test_a_commit_that_says_nothing_new_leaves_the_table_clean() -> None:
    table = offsets()
    table.commit("G", "T", 0, 5)
    table.encode()
    table.written()
    table.commit("G", "T", 0, 5)
    assert not table.dirty


def test_the_version_moves_every_so_many_commits() -> None:
    table = offsets(consumerOffsetUpdateVersionStep="3")
    for offset in range(7):
        table.commit("G", "T", 0, offset)
    assert table.data_version.counter == 2


def test_a_reset_is_found_once() -> None:
    table = offsets()
    table.commit("G", "T", 0, 9)
    table.assign_reset("G", "T", 0, 4)
    assert table.has_reset("G", "T", 0)
    assert table.query("G", "T", 0) == 4
    assert table.take_reset("G", "T", 0) == 4
    assert table.take_reset("G", "T", 0) is None
    assert table.query("G", "T", 0) == 4
    for bad in (("", "T", 0, 1), ("G", "", 0, 1), ("G", "T", -1, 1), ("G", "T", 0, -1)):
        table.assign_reset(*bad)
    assert not table.has_reset("G", "T", 0)


def test_what_was_handed_out_falls_back_to_what_was_committed() -> None:
    table = offsets()
    table.commit("G", "T", 0, 2)
    assert table.query_pull("G", "T", 0) == 2
    table.commit_pull("G", "T", 0, 7)
    assert table.query_pull("G", "T", 0) == 7
    assert table.query("G", "T", 0) == 2


def test_recovery_takes_progress_back_to_the_end_of_the_queue() -> None:
    table = offsets()
    for queue_id, offset in enumerate((9, 6, 5, 2)):
        table.commit("G", "T", queue_id, offset)
    table.commit("G", "Gone", 0, 2)
    table.clamp(lambda topic, queue_id: (0, 5) if topic == "T" else (0, 0))
    assert table.queues("G", "T") == {0: 5, 1: 5, 2: 5, 3: 2}
    assert table.query("G", "Gone", 0) == 0


def test_deleting_a_topic_or_a_group_forgets_its_progress() -> None:
    table = offsets()
    for group in ("G", "H", "xG"):
        for topic in ("T", "U"):
            table.commit(group, topic, 0, 1)
            table.commit_pull(group, topic, 0, 2)
    table.assign_reset("G", "T", 0, 1)
    finished(table.dropping_topic("T"))
    assert [table.query(group, "T", 0) for group in ("G", "H", "xG")] == [ABSENT] * 3
    assert not table.has_reset("G", "T", 0)
    assert table.groups_of("T") == []
    finished(table.dropping_group("G"))
    assert [table.query_pull(group, "U", 0) for group in ("G", "H", "xG")] == [ABSENT, 2, 2]
    assert table.topics_of("G") == []


NAMES = st.sampled_from(["A", "B", "%RETRY%A", "x_y"])
STEP = st.tuples(
    st.sampled_from(["commit", "pull", "drop_group", "drop_topic", "clone"]), NAMES, NAMES, st.integers(0, 3), st.integers(0, 99)
)


@slow
@given(st.lists(STEP, max_size=40))
def test_progress_in_any_order_of_events_reads_back(steps: list[tuple[str, str, str, int, int]]) -> None:
    """Against a plain dictionary; then through the file."""
    table, model = offsets(), dict[tuple[str, str], dict[int, int]]()
    for what, group, topic, queue_id, offset in steps:
        if what == "commit":
            table.commit(group, topic, queue_id, offset)
            model.setdefault((group, topic), {})[queue_id] = offset
        elif what == "pull":
            table.commit_pull(group, topic, queue_id, offset)
        elif what == "drop_group":
            finished(table.dropping_group(group))
            model = {key: row for key, row in model.items() if key[0] != group}
        elif what == "drop_topic":
            finished(table.dropping_topic(topic))
            model = {key: row for key, row in model.items() if key[1] != topic}
        elif (group, topic) in model:
            table.clone(group, "clone", topic)
            model["clone", topic] = dict(model[group, topic])
    again = offsets()
    again.load(table.encode())
    for found in (table, again):
        for (group, topic), row in model.items():
            assert found.queues(group, topic) == row
        assert {group: set(found.topics_of(group)) for group, _ in model} == {
            group: {topic for other, topic in model if other == group} for group, _ in model
        }
    copy = offsets()
    copy.take(fastjson.loads(table.encode()))
    assert copy.encode() == table.encode().partition(b'\t"pullOffsetTable"')[0] + b'\t"pullOffsetTable":{}\n}'


# -- attributes

SIGNED = st.text(st.sampled_from("+-=,a.bFIFO messagetyp"), max_size=30)


@slow
@given(SIGNED, st.booleans())
def test_attribute_changes_are_lawful_or_refused(text: str, create: bool) -> None:
    """Nothing but `BadAttribute`, and what is accepted is known."""
    current = {} if create else {"message.type": "FIFO"}
    try:
        found = altered(TOPIC_ATTRIBUTES, current, parse_modification(text), create=create)
    except BadAttribute:
        return
    assert found.keys() <= TOPIC_ATTRIBUTES.keys()


# -- files


def test_progress_that_goes_with_a_topic_takes_no_search_for_each_group() -> None:
    table = offsets()
    for number in range(2_000):
        table.commit(f"group-{number}", "T", 0, number)
    finished(table.dropping_topic("T"))
    assert not table.groups_of("T")


TABLES = [topics, groups, offsets]


@pytest.mark.parametrize("make", TABLES)
def test_unknown_members_and_fields_of_a_newer_version_survive(make: Any) -> None:
    table = make()
    document: dict[str, Any] = fastjson.loads(table.encode())
    document["fromTheFuture"] = {"a": [1, "x"]}
    rows = next((value for name, value in document.items() if name.endswith(("ConfigTable", "GroupTable"))), None)
    if rows is not None:
        rows[next(iter(rows))]["newField"] = 5
    table.load(json.dumps(document).encode())
    again = fastjson.loads(table.encode())
    assert again["fromTheFuture"] == {"a": [1, "x"]}
    if rows is not None:
        assert next(iter(again[next(n for n in document if document[n] is rows)].values())) is not None
        assert any(row.get("newField") == 5 for row in again[next(n for n in document if document[n] is rows)].values())


@pytest.mark.parametrize("make", TABLES)
@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"null", b'{"offsetTable":5,"topicConfigTable":5,"subscriptionGroupTable":5}']
)
def test_a_file_that_is_not_one_is_refused_and_changes_nothing(make: Any, text: bytes) -> None:
    table = make()
    before = table.encode()
    with pytest.raises(BadBody):
        table.load(text)
    assert table.encode() == before


@pytest.mark.parametrize("make", TABLES)
def test_a_table_reads_what_it_wrote(make: Any) -> None:
    table = make()
    if isinstance(table, TopicTable):
        table.put(TopicConfig(topic_name="Tü", attributes={"+message.type": "FIFO"}, order=True))
    elif isinstance(table, GroupTable):
        table.put(SubscriptionGroupConfig(group_name="G", retry_max_times=3))
        table.set_forbidden("G", "T", READ_INDEX, True)
    else:
        table.commit("G", "T", 3, 2**62)
    again = make()
    again.load(table.encode())
    assert again.encode() == table.encode()
    assert not again.dirty


@pytest.mark.parametrize("make", TABLES)
def test_a_file_of_the_real_broker_is_read_and_written_byte_for_byte(make: Any) -> None:
    table = make()
    text = (GOLDEN / table.file).read_bytes()
    table.take(fastjson.loads(text))  # a load has some rows stand otherwise: as in what that broker would write after a start
    assert table.encode() == text


def test_a_change_during_a_slow_write_keeps_the_table_dirty() -> None:
    table = topics()
    table.create_in_send("A", "TBW102", 1, "x")
    slices = table.encode_slices()
    chunks = list(slices)
    table.create_in_send("B", "TBW102", 1, "x")
    table.written()
    assert table.dirty
    assert b'"B"' not in b"".join(chunks)
    table.encode()
    table.written()
    assert not table.dirty


def test_rows_changed_between_slices_are_in_the_document() -> None:
    table = offsets()
    for number in range(200):
        table.commit(f"G{number}", "T", 0, 1)
    slices = table.encode_slices()
    next(slices)
    table.commit("G0", "T", 0, 42)
    table.commit("late", "T", 0, 7)
    document = fastjson.loads(b"".join(slices))
    assert document["offsetTable"]["T@G0"] == {"0": 42}
    assert document["offsetTable"]["T@late"] == {"0": 7}


def test_a_table_is_a_persisted_table() -> None:
    assert all(isinstance(make(), PersistedTable) for make in TABLES)


def test_pages_of_groups_follow_what_is_taken_back() -> None:
    """The version stays, and the page is of the rows as they are."""
    table = GroupTable(BrokerConfig({"brokerName": "broker-a"}, Machine()), Env(wall_ms=1_700_000_000_000))
    for name in ("g1", "g2"):
        table.put(SubscriptionGroupConfig(group_name=name))
    table.on_dirty = lambda _: None
    table.delete("g1")
    version = table.data_version.encode().decode()
    assert "g1" not in table.page(version, 0, 100)
    assert table.take_back() == 1
    assert version == table.data_version.encode().decode()
    assert list(table.page(version, 0, 100)) == sorted(table.table)
    assert "g1" in table
