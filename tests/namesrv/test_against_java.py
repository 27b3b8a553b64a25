"""Our name server beside the real one, over sockets: the same conversation, and the same Java brokers registered with both.

Java's master and slave are told both name servers, so whatever the two say about them must be the same; stock mqadmin and stock
consumers look at ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.namesrv.exchange import Session
from tests.namesrv.record import ask_java, recorded
from tests.namesrv.scenario import normal, play, same_answer
from tests.namesrv.test_scenario import DIFFERENT
from tests.support import remoting
from tests.support.clients import JavaDriver
from tests.support.java import REFERENCE, java
from tests.support.process import until
from tests.support.reference import JavaBroker, JavaNameServer
from tests.support.subject import OurBroker, OurNameServer

pytestmark = pytest.mark.java

TOPIC = "Orders"
MESSAGES = 20
SLAVE = {"brokerRole": "SLAVE", "brokerId": "1", "slaveReadEnable": "true"}
"""Without the last, a slave refuses every pull."""
REPLICATED_S_MAX = 60.0
PULL = 11
FROM_THE_FIRST = {
    "consumerGroup": "TOOLS_CONSUMER",
    "topic": TOPIC,
    "queueOffset": "0",
    "maxMsgNums": "1",
    "sysFlag": "4",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subscription": "*",
    "subVersion": "0",
}


def test_the_recorded_answers_are_those_of_the_real_one(tmp_path: Path) -> None:
    java()
    assert ask_java(tmp_path) == recorded()


def test_ours_says_the_same_over_sockets(tmp_path: Path) -> None:
    with OurNameServer(tmp_path) as server:
        session = Session(server.address)
        ours = play(session)
        session.end()
    theirs = recorded()
    assert {label for label in theirs if not same_answer(theirs[label], ours[label])} == DIFFERENT.keys()


class Both(NamedTuple):
    """The two name servers, and a Java master and slave that know them both."""

    ours: str
    javas: str
    master: JavaBroker
    slave: JavaBroker

    def told(self, code: int, **ext: str) -> tuple[object, object]:
        """What the two say to one question: ours first."""
        one, two = (remoting.ask(at, code, ext) for at in (self.ours, self.javas))
        assert (one.code, one.remark, one.ext) == (two.code, two.remark, two.ext)
        return normal(one.json()), normal(two.json())

    def addrs(self, topic: str = TOPIC) -> dict[str, str]:
        """Addresses by broker id in our route."""
        answer = remoting.ask(self.ours, remoting.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        if answer.code:
            return {}
        [data] = answer.json()["brokerDatas"]  # type: ignore[misc]
        addrs: dict[str, str] = data["brokerAddrs"]
        return addrs

    def both_there(self) -> dict[str, str]:
        """The route with master and slave."""
        return {"0": self.master.address, "1": self.slave.address}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    java()
    at = tmp_path_factory.mktemp("both")
    with OurNameServer(at / "ours") as ours, JavaNameServer(at / "javas") as javas:
        namesrvs = f"{ours.address};{javas.address}"
        with (
            JavaBroker(at / "master", namesrvs, properties={"brokerRole": "ASYNC_MASTER"}) as master,
            JavaBroker(at / "slave", namesrvs, properties=SLAVE) as slave,
        ):
            yield Both(ours.address, javas.address, master, slave)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaDriver]:
    with JavaDriver(tmp_path_factory.mktemp("tools"), REFERENCE) as driver:
        yield driver


@pytest.fixture(scope="module")
def sent(both: Both, tools: JavaDriver) -> list[str]:
    """Bodies of messages that the master took and the slave has."""
    made = tools.mqadmin("updateTopic", "-n", both.ours, "-b", both.master.address, "-t", TOPIC, "-r", "2", "-w", "2")
    assert made.status == 0, made
    until(lambda: both.addrs() == both.both_there(), "the topic's route")
    tools.call("producer.start", name="p", namesrv=both.ours, group="senders")
    for number in range(MESSAGES):
        at = {"form": "queue", "broker": "broker-a", "queue": number % 2}
        [result] = tools.call("send", producer="p", topic=TOPIC, body=f"m{number}", **at)
        assert result["status"] == "SEND_OK"
    tools.call("producer.stop", producer="p")

    def replicated() -> bool:
        """A slave has the messages first, and the topic up to 10 s later."""
        pulled = (remoting.ask(both.slave.address, PULL, {**FROM_THE_FIRST, "queueId": queue}) for queue in "01")
        return [(answer.code, answer.ext.get("maxOffset")) for answer in pulled] == [(0, str(MESSAGES // 2))] * 2

    until(replicated, "replication", seconds=REPLICATED_S_MAX)
    return [f"m{number}" for number in range(MESSAGES)]


def test_master_and_slave_stand_in_the_route(both: Both, sent: list[str]) -> None:
    assert both.addrs() == both.both_there()


def test_both_name_servers_tell_the_same_of_the_same_brokers(both: Both, sent: list[str]) -> None:
    until(lambda: len(set(map(str, both.told(206)))) == 1, "both know all topics")
    for code in (106, 206, 304, 311, 312, 313):
        ours, javas = both.told(code)
        assert ours == javas
    for code, ext in ((224, {"cluster": "DefaultCluster"}), (901, {"clusterName": "DefaultCluster", "brokerName": "broker-a"})):
        ours, javas = both.told(code, **ext)
        assert ours == javas
    topics = both.told(206)[0]
    assert isinstance(topics, dict)
    for topic in topics["topicList"]:
        ours, javas = both.told(105, topic=topic)
        assert ours == javas


@pytest.mark.parametrize(
    "line",
    [
        ("clusterList",),
        ("clusterList", "-m"),
        ("topicList",),
        ("topicList", "-c"),
        ("topicClusterList", "-t", TOPIC),
        ("topicRoute", "-t", TOPIC),
        ("topicRoute", "-t", TOPIC, "-l"),
        ("topicRoute", "-t", "nope"),
        ("topicStatus", "-t", TOPIC),
        ("updateKvConfig", "-s", "ORDER_TOPIC_CONFIG", "-k", TOPIC, "-v", "broker-a:2"),
        ("updateOrderConf", "-m", "get", "-t", TOPIC),
        ("deleteKvConfig", "-s", "ORDER_TOPIC_CONFIG", "-k", TOPIC),
        ("wipeWritePerm", "-b", "broker-a"),
        ("topicRoute", "-t", "TBW102"),
        ("addWritePerm", "-b", "broker-a"),
        ("wipeWritePerm", "-b", "nobody"),
        ("updateNamesrvConfig", "-k", "waitSecondsForService", "-v", "46"),
        ("updateNamesrvConfig", "-k", "kvConfigPath", "-v", "/x"),
        ("brokerStatus", "-b", "{master}"),
        ("getBrokerConfig", "-b", "{master}"),
    ],
    ids=" ".join,
)
def test_mqadmin_prints_the_same(both: Both, sent: list[str], tools: JavaDriver, line: tuple[str, ...]) -> None:
    words = [word.format(master=both.master.address) for word in line]
    ours, javas = (tools.mqadmin(*words, "-n", at) for at in (both.ours, both.javas))
    hide = _figures if line[0] in ("clusterList", "brokerStatus", "topicStatus") else _nothing
    assert (ours.status, hide(ours.out, both), _nothing(ours.err, both)) == (
        javas.status,
        hide(javas.out, both),
        _nothing(javas.err, both),
    )
    assert ours.out or ours.err


def test_mqadmin_lists_our_configuration_with_javas_keys(both: Both, tools: JavaDriver) -> None:
    ours, javas = (tools.mqadmin("getNamesrvConfig", "-n", at).out for at in (both.ours, both.javas))
    keys = re.compile(r"^(\S+)\s+=", re.MULTILINE)
    assert set(keys.findall(ours)) | {"rocketmqHome"} == set(keys.findall(javas)) | {"rocketmqHome"}


def test_readers_go_on_at_the_slave_when_the_master_is_gone(both: Both, sent: list[str], tools: JavaDriver) -> None:
    both.master.kill()
    until(lambda: both.addrs() == {"1": both.slave.address}, "the route without the master")
    assert both.told(105, topic=TOPIC)[0] == both.told(105, topic=TOPIC)[1]
    tools.call("push.start", name="late", namesrv=both.ours, group="late-readers", topic=TOPIC)
    found = tools.wait_messages("late", MESSAGES)
    tools.call("push.stop", consumer="late")
    assert sorted({message["body"] for message in found}) == sorted(sent)
    both.master.start()
    until(lambda: both.addrs() == both.both_there(), "the master's return")


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"compressedRegister": "true"},
        {"forceRegister": "false"},
        {"enableSplitRegistration": "true", "splitRegistrationSize": "4"},
    ],
    ids=lambda properties: " ".join(properties) or "plain",
)
def test_our_broker_registers_with_both(both: Both, tmp_path: Path, properties: dict[str, str]) -> None:
    namesrvs = f"{both.ours};{both.javas}"
    with OurBroker(tmp_path, namesrvs, name="broker-o", cluster="OurCluster", properties=properties) as broker:
        until(lambda: f'"{broker.address}"' in remoting.ask(both.javas, 106).body.decode(), "Java's name server lists it")
        until(lambda: both.told(224, cluster="OurCluster")[0] == both.told(224, cluster="OurCluster")[1], "both know its topics")
        topics = both.told(224, cluster="OurCluster")[0]
        assert isinstance(topics, dict)
        assert {"TBW102", "SELF_TEST_TOPIC", "broker-o", "OurCluster"} <= set(topics["topicList"])
        for topic in topics["topicList"]:
            ours, javas = both.told(105, topic=topic)
            assert ours == javas
        broker.stop()
    for namesrv in (both.ours, both.javas):
        until(lambda at=namesrv: "broker-o" not in remoting.ask(at, 106).body.decode(), "it took its leave", seconds=20)  # type: ignore[misc]


def _nothing(text: str, both: Both) -> str:
    """The addresses of the name servers are hidden, and nothing else."""
    return text.replace(both.ours, "<namesrv>").replace(both.javas, "<namesrv>")


def _figures(text: str, both: Both) -> str:
    """Counters and times of the brokers, which go on between two calls."""
    return re.sub(r"[\d.,:]+", "#", re.sub(r" +", " ", _nothing(text, both)))
