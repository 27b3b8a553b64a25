"""The stock Proxy 5.5.0 in cluster mode before our name server and broker, and a stock gRPC client behind it.

Twenty messages each: sent, received and acknowledged; let come again after another invisible time; failed until they are dead.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.headers.groups import UpdateAndCreateSubscriptionGroup
from tests.support.process import until
from tests.support.proxy import JavaProxy, grpc_client
from tests.support.requests import create_topic
from tests.support.subject import SUBJECTS, Subject, start_subject
from tests.support.talk import Talk

pytestmark = pytest.mark.java

COUNT = 20
SECONDS = 150
RETRIES = 1


@pytest.fixture(scope="module", params=SUBJECTS)
def proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Subject, JavaProxy]]:
    directory = tmp_path_factory.mktemp("proxy")
    subject = start_subject(request.param, directory / "subject")
    found = JavaProxy(directory / "proxy", subject.namesrv, cluster=subject.cluster)
    try:
        found.start()
        yield subject, found
    finally:
        found.end()
        subject.end()


def prepared(subject: Subject, topic: str, group: str) -> None:
    with Talk(subject.address) as talk:
        assert talk.ask(create_topic(topic, 4)).code == 0
        body = SubscriptionGroupConfig(group_name=group, retry_max_times=RETRIES).encode()
        assert talk.ask(UpdateAndCreateSubscriptionGroup(), body).code == 0


def played(proxy: JavaProxy, topic: str, group: str, what: str) -> dict[str, Counter[str]]:
    """What the client says, by its first word."""
    command = grpc_client(proxy.endpoints, topic, group, str(COUNT), str(SECONDS), what)
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
    assert done.stdout.rstrip().endswith("done"), (done.stdout[-2000:], done.stderr[-4000:])
    return told(done.stdout)


def told(text: str) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for line in text.splitlines():
        what, _, rest = line.partition(" ")
        found.setdefault(what, Counter())[rest] += 1
    return found


def each(what: str, after: str = "") -> Counter[str]:
    return Counter(f"{what} {number}{after}" for number in range(COUNT))


def test_messages_are_sent_received_and_acknowledged(proxy: tuple[Subject, JavaProxy]) -> None:
    prepared(proxy[0], "ProxyAck", "GID_proxy_ack")
    found = played(proxy[1], "ProxyAck", "GID_proxy_ack", "ack")
    assert found["sent"] == found["acked"] == each("ack")
    assert found["got"] == each("ack", " 1")


def test_another_invisible_time_lets_messages_come_again(proxy: tuple[Subject, JavaProxy]) -> None:
    prepared(proxy[0], "ProxyHasten", "GID_proxy_hasten")
    found = played(proxy[1], "ProxyHasten", "GID_proxy_hasten", "hasten")
    assert found["sent"] == found["hastened"] == found["acked"] == each("hasten")
    assert found["got"] == each("hasten", " 1") + each("hasten", " 2")


def test_what_always_fails_reaches_the_dead_letters(proxy: tuple[Subject, JavaProxy], tmp_path: Path) -> None:
    subject, server = proxy
    group = "GID_proxy_fail"
    prepared(subject, "ProxyFail", group)
    command = grpc_client(server.endpoints, "ProxyFail", group, str(COUNT), str(SECONDS), "fail")
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("w") as stdout, err.open("w") as stderr:
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, text=True)
    try:
        until(lambda: len(dead(subject, group)) >= COUNT or client.poll() is not None, "the dead letters", seconds=SECONDS)
        client.communicate("\n", timeout=60)
    finally:
        client.kill()
        client.wait()
    assert Counter(dead(subject, group)) == each("fail"), err.read_text()[-3000:]
    found = told(out.read_text())
    assert found["got"] == sum((each("fail", f" {attempt}") for attempt in range(1, RETRIES + 2)), Counter())


def dead(subject: Subject, group: str) -> list[str]:
    """Bodies of the group's dead letters."""
    with Talk(subject.address) as talk:
        try:
            return [body.decode() for body in talk.read(f"%DLQ%{group}")]
        except AssertionError:
            return []
