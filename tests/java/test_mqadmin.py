"""Stock mqadmin 5.5.0 on our broker and on the real one: the same columns, rows and exit text.

One JVM a side plays all command lines (the unmodified main program, called again and again); one call is a process of its own.
Both sides are prepared alike: a topic of four queues with eight messages, a group that consumes them, a producer.
With RMQ_SUBJECT=java both sides are Java's: the proof that the normalisation hides enough.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from tests.java.mqadmin import CHANGING, READING, REFUSED, Call, complaints
from tests.support.clients import JavaDriver, Printed
from tests.support.java import OPENED, REFERENCE, classpath, java, rocketmq_home
from tests.support.process import until
from tests.support.reference import PATIENT, SMALL_STORE
from tests.support.subject import SUBJECTS, start_broker, start_name_server

pytestmark = pytest.mark.java

TOPIC, GROUP, PRODUCERS = "Orders", "GID-orders", "GID-senders"
MESSAGES = 8


class Side(NamedTuple):
    """One prepared broker, the JVM that looks at it, and the names that fill the command lines."""

    tools: JavaDriver
    namesrv: str
    names: dict[str, str]

    def begin(self, call: Call) -> Callable[[], Printed]:
        """Start one command line; the result is a function that waits for its end."""
        return self.tools.begin_mqadmin(*call.line.format(**self.names).split(), "-n", self.namesrv)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    """`theirs` and `ours`, prepared alike and at the same time: a stock tool waits up to 3 s for itself at its end."""
    kinds = {"theirs": "java", "ours": SUBJECTS[0]}
    directories = {side: tmp_path_factory.mktemp(f"mqadmin-{side}") for side in kinds}
    with contextlib.ExitStack() as stack:
        names = {side: start_name_server(kind, directories[side] / "namesrv") for side, kind in kinds.items()}
        brokers = {
            side: start_broker(
                kind, directories[side] / "broker", names[side].address, properties={**SMALL_STORE, **PATIENT}, wait=False
            )
            for side, kind in kinds.items()
        }
        drivers = {side: stack.enter_context(JavaDriver(directories[side] / "tools", REFERENCE)) for side in kinds}
        for server in (*names.values(), *brokers.values()):
            stack.callback(server.end)
        for broker in brokers.values():
            broker.wait_ready()
        with ThreadPoolExecutor(len(kinds)) as both:
            addresses = [(drivers[side], names[side].address, brokers[side].address) for side in kinds]
            yield dict(zip(kinds, both.map(lambda three: prepare(*three), addresses), strict=True))


def prepare(tools: JavaDriver, namesrv: str, broker: str) -> Side:
    """Topic, messages, consumer and producer; the clients stay."""
    tools.call("rebalance_interval", ms=1000)
    made = tools.mqadmin("updateTopic", "-n", namesrv, "-b", broker, "-t", TOPIC, "-r", "4", "-w", "4")
    assert made.out.startswith("create topic to"), made
    tools.call("producer.start", name="p", namesrv=namesrv, group=PRODUCERS)
    tools.call("push.start", name="c", namesrv=namesrv, group=GROUP, topic=TOPIC, expression="TagA || TagB")
    at: dict[str, Any] = {"producer": "p", "topic": TOPIC, "broker": "broker-a", "form": "queue"}
    results = []
    for i in range(MESSAGES):
        tags = "AB"[i % 2]
        results += tools.call("send", body=f"body {i}", keys=f"key{i}", tags=f"Tag{tags}", queue=i % 4, **{"p.n": i}, **at)
    tools.wait_messages("c", MESSAGES)
    names = {"broker": broker, "name": "broker-a", "topic": TOPIC, "group": GROUP, "producers": PRODUCERS}
    names |= {"offset_id": results[2]["offset_msg_id"], "unique_id": results[2]["msg_id"]}
    settled = re.compile(r"%RETRY%.*Consume Diff Total: 0$", re.DOTALL | re.MULTILINE)
    until(lambda: settled.search(tools.mqadmin("consumerProgress", "-n", namesrv, "-g", GROUP).out), "the group's offsets")
    return Side(tools, namesrv, names)


def compare(sides: dict[str, Side], call: Call) -> None:
    began = [sides[side].begin(call) for side in ("theirs", "ours")]
    theirs, ours = (wait() for wait in began)
    assert call.compare(ours.out) == call.compare(theirs.out), call.line
    assert complaints(ours.err) == complaints(theirs.err), call.line
    assert ours.status == theirs.status, call.line


@pytest.mark.parametrize("call", READING, ids=lambda call: call.line)
def test_a_look_shows_the_same(sides: dict[str, Side], call: Call) -> None:
    compare(sides, call)


def test_changes_do_the_same(sides: dict[str, Side]) -> None:
    """One after the other, and what is shown of them."""
    for call in CHANGING:
        compare(sides, call)


@pytest.mark.parametrize("call", REFUSED, ids=lambda call: call.line)
def test_a_mistake_is_answered_the_same(sides: dict[str, Side], call: Call) -> None:
    compare(sides, call)


def test_the_runtime_figures_are_real(sides: dict[str, Side]) -> None:
    reported = sides["ours"].begin(Call("brokerStatus -b {broker}"))().out
    figures = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reported.splitlines())}
    assert int(figures["msgPutTotalTodayNow"]) >= MESSAGES
    assert int(figures["msgGetTotalTodayNow"]) >= MESSAGES
    assert int(figures["commitLogMaxOffset"]) > 0
    assert figures["commitLogDirCapacity"].startswith("Total : ")
    assert 0 < float(figures["commitLogDiskRatio"]) < 1
    assert all(float(rate) >= 0 for rate in figures["putTps"].split())
    assert figures["brokerVersionDesc"] == "V5_5_0"


def test_a_process_of_its_own(sides: dict[str, Side]) -> None:
    command = [java(), *OPENED, "-Drmq.logback.configurationFile=none.xml", "-cp", classpath(REFERENCE)]
    main = "org.apache.rocketmq.tools.command.MQAdminStartup"
    ours = sides["ours"]
    done = subprocess.run(
        [*command, main, "topicRoute", "-n", ours.namesrv, "-t", TOPIC],
        capture_output=True,
        text=True,
        timeout=60,
        env=rocketmq_home(ours.tools.directory),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ours.begin(Call("topicRoute -t {topic}"))().out.split(), done.stderr
