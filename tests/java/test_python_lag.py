"""`rmq lag` and `rmq consume` beside stock clients and `mqadmin` (RMQ_SUBJECT=java: on the real broker, too)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.client_shell import Shell
from tests.support.clients import JavaDriver
from tests.support.java import REFERENCE, java
from tests.support.process import until
from tests.support.subject import SUBJECTS, Subject, start_subject
from tests.support.talk import PATIENCE_S

pytestmark = pytest.mark.java
NEWEST = pytest.mark.parametrize("clients", [REFERENCE], indirect=True)


SHORT_LEVELS = "1s " * 17 + "1s"
"""Java has none below a second."""


@pytest.fixture(scope="module", params=SUBJECTS)
def filtering(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    java()
    properties = {"enablePropertyFilter": "true", "messageDelayLevel": SHORT_LEVELS}
    running = start_subject(request.param, tmp_path_factory.mktemp(request.param), properties=properties)
    yield running
    running.end()


@pytest.fixture
def shell(filtering: Subject, tmp_path: Path) -> Shell:
    return Shell(filtering.namesrv, tmp_path)


def fill(shell: Shell, topic: str, count: int, queues: int = 4) -> None:
    shell.good("topic", "create", topic, "-q", str(queues))
    shell.good("send", topic, "--lines", "-t", "A", "-p", "price=7", typed=b"\n".join(b"%d" % number for number in range(count)))


def lag_of(shell: Shell, group: str, *options: str, status: int = 0) -> Any:
    ran = shell.run("lag", "--once", "--json", "-g", group, *options)
    assert ran.returncode == status, ran.stderr
    [found] = json.loads(ran.stdout)["groups"]
    return found


def progress(clients: JavaDriver, filtering: Subject, group: str) -> dict[tuple[str, str, int], tuple[int, int]]:
    """Broker and consumer offset by queue, as `mqadmin consumerProgress` prints them."""
    printed = clients.mqadmin("consumerProgress", "-n", filtering.namesrv, "-g", group).out
    rows = [line.split() for line in printed.splitlines() if filtering.broker_name in line]
    return {(row[0], row[1], int(row[2])): (int(row[3]), int(row[4])) for row in rows}


@NEWEST
def test_lag_of_a_java_consumer_is_what_mqadmin_says(shell: Shell, filtering: Subject, clients: JavaDriver) -> None:
    topic, group = "lag-of-java", "lag-of-java-g"
    fill(shell, topic, 40)
    clients.call("push.start", name=topic, group=group, namesrv=filtering.namesrv, topic=topic)
    try:
        clients.wait_messages(topic, 40)

        def all_told() -> bool:
            clients.call("push.persist", consumer=topic)  # again: of the first, side by side, Java's broker may lose some
            return lag_of(shell, group)["lag"] == 0

        until(all_told, "progress was told", seconds=PATIENCE_S)
        own = lag_of(shell, group, "-t", topic)
        assert {row["owner"] for row in own["queues"]} == set(own["members"])
        assert len(own["queues"]) == 4
        assert all(row["lastConsumed"] for row in own["queues"])
    finally:
        clients.call("push.stop", consumer=topic)
    shell.good("send", topic, "--lines", typed=b"a\nb\nc\nd\ne")
    until(lambda: lag_of(shell, group)["lag"] == 5, "five wait", seconds=PATIENCE_S)
    found = lag_of(shell, group, "--max-lag", "4", status=1)
    ours = {
        (row["topic"], row["brokerName"], row["queueId"]): (row["brokerOffset"], row["consumerOffset"]) for row in found["queues"]
    }
    assert ours == progress(clients, filtering, group)
    assert {row["owner"] for row in found["queues"]} == {None}
    assert all(0 <= row["delayMs"] < 600_000 for row in found["queues"] if row["lag"])


@NEWEST
def test_mqadmin_sees_how_far_a_python_consumer_is(shell: Shell, filtering: Subject, clients: JavaDriver) -> None:
    topic, group = "progress-of-python", "progress-of-python-g"
    fill(shell, topic, 12)
    shell.good("consume", topic, "-g", group, "--from", "start", "--orderly", "-c", "5")
    offsets = [pair for (name, _, _), pair in progress(clients, filtering, group).items() if name == topic]
    assert sum(stored for stored, _ in offsets) == 12
    assert sum(consumed for _, consumed in offsets) == 5
    consume = ("consume", topic, "-g", group, "--from", "start")
    with shell.running(*consume) as running:
        assert running.stdout is not None
        for _ in range(7):
            assert running.stdout.readline()
        diff = "Consume Diff Total: 0"
        printed = ("consumerProgress", "-n", filtering.namesrv, "-g", group, "-s", "true")
        until(lambda: diff in clients.mqadmin(*printed).out, "all is consumed", seconds=PATIENCE_S)
        [member] = lag_of(shell, group)["members"]
        assert member.partition("@")[0] in clients.mqadmin(*printed).out, "the owner's address"


def test_consume_by_sql_and_in_order_and_again(shell: Shell) -> None:
    topic = "consumed-by-command"
    fill(shell, topic, 9, queues=3)
    begin = ("consume", topic, "--from", "start")
    assert len(shell.good(*begin, "--no-follow", "--sql", "price > 6")) == 9
    assert shell.good(*begin, "--no-follow", "--sql", "price > 7") == []
    assert len(shell.good(*begin, "-g", "by-sql", "--sql", "price > 6", "-c", "9")) == 9
    rows = [json.loads(line) for line in shell.good(*begin, "-g", "in-order", "--orderly", "--json", "-c", "9")]
    for queue in range(3):
        assert [row["queueOffset"] for row in rows if row["queueId"] == queue] == [0, 1, 2]
    script = '[ "$(cat)" != 4 ] || [ "$RMQ_RECONSUME_TIMES" = 1 ] && echo "$RMQ_RECONSUME_TIMES"'
    said = shell.good(*begin, "-g", "failing", "-c", "10", "--exec", script)
    assert sorted(said) == ["0"] * 8 + ["1"]
