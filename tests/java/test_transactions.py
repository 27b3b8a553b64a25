"""Stock transactional producers: what they commit is read, what they roll back is not; what they leave open they are asked about.

Then the same bytes from both brokers for the same sends, and half messages that one broker leaves and the other ends.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from rmq_wire.command import Command
from rmq_wire.headers.configuration import UpdateBrokerConfig
from rmq_wire.headers.transactions import EndTransaction
from rmq_wire.message import StoredMessage
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from tests.java.flows import by_client, drain, producer, pull_all, push
from tests.java.left_files import LEVELS, delays_and_retries
from tests.support.clients import JavaDriver, JavaError
from tests.support.courses import Place, plays
from tests.support.java import REFERENCE, library
from tests.support.message_mix import make_topic, now_ms
from tests.support.process import until
from tests.support.reference import ENDS_AT_ONCE, JavaBroker
from tests.support.requests import pairs, props, pull, send, units
from tests.support.subject import SUBJECTS, OurBroker, OurNameServer, Subject, start_subject
from tests.support.talk import Talk
from tests.support.transactions import GIVEN_UP, HALF, OP, UNIQUE

pytestmark = pytest.mark.java

Fresh = Callable[[str], str]
CHECKS_MAX = 3
BRISK = {
    "transactionTimeOut": "500",
    "transactionCheckInterval": "700",
    "transactionCheckMax": str(CHECKS_MAX),
    **ENDS_AT_ONCE,
}
ENDLESS = BRISK | {"transactionCheckMax": "1000000"}
"""Who is asked about something has all the time that a busy machine takes to answer: it is not given up meanwhile."""
TOO_OLD_MS = 80 * 3_600_000
"""More than `fileReservedTime`."""
NEVER = BRISK | {"transactionCheckInterval": "3600000"}


@pytest.fixture(scope="module", params=SUBJECTS)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """One that asks soon."""
    running = start_subject(request.param, tmp_path_factory.mktemp(f"brisk-{request.param}"), properties=BRISK)
    yield running
    running.end()


def test_every_outcome(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic = fresh("outcomes")
    expected = {"committed", "asked, committed"}

    def send_one(body: str, outcome: str, checked: str) -> None:
        arguments: dict[str, Any] = {"form": "transaction", "outcome": outcome, "body": body, "tags": "T", "keys": "k"}
        [sent] = clients.call("send", producer=p, topic=topic, **arguments, **{"p.checked": checked})
        assert (sent["status"], sent["transaction_id"]) == ("SEND_OK", sent["msg_id"])

    def questions() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = clients.call("producer.checked", producer=p)
        return found

    def given_up() -> list[dict[str, Any]]:
        try:
            found = drain(clients, subject, fresh, GIVEN_UP, 0)
        except JavaError:  # nothing was given up so far
            return []
        return [one for one in found if one["properties"]["REAL_TOPIC"] == topic]

    with (
        Talk(subject.address) as line,
        producer(clients, subject, fresh, transactions=True) as p,
        push(clients, subject, fresh, topic) as reader,
    ):
        set_to(line, ENDLESS)
        send_one("committed", "COMMIT_MESSAGE", "UNKNOW")
        send_one("rolled back", "ROLLBACK_MESSAGE", "UNKNOW")
        send_one("asked, committed", "UNKNOW", "COMMIT_MESSAGE")
        send_one("asked, rolled back", "UNKNOW", "ROLLBACK_MESSAGE")
        until(lambda: {message["body"] for message in clients.messages(reader)} >= expected, "what was committed")
        until(lambda: "asked, rolled back" in {one["body"] for one in questions()}, "the question about the other one")
        set_to(line, BRISK)
        send_one("never known", "UNKNOW", "UNKNOW")
        [lost] = until(given_up, "a message that is given up")
        asked = Counter(one["body"] for one in questions())
        counts = [int(one["properties"]["TRANSACTION_CHECK_TIMES"]) for one in questions() if one["body"] == "never known"]
        read = clients.messages(reader)
    # a check that comes before the producer's first heartbeat counts, and asks nobody
    assert counts == list(range(counts[0], CHECKS_MAX + 1))
    assert (asked["asked, rolled back"] >= 1, asked["asked, committed"] >= 1) == (True, True)
    bodies = Counter(message["body"] for message in read)
    assert set(bodies) == expected
    if subject.kind == "ours":
        assert set(bodies.values()) == {1}
        assert set(asked) == {"asked, committed", "asked, rolled back", "never known"}
    [message] = [one for one in read if one["body"] == "committed"][:1]
    assert (message["tags"], message["keys"], message["properties"]["checked"]) == ("T", "k", "UNKNOW")
    assert lost["body"] == "never known"


def set_to(line: Talk, properties: Mapping[str, str]) -> None:
    """Change the running broker's configuration."""
    assert line.ask(UpdateBrokerConfig(), "".join(f"{key}={value}\n" for key, value in properties.items()).encode()).code == 0


# The same bytes


def half(line: Talk, number: int, born_ms: int, **properties: str) -> Command:
    """A half message of a producer that is not there."""
    given = pairs(UNIQ_KEY=UNIQUE.format(number), TRAN_MSG="true", PGROUP="P", WAIT="true", **properties)
    request = send("T", 1, given, sys_flag=TRANSACTION_PREPARED, born_timestamp=born_ms, flag=5)
    return line.ask(request, b"half %d" % number)


def end(line: Talk, sent: Command, how: int) -> None:
    fields = sent.ext_map()
    answer = line.ask(
        EndTransaction(
            producer_group="P",
            tran_state_table_offset=int(fields["queueOffset"]),
            commit_log_offset=int(fields["msgId"][-16:], 16),
            commit_or_rollback=how,
            msg_id=fields["transactionId"],
            topic="T",
        )
    )
    assert (answer.code, answer.remark) == (0, None if how == TRANSACTION_COMMIT else "not set any response code")


def stored(line: Talk, topic: str, queue_id: int = 0) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    while (answer := line.ask(pull(topic, queue_id, len(found)))).code == 0:
        found += units(answer.body)
    return found


def test_both_brokers_write_the_same(tmp_path: Path) -> None:
    """Half messages, a commit, ends, the copies of two checks, one that is given up for its age.

    And, as these brokers are there: how far levels are, byte for byte, and what topics a group's retries have.
    """
    library(REFERENCE)
    written = []
    with OurNameServer(tmp_path / "namesrv") as names:
        for broker in (
            JavaBroker(tmp_path / "java", names.address, name="java", properties=BRISK | LEVELS),
            OurBroker(tmp_path / "ours", names.address, name="ours", properties=BRISK | LEVELS),
        ):
            with broker.start(), Talk(broker.address) as line:
                for topic in ("T", "Levels"):
                    make_topic(line, topic, 4)
                written.append(written_by(line) | delays_and_retries(line, broker.store))
    java, ours = written
    assert ours == java


def written_by(line: Talk) -> dict[str, Any]:
    """What a broker makes of these sends, without what is its own: places, times, addresses, how ends are gathered.

    Java's copies lose the flag, and it counts as a check when one is put back unasked.
    """
    born_ms = now_ms()
    end(line, half(line, 0, born_ms, TAGS="A", KEYS="k l", mine="value"), TRANSACTION_COMMIT)
    end(line, half(line, 1, born_ms), TRANSACTION_ROLLBACK)
    half(line, 2, born_ms, TAGS="B")
    half(line, 3, born_ms - TOO_OLD_MS)
    half(line, 4, born_ms, CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    until(lambda: len(copies_of(line, 2)) > 2, "two checks")
    until(lambda: len(copies_of(line, 4)) > 1, "one that is put back unasked")
    until(lambda: stored(line, GIVEN_UP), "one that is given up")
    until(lambda: b"".join(bytes(one.body) for one in stored(line, OP)) == b"0,1,", "ends")
    sent = {one.physical_offset: number for number in range(5) for one in copies_of(line, number)[:1]}
    [committed, op, too_old] = [stored(line, *place)[0] for place in (("T", 1), (OP, 0), (GIVEN_UP, 0))]
    copies = [one._replace(flag=0) for one in (*copies_of(line, 2)[1:3], copies_of(line, 4)[1]._replace(properties=b""))]
    found = [one for number in range(5) for one in copies_of(line, number)[:1]]
    return {
        "units": [
            (
                bytes(one.body),
                one.properties,
                one.flag,
                one.sys_flag,
                one.queue_id,
                one.reconsume_times,
                one.born_timestamp - born_ms,
            )
            for one in [*found, committed, too_old, *copies]
        ],
        "half message of the commit": sent[committed.prepared_transaction_offset],
        "op": (op.properties, op.flag, op.sys_flag, op.queue_id, op.reconsume_times, op.born_host == op.store_host),
        "immune": immune(*copies_of(line, 4)[:2]),
    }


def immune(sent: StoredMessage, copy: StoredMessage) -> dict[str, str]:
    """The copy's properties; where it was before as a distance (a check may have come between two sends)."""
    found = props(copy)
    moved = int(found.pop("TRAN_PREPARED_QUEUE_OFFSET")) - sent.queue_offset
    return {**found, "TRANSACTION_CHECK_TIMES": "1", "moved": str(moved)}


def copies_of(line: Talk, number: int) -> list[StoredMessage]:
    """A half message and what checks have made of it."""
    return [one for one in stored(line, HALF) if bytes(one.body) == b"half %d" % number]


# From one broker to the other


def half_messages_change_hands(place: Place, version: str, first: str, kill: bool) -> None:
    """A course: one broker takes half messages and asks nobody; the other is started on its directory, asks, and delivers."""
    library(REFERENCE)
    directory, clients = place.directory, place.tools(version)

    def fresh(stem: str) -> str:
        return f"{stem}-{directory.name}"

    with OurNameServer(directory / "namesrv") as names:
        java = JavaBroker(directory / "java", names.address, name="b", store=directory / "store", properties=NEVER)
        ours = OurBroker(directory / "ours", names.address, name="b", port=java.port, store=directory / "store")
        ours.properties = dict(java.properties)
        one, other = (java, ours) if first == "java" else (ours, java)
        other.properties = other.properties | ENDLESS
        subject = Subject(first, names.address, one.address, "b", "DefaultCluster", directory / "store", one)
        topic = fresh("moved")
        with one.start(), producer(clients, subject, fresh, transactions=True) as p:
            arguments: dict[str, Any] = {"producer": p, "topic": topic, "form": "transaction", "tags": "T"}
            clients.call("send", body="rolled back before", outcome="ROLLBACK_MESSAGE", **arguments)
            clients.call("send", body="committed before", outcome="COMMIT_MESSAGE", **arguments)
            clients.call("send", body="committed after", outcome="UNKNOW", **arguments)
            rolled_back = {"p.checked": "ROLLBACK_MESSAGE"}
            clients.call("send", body="rolled back after", outcome="UNKNOW", **arguments, **rolled_back)
            with Talk(one.address) as line:
                until(lambda: b"".join(bytes(op.body) for op in stored(line, OP)).count(b",") == 2, "ends")
            if kill:
                one.kill()
            else:
                one.stop()
            with other.start():
                asked: list[str] = []

                def answered() -> bool:
                    asked[:] = [message["body"] for message in clients.call("producer.checked", producer=p)]
                    return {"committed after", "rolled back after"} <= set(asked)

                until(answered, "questions about both")
                found = pull_all(clients, subject, fresh, topic, 2)
    bodies = Counter(message["body"] for message in found)
    assert set(bodies) == {"committed after", "committed before"}
    if other is ours:
        assert set(bodies.values()) == {1}
        assert set(asked) == {"committed after", "rolled back after"}


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(
            how,
            marks=plays(half_messages_change_hands, version, first, kill, seconds=30 if first == "java" else 14),
            id=how,
        )
        for version, (kill, first) in by_client(itertools.product((False, True), ("java", "ours")), old=(True, "java"))
        for how in [f"{version}-{'killed' if kill else 'stopped'}-{first}"]
    ],
)
def test_half_messages_change_hands(how: str, course: Future[None]) -> None:
    course.result()
