"""Stock mqadmin 5.5.0 on our broker and on the real one: the same columns, rows and exit text.

One JVM a side plays all command lines (the unmodified main program, called again and again); one call is a process of its own.
Both sides are prepared alike, beside other tests: a topic of four queues with eight messages, a group that consumes, a producer.
With RMQ_SUBJECT=java both sides are Java's: the proof that the normalisation hides enough.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker_impl.refused import BROKER
from conformance.subjects.jars import shared_classes
from tests.support.clients import JavaDriver, Printed, in_time
from tests.support.courses import Place, plays
from tests.support.java import OPENED, REFERENCE, SMALL, classpath, java, rocketmq_home
from tests.support.mqadmin import (
    CHANGING,
    FILES,
    READING,
    REFUSED,
    UNBUILT,
    Call,
    Unbuilt,
    any_order,
    complaints,
    normalise,
    rows,
    without_numbers,
    without_rates,
)
from tests.support.process import until
from tests.support.reference import PATIENT, QUIET, SMALL_STORE
from tests.support.subject import SUBJECTS, start_broker, start_name_server
from tests.support.talk import PATIENCE_S

TOPIC, GROUP, PRODUCERS = "Orders", "GID-orders", "GID-senders"
POPPED, POPPING = "Popped", "GID-popping"
MESSAGES = 8
INVISIBLE_MS = 300_000


def waiting(text: str) -> list[str]:
    """What a consumer has popped and not acknowledged."""
    return [line for line in normalise(text) if "PopProcessQueueInfo [" in line]


UNACKNOWLEDGED = (
    Call("consumerProgress -g {popping}", without_rates),
    Call("consumerStatus -g {popping} -i 127.0.0.1@pop", waiting),
)
"""What is looked at while a consumer has popped all messages, and is at work on them."""


class Side(NamedTuple):
    """One prepared broker, the JVM that looks at it, and the names that fill the command lines."""

    tools: JavaDriver
    namesrv: str
    names: dict[str, str]
    store: Path
    unacknowledged: list[Any]
    """What `UNACKNOWLEDGED` showed."""

    def begin(self, call: Call) -> Callable[[], Printed]:
        """Start one command line; the result is a function that waits for its end."""
        return self.tools.begin_mqadmin(*call.line.format(**self.names).split(), "-n", self.namesrv)


def both_sides(place: Place) -> dict[str, Side]:
    """`theirs` and `ours`, prepared alike and at the same time: a stock tool waits up to 3 s for itself at its end."""
    kinds = {"theirs": "java", "ours": SUBJECTS[0]}
    directories = {side: place.directory / f"mqadmin-{side}" for side in kinds}
    for directory in directories.values():
        directory.mkdir()
    names = {side: start_name_server(kind, directories[side] / "namesrv") for side, kind in kinds.items()}
    brokers = {
        side: start_broker(
            kind,
            directories[side] / "broker",
            names[side].address,
            properties={**SMALL_STORE, **PATIENT, **QUIET},
            wait=False,
        )
        for side, kind in kinds.items()
    }
    drivers = {side: place.kept.enter_context(JavaDriver(directories[side] / "tools", REFERENCE)) for side in kinds}
    for server in (*names.values(), *brokers.values()):
        place.kept.callback(server.end)
    for broker in brokers.values():
        broker.wait_ready()
    with ThreadPoolExecutor(len(kinds)) as both:
        addresses = [(drivers[side], names[side].address, brokers[side].address, brokers[side].store) for side in kinds]
        return dict(zip(kinds, both.map(lambda four: prepare(*four), addresses), strict=True))


pytestmark = [pytest.mark.java, plays(both_sides, seconds=35, stays=True)]


@pytest.fixture
def sides(course: Future[dict[str, Side]]) -> dict[str, Side]:
    return course.result()


def prepare(tools: JavaDriver, namesrv: str, broker: str, store: Path) -> Side:
    """Topic, messages, consumer and producer; the clients stay."""
    tools.call("rebalance_interval", ms=1000)
    made = tools.mqadmin("updateTopic", "-n", namesrv, "-b", broker, "-t", TOPIC, "-r", "4", "-w", "4")
    assert made.out.startswith("create topic to"), made
    tools.call("producer.start", name="p", namesrv=namesrv, group=PRODUCERS)
    tools.call("push.start", name="c", namesrv=namesrv, group=GROUP, topic=TOPIC, expression="TagA || TagB")
    start_pop(tools, namesrv, broker)
    at: dict[str, Any] = {"producer": "p", "topic": TOPIC, "broker": "broker-a", "form": "queue"}
    results = []
    for i in range(MESSAGES):
        tags = "AB"[i % 2]
        results += tools.call("send", body=f"body {i}", keys=f"key{i}", tags=f"Tag{tags}", queue=i % 4, **{"p.n": i}, **at)
    tools.wait_messages("c", MESSAGES)
    files = tools.directory / "files"
    files.mkdir()
    for name, content in FILES.items():
        (files / name).write_text(json.dumps(content))
    names = {"files": str(files), "broker": broker, "name": "broker-a", "topic": TOPIC, "group": GROUP, "producers": PRODUCERS}
    names |= {"offset_id": results[2]["offset_msg_id"], "unique_id": results[2]["msg_id"]}
    until(lambda: is_settled(tools, namesrv, "c", GROUP), "the group's offsets")
    return Side(tools, namesrv, names | {"popping": POPPING}, store, look_at_pop(tools, namesrv))


def is_settled(tools: JavaDriver, namesrv: str, consumer: str, group: str) -> bool:
    """The broker knows of no lag, in the retry topic either: that is said when a pull there has been held for its 15 s."""
    tools.call("push.persist", consumer=consumer)  # by itself it says nothing in its first ten seconds
    shown = tools.mqadmin("consumerProgress", "-n", namesrv, "-g", group).out
    return "%RETRY%" in shown and "Consume Diff Total: 0\n" in shown


def start_pop(tools: JavaDriver, namesrv: str, broker: str) -> None:
    """A group that pops: all at once, and before there is more in the log, since a pop is a message, too.  Its work waits."""
    at = ("-n", namesrv, "-b", broker, "-t", POPPED)
    assert tools.mqadmin("updateTopic", *at, "-r", "2", "-w", "2").out.startswith("create topic to")
    assert "success" in tools.mqadmin("setConsumeMode", *at, "-g", POPPING, "-m", "POP", "-q", "0").out
    tools.call("send", producer="p", topic=POPPED, count=MESSAGES, body="popped", tags="TagA", keys="k")
    options: dict[str, Any] = {"broker_rebalance": True, "invisible_ms": INVISIBLE_MS, "gated": True, "threads": MESSAGES}
    tools.call("push.start", name="pop", namesrv=namesrv, group=POPPING, topic=POPPED, **options)
    tools.wait_messages("pop", MESSAGES)


def look_at_pop(tools: JavaDriver, namesrv: str) -> list[object]:
    """What is shown of the group when it has popped all there is and acknowledged nothing; then it does."""
    until(lambda: is_settled(tools, namesrv, "pop", POPPING), "popped offsets")
    looks = [tools.mqadmin(*call.line.format(popping=POPPING).split(), "-n", namesrv).out for call in UNACKNOWLEDGED]
    tools.call("push.release", consumer="pop", calls=1_000)
    return [call.compare(shown) for call, shown in zip(UNACKNOWLEDGED, looks, strict=True)]


def test_who_pops_stands_in_the_same_file(sides: dict[str, Side]) -> None:
    """Byte by byte, so either broker goes on with the other's."""
    ours, theirs = ((sides[side].store / "config/messageRequestMode.json").read_bytes() for side in ("ours", "theirs"))
    assert ours == theirs
    assert POPPING.encode() in ours


def test_what_is_popped_and_not_acknowledged_is_shown_the_same(sides: dict[str, Side]) -> None:
    """The broker counts it as consumed; the consumer says what it has not acknowledged."""
    ours, theirs = (sides[side].unacknowledged for side in ("ours", "theirs"))
    assert ours == theirs
    [waits] = ours[1]
    assert f"waitAckCount:{MESSAGES}," in waits


def compare(sides: dict[str, Side], call: Call) -> None:
    theirs, ours = in_time(lambda: [sides[side].begin(call) for side in ("theirs", "ours")])
    assert call.compare(ours.out) == call.compare(theirs.out), call.line
    assert complaints(ours.err) == complaints(theirs.err), call.line
    assert ours.status == theirs.status, call.line
    if call.writes is not None:
        assert call.compare(written(sides["ours"], call.writes)) == call.compare(written(sides["theirs"], call.writes)), call.line


def written(side: Side, name: str) -> str:
    """A file of JSON that the tool has written, its keys in order."""
    return json.dumps(json.loads((Path(side.names["files"]) / name).read_text()), indent=0, sort_keys=True)


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


@pytest.mark.skipif(SUBJECTS[0] != "ours", reason="what ours does not do")
@pytest.mark.parametrize("unbuilt", UNBUILT, ids=lambda unbuilt: unbuilt.line)
def test_what_is_not_built_is_refused_by_name(sides: dict[str, Side], unbuilt: Unbuilt) -> None:
    """By ours with the words that any broker has for a request that it does not know; the reference has others."""
    theirs, ours = in_time(lambda: [sides[side].begin(Call(unbuilt.line)) for side in ("theirs", "ours")])
    refusal = re.compile(rf"CODE: 3 +DESC: +request type {unbuilt.code} not supported")
    assert refusal.search(ours.out + ours.err), ours
    assert ours.status == theirs.status
    assert not refusal.search(theirs.out + theirs.err), theirs


def test_every_stock_command_has_a_row(sides: dict[str, Side]) -> None:
    listed = re.findall(r"(?m)^ {3}(\w+) ", sides["theirs"].tools.mqadmin().out)
    assert len(listed) == 96
    assert sorted(listed, key=str.lower) == [command.strip("`") for command, _ in rows(BROKER)]


def test_send_times_of_the_cluster(sides: dict[str, Side]) -> None:
    """`clusterRT` prints a row for each round and never ends."""
    with contextlib.ExitStack() as stack:
        tables = {}
        for name, side in sides.items():
            began = stack.enter_context(endless(side, "clusterRT", "-a", "2", "-s", "10", "-i", "0"))
            assert began.stdout is not None
            tables[name] = "".join(began.stdout.readline() for _ in range(3))
    assert without_numbers(tables["ours"]) == without_numbers(tables["theirs"])
    assert tables["ours"].splitlines()[1].split()[-2:] == ["2", "0"], "sent, failed"


def test_monitoring(sides: dict[str, Side]) -> None:
    """`startMonitoring` prints nothing and never ends; its consumer joins a group of its own."""
    look = Call("consumerConnection -g __MONITOR_CONSUMER", monitor)
    with contextlib.ExitStack() as stack:
        for side in sides.values():
            stack.enter_context(endless(side, "startMonitoring"))
        for side in sides.values():
            until(partial(listens, side, look), f"the monitor's consumer at {side.namesrv}")
        compare(sides, look)


@contextlib.contextmanager
def endless(side: Side, *line: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is killed at the end."""
    process = subprocess.Popen(
        [*program(), *line, "-n", side.namesrv],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=side.tools.directory,
        env=rocketmq_home(side.tools.directory),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def listens(side: Side, look: Call) -> bool:
    return "OFFSET_MOVED_EVENT" in side.begin(look)().out


def monitor(text: str) -> list[str]:
    return [re.sub(r"\S+@MonitorService_-?\d+", "<monitor>", line) for line in any_order(text)]


def program() -> list[str]:
    """mqadmin as a person starts it, only sooner."""
    main = "org.apache.rocketmq.tools.command.MQAdminStartup"
    flags = [*shared_classes(REFERENCE, java()), *SMALL, *OPENED, "-Drmq.logback.configurationFile=none.xml"]
    return [java(), *flags, "-cp", classpath(REFERENCE), main]


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
    ours = sides["ours"]
    done = subprocess.run(
        [*program(), "topicRoute", "-n", ours.namesrv, "-t", TOPIC],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=rocketmq_home(ours.tools.directory),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ours.begin(Call("topicRoute -t {topic}"))().out.split(), done.stderr
