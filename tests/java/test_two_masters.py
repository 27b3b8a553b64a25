"""Two masters under one name server: a topic spreads over both, one is killed and returns, nothing acknowledged is lost.

Once both are ours, once one is Java's and one ours (each under our name server and under Java's).  With RMQ_SUBJECT=java all
three are Java's: the proof of the test itself.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.java.flows import by_client, producer, push, queues_of
from tests.support import remoting
from tests.support.clients import JavaDriver, JavaError
from tests.support.java import REFERENCE
from tests.support.process import until
from tests.support.reference import JavaBroker
from tests.support.subject import SUBJECTS, OurBroker, Subject, start_broker, start_name_server

pytestmark = pytest.mark.java

Fresh = Callable[[str], str]
QUEUES = 4
HOUR_MS = 3_600_000
SENDS = 100
"""Messages that have to go through in each phase."""


class Pair(NamedTuple):
    """A name server and two masters: `steady` stays, `shaky` is killed and returns."""

    namesrv: str
    steady: OurBroker | JavaBroker
    shaky: OurBroker | JavaBroker

    def subject(self) -> Subject:
        """The face that the flows want."""
        return Subject("pair", self.namesrv, self.steady.address, "steady", "DefaultCluster", self.steady.store, self.steady)


KINDS: dict[str, tuple[str, str, str]] = (
    {"all-java": ("java", "java", "java")}
    if SUBJECTS == ("java",)
    else {
        "all-ours": ("ours", "ours", "ours"),
        "ours-steady-java-killed": ("ours", "ours", "java"),
        "java-names-java-steady-ours-killed": ("java", "java", "ours"),
    }
)
"""What the name server, the steady master and the killed one are."""


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    names_kind, steady_kind, shaky_kind = KINDS[request.param]
    with contextlib.ExitStack() as stack:
        names = start_name_server(names_kind, tmp_path / "namesrv")
        stack.callback(names.end)
        steady = start_broker(steady_kind, tmp_path / "steady", names.address, name="steady", wait=False)
        stack.callback(steady.end)
        shaky = start_broker(shaky_kind, tmp_path / "shaky", names.address, name="shaky", wait=False)
        stack.callback(shaky.end)
        steady.wait_ready()
        shaky.wait_ready()
        yield Pair(names.address, steady, shaky)


def brokers_in_route(namesrv: str, topic: str) -> set[str]:
    """Names of the brokers that the name server routes a topic to."""
    answer = remoting.ask(namesrv, remoting.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    if answer.code != 0:
        return set()
    found: Any = answer.json()["brokerDatas"]
    return {broker["brokerName"] for broker in found}


@pytest.mark.parametrize(("clients", "pair"), by_client(KINDS, old=next(iter(KINDS))), indirect=True)
def test_one_of_two_masters_is_killed_and_returns(pair: Pair, clients: JavaDriver, fresh: Fresh) -> None:
    topic, group, flood = fresh("two"), fresh("group"), fresh("flood")
    subject = pair.subject()
    both = {"steady", "shaky"}
    create = clients.mqadmin(
        "updateTopic", "-n", pair.namesrv, "-c", "DefaultCluster", "-t", topic, "-r", str(QUEUES), "-w", str(QUEUES)
    )
    assert "create topic to" in create.out, create
    until(lambda: brokers_in_route(pair.namesrv, topic) == both, "the route over both")

    def send_some_more() -> None:
        enough = clients.call("flood.count", flood=flood) + SENDS
        until(lambda: clients.call("flood.count", flood=flood) >= enough, f"{SENDS} more messages acknowledged")

    def consumed_from(consumer: str) -> set[tuple[str, int]]:
        return set(queues_of(clients, consumer, topic))

    def consumed(*consumers: str) -> set[str]:
        return {message["body"] for consumer in consumers for message in clients.messages(consumer)}

    with (
        producer(clients, subject, fresh, retries=5, timeout_ms=20_000) as p,
        push(clients, subject, fresh, topic, group=group) as one,
        push(clients, subject, fresh, topic, group=group) as two,
    ):
        everything = {(broker, queue) for broker in both for queue in range(QUEUES)}
        until(lambda: consumed_from(one) | consumed_from(two) == everything, "all queues of both masters")
        until(lambda: not consumed_from(one) & consumed_from(two), "no queue twice")
        clients.call("flood.start", flood=flood, producer=p, topic=topic, body="f", pause_ms=5)
        send_some_more()

        pair.shaky.kill()
        send_some_more()
        until(lambda: brokers_in_route(pair.namesrv, topic) == {"steady"}, "the route without the killed master")
        until(lambda: consumed_from(one) | consumed_from(two) == {("steady", q) for q in range(QUEUES)}, "the rebalance")
        send_some_more()

        pair.shaky.start()
        until(lambda: brokers_in_route(pair.namesrv, topic) == both, "the route over both again")
        until(lambda: consumed_from(one) | consumed_from(two) == everything, "the rebalance after the return")
        send_some_more()
        sent = clients.call("flood.stop", flood=flood)
        assert set(sent["by_broker"]) == both
        acknowledged = set(sent["acknowledged"])
        clients.wait(lambda: acknowledged <= consumed(one, two), "every message that was acknowledged")


@pytest.mark.parametrize(("pair", "clients"), [(next(iter(KINDS)), REFERENCE)], indirect=True)
def test_an_ordered_send_when_one_of_two_masters_dies(pair: Pair, clients: JavaDriver, fresh: Fresh) -> None:
    """By modulo a key moves to the queues that are left; under `orderTopicConf` it keeps its queue, and is refused.

    The end of the broker's connection takes it out of the route, not the two minutes of silence after which it would be gone.
    How long that took, and how long until the producer knew it, is printed (`-s`); nothing judges it but the patience of `until`.
    """
    moving, strict = fresh("moving"), fresh("strict")
    for topic in (moving, strict):
        made = clients.mqadmin(
            "updateTopic", "-n", pair.namesrv, "-c", "DefaultCluster", "-t", topic, "-r", str(QUEUES), "-w", str(QUEUES)
        )
        assert "create topic to" in made.out, made
    enabled = clients.mqadmin("updateNamesrvConfig", "-n", pair.namesrv, "-k", "orderMessageEnable", "-v", "true")
    assert "success" in enabled.out, enabled
    order = f"steady:{QUEUES};shaky:{QUEUES}"
    told = clients.mqadmin("updateOrderConf", "-n", pair.namesrv, "-m", "put", "-t", strict, "-v", order)
    assert "success" in told.out, told

    with producer(clients, pair.subject(), fresh) as p:

        def places(topic: str, keys: int) -> list[tuple[str, int]]:
            sent = clients.call("send", producer=p, topic=topic, form="selector", count=keys, spread=keys, body="")
            return [(one["broker"], one["queue"]) for one in sent]

        until(lambda: {broker for broker, _ in places(moving, 2 * QUEUES)} == {"steady", "shaky"}, "both masters")
        before = places(strict, 2 * QUEUES)
        assert set(before) == {(broker, queue) for broker in ("steady", "shaky") for queue in range(QUEUES)}
        killed_s = time.monotonic()
        pair.shaky.kill()
        until(lambda: brokers_in_route(pair.namesrv, moving) == {"steady"}, "the route without the killed master")
        print(f"out of the route {time.monotonic() - killed_s:.2f} s after the kill", end=", ")

        def listed(topic: str) -> set[tuple[str, int]]:
            return {(one["broker"], one["queue"]) for one in clients.call("producer.queues", producer=p, topic=topic)}

        after = until(lambda: _unless_refused(lambda: places(moving, 2 * QUEUES)), "sends by modulo")
        print(f"all keys sent elsewhere {time.monotonic() - killed_s:.1f} s after it")
        assert after == [("steady", key % QUEUES) for key in range(2 * QUEUES)]
        assert listed(moving) == {("steady", queue) for queue in range(QUEUES)}
        assert listed(strict) == set(before)
        with pytest.raises(JavaError):
            places(strict, 2 * QUEUES)


def _unless_refused(send: Callable[[], list[tuple[str, int]]]) -> list[tuple[str, int]]:
    """Nothing while the producer still sends to the killed one."""
    try:
        return send()
    except JavaError:
        return []
