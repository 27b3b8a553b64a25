"""What is noted of members of a broadcasting group: the least is committed, and who comes by another way goes on where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_impl.state import broadcast_offsets
from broker_impl.state.broadcast_offsets import COMMIT_MS, PROXY_FOR_BROADCAST
from broker_impl.state.clients import CLIENT_ID_CHARACTERS_MAX
from rmq_store.errors import Cold
from rmq_wire import fastjson
from rmq_wire.bodies.heartbeat import BROADCASTING, CONSUME_ACTIVELY
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.clients import UnregisterClient
from rmq_wire.headers.groups import DeleteSubscriptionGroup
from rmq_wire.headers.topics import DeleteTopic
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.requests import SUSPEND, heartbeat, pull, said, send

MESSAGES = 5
KEPT = "G@broadcast"
ALONE_MS, ONLINE_MS = 120_000, 300_000
MOVED = ResponseCode.PULL_OFFSET_MOVED


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return filled(Harness(tmp_path))


def filled(harness: Harness) -> Harness:
    harness.topic("T")
    client = harness.connect()
    for number in range(MESSAGES):
        assert client.ask(send(), f"m{number}".encode()).code == 0
    return harness


def member(harness: Harness, **more: Any) -> Client:
    client = harness.connect()
    heartbeat(client, model=BROADCASTING, **more)
    return client


def direct(client: Client, offset: int, **more: Any) -> int:
    return client.ask(pull(offset=offset, **{"flags": 0, "subscription": None, **more})).code


def proxied(client: Client, offset: int, client_id: str | None = "far", **more: Any) -> Any:
    return client.ask(pull(offset=offset, request_source=PROXY_FOR_BROADCAST, proxy_froward_client_id=client_id, **more))


def moved_to(answer: Any) -> int:
    code, remark, fields = said(answer)
    assert (code, remark, fields["minOffset"], fields["maxOffset"]) == (MOVED, "OFFSET_RESET", "0", "0")
    return int(fields["nextBeginOffset"])


def kept(harness: Harness, queue_id: int = 0, topic: str = "T") -> int:
    return harness.node.offsets.query(KEPT, topic, queue_id)


def noted(harness: Harness) -> int:
    return len(harness.capability(11)._broadcasts)


def test_the_least_is_committed_every_five_seconds(harness: Harness) -> None:
    first, second = member(harness), member(harness)
    for offset in (0, 4):
        assert direct(first, offset) == 0
    assert direct(second, 2) == direct(second, 1) == 0  # never back
    assert direct(first, 0, queue_id=1) == ResponseCode.PULL_NOT_FOUND
    assert kept(harness) == -1
    harness.driver.advance(COMMIT_MS)
    assert (kept(harness), kept(harness, 1), kept(harness, 2)) == (2, 0, -1)
    assert direct(second, 5) == ResponseCode.PULL_NOT_FOUND
    harness.driver.advance(COMMIT_MS)
    assert kept(harness) == 4
    assert noted(harness) == 3


def test_nobody_is_told_of_a_group_that_is_none(harness: Harness) -> None:
    """It has a row in the file, as Java's has, and is in no list of groups or topics."""
    assert direct(member(harness), 3) == 0
    harness.driver.advance(COMMIT_MS)
    offsets = harness.node.offsets
    for _ in range(2):
        assert offsets.groups_of("T") == offsets.topics_of(KEPT) == []
        harness.restart()
        document: Any = fastjson.loads((Path(harness.root) / "config" / "consumerOffset.json").read_bytes())
        assert document["offsetTable"] == {f"T@{KEPT}": {"0": 3}}
        assert document["groupTopicMap"] == {}
        offsets = harness.node.offsets
        assert kept(harness) == 3


def test_what_a_member_is_moved_to_counts(harness: Harness) -> None:
    assert direct(member(harness), 70) == MOVED
    harness.driver.advance(COMMIT_MS)
    assert kept(harness) == MESSAGES


def test_a_pull_that_waits_counts(harness: Harness) -> None:
    client = member(harness)
    client.send(pull(offset=MESSAGES, flags=SUSPEND, subscription=None))
    assert not client.answers
    harness.driver.advance(COMMIT_MS)
    assert kept(harness) == MESSAGES


@pytest.mark.parametrize("case", ["clustering", "pulls actively", "stranger", "no id", "long id", "switched off"])
def test_of_others_nothing_is_noted(tmp_path: Path, case: str) -> None:
    off = {"enableBroadcastOffsetStore": "false"} if case == "switched off" else {}
    harness = filled(Harness(tmp_path, **off))
    client = member(harness)
    group = harness.node.clients.consumer_group("G")
    assert group is not None
    if case == "clustering":
        group.message_model = "CLUSTERING"
    if case == "pulls actively":
        group.consume_type = CONSUME_ACTIVELY
    if case == "stranger":
        client = harness.connect()
    if case.endswith("id"):
        assert proxied(client, 2, None if case == "no id" else "x" * (CLIENT_ID_CHARACTERS_MAX + 1)).code == 0
        assert proxied(client, -1, None).ext_map()["nextBeginOffset"] == "0"
    else:
        assert direct(client, 2) == 0
    harness.driver.advance(COMMIT_MS)
    assert (kept(harness), noted(harness)) == (-1, 0)


def test_one_that_a_proxy_brings_begins_where_the_group_is(harness: Harness) -> None:
    proxy = harness.connect()
    assert moved_to(proxied(proxy, -1)) == 0
    assert proxied(proxy, 0).code == 0
    assert proxied(proxy, 3).code == 0
    harness.driver.advance(COMMIT_MS)
    assert kept(harness) == 3
    assert moved_to(proxied(proxy, -1, "farther")) == 3
    assert moved_to(proxied(proxy, -1)) == 3
    assert proxied(proxy, 1, "x" * CLIENT_ID_CHARACTERS_MAX).code == 0
    harness.driver.advance(COMMIT_MS)
    assert kept(harness) == 1


@pytest.mark.parametrize(("ratio", "begins"), [("40", 0), ("0", MESSAGES)])
def test_one_that_a_proxy_brings_first_begins_at_the_beginning_of_what_is_young(tmp_path: Path, ratio: str, begins: int) -> None:
    harness = filled(Harness(tmp_path, accessMessageInMemoryMaxRatio=ratio))
    assert moved_to(proxied(harness.connect(), -1)) == begins
    assert moved_to(proxied(harness.connect(), -1, "other", queue_id=1)) == 0


def test_who_changes_goes_on_where_it_was(harness: Harness) -> None:
    """A member keeps its progress in a place of its own for each way, and one of them may be old."""
    client, other = member(harness), member(harness)
    name = f"c{client.peer.id}"
    assert direct(client, 4) == 0
    assert moved_to(proxied(other, 0, name)) == 4
    assert proxied(other, 4, name).code == 0
    assert moved_to(client.ask(pull(offset=1, flags=0, subscription=None))) == 4
    assert direct(client, 1) == 0  # it is known to be back
    assert direct(other, 0) == 0  # who did not change is not moved


def test_a_reset_by_an_operator_comes_first(harness: Harness) -> None:
    client = member(harness)
    assert direct(client, 4) == 0
    harness.node.offsets.assign_reset("G", "T", 0, 2)
    fields = proxied(client, 0, f"c{client.peer.id}").ext_map()
    assert (fields["nextBeginOffset"], fields["maxOffset"]) == ("2", str(MESSAGES))


def test_who_changes_in_a_queue_that_it_did_not_have_begins_where_the_group_is(harness: Harness) -> None:
    client = member(harness)
    assert direct(client, 4) == 0
    assert direct(client, 0, queue_id=1) == ResponseCode.PULL_NOT_FOUND
    harness.driver.advance(COMMIT_MS)
    assert moved_to(proxied(client, 7, f"c{client.peer.id}", queue_id=2)) == 0


def test_a_member_that_has_gone_counts_for_two_minutes(harness: Harness) -> None:
    slow, quick = member(harness), member(harness)
    assert direct(slow, 1) == 0
    slow.close()
    for _ in range(COMMIT_MS, ALONE_MS, COMMIT_MS):
        assert direct(quick, 4) == 0
        harness.driver.advance(COMMIT_MS)
        assert (kept(harness), noted(harness)) == (1, 2)
    harness.driver.advance(COMMIT_MS)
    assert (kept(harness), noted(harness)) == (4, 1)


def test_a_member_that_is_there_and_does_not_pull_counts_for_five_minutes(harness: Harness) -> None:
    client, quick = member(harness), member(harness)
    assert direct(client, 1) == 0

    def silent(ms: int) -> tuple[int, int]:
        for _ in range(0, ms, COMMIT_MS):
            for one in (client, quick):
                heartbeat(one, model=BROADCASTING)
            assert direct(quick, 4) == 0
            harness.driver.advance(COMMIT_MS)
        return kept(harness), noted(harness)

    assert silent(ONLINE_MS - COMMIT_MS) == (1, 2)
    assert silent(2 * COMMIT_MS) == (4, 1)


def test_a_client_that_leaves_the_group_on_the_same_connection_has_gone(harness: Harness) -> None:
    client = member(harness)
    assert direct(client, 1) == 0
    assert client.ask(UnregisterClient(client_id=f"c{client.peer.id}", consumer_group="G")).code == 0
    harness.driver.advance(ALONE_MS + COMMIT_MS)
    assert noted(harness) == 0


def test_one_of_a_proxy_that_is_a_member_itself_is_there(harness: Harness) -> None:
    client = member(harness)
    assert proxied(harness.connect(), 1, f"c{client.peer.id}").code == 0
    assert proxied(harness.connect(), 1, "c-nobody").code == 0
    for _ in range(0, ALONE_MS + COMMIT_MS, COMMIT_MS):
        heartbeat(client, model=BROADCASTING)
        harness.driver.advance(COMMIT_MS)
    assert noted(harness) == 1


@pytest.mark.parametrize("what", ["topic", "group"])
def test_it_goes_with_its_topic_or_group(harness: Harness, what: str) -> None:
    """What was committed of a group stays in the file, as in Java."""
    client = member(harness)
    assert direct(client, 1) == 0
    assert direct(client, 0, queue_id=1) == ResponseCode.PULL_NOT_FOUND
    harness.driver.advance(COMMIT_MS)
    assert (kept(harness), noted(harness)) == (1, 2)
    request = DeleteTopic(topic="T") if what == "topic" else DeleteSubscriptionGroup(group_name="G", clean_offset=True)
    assert client.ask(request).code == 0
    harness.driver.advance(COMMIT_MS)
    assert noted(harness) == 0
    assert kept(harness) == (-1 if what == "topic" else 1)


def test_no_more_than_so_many_queues_are_noted(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast_offsets, "QUEUES_MAX", 2)
    client = member(harness)
    for queue in range(4):
        client.ask(pull(offset=0, queue_id=queue, flags=0, subscription=None))
    assert direct(client, 3) == 0
    assert proxied(client, 1, "another").code == 0
    harness.driver.advance(COMMIT_MS)
    assert noted(harness) == 2
    assert [kept(harness, queue) for queue in range(4)] == [3, 0, -1, -1]


def test_many_members_are_looked_at_in_slices(harness: Harness) -> None:
    client = harness.connect()
    for number in range(500):
        assert proxied(client, number % MESSAGES, f"far-{number}").code == 0
    assert proxied(client, 0, "late", topic="T", queue_id=1).code == ResponseCode.PULL_NOT_FOUND
    store = harness.capability(11)._broadcasts
    steps = sum(1 for _ in store.committing())
    assert 7 <= steps <= 40
    assert (kept(harness), noted(harness)) == (0, 501)
    first, second = store.committing(), store.committing()
    next(first)
    assert list(second) == []  # one at a time
    harness.env.advance(ALONE_MS)
    list(first)
    list(store.committing())
    assert noted(harness) == 0


def test_who_comes_while_the_others_are_forgotten_is_noted(harness: Harness) -> None:
    client = harness.connect()
    for number in range(100):
        assert proxied(client, 1, f"far-{number}").code == 0
    store = harness.capability(11)._broadcasts
    harness.env.advance(ALONE_MS)
    work = store.committing()
    next(work)
    assert proxied(client, 4, "new").code == 0
    list(work)
    assert noted(harness) == 1
    harness.driver.advance(COMMIT_MS)
    assert kept(harness) == 4


def test_a_queue_that_is_not_in_memory_is_read_first(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    real, cold = harness.node.store.is_in_memory, [Cold(lambda: None, "somewhere")]

    def is_in_memory(topic: str, queue_id: int) -> bool:
        if cold:
            raise cold.pop()
        return real(topic, queue_id)

    monkeypatch.setattr(harness.node.store, "is_in_memory", is_in_memory)
    assert moved_to(proxied(harness.connect(), -1)) == 0
