"""JSON bodies that are spelled otherwise than Java spells them are read as 5.5.0's own classes read them, member by member.

`conformance/truth/bodies.json` says what became of each spelling there; what differs on purpose stands below, with its reason.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.truth import BODIES, REFUSED, load
from rmq_wire import fastjson
from rmq_wire.bodies import (
    assignment,
    cluster,
    connections,
    consumer_answers,
    groups,
    heartbeat,
    kv,
    locks,
    offsets,
    route,
    topics,
)
from rmq_wire.bodies.body import LENIENT_VALUES_MAX, ODD_BYTES_MAX, Body
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.heartbeat import HeartbeatData
from rmq_wire.bodies.lenience import NUMBER_CHARACTERS_MAX, read_as
from rmq_wire.bodies.registration import RegisterBrokerBody
from rmq_wire.command import UNKNOWN_LANGUAGE, Command, Form, Unreadable, decode_header
from rmq_wire.errors import BadBody, BadFrame, BadHeader
from rmq_wire.fastjson import MessageQueue
from tests.support.body_values import bodies
from tests.support.loops import each

TRUTH = load(BODIES)
OURS: dict[str, type[Any]] = {
    "BrokerData": route.BrokerData,
    "BrokerMemberGroup": cluster.BrokerMemberGroup,
    "CheckClientRequestBody": heartbeat.CheckClientRequest,
    "ClusterInfo": cluster.ClusterInfo,
    "ConsumeMessageDirectlyResult": consumer_answers.ConsumeMessageDirectlyResult,
    "ConsumeStatus": consumer_answers.ConsumeStatus,
    "ConsumerData": heartbeat.ConsumerData,
    "ConsumerOffsetSerializeWrapper": offsets.ConsumerOffsetTable,
    "ConsumerRunningInfo": consumer_answers.ConsumerRunningInfo,
    "CreateTopicListRequestBody": topics.TopicConfigList,
    "CustomizedRetryPolicy": groups.CustomizedRetryPolicy,
    "DataVersion": DataVersion,
    "DelayOffsetSerializeWrapper": offsets.DelayOffsetTable,
    "ExponentialRetryPolicy": groups.ExponentialRetryPolicy,
    "GetBrokerMemberGroupResponseBody": cluster.BrokerMemberGroupAnswer,
    "GetConsumerListByGroupResponseBody": connections.ConsumerIdList,
    "GetConsumerStatusBody": consumer_answers.ConsumerStatus,
    "GroupRetryPolicy": groups.GroupRetryPolicy,
    "HeartbeatData": HeartbeatData,
    "KVConfigSerializeWrapper": kv.KVConfig,
    "KVTable": kv.KVTable,
    "LockBatchRequestBody": locks.LockBatchRequest,
    "LockBatchResponseBody": locks.LockBatchResponse,
    "MessageQueue": locks.QueueName,
    "PopProcessQueueInfo": consumer_answers.PopProcessQueueInfo,
    "ProcessQueueInfo": consumer_answers.ProcessQueueInfo,
    "ProducerData": heartbeat.ProducerData,
    "QueryAssignmentRequestBody": assignment.QueryAssignmentRequest,
    "QueueData": route.QueueData,
    "RegisterBrokerBody": RegisterBrokerBody,
    "ResetOffsetBody": offsets.ResetOffset,
    "SetMessageRequestModeRequestBody": assignment.SetMessageRequestModeRequest,
    "SimpleSubscriptionData": groups.SimpleSubscriptionData,
    "SubscriptionData": heartbeat.SubscriptionData,
    "SubscriptionGroupConfig": groups.SubscriptionGroupConfig,
    "SubscriptionGroupList": groups.SubscriptionGroupList,
    "SubscriptionGroupWrapper": groups.SubscriptionGroupTable,
    "TopicConfig": topics.TopicConfig,
    "TopicConfigAndMappingSerializeWrapper": topics.TopicConfigTable,
    "TopicQueueMappingInfo": route.TopicQueueMappingInfo,
    "TopicRouteData": route.TopicRouteData,
    "UnlockBatchRequestBody": locks.LockBatchRequest,
}
NOT_READ = {"LogicQueueMappingItem", "TopicQueueMappingDetail", "RemotingCommand"}
"""Static topics are handed on as they are; a header has a reader of its own, and its tests below."""
NOT_KEPT = {"filterClassSource", "topicQueueMappingDetailMap", "topicQueueMappingInfoMap", "topicConfigSerializeWrapper"}
"""Members that we have not, and those that hold static topics."""


# Type and spelling, as patterns: where we differ.  Nothing of it is a spelling that any client is known to use.
DIFFERENT = {
    "Java's parser stumbles; we refuse": (
        (r"int|long|AtomicLong|.*(Integer|Long)>", r".*(1e22|\{\}|\{\"a\":1\}).*"),
        (r"double", r"\"-\"|\"1L\"|\[\]|\{\}"),
        (r"ConcurrentMap<Integer, .*", r"\{\{.*"),
        (r"HashMap<String, HashMap<String, String>>", r".*\[\{\}\].*"),
    ),
    "it drops a value that is no list, or makes its text an element; we refuse": (
        (r"List<String>|Set<String>", r"-?[0-9.e-]+|true|false|\{.*"),
        (r"Map<String, Set<String>>|HashMap<String, List<String>>", r".*:(\{.*\}|1|\"\")\}"),
        (r"List<String>", r"\"null\""),
        (r"(List|TreeSet)<.*(Data|Config)>", r"\"null\""),
    ),
    "an array of `long` takes no single number, a Set<Integer> not every spelling of one; we do": (
        (r"long\[\]", r"[^{\[]*|\[null\]"),
        (r"Set<Integer>", r"\".*\""),
    ),
    "a null in a table or a sorted set is an error there, or stays; we leave it out": (
        (r"ConcurrentMap<.*", r"\{.*:(null|\"\"|\"null\")\}"),
        (r"TreeSet<.*", r"\[.*\]"),
        (r"HashMap<String, List<String>>", r"\{.*:null\}"),
    ),
    "keys that are numbers, queues, or the text of one; we take all": (
        (r"(Tree|Hash|Concurrent)?Map<String, .*", r"\{(-1|0|\{.*\}):.*"),
        (r"(Tree|Hash)?Map<MessageQueue, .*", r"\{(\"\{.*|\{\}|\{\"topic\":\"t\"\}):.*"),
    ),
}


def spellings(type_: str) -> dict[str, str]:
    """What becomes of each."""
    [found] = [row for row in TRUTH["types"] if type_ in row["types"]]
    return {**found["read"], **dict.fromkeys(found["refused"], REFUSED)}


class Member:
    """A member of a body class of ours, and what Java does with its name sake."""

    def __init__(self, java: str, wire: str) -> None:
        self.kind = OURS[java]
        self.__name__ = f"{java}.{wire}"
        self.wire = wire
        row = TRUTH["classes"][java]["fields"][wire]
        self.type = row["type"]
        self.missing = row["missing"]
        self.spellings = spellings(self.type)
        [field] = [field for field in msgspec.structs.fields(self.kind) if field.encode_name == wire]
        self.field = field.name
        self.optional = type(None) in get_args(field.type)

    def read(self, given: str) -> Any:
        """What it is after such a body, REFUSED when that is refused."""
        text = f'{{"{self.wire}":{given}}}'.encode()
        try:
            found = self.kind.read(text) if issubclass(self.kind, Body) else read_as(self.kind, fastjson.loads(text))
        except BadBody:
            return REFUSED
        return getattr(found, self.field)

    def expected(self, became: str) -> Any:
        if became == REFUSED:
            return REFUSED
        if became == "null":
            return None if self.optional else getattr(self.kind(), self.field)
        return self.read(became.replace('"clock"', "0"))

    def deviations(self) -> list[str]:
        """The spellings that we do not read as Java does."""
        return [given for given, became in self.spellings.items() if self.read(given) != self.expected(became)]


MEMBERS = [
    Member(java, wire)
    for java, row in TRUTH["classes"].items()
    if java not in NOT_READ
    for wire in row["fields"]
    if wire not in NOT_KEPT
]


def allowed(type_: str, given: str) -> bool:
    return any(re.fullmatch(t, type_) and re.fullmatch(g, given) for rows in DIFFERENT.values() for t, g in rows)


def test_each_member_is_read_as_java_reads_it() -> None:
    """Some 6,000 spellings; each class that Java has is ours, too."""
    each(MEMBERS, lambda member: like_java(member))
    assert len(MEMBERS) > 150


def like_java(member: Member) -> None:
    assert [given for given in member.deviations() if not allowed(member.type, given)] == []


def test_what_differs_on_purpose_does_differ() -> None:
    found = {(member.type, given) for member in MEMBERS for given in member.deviations()}
    each(
        [row for rows in DIFFERENT.values() for row in rows],
        lambda row: (
            pytest.fail("no such difference")
            if not any(re.fullmatch(row[0], type_) and re.fullmatch(row[1], given) for type_, given in found)
            else None
        ),
    )


def test_a_missing_member_has_javas_default() -> None:
    plain = [member for member in MEMBERS if "clock" not in member.missing and member.missing != "null"]
    each(plain, lambda member: same_default(member))


def same_default(member: Member) -> None:
    assert getattr(member.kind(), member.field) == member.expected(member.missing)


def test_whole_bodies_are_refused_or_read_as_java_does() -> None:
    """A body that is null there is an error a moment later: here at once.  Of the dialect we read a little more."""
    more = {'{"a":1,}', "{a:1}"}
    found = {text: reported for text, reported in TRUTH["whole"].items() if text not in more}
    each(found, lambda text: whole(text, found[text]))


def whole(text: str, reported: str) -> None:
    if reported == "{}":
        assert HeartbeatData.read(text.encode()) == HeartbeatData()
    else:
        with pytest.raises(BadBody):
            HeartbeatData.read(text.encode())


HEADER = ("code", "flag", "opaque", "version", "language", "remark", "extFields")


def header(wire: str, given: str) -> Any:
    """A member of a frame's header, which Java reads like any body."""
    try:
        found = decode_header(f'{{"opaque":7,"{wire}":{given}}}'.encode(), Form.JSON)
        assert isinstance(found, Command | Unreadable)
        if isinstance(found, Unreadable):
            return REFUSED
        return found.ext_map() if wire == "extFields" else getattr(found, wire)
    except (BadFrame, BadHeader):
        return REFUSED


def header_like_java(wire: str) -> None:
    type_ = TRUTH["classes"]["RemotingCommand"]["fields"][wire]["type"]
    absent = {"remark": None, "extFields": {}, "language": UNKNOWN_LANGUAGE}.get(wire, 0)
    for spelling, became in spellings(type_).items():
        if became == REFUSED and wire == "language":
            continue  # we answer all the same
        expected = became if became == REFUSED else absent if became == "null" else header(wire, became)
        found = header(wire, spelling)
        assert found == expected or allowed(type_, spelling), f"{spelling}: {found!r}, Java {became}"


def test_the_header_of_a_frame_is_read_the_same_way() -> None:
    each(HEADER, header_like_java)


# -- any combination of them


def spelled(value: Any, hint: Any) -> st.SearchStrategy[str]:
    """Spellings of a value, as texts of JSON: of all that Java takes for it."""
    if get_origin(hint) is Annotated and (extra := get_args(hint)[1].extra):
        at = extra["names"].index(value)
        return st.sampled_from([f'"{value}"', f'"{value.lower()}"', str(at), f'"{at}"', f"{at}.5"])
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if type(None) in get_args(bare):
        if value is None:
            return st.just("null")
        [kind] = [part for part in get_args(bare) if part is not type(None)]
        return spelled(value, kind)
    if bare is bool:
        return st.sampled_from(
            ["true", '"true"', '"TRUE"', '"Y"', "1", '"1"', "[true]"] if value else [*FALSE, "0", '"0"', '"N"']
        )
    if bare is int:
        return st.sampled_from([str(value), f'"{value}"', f'"{value:+,}"', f"[{value}]", *(FALSE if value == 0 else ())])
    if bare is str:
        text = json.dumps(value)
        return st.sampled_from([text, f"[{text}]", *([value] if re.fullmatch("-?[1-9][0-9]{0,17}|true|false", value) else ())])
    if get_origin(bare) is list:
        return spelled_list(value, get_args(bare)[0])
    if get_origin(bare) is dict:
        return spelled_table(value, *get_args(bare))
    if isinstance(value, msgspec.Struct):
        return spelled_struct(value)
    return st.just(json.dumps(value))


FALSE = ["false", '"false"', "null", '""', '"null"']


def held(value: Any, kind: Any) -> st.SearchStrategy[str]:
    """In lists and tables a number that is null or empty is left out, not zero."""
    return st.sampled_from([str(value), f'"{value}"']) if type(value) is int else spelled(value, kind)


@st.composite
def spelled_list(draw: st.DrawFn, value: list[Any], kind: Any) -> str:
    items = [draw(held(item, kind)) for item in value]
    if len(value) == 1 and isinstance(value[0], msgspec.Struct) and draw(st.booleans()):
        return items[0]
    if not isinstance(kind, type) or not issubclass(kind, str):
        items.insert(draw(st.integers(0, len(items))), "null")
    return f"[{','.join(items)}]"


@st.composite
def spelled_table(draw: st.DrawFn, value: dict[Any, Any], key: Any, kind: Any) -> str:
    rows = []
    for name, item in value.items():
        text = json.dumps(str(name))
        if isinstance(name, int):
            text = draw(st.sampled_from([text, str(name)]))
        elif isinstance(name, MessageQueue):
            text = draw(spelled_struct(locks.QueueName(topic=name.topic, broker_name=name.broker_name, queue_id=name.queue_id)))
        rows.append(f"{text}:{draw(held(item, kind))}")
    return f"{{{','.join(rows)}}}"


@st.composite
def spelled_struct(draw: st.DrawFn, value: msgspec.Struct) -> str:
    rows = ['"noSuchMember":[{"a":null}]'] if draw(st.booleans()) else []
    for field in msgspec.structs.fields(value):
        item = getattr(value, field.name)
        if item == getattr(type(value)(), field.name) and draw(st.booleans()):
            continue
        rows.append(f'"{field.encode_name}":{draw(spelled(item, field.type))}')
    return f"{{{','.join(draw(st.permutations(rows)))}}}"


KINDS = [kind for name, kind in OURS.items() if issubclass(kind, Body) and not NOT_KEPT & TRUTH["classes"][name]["fields"].keys()]


@settings(max_examples=200)
@given(st.data())
def test_a_body_is_the_same_in_any_combination_of_spellings(data: st.DataObject) -> None:
    value = data.draw(st.sampled_from([HeartbeatData, *KINDS]).flatmap(bodies))
    assert type(value).read(data.draw(spelled_struct(value)).encode()).plain() == value.plain()


# -- hostile ones

NAMES = sorted({field.encode_name for kind in KINDS for field in msgspec.structs.fields(kind)})
TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "0", "-", "1e9", "1" * 70, "null", "CLUSTERING", '{"']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner, max_size=4),
)


@settings(max_examples=300)
@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(NAMES), TREES, min_size=1))
def test_any_tree_is_a_body_or_refused(kind: type[Body], tree: dict[str, Any]) -> None:
    """The second text has the dialect's keys."""
    strict = json.dumps(tree).encode()
    for text in (strict, strict.replace(b'{"', b"{0:{},{}:1,{'topic':5}:", 1)):
        try:
            kind.read(text)
        except BadBody:
            pass


def test_numbers_of_thousands_of_digits_and_long_names_cost_an_error() -> None:
    digits = "9" * 5_000
    assert len(digits) > NUMBER_CHARACTERS_MAX
    for given_ in (digits, f'"{digits}"', f'"{digits}.0"', f'"1e{digits}"', f'["{digits}"]', '"1e308"', '"1,000e400"'):
        with pytest.raises(BadBody):
            HeartbeatData.read(f'{{"heartbeatFingerprint":{given_}}}'.encode())
    long = json.dumps("C_" * 100_000)
    text = f'{{"consumerDataSet":[{{"consumeType":{long}}}]}}'
    assert HeartbeatData.read(text.encode()).consumer_data_set[0].consume_type is None


def test_a_body_that_is_not_spelled_as_java_does_is_small() -> None:
    """Whoever needs the lenient reader has few values; a million of them would hold everybody else up."""
    most = LENIENT_VALUES_MAX // 2 - 10
    for item in ("5", '{"groupName":5}', "[5]"):
        for count, why in ((2 * most, "too many values"), (ODD_BYTES_MAX // 8, "bytes: Expected")):
            with pytest.raises(BadBody, match=why):
                HeartbeatData.read(of_producers([*['{"a":0}'] * count, item]))
    assert HeartbeatData.read(of_producers([*['{"a":0}'] * most, '{"groupName":5}'])).producer_data_set[-1].group_name == "5"
    assert len(HeartbeatData.read(of_producers(['{"a":0}'] * ODD_BYTES_MAX)).producer_data_set) == ODD_BYTES_MAX


def of_producers(items: list[str]) -> bytes:
    return f'{{"producerDataSet":[{",".join(items)}]}}'.encode()


def test_an_error_names_the_member() -> None:
    text = b'{"consumerDataSet":[{"groupName":5},{"subscriptionDataSet":[{"subVersion":"x"}]}]}'
    with pytest.raises(BadBody, match=r"HeartbeatData\.consumerDataSet\[1\]\.subscriptionDataSet\[0\]\.subVersion: an integer"):
        HeartbeatData.read(text)


def test_the_heartbeat_of_the_cpp_client() -> None:
    """As the C++ client 2.x sends it (recorded from the wheel `rocketmq` 0.4.4): ordinals, and a number in quotes."""
    text = (
        b'{"clientID":"24334-127.0.0.1@DEFAULT","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"G",'
        b'"messageModel":1,"subscriptionDataSet":[{"subString":"*","subVersion":"1795440088321","topic":"%RETRY%G"},'
        b'{"subString":"*","subVersion":"1795440088321","topic":"T"}]}],"producerDataSet":[{"groupName":"P"}]}\n'
    )
    [consumer] = HeartbeatData.read(text).consumer_data_set
    assert consumer.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
    assert (consumer.consume_type, consumer.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert [said.sub_version for said in consumer.subscription_data_set] == [1795440088321] * 2
