"""Our answers to a whole conversation of administration calls, and the files it leaves, beside those of Apache RocketMQ 5.5.0."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rmq_wire import fastjson
from rmq_wire.command import Form
from tests.broker.admin_calls import ANSWERS, CALLS, CONFIG_FILES, GOLDEN
from tests.support import remoting
from tests.support.engine import Harness

JAVA: dict[str, dict[str, Any]] = json.loads(ANSWERS.read_text())

TIMES = re.compile(
    r'("(?:lastUpdateTimestamp|lastTimestamp|minTimeStamp|maxTimeStamp|consumeTimeStamp)":)[1-9]\d{12}'
    r'|("timestamp":)\d+|("delayTime":)[1-9]\d*|("(?:min|max|consume)TimeStampStr":)"20[^"]{21}"'
)
PORTS = re.compile(r"127\.0\.0\.1:\d{5}")
STACK_FRAME = re.compile(r"^(?:java\.lang\.\w+|[\w.]+Exception): (.*), [\w.$]+\([\w.]+:\d+\)$")
"""`RemotingHelper.exceptionSimpleDesc`: class, text, first stack frame.  We give the text alone."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    root = tmp_path_factory.mktemp("store")
    broker = Harness(root)
    client = broker.connect()
    found: dict[str, dict[str, Any]] = {}
    for number, ask in enumerate(CALLS, 1):
        client.raw(remoting.frame(ask.code, ask.ext, ask.body.encode(), opaque=number))
        answer = client.answers.pop(number)
        assert answer.form == Form.JSON
        body = bytes(answer.body).decode()
        found[ask.label] = {"code": answer.code, "remark": answer.remark, "ext": answer.ext_map(), "body": body}
        broker.env.advance(1)
    broker.driver.run()
    broker.stop()
    found["root"] = {"path": str(root)}
    return found


def comparable(body: str) -> Any:
    """The value of a body: order of members, times and our ports taken away."""
    text = PORTS.sub("127.0.0.1:port", TIMES.sub(lambda found: next(filter(None, found.groups())) + "1", body))
    try:
        value = fastjson.loads(text.encode())
    except Exception:
        return sorted(text.splitlines())
    return sorted_deep(value)


def sorted_deep(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): sorted_deep(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list):
        return sorted((sorted_deep(item) for item in value), key=str)
    return value


def remark_of(answer: dict[str, Any]) -> str | None:
    remark = answer["remark"]
    framed = STACK_FRAME.match(remark) if remark else None
    return framed[1] if framed else remark


OWN_TEXT = {"create: number"}
"""Java says what its null pointer was; we say which field is no number."""
OWN_BODY = {"runtime", "config", "who consumes"}
"""Looked at by tests of their own."""


@pytest.mark.parametrize("label", [ask.label for ask in CALLS])
def test_answer_is_javas(label: str, answers: dict[str, dict[str, Any]]) -> None:
    ours, theirs = answers[label], JAVA[label]
    assert ours["code"] == theirs["code"], (ours, theirs)
    if label not in OWN_TEXT:
        assert ours["remark"] == remark_of(theirs)
    ext_ours = {key: re.sub(r"1[67]\d{11}", "time", value) for key, value in ours["ext"].items() if key != "msgId"}
    ext_theirs = {key: re.sub(r"1[67]\d{11}", "time", value) for key, value in theirs["ext"].items() if key != "msgId"}
    assert ext_ours == ext_theirs
    if label not in OWN_BODY:
        assert comparable(ours["body"]) == comparable(theirs["body"])


def test_who_consumes_a_topic_leaves_out_groups_that_unsubscribed(answers: dict[str, dict[str, Any]]) -> None:
    """Java's reverse table keeps them until their last member has gone."""
    theirs = json.loads(JAVA["who consumes"]["body"])["groupList"]
    assert sorted(json.loads(answers["who consumes"]["body"])["groupList"]) == sorted(set(theirs) - {"GroupV"})


def test_runtime_info_has_javas_keys(answers: dict[str, dict[str, Any]]) -> None:
    """All of them, no other, texts of the same form."""
    ours, theirs = (json.loads(found["runtime"]["body"])["table"] for found in (answers, JAVA))
    ours = {key.replace(answers["root"]["path"], "/scratch/broker/store"): value for key, value in ours.items()}
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        assert form(ours[key]) == form(value), key


def form(text: str) -> str:
    """Digits as one 9, so that texts compare by their shape."""
    return re.sub(r"[KMGT]iB", "B", re.sub(r"\d+(\.\d+)?", "9", text.replace("-", "")))


def entries(listing: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in listing.splitlines())


SET_FOR_THE_TEST = {
    "brokerIP1",
    "brokerIP2",
    "bindAddress",
    "namesrvAddr",
    "rocketmqHome",
    "storePathRootDir",
    "storePathCommitLog",
    "haListenPort",
    "listenPort",
    "brokerId",
    "mappedFileSizeTimerLog",
    "diskMaxUsedSpaceRatio",
    "diskSpaceWarningLevelRatio",
    "maxHashSlotNum",
    "maxIndexNum",
    "mappedFileSizeCommitLog",
    "mappedFileSizeConsumeQueue",
    "osPageCacheBusyTimeOutMills",
    "waitTimeMillsInAckQueue",
    "waitTimeMillsInAdminBrokerQueue",
    "waitTimeMillsInLitePullQueue",
    "waitTimeMillsInPullQueue",
    "waitTimeMillsInSendQueue",
    "waitTimeMillsInTransactionQueue",
}
"""What the two brokers were given, and it is not the same."""


def test_configuration_listing_has_javas_keys_and_values(answers: dict[str, dict[str, Any]]) -> None:
    ours, theirs = entries(answers["config"]["body"]), entries(JAVA["config"]["body"])
    assert theirs.keys() - ours.keys() <= SET_FOR_THE_TEST
    assert ours.keys() - theirs.keys() <= SET_FOR_THE_TEST
    different = {key for key in ours.keys() & theirs.keys() - SET_FOR_THE_TEST if ours[key] != theirs[key]}
    assert different <= {key for key in ours if "ThreadPoolNums" in key or "Threads" in key}, different
    assert list(ours) == list(theirs) or ours.keys() != theirs.keys()


@pytest.mark.parametrize("name", CONFIG_FILES)
def test_files_are_written_as_javas(name: str, answers: dict[str, dict[str, Any]]) -> None:
    """Byte for byte, but for times."""
    ours = (Path(answers["root"]["path"]) / "config" / name).read_bytes()
    times = re.compile(rb'("timestamp":)\d+')
    assert times.sub(rb"\g<1>0", ours) == times.sub(rb"\g<1>0", (GOLDEN / name).read_bytes())
