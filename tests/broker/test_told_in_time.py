"""What a broker tells name servers and members of topics and groups that come and go, and what it costs where there are many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker_impl.engine.limits import Limits
from broker_impl.engine.slices import finished, going_on
from broker_impl.registration import Asked
from broker_impl.state.stats import FOLD_MAX, ITEMS_PER_SLICE
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command
from rmq_wire.headers.clients import GetConsumerListByGroup, UnregisterClient
from rmq_wire.headers.groups import DeleteSubscriptionGroup
from rmq_wire.headers.offsets import CloneGroupOffset, ResetOffset
from rmq_wire.headers.topics import DeleteTopic
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.requests import beat, create_topic, heartbeat, send

NAMESRV = "127.0.0.1:9876"
GROUPS = 10


class Told:
    """A broker with one name server, which answers when the test says so."""

    def __init__(self, root: Path) -> None:
        self.harness = Harness(root, namesrvAddr=NAMESRV, compressedRegister="false")
        self.answer(self.due())

    @property
    def client(self) -> Client:
        """A new one: who says nothing for long is closed."""
        return self.harness.connect()

    def due(self, ms: int = 0) -> Asked:
        if ms:
            self.harness.driver.advance(ms)
        [asked] = finished(self.harness.node.registrar.due(self.harness.env.mono_ms))
        return asked

    def answer(self, asked: Asked) -> None:
        assert self.harness.node.registrar.answered(asked, Command(code=0), self.harness.env.mono_ms) is None

    def nothing_is_due(self) -> bool:
        return not finished(self.harness.node.registrar.due(self.harness.env.mono_ms))


def topics_in(asked: Asked) -> tuple[dict[str, Any], Any]:
    """By name, and the version under which they are told."""
    told = json.loads(asked.body)["topicConfigSerializeWrapper"]
    return told["topicConfigTable"], told["dataVersion"]


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


def test_a_topic_that_is_deleted_before_it_is_told_is_not_told(told: Told) -> None:
    """The name server is busy: a tool that deletes the topic there, too, must not find it again."""
    busy = told.due(11_000)
    assert told.client.ask(create_topic("Ghost")).code == 0
    assert told.client.ask(create_topic("Stays")).code == 0
    assert told.client.ask(DeleteTopic(topic="Ghost")).code == 0
    told.answer(busy)
    news = told.due()
    assert topics_in(news)[0].keys() == {"Stays"}
    told.answer(news)
    busy = told.due(30_000)
    assert told.client.ask(create_topic("Ghost")).code == 0
    assert told.client.ask(DeleteTopic(topic="Ghost")).code == 0
    told.answer(busy)
    assert told.nothing_is_due()


def refused(told: Told, name: str, queues: int) -> dict[str, Any]:
    """What a regular registration says of a topic while a change of it is being written, which then fails."""
    driver = told.harness.driver
    driver.held = True
    client = told.client
    opaque = client.send(create_topic(name, queues))
    asked = told.due()
    told.answer(asked)
    driver.end_job(OSError(28, "full"))
    driver.run()
    assert client.answers.pop(opaque).code == ResponseCode.SYSTEM_ERROR
    driver.held = False
    found: dict[str, Any] = topics_in(asked)[0]
    return found


def test_what_is_taken_back_is_told_under_another_version(told: Told) -> None:
    """A name server passes over topics that come under a version that it knows."""
    assert told.client.ask(create_topic("T", 4)).code == 0
    told.answer(told.due())
    told.harness.env.advance(10_000)
    assert refused(told, "T", 8)["T"]["writeQueueNums"] == 8
    before = told.harness.node.topics._told
    asked = told.due(30_000)
    topics, version = topics_in(asked)
    assert topics["T"]["writeQueueNums"] == 4
    assert (version["counter"], version["timestamp"]) > (before.counter, before.timestamp)


def test_a_topic_that_is_not_on_the_disk_is_not_told(told: Told) -> None:
    """Nobody would take it out again."""
    told.harness.env.advance(10_000)
    assert "New" not in refused(told, "New", 4)
    assert "New" not in topics_in(told.due(30_000))[0]


# -- groups that cannot be made


@pytest.fixture
def crowded(tmp_path: Path) -> Harness:
    """No group has room any more; OLD is there."""
    harness = Harness(tmp_path, Limits(groups_max=GROUPS))
    harness.topic("T")
    harness.node.groups.find("OLD")
    while len(harness.node.groups) < GROUPS:
        harness.node.groups.find(f"other-{len(harness.node.groups)}")
    harness.driver.run()
    return harness


def members(client: Client, group: str) -> int:
    return client.ask(GetConsumerListByGroup(consumer_group=group)).code


def test_a_group_that_cannot_be_made_keeps_no_other_of_the_heartbeat_out(crowded: Harness) -> None:
    client = crowded.connect()
    header, one = beat("NEW")
    both = json.loads(one)
    both["consumerDataSet"] += json.loads(beat("OLD")[1])["consumerDataSet"]
    both["producerDataSet"] = [{"groupName": "P"}]
    answer = client.ask(header, json.dumps(both).encode())
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (members(client, "NEW"), members(client, "OLD")) == (ResponseCode.SYSTEM_ERROR, 0)
    assert crowded.node.clients.producer_group("P") is not None


def test_who_cannot_make_a_group_can_leave_it(crowded: Harness) -> None:
    client = crowded.connect()
    heartbeat(client, "OLD")
    assert client.ask(DeleteSubscriptionGroup(group_name="OLD", clean_offset=False)).code == 0
    crowded.node.groups.find("one-more")
    crowded.driver.run()
    assert len(crowded.node.groups) == GROUPS
    assert client.ask(UnregisterClient(client_id="c", consumer_group="OLD")).code == 0
    assert "OLD" not in crowded.node.clients.consumer_groups


# -- many


def test_members_that_all_ask_who_is_there_share_a_turn(tmp_path: Path) -> None:
    """Somebody came: each of them asks (38), and the list is long.  It is made once, and leaves as often as a turn has room."""
    limits = Limits(turn_output_bytes_max=20_000, small_turn_bytes_max=10_000, small_answer_bytes_max=1_000)
    harness = Harness(tmp_path, limits)
    harness.topic("T")
    askers = [harness.connect() for _ in range(40)]
    for number, asker in enumerate(askers):
        header, body = beat(client_id=f"{'c' * 100}-{number}")
        assert asker.ask(header, body).code == 0
    group = harness.node.clients.consumer_group("G")
    assert group is not None
    frames = [(asker, asker.frame(GetConsumerListByGroup(consumer_group="G"))) for asker in askers]
    harness.driver.turn(*frames)
    answered = sum(1 for asker in askers if asker.answers)
    assert 0 < answered <= 20_000 // len(group.id_list()) + 1
    listed = group.id_list()
    harness.driver.run()
    assert all(len(asker.answers) == 1 for asker in askers)
    assert group.id_list() is listed
    askers[0].close()
    assert group.id_list() is not listed


def test_counters_are_not_noted_twice_at_a_time(tmp_path: Path) -> None:
    """While there are many, and others want slices too, the next time comes before the last is over."""
    harness = Harness(tmp_path)
    started: list[Any] = []
    runtime = harness.capability(28)
    real = runtime._stats.sample

    def sample(period_ms: int) -> Any:
        started.append(real(period_ms))
        while True:
            yield

    runtime._stats.sample = sample
    for _ in range(3):
        runtime._sample(10_000)
    runtime._sample(600_000)
    assert len(harness.node.engine._tasks) == 2


def test_slots_are_folded_in_slices(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    stats = harness.capability(28)._stats
    count = FOLD_MAX + 3 * ITEMS_PER_SLICE
    for number in range(count):
        stats.add_put(f"T{number}", 0, 1, 10)
    assert stats.item("TOPIC_PUT_NUMS", "T0") is not None
    assert len(stats._unfolded) == 3 * ITEMS_PER_SLICE
    assert stats.put_now == count
    for number in range(FOLD_MAX):
        stats.add_put(f"T{number}", 0, 1, 10)
    steps = stats.sample(10_000)
    next(steps)
    assert len(stats._unfolded) == FOLD_MAX - ITEMS_PER_SLICE
    list(steps)
    assert (len(stats._unfolded), stats.put_now) == (0, count + FOLD_MAX)


# -- a topic that goes while progress in it is being set


def test_a_reset_ends_where_its_topic_is_deleted(tmp_path: Path) -> None:
    """Who makes the topic again begins anew, as the deletion promised."""
    queues = 400
    harness = Harness(tmp_path)
    harness.topic("T", queues=queues)
    operator, other = harness.connect(), harness.connect()
    assert operator.ask(send(queue_id=queues - 1), b"x").code == 0
    harness.node.groups.find("G")
    harness.driver.run()
    asked = ResetOffset(group="G", topic="T", timestamp=-1, is_force=True, queue_id=-1)
    harness.driver.turn((operator, operator.frame(asked)))
    harness.driver.turn((other, other.frame(DeleteTopic(topic="T"))))
    harness.driver.run()
    [answer] = operator.answers.values()
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert harness.node.offsets.queues("G", "T") is None
    assert not harness.node.offsets.has_resets


def test_a_reset_of_a_topic_that_is_being_dropped_is_found_by_nobody(tmp_path: Path) -> None:
    offsets = Harness(tmp_path).node.offsets
    for number in range(200):
        offsets.assign_reset(f"G{number}", "T", 0, 7)
    work = offsets.dropping_topic("T")
    next(work)
    assert not any(offsets.has_reset(f"G{number}", "T", 0) for number in range(0, 200, 2))
    assert [offsets.take_reset(f"G{number}", "T", 0) for number in range(1, 200, 2)] == [None] * 100
    list(work)


@pytest.mark.parametrize("turns", [1, 4])
def test_what_an_operator_began_is_done_also_when_the_connection_ends(tmp_path: Path, turns: int) -> None:
    """A reset of half of the queues, or a copy of half of the topics, is what nobody wants."""
    queues, topics = 400, 300
    harness = Harness(tmp_path)
    harness.topic("T", queues=queues)
    offsets = harness.node.offsets
    for number in range(topics):
        harness.topic(f"T{number}")
        offsets.commit("G", f"T{number}", 0, number)
    harness.node.groups.find("G")
    harness.driver.run()
    for request in (
        ResetOffset(group="G", topic="T", timestamp=-1, is_force=True, queue_id=-1),
        CloneGroupOffset(src_group="G", dest_group="H", offline=True),
    ):
        client = harness.connect()
        harness.driver.turn((client, client.frame(request)))
        for _ in range(turns):
            harness.driver.turn()
        client.close()
        harness.driver.run()
    assert len(offsets.queues("G", "T") or {}) == queues
    assert len(offsets.topics_of("H")) == topics + 1


def test_work_that_goes_on_hears_what_happens_to_it() -> None:
    heard: list[object] = []
    left: list[Any] = []

    def work() -> Any:
        try:
            yield None
        except ValueError as error:
            heard.append(str(error))
        yield None
        heard.append("end")
        return 5

    wrapped = going_on(work(), left.append)
    next(wrapped)
    wrapped.throw(ValueError("undone"))
    assert finished(wrapped) == 5
    assert (heard, left) == (["undone", "end"], [])
