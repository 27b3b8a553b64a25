"""The stock Proxy 5.5.0 in cluster mode before our name server and broker, and a stock gRPC client behind it.

Twenty messages each: sent, received and acknowledged; let come again after another invisible time, and acknowledged too late and
twice; failed until they are dead.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.headers.groups import UpdateAndCreateSubscriptionGroup
from tests.java.flows import progress
from tests.support.clients import JavaDriver
from tests.support.java import REFERENCE
from tests.support.process import until
from tests.support.proxy import JavaProxy, grpc_client
from tests.support.requests import create_topic
from tests.support.subject import SUBJECTS, Subject, start_subject
from tests.support.talk import Talk

pytestmark = pytest.mark.java

COUNT = 20
SECONDS = 600
"""Only a hang takes as long."""
RETRIES = 1
EXPIRED = "BadRequestException [response-code=40013] INVALID_RECEIPT_HANDLE"
"""Of an acknowledgement after the invisible time: the proxy asks no broker."""


def prepared(subject: Subject, topic: str, group: str) -> None:
    with Talk(subject.address) as talk:
        assert talk.ask(create_topic(topic, 4)).code == 0
        body = SubscriptionGroupConfig(group_name=group, retry_max_times=RETRIES).encode()
        assert talk.ask(UpdateAndCreateSubscriptionGroup(), body).code == 0


class Playing:
    """A client that sends messages to its topic and does `what` with each that comes; what it says goes into a file."""

    def __init__(self, directory: Path, proxy: JavaProxy, topic: str, group: str, what: str) -> None:
        command = grpc_client(proxy.endpoints, topic, group, str(COUNT), str(SECONDS), what)
        self._said, self._errors = directory / f"{what}.out", directory / f"{what}.err"
        with self._said.open("w") as stdout, self._errors.open("w") as stderr:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, text=True)

    def ended(self) -> dict[str, Counter[str]]:
        """What it has said when it is done, by its first word."""
        self.process.communicate("\n", timeout=2 * SECONDS)
        assert self._said.read_text().rstrip().endswith("done"), (self._said.read_text()[-2000:], self.errors())
        return told(self._said.read_text())

    def errors(self) -> str:
        return self._errors.read_text()[-4000:]

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def told(text: str) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for line in text.splitlines():
        what, _, rest = line.partition(" ")
        found.setdefault(what, Counter())[rest] += 1
    return found


def each(what: str, after: str = "") -> Counter[str]:
    return Counter(f"{what} {number}{after}" for number in range(COUNT))


class Stage(NamedTuple):
    subject: Subject
    proxy: JavaProxy
    playing: dict[str, Playing]
    """By what each does.  All begin at once: one waits for retries while the others are judged."""


@pytest.fixture(scope="module", params=SUBJECTS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("proxy")
    with contextlib.ExitStack() as stack:
        subject = start_subject(request.param, directory / "subject")
        stack.callback(subject.end)
        proxy = JavaProxy(directory / "proxy", subject.namesrv, cluster=subject.cluster)
        stack.callback(proxy.end)
        proxy.start()
        playing: dict[str, Playing] = {}
        for what in ("fail", "hasten", "ack"):
            topic, group = f"Proxy-{what}", f"GID_proxy_{what}"
            prepared(subject, topic, group)
            playing[what] = Playing(directory, proxy, topic, group, what)
            stack.callback(playing[what].kill)
        yield Stage(subject, proxy, playing)


def test_messages_are_sent_received_and_acknowledged(stage: Stage) -> None:
    found = stage.playing["ack"].ended()
    assert found["sent"] == found["acked"] == each("ack")
    assert found["got"] == each("ack", " 1")


def test_another_invisible_time_lets_messages_come_again(stage: Stage) -> None:
    found = stage.playing["hasten"].ended()
    assert found["sent"] == found["hastened"] == found["acked"] == each("hasten")
    assert found["got"] == each("hasten", " 1") + each("hasten", " 2")
    assert found["late"] == each("hasten", f" {EXPIRED}")
    assert found["twice"] == each("hasten", " OK"), "and none comes a third time"


def test_what_always_fails_reaches_the_dead_letters(stage: Stage) -> None:
    subject, client = stage.subject, stage.playing["fail"]
    group = "GID_proxy_fail"

    def is_over() -> bool:
        return len(dead(subject, group)) >= COUNT or client.process.poll() is not None

    until(is_over, "the dead letters", seconds=SECONDS)
    found = client.ended()
    assert Counter(dead(subject, group)) == each("fail"), client.errors()
    assert found["got"] == sum((each("fail", f" {attempt}") for attempt in range(1, RETRIES + 2)), Counter())


def dead(subject: Subject, group: str) -> list[str]:
    """Bodies of the group's dead letters."""
    with Talk(subject.address) as talk:
        try:
            return [body.decode() for body in talk.read(f"%DLQ%{group}")]
        except AssertionError:
            return []


def test_stock_consumers_behind_the_proxy(stage: Stage, tmp_path: Path) -> None:
    """They speak to the proxy as to a name server and a broker (the remoting protocol); a broadcasting one keeps its progress."""
    subject, namesrv = stage.subject, stage.proxy.remoting
    with JavaDriver(tmp_path / "driver", REFERENCE) as clients:
        clients.call("producer.start", name="p", group="P", namesrv=namesrv)
        for model in ("CLUSTERING", "BROADCASTING"):
            topic, group = f"Proxy-{model}", f"GID_{model}"
            prepared(subject, topic, group)
            clients.call("push.start", name=model, group=group, namesrv=namesrv, topic=topic, model=model)
            clients.call("send", producer="p", topic=topic, count=COUNT, body="m")
            clients.wait_messages(model, COUNT)
            assert Counter(message["body"] for message in clients.messages(model)) == Counter(f"m{n}" for n in range(COUNT))
        until(lambda: sum(progress(subject, "GID_CLUSTERING", "Proxy-CLUSTERING")) == COUNT, "its progress")
    assert progress(subject, "GID_BROADCASTING", "Proxy-BROADCASTING") == []
