"""Our names, numbers and headers against what was extracted from the jars of 5.5.0, both ways; older versions for tolerance.

Whatever differs on purpose stands in a table below with its reason; an entry that no longer differs is an error too.
"""

from __future__ import annotations

from typing import Any

import pytest

import rmq_wire.headers.all  # noqa: F401  (fills REQUESTS)
from conformance.truth import load
from rmq_wire import codes
from rmq_wire.codes import LanguageCode, RequestCode, ResponseCode
from rmq_wire.declare import REQUESTS, Field, Header, Request, Role
from rmq_wire.headers import base
from rmq_wire.registry import type_name
from tests.support.loops import each

TRUTH = load("5.5.0")
HEADERS: dict[str, Any] = TRUTH["headers"]
DECLARED: list[type[Request]] = sorted(set(REQUESTS.values()), key=lambda cls: cls.__name__)
ROLES = {"broker": Role.BROKER, "name_server": Role.NAME_SERVER, "client": Role.CLIENT}
ADDED = "ext field that Java reads or writes without a header class"

JAVA_NAMES = {
    "ConsumeMessageDirectly": "ConsumeMessageDirectlyResultRequestHeader",
    "ExchangeHAInfo": "ExchangeHAInfoRequestHeader",
    "GetConsumeStatsInBroker": "GetConsumeStatsInBrokerHeader",
    "GetConsumerStatusFromClient": "GetConsumerStatusRequestHeader",
    "LitePullMessage": "PullMessageRequestHeader",
    "PushReplyMessageToClient": "ReplyMessageRequestHeader",
    "QueryCorrectionOffset": "QueryCorrectionOffsetHeader",
    "ResetConsumerClientOffset": "ResetOffsetRequestHeader",
    "ResetMasterFlushOffset": "ResetMasterFlushOffsetHeader",
    "SendBatchMessage": "SendMessageRequestHeaderV2",
    "SendMessageV2": "SendMessageRequestHeaderV2",
    "SendReplyMessage": "SendMessageRequestHeader",
    "SendReplyMessageV2": "SendMessageRequestHeaderV2",
    "UnregisterBroker": "UnRegisterBrokerRequestHeader",
    "UpdateAndCreateStaticTopic": "CreateTopicRequestHeader",
}
"""Our class -> Java's, where that is not our name with `RequestHeader` or `ResponseHeader` behind it."""

NO_JAVA_CLASS = {
    "BatchAckMessage",
    "CheckClientConfig",
    "CleanExpiredConsumeQueue",
    "CleanUnusedTopic",
    "DeleteExpiredCommitLog",
    "GetAllConsumerOffset",
    "GetAllDelayOffset",
    "GetAllMessageRequestMode",
    "GetAllTopicListFromNameserver",
    "GetBrokerClusterInfo",
    "GetBrokerConfig",
    "GetBrokerEpochCache",
    "GetBrokerHAStatus",
    "GetBrokerLiteInfo",
    "GetBrokerRuntimeInfo",
    "GetColdDataFlowCtrInfo",
    "GetHasUnitSubTopicList",
    "GetHasUnitSubUnunitTopicList",
    "GetNamesrvConfig",
    "GetSystemTopicListFromBroker",
    "GetSystemTopicListFromNs",
    "GetTimerCheckPoint",
    "GetTimerMetrics",
    "GetUnitTopicList",
    "HeartbeatResponse",
    "PopRollback",
    "QueryAssignment",
    "RemoveColdDataFlowCtrConfig",
    "SetCommitLogReadMode",
    "SetMessageRequestMode",
    "SwitchTimerEngine",
    "UpdateAndCreateSubscriptionGroup",
    "UpdateAndCreateSubscriptionGroupList",
    "UpdateBrokerConfig",
    "UpdateColdDataFlowCtrConfig",
    "UpdateNamesrvConfig",
}
"""Requests (and one answer) that have no header class in Java: they have no fields, or fields that `DIFFERENCES` names."""

DIFFERENCES = {
    ("GetAllTopicConfig", "topicSeq"): "not-null in Java; askers before 5.5 send none and get all, so it may be absent",
    ("GetAllSubscriptionGroup", "groupSeq"): "not-null in Java; askers before 5.5 send none and get all, so it may be absent",
    ("EndTransaction", "msgId"): "not-null in Java, and never looked for; it is only for the log",
    ("GetRouteInfo", "__ZONE_NAME"): ADDED,
    ("GetRouteInfo", "__ZONE_MODE"): ADDED,
    ("RegisterBroker", "__ZONE_NAME"): ADDED,
    ("QueryMessage", "_UNIQUE_KEY_QUERY"): ADDED,
    ("SetCommitLogReadMode", "READ_AHEAD_MODE"): ADDED,
    ("SwitchTimerEngine", "E_T"): ADDED,
    ("SendMessageResponse", "MSG_REGION"): ADDED,
    ("SendMessageResponse", "TRACE_ON"): ADDED,
    ("HeartbeatResponse", "IS_SUPPORT_HEART_BEAT_V2"): ADDED,
    ("HeartbeatResponse", "IS_SUB_CHANGE"): ADDED,
}

NOT_DECLARED = {
    "a base class, declared in rmq_wire.headers.base": {"RpcRequestHeader", "TopicRequestHeader", "TopicQueueRequestHeader"},
    "only a controller answers it": {
        "AlterSyncStateSetRequestHeader",
        "AlterSyncStateSetResponseHeader",
        "ApplyBrokerIdRequestHeader",
        "ApplyBrokerIdResponseHeader",
        "CleanControllerBrokerDataRequestHeader",
        "ElectMasterRequestHeader",
        "ElectMasterResponseHeader",
        "GetMetaDataResponseHeader",
        "GetNextBrokerIdRequestHeader",
        "GetNextBrokerIdResponseHeader",
        "GetReplicaInfoRequestHeader",
        "GetReplicaInfoResponseHeader",
        "RegisterBrokerToControllerRequestHeader",
        "RegisterBrokerToControllerResponseHeader",
    },
    "only a broker container answers it": {"AddBrokerRequestHeader", "RemoveBrokerRequestHeader"},
    "nothing sends it": {
        "CheckTransactionStateResponseHeader",
        "InitConsumerOffsetRequestHeader",
        "RegisterOrderTopicRequestHeader",
        "StatisticsMessagesRequestHeader",
    },
    "an answer without fields": {
        "EndTransactionResponseHeader",
        "GetConsumerListByGroupResponseHeader",
        "UnregisterClientResponseHeader",
        "UpdateConsumerOffsetResponseHeader",
        "ViewMessageResponseHeader",
    },
}

VERSION_GATES = {
    "VERSION": "V5_5_0",
    "VERSION_RESETS_OFFSET": "V3_0_7_SNAPSHOT",
    "VERSION_REGISTERS_WITH_BODY": "V3_0_11",
    "VERSION_REPORTS_RUNNING_INFO": "V3_1_8_SNAPSHOT",
    "VERSION_SENDS_MAX_RECONSUME_TIMES": "V3_4_9",
    "VERSION_FILTERS_BY_SQL": "V4_1_0_SNAPSHOT",
    "VERSION_READS_STRICT_JSON": "V4_9_4",
    "VERSION_REGISTERS_QUEUE_MAPPING": "V5_0_0",
    "VERSION_OBEYS_GO_AWAY": "V5_3_2",
}


def replies() -> list[type[Header]]:
    return sorted({cls.reply for cls in DECLARED} - {Header}, key=lambda cls: cls.__name__)


def java_name(cls: type[Header]) -> str | None:
    """The Java header class that this class stands for."""
    if cls.__name__ in NO_JAVA_CLASS:
        return None
    if cls.__name__ in JAVA_NAMES:
        return JAVA_NAMES[cls.__name__]
    return f"{cls.__name__}Header" if cls.__name__.endswith("Response") else f"{cls.__name__}RequestHeader"


def java_fields(cls: type[Header]) -> dict[str, tuple[str, bool]]:
    """Wire name -> type, and whether it is marked not-null."""
    name = java_name(cls)
    return {field["name"]: (_primitive(field), field["not_null"]) for field in (HEADERS[name]["fields"] if name else ())}


def _primitive(field: dict[str, Any]) -> str:
    kind: str = field["type"]
    spelled = {"Integer": "int", "Long": "long", "Boolean": "boolean", "BoundaryType": "String"}
    return spelled.get(kind, kind)


def our_fields(cls: type[Header]) -> dict[str, tuple[str, bool]]:
    return {field.wire: (type_name(field), field.required) for field in cls.fields()}


def test_request_codes() -> None:
    assert {code.name: code.value for code in RequestCode} == TRUTH["request_codes"]


def test_response_codes() -> None:
    assert {code.name: code.value for code in ResponseCode} == TRUTH["response_codes"]


def test_language_codes() -> None:
    assert {code.name: code.value for code in LanguageCode} == TRUTH["languages"]


def test_version() -> None:
    assert TRUTH["version"] == codes.VERSION
    assert TRUTH["version_name"] == codes.VERSION_NAME


def test_version_gates() -> None:
    ours = {name: value for name, value in vars(codes).items() if name.startswith("VERSION") and isinstance(value, int)}
    assert ours == {name: TRUTH["versions"][java] for name, java in VERSION_GATES.items()}


@pytest.mark.parametrize(("role", "answered"), [("broker", 108), ("name_server", 23), ("client", 8)])
def test_every_answered_code_is_declared(role: str, answered: int) -> None:
    assert sorted(code for who, code in REQUESTS if who is ROLES[role]) == TRUTH["answers"][role]
    assert len(TRUTH["answers"][role]) == answered


def check_fields(cls: type[Header]) -> None:
    ours, javas = our_fields(cls), java_fields(cls)
    differing = {name for name in ours.keys() | javas.keys() if ours.get(name) != javas.get(name)}
    assert differing == {field for name, field in DIFFERENCES if name == cls.__name__}


def test_fields() -> None:
    each([*DECLARED, *replies()], check_fields)


def check_inheritance(cls: type[Header]) -> None:
    bases = {
        base.RpcRequest: "RpcRequestHeader",
        base.TopicRequest: "TopicRequestHeader",
        base.TopicQueueRequest: "TopicQueueRequestHeader",
    }
    name = java_name(cls)
    assert {bases[c] for c in cls.__mro__ if c in bases} == set(HEADERS[name]["parents"] if name else ())


def test_inheritance() -> None:
    each([*DECLARED, *replies()], check_inheritance)


def check_what_stands_in(cls: type[Header]) -> None:
    """Java's value of a member that nobody has set, where that is not null."""
    java = {field["name"]: field.get("default") for field in (HEADERS[java_name(cls) or ""]["fields"] if java_name(cls) else ())}
    blank = cls(**{field.name: _any(field) for field in cls.fields() if field.required})
    ours = {field.wire: field.absent if field.required else getattr(blank, field.name) for field in cls.fields()}
    assert {name: value for name, value in ours.items() if name in java} == {name: java[name] for name in ours if name in java}


def test_what_stands_in_for_an_absent_field() -> None:
    each([*DECLARED, *replies()], check_what_stands_in)


def _any(field: Field) -> Any:
    return {str: "", bool: False, int: 0}[field.kind]


def check_decoder(cls: type[Header]) -> None:
    name = java_name(cls)
    assert cls.fast == (HEADERS[name]["fast"] if name else False)


def test_hand_written_decoders_are_known() -> None:
    each([*DECLARED, *replies()], check_decoder)


def check_code(cls: type[Request]) -> None:
    """Java's own annotation of the header class, where it has one and the class serves one code only."""
    name = java_name(cls)
    users = {other.code for other in DECLARED if java_name(other) == name}
    if name and "code" in HEADERS[name] and len(users) == 1:
        assert cls.code == HEADERS[name]["code"]


def test_java_names_the_same_code() -> None:
    each(DECLARED, check_code)


def test_every_java_header_is_declared_or_listed() -> None:
    used = {java_name(cls) for cls in [*DECLARED, *replies()]} - {None}
    listed = set().union(*NOT_DECLARED.values())
    assert used | listed == set(HEADERS)
    assert not used & listed


def test_tables_name_classes_that_exist() -> None:
    known = {cls.__name__ for cls in [*DECLARED, *replies()]}
    assert set(JAVA_NAMES) | NO_JAVA_CLASS | {name for name, _ in DIFFERENCES} <= known


@pytest.mark.parametrize("version", ["5.3.3", "4.9.8"])
def test_older_clients_send_what_we_insist_on(version: str) -> None:
    """A field that an older header class lacks or may leave null must not be one without which we refuse the request."""
    older = load(version)
    answered = {(ROLES[role], code) for role in ROLES for code in older["answers"][role]}
    for cls in DECLARED:
        if not any((role, cls.code) in answered for role in cls.to):
            continue
        fields = older["headers"].get(java_name(cls) or "", {"fields": []})["fields"]  # without a class: it sends none
        sent = {field["name"] for field in fields if field["not_null"] or "default" in field}
        insisted = {field.wire for field in cls.fields() if field.required and field.absent is None}
        assert insisted <= sent, (cls.__name__, insisted - sent)


@pytest.mark.parametrize("version", ["5.3.3", "4.9.8"])
def test_numbers_of_older_versions_mean_the_same(version: str) -> None:
    """A code that two versions share is the same thing: one broker may answer both.

    4.9.8 called three response codes differently that 5.x uses anew; they belonged to access control lists that are gone.
    """
    older = load(version)
    ours = {code.value: code.name for code in RequestCode}
    assert {number: name for name, number in older["request_codes"].items() if ours.get(number, name) != name} == {}
    taken = {code.value: code.name for code in ResponseCode}
    renamed = {number for name, number in older["response_codes"].items() if taken.get(number, name) != name}
    assert renamed == ({209, 210, 211} if version == "4.9.8" else set())
