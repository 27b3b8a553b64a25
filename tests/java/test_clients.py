"""Stock Java producers and consumers, 5.5.0 and 4.9.8, against a broker that they must not be able to tell from the original.

Every test makes its own topic and group on the one server of the run.  Run with RMQ_SUBJECT=java first: what fails there is the
test's fault.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.java.flows import by_client, drain, drained, producer, pull_all, push, queues_of
from tests.support.clients import CALL_S_MAX, MESSAGES_S_MAX, JavaDriver, JavaError
from tests.support.courses import Place, plays
from tests.support.java import OLD_CLIENT, REFERENCE
from tests.support.process import until
from tests.support.subject import SUBJECTS, Subject, start_subject

pytestmark = pytest.mark.java

Fresh = Callable[[str], str]
HOUR_MS = 3_600_000
FORMS = ("sync", "async", "oneway", "batch", "selector", "queue")
MOVES_MAX = 3
"""How often a queue may change hands while two consumers start."""


@pytest.mark.parametrize(("clients", "form"), by_client(FORMS, old="batch"), indirect=["clients"])
def test_every_form_of_sending_is_read_back(subject: Subject, clients: JavaDriver, fresh: Fresh, form: str) -> None:
    topic = fresh("forms")
    with producer(clients, subject, fresh) as p:
        # The first message makes the topic: what a stock producer does through TBW102.
        [first] = clients.call("send", producer=p, topic=topic, body="first")
        results = clients.call(
            "send",
            producer=p,
            topic=topic,
            form=form,
            count=10,
            body="b",
            tags="A,B",
            keys="k",
            flag=7,
            broker=subject.broker_name,
            queue=1,
            **{"p.colour": "grün & blue", "p.n": "0"},
        )
        found = pull_all(clients, subject, fresh, topic, 11)
    assert first["status"] == "SEND_OK"
    by_body = {message["body"]: message for message in found}
    assert sorted(by_body) == sorted(["first", *(f"b{i}" for i in range(10))])
    for i in range(10):
        message = by_body[f"b{i}"]
        assert (message["tags"], message["keys"], message["flag"]) == ("AB"[i % 2], f"k{i}", 7)
        assert (message["properties"]["colour"], message["properties"]["n"]) == ("grün & blue", "0")
        assert message["topic"] == topic
        assert message["store_host"] == f"/{subject.address}"
    sent = [by_body[f"b{i}"] for i in range(10)]
    placed = [{"id": m["msg_id"], "offset_id": m["offset_msg_id"], "at": (m["queue"], m["offset"])} for m in sent]
    if form == "batch":
        [result] = results
        assert result["status"] == "SEND_OK"
        assert result["msg_id"].split(",") == [t["id"] for t in placed]
        assert result["offset_msg_id"].split(",") == [t["offset_id"] for t in placed]
        assert [t["at"] for t in placed] == [(result["queue"], result["offset"] + i) for i in range(10)]
    elif form != "oneway":
        assert [r["status"] for r in results] == ["SEND_OK"] * 10
        assert placed == [{"id": r["msg_id"], "offset_id": r["offset_msg_id"], "at": (r["queue"], r["offset"])} for r in results]
    if form == "queue":
        assert {t["at"][0] for t in placed} == {1}


def test_a_big_body_travels_compressed(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic = fresh("big")
    with producer(clients, subject, fresh) as p:
        clients.call("send", producer=p, topic=topic, size=100_000)
        [message] = pull_all(clients, subject, fresh, topic, 1)
    assert message["length"] == 100_000
    assert message["store_size"] < 10_000
    assert message["crc"] == zlib.crc32(bytes(ord("a") + at % 26 for at in range(100_000)))


def test_the_largest_body_and_one_byte_more(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic = fresh("large")
    limit = 4 * 1024 * 1024
    with producer(clients, subject, fresh, compress_over=2 * limit, max_message_size=2 * limit, retries=0) as p:
        [result] = clients.call("send", producer=p, topic=topic, size=limit)
        assert result["status"] == "SEND_OK"
        with pytest.raises(JavaError) as refused:
            clients.call("send", producer=p, topic=topic, size=limit + 1)
    assert refused.value.code == 13


def test_a_delayed_message_waits(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic = fresh("delay")
    with producer(clients, subject, fresh) as p, push(clients, subject, fresh, topic) as c:
        clients.call("send", producer=p, topic=topic, body="later", delay=1, tags="T", keys="late")
        [message] = clients.wait_messages(c, 1)
    assert (message["body"], message["topic"], message["tags"]) == ("later", topic, "T")
    assert message["store_ms"] - message["born_ms"] >= 1_000
    assert message["properties"]["DELAY"] == "1"


def test_offsets_are_found_by_time_and_messages_by_id_and_key(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic, where = fresh("find"), {"broker": subject.broker_name, "queue": 0}
    with producer(clients, subject, fresh) as p:
        clients.call("send", producer=p, topic=topic, body="x", form="sync")
        at = {"producer": p, "topic": topic, **where}
        results = clients.call("send", form="queue", count=5, body="m", keys="key-", tags="T", **at)
        before = results[0]["offset"]
        until(lambda: clients.call("max_offset", **at) == before + 5, "the end of the queue")  # Java's follows the answer
        assert clients.call("min_offset", **at) == 0
        found = drain(clients, subject, fresh, topic, 0)[-5:]
        times = [m["store_ms"] for m in found]
        assert clients.call("search_offset", timestamp=times[0] - HOUR_MS, **at) == 0
        assert clients.call("search_offset", timestamp=times[-1] + HOUR_MS, **at) == before + 5
        third = clients.call("search_offset", timestamp=times[2], **at)
        assert times[third - before] >= times[2]
        assert clients.call("earliest_store_time", **at) <= times[0]
        by_offset_id = clients.call("view_message", producer=p, topic=topic, id=results[3]["offset_msg_id"])
        by_unique_id = until(lambda: _seen(clients, p, topic, results[3]["msg_id"]), "index of a unique key")
        assert by_offset_id["body"] == by_unique_id["body"] == "m3"
        by_key = until(lambda: clients.call("query_message", producer=p, topic=topic, key="key-2"), "index of a key")
        assert [m["body"] for m in by_key] == ["m2"]
        with pytest.raises(JavaError, match="no message"):
            clients.call("query_message", producer=p, topic=topic, key="no such key")


def _seen(clients: JavaDriver, p: str, topic: str, unique: str) -> Any:
    try:
        return clients.call("view_message", producer=p, topic=topic, id=unique)
    except JavaError:
        return None


def test_two_consumers_share_the_queues_and_one_takes_over_on_notice(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic, group = fresh("share"), fresh("group")
    with producer(clients, subject, fresh, queues=8) as p:
        clients.call("send", producer=p, topic=topic, body="x")
        before = clients.call("rebalance_interval", ms=HOUR_MS)  # from now on only a notice (code 40) makes them rebalance
        try:
            with push(clients, subject, fresh, topic, group=group) as one:
                until(lambda: len(queues_of(clients, one, topic)) == 8, "all queues at the first")
                with push(clients, subject, fresh, topic, group=group) as two:
                    until(lambda: [len(queues_of(clients, c, topic)) for c in (one, two)] == [4, 4], "four queues each")
                    assert not set(queues_of(clients, one, topic)) & set(queues_of(clients, two, topic))
                    clients.call("send", producer=p, topic=topic, form="selector", count=80, body="s", spread=8)
                    bodies = Counter(m["body"] for m in clients.wait_messages([one, two], 81))
                    assert set(bodies) == {"x", *(f"s{i}" for i in range(80))}
                    # The queues that moved may come twice, nothing else: `x` was there before the second joined.
                    assert {body for body, times in bodies.items() if times > 1} <= {"x"}
                    assert all(any(m["body"] != "x" for m in clients.messages(c)) for c in (one, two))
                until(lambda: len(queues_of(clients, one, topic)) == 8, "all queues after the other left")
                clients.call("send", producer=p, topic=topic, form="selector", count=8, body="t", spread=8)
                clients.wait(
                    lambda: {f"t{i}" for i in range(8)} <= {m["body"] for m in clients.messages(one)}, "all at the first"
                )
        finally:
            clients.call("rebalance_interval", ms=before)


def test_broadcasting_gives_everything_to_everyone(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic, group = fresh("broadcast"), fresh("group")
    with (
        producer(clients, subject, fresh) as p,
        push(clients, subject, fresh, topic, group=group, model="BROADCASTING") as one,
        push(clients, subject, fresh, topic, group=group, model="BROADCASTING") as two,
    ):
        clients.call("send", producer=p, topic=topic, count=40, body="b")
        for consumer in (one, two):
            assert Counter(m["body"] for m in clients.wait_messages(consumer, 40)) == Counter(f"b{i}" for i in range(40))


def test_a_thousand_messages_in_order_over_eight_queues(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic, group = fresh("ordered"), fresh("group")
    with producer(clients, subject, fresh, queues=8) as p:
        clients.call("send", producer=p, topic=topic, form="selector", count=1000, body="", tags="T", spread=8)
        options: dict[str, Any] = {"group": group, "orderly": True}
        with push(clients, subject, fresh, topic, **options) as one, push(clients, subject, fresh, topic, **options) as two:
            messages = clients.wait_messages([one, two], 1000)
    by_queue: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for message in sorted(messages, key=lambda m: m["number"]):
        by_queue[message["queue"]].append(message)
    assert sorted(by_queue) == list(range(8))
    for queue, received in by_queue.items():
        offsets = [m["offset"] for m in received]
        # Never ahead of what has come; a queue that moves to the other consumer may begin again at its last committed offset.
        again = [i for i in range(1, len(offsets)) if offsets[i] != offsets[i - 1] + 1]
        assert all(offset <= max(offsets[:i], default=-1) + 1 for i, offset in enumerate(offsets)), f"queue {queue}"
        assert len(again) <= MOVES_MAX
        assert set(offsets) == set(range(125))
        bodies = {m["offset"]: int(m["body"]) for m in received}
        assert [bodies[offset] for offset in range(125)] == list(range(bodies[0], 1000, 8))


def test_tags_are_filtered(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic = fresh("tags")
    with producer(clients, subject, fresh) as p, push(clients, subject, fresh, topic, expression="A || C") as c:
        clients.call("send", producer=p, topic=topic, count=30, body="t", tags="A,B,C")
        clients.call("send", producer=p, topic=topic, body="untagged")
        clients.call("send", producer=p, topic=topic, body="end", tags="C")
        clients.wait_messages(c, 21)
        assert Counter(m["tags"] for m in clients.messages(c)) == {"A": 10, "C": 11}


def test_what_failed_once_comes_again(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic, group = fresh("retry"), fresh("group")
    with (
        producer(clients, subject, fresh) as p,
        push(clients, subject, fresh, topic, group=group, failures=1, delay_level=1) as c,
    ):
        [sent] = clients.call("send", producer=p, topic=topic, body="again", tags="T", keys="k", **{"p.own": "kept"})
        first, second, *_ = clients.wait_messages(c, 2)  # a client that waits for 5 s sends a copy itself
    assert [first["reconsume_times"], second["reconsume_times"]] == [0, 1]
    assert (second["topic"], second["body"], second["tags"], second["keys"]) == (topic, "again", "T", "k")
    assert second["msg_id"] == sent["msg_id"]
    assert second["properties"]["own"] == "kept"
    assert second["properties"]["ORIGIN_MESSAGE_ID"] == sent["offset_msg_id"]
    assert second["store_ms"] - first["store_ms"] >= 1_000


def test_what_always_fails_ends_among_the_dead_letters(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic, group = fresh("dead"), fresh("group")
    options: dict[str, Any] = {"failures": 99, "delay_level": 1, "max_reconsume": 1}
    with producer(clients, subject, fresh) as p, push(clients, subject, fresh, topic, group=group, **options) as c:
        clients.call("send", producer=p, topic=topic, body="never")
        clients.wait_messages(c, 2)
        dead = until(lambda: drained(clients, subject, fresh, f"%DLQ%{group}", 0), "a dead letter")
    assert {(m["body"], m["properties"]["RETRY_TOPIC"]) for m in dead} == {("never", topic)}


def test_lite_pull_with_assigned_queues(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic, group, at = fresh("assign"), fresh("group"), {"broker": subject.broker_name, "queue": 0}
    with producer(clients, subject, fresh) as p:
        clients.call("send", producer=p, topic=topic, body="first", form="sync")
        *_, last = clients.call("send", producer=p, topic=topic, form="queue", count=20, body="m", **at)
        end = last["offset"] + 1
        until(lambda: clients.call("max_offset", producer=p, topic=topic, **at) == end, "the end of the queue")
    lite = fresh("lite")
    clients.call("lite.start", name=lite, namesrv=subject.namesrv, group=group, auto_commit=False)
    assert len(clients.call("lite.queues", consumer=lite, topic=topic)) == 4
    assert len(clients.call("lite.assign", consumer=lite, topic=topic, queue=0)) == 1
    clients.call("lite.seek", consumer=lite, topic=topic, offset=end - 15, **at)
    found = _poll_from(clients, lite, end - 15, 15)
    assert [m["offset"] for m in found] == list(range(end - 15, end))
    clients.call("lite.seek", consumer=lite, topic=topic, offset=end - 3, **at)
    assert [m["body"] for m in _poll_from(clients, lite, end - 3, 3)] == ["m17", "m18", "m19"]
    clients.call("lite.commit", consumer=lite)
    until(lambda: clients.call("lite.committed", consumer=lite, topic=topic, **at) == end, "the commit")
    clients.call("lite.stop", consumer=lite)
    other = fresh("lite")  # the broker remembers
    clients.call("lite.start", name=other, namesrv=subject.namesrv, group=group, auto_commit=False)
    assert clients.call("lite.committed", consumer=other, topic=topic, **at) == end
    clients.call("lite.stop", consumer=other)


def test_lite_pull_with_a_subscription(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic, group, lite = fresh("subscribe"), fresh("group"), fresh("lite")
    with producer(clients, subject, fresh) as p:
        clients.call("send", producer=p, topic=topic, body="x", tags="A")
        clients.call("lite.start", name=lite, namesrv=subject.namesrv, group=group, topic=topic, expression="A", heartbeat_ms=500)
        clients.call("send", producer=p, topic=topic, count=20, body="m", tags="A,B")
        found = _poll(clients, lite, 11)
        assert sorted(m["body"] for m in found) == sorted(["x", *(f"m{i}" for i in range(0, 20, 2))])
        assert len(clients.call("lite.assignment", consumer=lite)) == 4
        clients.call("lite.stop", consumer=lite)


def _poll_from(clients: JavaDriver, lite: str, offset: int, count: int) -> list[dict[str, Any]]:
    """Of one queue, after a seek: what the client had fetched before it may still come, as with the real broker."""
    found: dict[int, dict[str, Any]] = {}
    ends = time.monotonic() + MESSAGES_S_MAX
    while len(found) < count and time.monotonic() < ends:
        polled = clients.call("lite.poll", consumer=lite, timeout_ms=1000)
        found.update({message["offset"]: message for message in polled if message["offset"] >= offset})
    return [found[at] for at in sorted(found)]


def _poll(clients: JavaDriver, lite: str, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    ends = time.monotonic() + MESSAGES_S_MAX
    while len(found) < count and time.monotonic() < ends:
        found += clients.call("lite.poll", consumer=lite, timeout_ms=1000)
    return found


def test_legacy_pull(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic, group, c = fresh("legacy"), fresh("group"), fresh("legacy")
    at: dict[str, Any] = {"consumer": c, "topic": topic, "broker": subject.broker_name, "queue": 0}
    with producer(clients, subject, fresh) as p:
        clients.call("send", producer=p, topic=topic, body="x")
        where = {"topic": topic, "broker": subject.broker_name, "queue": 0}
        *_, last = clients.call("send", producer=p, form="queue", count=10, body="m", tags="A,B", **where)
        until(lambda: clients.call("max_offset", producer=p, **where) > last["offset"], "the end of the queue")
        clients.call("legacy.start", name=c, namesrv=subject.namesrv, group=group, topic=topic)
        assert len(clients.call("legacy.queues", consumer=c, topic=topic)) == 4
        everything = clients.call("legacy.pull", offset=0, **at)
        end = everything["max_offset"]
        assert (everything["status"], everything["next_offset"], len(everything["messages"])) == ("FOUND", end, end)
        tagged = clients.call("legacy.pull", offset=end - 10, max=4, expression="B", **at)
        assert [m["body"] for m in tagged["messages"]] == ["m1", "m3", "m5", "m7"]
        assert clients.call("legacy.pull", offset=end - 10, expression="Z", **at)["status"] == "NO_MATCHED_MSG"
        assert clients.call("legacy.pull", offset=end, **at)["status"] == "NO_NEW_MSG"
        beyond = clients.call("legacy.pull", offset=end + 100, **at)
        assert (beyond["status"], beyond["next_offset"]) == ("OFFSET_ILLEGAL", end)
        held = clients.begin("legacy.pull", offset=end, block=True, **at)  # the broker holds it until something comes
        clients.call("send", producer=p, topic=topic, form="queue", body="woken", broker=subject.broker_name, queue=0)
        assert [m["body"] for m in held(CALL_S_MAX)["messages"]] == ["woken"]
        clients.call("legacy.update_offset", offset=5, **at)
        clients.call("legacy.persist", **at)
        assert until(lambda: clients.call("legacy.fetch_offset", from_store=True, **at) == 5, "the offset")
        clients.call("legacy.stop", consumer=c)


def test_the_fast_port_takes_sends(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic = fresh("vip")
    with producer(clients, subject, fresh) as p, producer(clients, subject, fresh, vip=True) as fast:
        clients.call("send", producer=p, topic=topic, body="plain")
        assert clients.call("send", producer=fast, topic=topic, body="fast", retries=0)[0]["status"] == "SEND_OK"
        assert {m["body"] for m in pull_all(clients, subject, fresh, topic, 2)} == {"plain", "fast"}


@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_restart_loses_nothing(subject: Subject, clients: JavaDriver, fresh: Fresh, kill: bool) -> None:
    restarted_under_a_flood(subject, clients, fresh, kill=kill)


def killed_under_an_old_client(place: Place) -> None:
    """It waits half a minute for the answers of those who died, to the pulls that they had held."""
    subject = start_subject(SUBJECTS[0], place.directory / "subject")
    place.kept.callback(subject.end)
    old = place.tools(OLD_CLIENT)
    old.call("rebalance_interval", ms=1000)
    restarted_under_a_flood(subject, old, lambda stem: f"{stem}-{place.directory.name}", kill=True)


@plays(killed_under_an_old_client, seconds=36)
def test_a_kill_loses_nothing_of_an_old_client(course: Future[None]) -> None:
    course.result()


def restarted_under_a_flood(subject: Subject, clients: JavaDriver, fresh: Fresh, *, kill: bool) -> None:
    topic, group, flood = fresh("restart"), fresh("group"), fresh("flood")
    with producer(clients, subject, fresh, retries=10, timeout_ms=20_000) as p:
        clients.call("send", producer=p, topic=topic, body="x")
        with push(clients, subject, fresh, topic, group=group) as c:
            clients.call("flood.start", flood=flood, producer=p, topic=topic, body="f", pause_ms=2)
            until(lambda: clients.call("flood.count", flood=flood) > 200, "sends before the restart")
            subject.restart(kill=kill)
            before = clients.call("flood.count", flood=flood)
            until(lambda: clients.call("flood.count", flood=flood) > before + 200, "sends after the restart")
            acknowledged = set(clients.call("flood.stop", flood=flood)["acknowledged"])
            clients.wait(lambda: acknowledged <= {m["body"] for m in clients.messages(c)}, "everything acknowledged")
        assert acknowledged <= {m["body"] for m in pull_all(clients, subject, fresh, topic, len(acknowledged) + 1)}


def test_sync_flush_survives_a_kill(subject: Subject, clients: JavaDriver, fresh: Fresh, tmp_path: Path) -> None:
    own = start_subject(subject.kind, tmp_path, properties={"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": "180000"})
    try:
        topic = fresh("sync")
        with producer(clients, own, fresh) as p:
            results = clients.call("send", producer=p, topic=topic, form="async", count=100, body="s")
            own.restart(kill=True)
            assert [result["status"] for result in results] == ["SEND_OK"] * 100
            assert {m["body"] for m in pull_all(clients, own, fresh, topic, 100)} == {f"s{i}" for i in range(100)}
    finally:
        own.end()
