"""Stock mqadmin 5.5.0 on our broker and on the real one: the same columns, rows and exit text.

One JVM plays all command lines (its unmodified main program, called again and again); one call is a process of its own.
Both sides are prepared alike: a topic of four queues with eight messages, a group that consumes them, a producer.
With RMQ_SUBJECT=java both sides are Java's: the proof that the normalisation hides enough.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.java.mqadmin import CHANGING, READING, REFUSED, Call, complaints
from tests.support.clients import JavaDriver, Printed
from tests.support.java import OPENED, REFERENCE, classpath, java, rocketmq_home
from tests.support.process import ServerProcess, until
from tests.support.reference import SMALL_STORE
from tests.support.subject import SUBJECTS, start_broker, start_name_server

pytestmark = pytest.mark.java

TOPIC, GROUP, PRODUCERS = "Orders", "GID-orders", "GID-senders"
MESSAGES = 8


class Side(NamedTuple):
    """One prepared broker, and the names that fill the command lines."""

    namesrv: str
    names: dict[str, str]


@pytest.fixture(scope="module")
def sides(tools: JavaDriver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    """`theirs` and `ours`, prepared alike."""
    prepared: dict[str, Side] = {}
    servers: list[ServerProcess] = []
    for side, kind in (("theirs", "java"), ("ours", SUBJECTS[0])):
        directory = tmp_path_factory.mktemp(f"mqadmin-{side}")
        namesrv = start_name_server(kind, directory / "namesrv")
        servers.append(namesrv)
        broker = start_broker(kind, directory / "broker", namesrv.address, properties=SMALL_STORE)
        servers.append(broker)
        prepared[side] = prepare(tools, side, namesrv.address, broker.address)
    yield prepared
    for server in reversed(servers):
        server.end()


def prepare(tools: JavaDriver, side: str, namesrv: str, broker: str) -> Side:
    """Topic, messages, consumer and producer; the clients stay."""
    made = tools.mqadmin("updateTopic", "-n", namesrv, "-b", broker, "-t", TOPIC, "-r", "4", "-w", "4")
    assert made.out.startswith("create topic to"), made
    tools.call("producer.start", name=f"p-{side}", namesrv=namesrv, group=PRODUCERS)
    tools.call("push.start", name=f"c-{side}", namesrv=namesrv, group=GROUP, topic=TOPIC, expression="TagA || TagB")
    at: dict[str, Any] = {"producer": f"p-{side}", "topic": TOPIC, "broker": "broker-a", "form": "queue"}
    results = []
    for i in range(MESSAGES):
        tags = "AB"[i % 2]
        results += tools.call("send", body=f"body {i}", keys=f"key{i}", tags=f"Tag{tags}", queue=i % 4, **{"p.n": i}, **at)
    tools.wait_messages(f"c-{side}", MESSAGES)
    names = {"broker": broker, "name": "broker-a", "topic": TOPIC, "group": GROUP, "producers": PRODUCERS}
    names |= {"offset_id": results[2]["offset_msg_id"], "unique_id": results[2]["msg_id"]}
    settled = re.compile(r"%RETRY%.*Consume Diff Total: 0$", re.DOTALL | re.MULTILINE)
    until(lambda: settled.search(tools.mqadmin("consumerProgress", "-n", namesrv, "-g", GROUP).out), "the group's offsets")
    return Side(namesrv, names)


def run(tools: JavaDriver, side: Side, call: Call) -> Printed:
    return tools.mqadmin(*call.line.format(**side.names).split(), "-n", side.namesrv)


def compare(tools: JavaDriver, sides: dict[str, Side], call: Call) -> None:
    theirs, ours = run(tools, sides["theirs"], call), run(tools, sides["ours"], call)
    assert call.compare(ours.out) == call.compare(theirs.out)
    assert complaints(ours.err) == complaints(theirs.err)
    assert ours.status == theirs.status


@pytest.mark.parametrize("call", READING, ids=lambda call: call.line)
def test_a_look_shows_the_same(tools: JavaDriver, sides: dict[str, Side], call: Call) -> None:
    compare(tools, sides, call)


@pytest.mark.parametrize("call", CHANGING, ids=lambda call: call.line)
def test_a_change_does_the_same(tools: JavaDriver, sides: dict[str, Side], call: Call) -> None:
    compare(tools, sides, call)


@pytest.mark.parametrize("call", REFUSED, ids=lambda call: call.line)
def test_a_mistake_is_answered_the_same(tools: JavaDriver, sides: dict[str, Side], call: Call) -> None:
    compare(tools, sides, call)


def test_the_runtime_figures_are_real(tools: JavaDriver, sides: dict[str, Side]) -> None:
    told = tools.mqadmin("brokerStatus", "-n", sides["ours"].namesrv, "-b", sides["ours"].names["broker"]).out
    figures = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in told.splitlines())}
    assert int(figures["msgPutTotalTodayNow"]) >= MESSAGES
    assert int(figures["msgGetTotalTodayNow"]) >= MESSAGES
    assert int(figures["commitLogMaxOffset"]) > 0
    assert figures["commitLogDirCapacity"].startswith("Total : ")
    assert 0 < float(figures["commitLogDiskRatio"]) < 1
    assert all(float(rate) >= 0 for rate in figures["putTps"].split())
    assert figures["brokerVersionDesc"] == "V5_5_0"


def test_a_process_of_its_own(sides: dict[str, Side], tools: JavaDriver) -> None:
    command = [java(), *OPENED, "-Drmq.logback.configurationFile=none.xml", "-cp", classpath(REFERENCE)]
    main = "org.apache.rocketmq.tools.command.MQAdminStartup"
    ours = sides["ours"]
    done = subprocess.run(
        [*command, main, "topicRoute", "-n", ours.namesrv, "-t", TOPIC],
        capture_output=True, text=True, timeout=60, env=rocketmq_home(tools.directory), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == run(tools, ours, Call("topicRoute -t {topic}")).out.split()
