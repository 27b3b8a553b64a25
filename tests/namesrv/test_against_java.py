"""Our name server beside the real one, over sockets: the same conversation, and the same Java brokers registered with both.

Java's master and slave are given both name servers, so whatever the two say about them must be the same; stock mqadmin and stock
consumers look at ours.
"""

from __future__ import annotations

import contextlib
import re
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.namesrv.record import ask_java, recorded
from tests.namesrv.scenario import DIFFERENT, normal, play, same_answer
from tests.support import remoting
from tests.support.clients import JavaDriver
from tests.support.courses import Place, plays
from tests.support.exchange import Session
from tests.support.java import java
from tests.support.process import NotReady, until
from tests.support.reference import JavaBroker, JavaNameServer
from tests.support.requests import pull
from tests.support.subject import OurBroker, OurNameServer

pytestmark = pytest.mark.java

TOPIC = "Orders"
MESSAGES = 20
SLAVE = {"brokerRole": "SLAVE", "brokerId": "1", "slaveReadEnable": "true"}
"""Without the last, a slave refuses every pull."""


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


class Answered(NamedTuple):
    """An answer, less what differs between two servers that know the same."""

    code: int
    remark: str | None
    ext: dict[str, str]
    body: object

    @classmethod
    def of(cls, answer: remoting.Answer) -> Answered:
        return cls(answer.code, answer.remark, answer.ext, normal(answer.json()) if answer.body else None)


class Both(NamedTuple):
    """The two name servers, and a Java master and slave that know them both."""

    ours: str
    javas: str
    master: JavaBroker
    slave: JavaBroker
    tools: JavaDriver
    """Stock clients and mqadmin."""

    def both_sides(self, code: int, **ext: str) -> tuple[Answered, Answered]:
        """What the two say to one question: ours first."""
        ours, javas = (remoting.ask(at, code, ext) for at in (self.ours, self.javas))
        return Answered.of(ours), Answered.of(javas)

    def agreed(self, code: int, **ext: str) -> Any:
        """The body of what both say, once a change has come to both."""

        def agree() -> bool:
            ours, javas = self.both_sides(code, **ext)
            return ours == javas

        with contextlib.suppress(NotReady):
            until(agree, "agreement")
        ours, javas = self.both_sides(code, **ext)
        assert ours == javas
        return ours.body

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


def master_and_slave(place: Place) -> Both:
    """A course: both name servers, both brokers, and messages that the slave has, too.  They stay for the tests."""
    at, kept = place.directory, place.kept
    ours = kept.enter_context(OurNameServer(at / "ours"))
    javas = kept.enter_context(JavaNameServer(at / "javas"))
    namesrvs = f"{ours.address};{javas.address}"
    master = kept.enter_context(JavaBroker(at / "master", namesrvs, properties={"brokerRole": "ASYNC_MASTER"}))
    slave = kept.enter_context(JavaBroker(at / "slave", namesrvs, properties=SLAVE))
    both = Both(ours.address, javas.address, master, slave, place.tools())
    made = both.tools.mqadmin("updateTopic", "-n", both.ours, "-b", master.address, "-t", TOPIC, "-r", "2", "-w", "2")
    assert made.status == 0, made
    until(lambda: both.addrs() == both.both_there(), "the topic's route")
    both.tools.call("producer.start", name="p-names", namesrv=both.ours, group="senders")
    for number in range(MESSAGES):
        where = {"form": "queue", "broker": "broker-a", "queue": number % 2}
        [result] = both.tools.call("send", producer="p-names", topic=TOPIC, body=f"m{number}", **where)
        assert result["status"] == "SEND_OK"
    both.tools.call("producer.stop", producer="p-names")

    def replicated() -> bool:
        """A slave has the messages first, and the topic up to 10 s later."""
        asked = (pull(TOPIC, queue, consumer_group="TOOLS_CONSUMER") for queue in range(2))
        pulled = (remoting.ask(slave.address, one.code, one.encode()) for one in asked)
        return [(answer.code, answer.ext.get("maxOffset")) for answer in pulled] == [(0, str(MESSAGES // 2))] * 2

    until(replicated, "replication")
    return both


beside = plays(master_and_slave, seconds=79, stays=True)


@pytest.fixture
def both(course: Future[Both]) -> Both:
    return course.result()


@beside
def test_master_and_slave_stand_in_the_route(both: Both) -> None:
    assert both.addrs() == both.both_there()


@beside
def test_both_name_servers_answer_the_same_of_the_same_brokers(both: Both) -> None:
    for code in (106, 304, 311, 312, 313):
        both.agreed(code)
    both.agreed(224, cluster="DefaultCluster")
    both.agreed(901, clusterName="DefaultCluster", brokerName="broker-a")
    for topic in both.agreed(206)["topicList"]:
        both.agreed(105, topic=topic)


@beside
@pytest.mark.parametrize(
    "lines",
    [
        ("clusterList", "clusterList -m"),
        ("topicList", "topicList -c", f"topicClusterList -t {TOPIC}", f"topicStatus -t {TOPIC}"),
        (f"topicRoute -t {TOPIC}", f"topicRoute -t {TOPIC} -l", "topicRoute -t nope"),
        (
            f"updateKvConfig -s ORDER_TOPIC_CONFIG -k {TOPIC} -v broker-a:2",
            f"updateOrderConf -m get -t {TOPIC}",
            f"deleteKvConfig -s ORDER_TOPIC_CONFIG -k {TOPIC}",
            f"updateOrderConf -m get -t {TOPIC}",
        ),
        ("wipeWritePerm -b broker-a", "topicRoute -t TBW102", "addWritePerm -b broker-a", "wipeWritePerm -b nobody"),
        ("updateNamesrvConfig -k waitSecondsForService -v 46", "updateNamesrvConfig -k kvConfigPath -v /x"),
        ("brokerStatus -b {master}", "getBrokerConfig -b {master}"),
    ],
    ids=lambda lines: lines[0],
)
def test_mqadmin_prints_the_same(both: Both, lines: tuple[str, ...]) -> None:
    for line in lines:
        words = line.format(master=both.master.address).split()
        ours, javas = (both.tools.mqadmin(*words, "-n", at) for at in (both.ours, both.javas))
        hide = _figures if words[0] in ("clusterList", "brokerStatus", "topicStatus") else _nothing
        assert (ours.status, hide(ours.out, both), _nothing(ours.err, both)) == (
            javas.status,
            hide(javas.out, both),
            _nothing(javas.err, both),
        ), line
        assert ours.out or ours.err, line


@beside
def test_mqadmin_lists_our_configuration_with_javas_keys(both: Both) -> None:
    ours, javas = (both.tools.mqadmin("getNamesrvConfig", "-n", at).out for at in (both.ours, both.javas))
    keys = re.compile(r"^(\S+)\s+=", re.MULTILINE)
    assert set(keys.findall(ours)) | {"rocketmqHome"} == set(keys.findall(javas)) | {"rocketmqHome"}


@beside
def test_readers_go_on_at_the_slave_when_the_master_is_gone(both: Both) -> None:
    both.master.kill()
    until(lambda: both.addrs() == {"1": both.slave.address}, "the route without the master")
    both.agreed(105, topic=TOPIC)
    both.tools.call("push.start", name="late", namesrv=both.ours, group="late-readers", topic=TOPIC)
    found = both.tools.wait_messages("late", MESSAGES)
    both.tools.call("push.stop", consumer="late")
    assert sorted({message["body"] for message in found}) == sorted(f"m{number}" for number in range(MESSAGES))
    both.master.start()
    until(lambda: both.addrs() == both.both_there(), "the master's return")


@beside
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
        wanted = {"TBW102", "SELF_TEST_TOPIC", "broker-o", "OurCluster"}

        def listed() -> set[str]:
            answer = remoting.ask(both.ours, 224, {"cluster": "OurCluster"})
            return set(answer.json()["topicList"]) if answer.body else set()  # type: ignore[call-overload]

        until(lambda: wanted <= listed(), "all parts of a registration")
        topics = both.agreed(224, cluster="OurCluster")["topicList"]
        assert wanted <= set(topics)
        for topic in topics:
            both.agreed(105, topic=topic)
        broker.stop()
    for namesrv in (both.ours, both.javas):
        until(lambda at=namesrv: "broker-o" not in remoting.ask(at, 106).body.decode(), "it took its leave")  # type: ignore[misc]


def _nothing(text: str, both: Both) -> str:
    """The addresses of the name servers are hidden, and nothing else."""
    return text.replace(both.ours, "<namesrv>").replace(both.javas, "<namesrv>")


def _figures(text: str, both: Both) -> str:
    """Counters and times of the brokers, which go on between two calls."""
    return re.sub(r"[\d.,:]+", "#", re.sub(r" +", " ", _nothing(text, both)))
