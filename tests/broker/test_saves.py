"""Tables are written off the loop: one write for many changes, no answer before its ticket, and a failed one takes back.

A whole broker without threads: jobs wait until the test ends them, the disk is in memory and fails when asked to.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from typing import Any

import pytest

from broker_impl.config import BrokerConfig
from broker_impl.properties import read_properties
from broker_impl.saves import Saves
from broker_impl.state.persisted import PersistedTable
from broker_impl.state.topics import TopicTable
from rmq_store.errors import Closed
from rmq_wire.codes import ResponseCode
from rmq_wire.declare import Request
from rmq_wire.headers.configuration import UpdateBrokerConfig
from rmq_wire.headers.groups import DeleteSubscriptionGroup, UpdateGroupForbidden
from rmq_wire.headers.send_back import ConsumerSendMsgBack
from rmq_wire.headers.topics import DeleteTopic
from tests.broker.saves_kit import BUSY, FAILED, OK, Machine, answered, group, settled, state
from tests.support.engine import Harness
from tests.support.lines import lines_of
from tests.support.memory_disk import Fault
from tests.support.planting import Plant, find, find_by_seed
from tests.support.requests import beat, create_topic, pull, send

DAYS = 60


@pytest.fixture
def machine() -> Machine:
    return Machine()


# --- no answer before the ticket


def creations() -> dict[str, tuple[Request, bytes]]:
    return {
        "topic": (create_topic("New"), b""),
        "topic changed": (create_topic("T", 7), b""),
        "group": group("New"),
        "forbidden": (UpdateGroupForbidden(group="G", topic="T", readable=False), b""),
        "group deleted": (DeleteSubscriptionGroup(group_name="G", clean_offset=True), b""),
        "topic deleted": (DeleteTopic(topic="T"), b""),
        "first send": (send("Fresh"), b"x"),
        "first pull of a group": (pull("T", consumer_group="Readers"), b""),
        "first heartbeat": beat("Readers"),
    }


def no_answer_before_the_ticket() -> None:
    for name, (request, body) in creations().items():
        machine = Machine()
        settled(machine)
        client = machine.connect()
        client.send(request, body)
        machine.driver.run()
        assert not client.answers, f"{name}: answered before the write began"
        while machine.driver.jobs:
            on_disk = machine.disk.crash("synced").contents()
            assert not client.answers, f"{name}: answered before the sync"
            machine.driver.end_job()
            machine.driver.run()
            if client.answers:
                break
        else:
            machine.end_writes()
        assert [code for code in answered(client) if code not in (OK, ResponseCode.PULL_NOT_FOUND)] == [], name
        assert on_disk is not None
        made = state(machine)
        started = state(machine.after())
        for part in ("topics", "groups", "forbidden"):
            assert started[part] == made[part], f"{name}: {part} is not what was acknowledged"


def test_no_answer_leaves_before_its_ticket_has_ended() -> None:
    no_answer_before_the_ticket()


def test_the_same_creation_again_waits_too(machine: Machine) -> None:
    """It changes nothing, and says that the topic is there."""
    one, other = machine.connect(), machine.connect()
    one.send(create_topic("New"))
    other.send(create_topic("New"))
    assert not other.answers
    machine.full()
    machine.end_writes()
    assert answered(one) == answered(other) == [FAILED]


def test_the_registration_hears_of_a_topic_when_it_is_there(machine: Machine) -> None:
    reported: list[str] = []
    machine.node.topics.on_change.append(lambda topics: reported.extend(topic.topic_name for topic in topics))
    client = machine.connect()
    for request in (create_topic("New"), send("Fresh")):
        client.send(request, b"x")
    assert reported == []
    machine.end_writes()
    assert reported == ["New", "Fresh"]
    machine.full()
    client.send(create_topic("Refused"))
    machine.end_writes()
    assert reported == ["New", "Fresh"]


# --- a failed write


def a_failed_write_takes_back() -> None:
    for name, (request, body) in creations().items():
        machine = Machine()
        settled(machine)
        before, written = state(machine), machine.node.store.written_offset
        client, witness = machine.connect(), machine.connect()
        machine.full()
        client.send(request, body)
        machine.end_writes()
        assert answered(client) == [FAILED], name
        assert "could not be written" in (next(iter(client.answers.values())).remark or "")
        assert state(machine) == before, f"{name}: not taken back"
        assert machine.node.store.written_offset == written, f"{name}: a message of it was stored"
        assert state(machine.after()) == before, f"{name}: a start does not find what was before"
        machine.disk.faults = []
        client.send(request, body)
        machine.end_writes()
        assert answered(client)[1] in (OK, ResponseCode.PULL_NOT_FOUND), f"{name}: there is room again"
        assert witness.ask(send("Missing", default_topic="none"), b"x").code == ResponseCode.TOPIC_NOT_EXIST


def test_a_failed_write_is_answered_1_and_taken_back() -> None:
    a_failed_write_takes_back()


def test_what_a_failed_write_leaves_on_the_disk_is_written_over(machine: Machine) -> None:
    """The directory's sync failed, the names had changed: a start would find the topic that was refused."""
    machine.disk.faults = [Fault("sync_directory", path_part="/config")]
    client = machine.connect()
    client.send(create_topic("Refused"))
    machine.end_writes()
    assert answered(client) == [FAILED]
    machine.driver.held = False
    machine.driver.advance(20_000)
    assert "Refused" not in machine.after("all").node.topics
    assert "Refused" not in machine.after("synced").node.topics


def test_changes_that_rest_on_a_failed_one_fall_with_it(machine: Machine) -> None:
    """The second came while the first was written."""
    client = machine.connect()
    client.send(create_topic("New", 4))
    client.send(create_topic("New", 8))
    client.send(DeleteTopic(topic="New"))
    client.send(send("New"), b"x")
    machine.disk.faults = [Fault("write", path_part="topics.json")]
    machine.end_writes()
    assert answered(client) == [FAILED] * 4
    assert "New" not in machine.node.topics
    assert "New" not in machine.after().node.topics


def test_sends_to_a_new_topic_are_stored_in_their_order(machine: Machine) -> None:
    client, other = machine.connect(), machine.connect()
    client.raw(b"".join(client.frame(send("Fresh"), b"%d" % n) for n in range(600)))
    other.raw(b"".join(other.frame(send("Fresh"), b"other %d" % n) for n in range(3)))
    assert not client.answers
    assert machine.node.store.written_offset == 0
    machine.end_writes()
    assert set(answered(client)) == {OK}
    offsets = [int(client.answers[opaque].ext_map()["queueOffset"]) for opaque in sorted(client.answers)]
    assert len(offsets) == 600
    assert offsets == sorted(offsets)


def test_a_message_given_back_waits_for_its_retry_topic(machine: Machine) -> None:
    """Nothing is stored in a topic that may be taken back; likewise for the topic of dead letters."""
    settled(machine)
    client = machine.connect()
    client.send(*beat("G"))  # a member that has subscribed may give back
    machine.end_writes()
    [unit] = machine.stored("T")
    for level, topic in ((0, "%RETRY%G"), (-1, "%DLQ%G")):
        machine.node.topics.delete(topic)
        machine.end_writes()
        written = machine.node.store.written_offset
        machine.full()
        back = ConsumerSendMsgBack(offset=unit.physical_offset, group="G", delay_level=level, origin_topic="T")
        opaque = client.send(back)
        machine.end_writes()
        assert client.answers[opaque].code == FAILED
        assert machine.node.store.written_offset == written
        machine.disk.faults = []
        opaque = client.send(back)
        assert opaque not in client.answers
        machine.end_writes()
        assert client.answers[opaque].code == OK
        assert topic in machine.after().node.topics


def test_a_topic_that_is_deleted_and_made_again_at_once_keeps_its_new_messages(machine: Machine) -> None:
    settled(machine)
    client = machine.connect()
    client.raw(client.frame(DeleteTopic(topic="T")) + client.frame(send("T"), b"new"))
    machine.end_writes()
    assert answered(client) == [OK, OK]
    assert [bytes(unit.body) for unit in machine.stored("T")] == [b"new"]


def test_a_disk_that_hangs_does_not_fill_memory() -> None:
    machine = Machine(limits=Machine().node.engine.limits._replace(saves_waiting_max=8))
    client = machine.connect()
    for number in range(12):
        client.send(send(f"T{number}"), b"x")
        client.send(create_topic(f"U{number}"))
    assert set(answered(client)) == {BUSY}
    refused = len(client.answers)
    assert 24 - 8 <= refused < 24
    machine.end_writes()
    assert answered(client).count(OK) == 24 - refused


@pytest.mark.parametrize("code", [OK, FAILED])
def test_answers_leave_in_slices_and_in_order(code: int) -> None:
    def longest(count: int) -> int:
        machine = Machine()
        settled(machine)
        clients = [machine.connect() for _ in range(4)]
        for client in clients:
            client.raw(b"".join(client.frame(create_topic("New")) for _ in range(count)))
        clients[0].raw(b"".join(clients[0].frame(send("New"), b"%d" % number) for number in range(50)))
        if code == FAILED:
            machine.full()
        machine.driver.end_job()
        pieces = [lines_of(machine.driver.turn) for _ in range(3)]
        if code == OK:
            clients[0].raw(clients[0].frame(send("New"), b"late"))
            machine.end_writes()
            assert [bytes(unit.body) for unit in machine.stored("New")] == [*(b"%d" % n for n in range(50)), b"late"]
        machine.end_writes()
        assert all(list(client.answers) == sorted(client.answers) and {*answered(client)} == {code} for client in clients)
        return max(pieces)

    assert longest(1_000) < 1.3 * longest(250)


def test_a_stop_waits_for_what_is_being_written(machine: Machine) -> None:
    client = machine.connect()
    client.send(create_topic("New"))
    machine.node.engine.drain()
    assert not machine.node.engine.drained
    machine.end_writes()
    assert machine.node.engine.drained
    assert answered(client) == [OK]


def test_the_configuration_file_is_written_off_the_loop(tmp_path: Any) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("")
    harness = Harness(tmp_path / "store", path=path)
    harness.driver.held = True
    client = harness.connect()
    opaque = client.send(UpdateBrokerConfig(), b"maxMessageSize=1000\n")
    assert opaque not in client.answers
    assert path.read_text() == ""
    harness.driver.end_job()
    harness.driver.run()
    assert client.answers[opaque].code == OK
    assert "maxMessageSize=1000" in path.read_text()


def test_a_change_of_the_configuration_whose_file_cannot_be_written_is_taken_back(tmp_path: Any) -> None:
    """All that the file does not have, newest first; who obeys the configuration hears of it."""
    path = tmp_path / "broker.conf"
    path.write_text("")
    harness = Harness(tmp_path / "store", path=path)
    config, client = harness.node.config, harness.connect()
    assert client.ask(UpdateBrokerConfig(), b"brokerPermission=4\n").code == OK
    text = path.read_text()
    heard: list[set[str]] = []
    config.on_update.append(heard.append)
    harness.driver.held = True
    for change in (b"fileReservedTime=11\nmaxMessageSize=7000\n", b"fileReservedTime=12\nbrokerPermission=6\n"):
        client.send(UpdateBrokerConfig(), change)
    before, heard[:] = config.data_version.copy(), []
    harness.driver.end_job(OSError(errno.ENOSPC, "No space left on device"))
    harness.driver.run()
    assert answered(client) == [FAILED, FAILED]
    assert (config.file_reserved_time, config.broker_permission) == (72, 4)
    assert (config.text("maxMessageSize"), config.is_set("fileReservedTime")) == ("4194304", False)
    assert set().union(*heard) == {"fileReservedTime", "brokerPermission", "maxMessageSize"}
    assert config.data_version != before, "whoever has copied it must look again"
    assert path.read_text() == text
    assert harness.node.announcement.offered(harness.node.topics.table.values()), "it is still registered"
    harness.driver.held = False
    harness.stop()
    assert BrokerConfig(read_properties(path.read_bytes())).file_reserved_time == 72


# --- chance


def a_day(seed: int) -> None:
    """Creations, deletions and sends of three clients in any order beside writes that end, fail, or end late; then a cut.

    What was answered with 0 is as the answer said; what was answered with 1 is nowhere; and the other way round in memory.
    """
    chance = random.Random(seed)
    machine = Machine()
    clients = [machine.connect() for _ in range(3)]
    asked: dict[tuple[int, int], tuple[str, str]] = {}
    answers: dict[tuple[int, int], int] = {}
    for _ in range(40):
        doing = chance.random()
        if doing < 0.6:
            number = chance.randrange(3)
            name = f"T{number}-{chance.randrange(4)}"
            if any(said[1] == name and opaque not in clients[client].answers for (client, opaque), said in asked.items()):
                continue  # who asks two things of one topic at once has no order to count on
            kind, request, body = chance.choice(
                [("made", create_topic(name), b""), ("made", send(name), b"x"), ("gone", DeleteTopic(topic=name), b"")]
            )
            asked[number, clients[number].send(request, body)] = kind, name
        elif machine.driver.jobs:
            bad = chance.random() < 0.3
            machine.disk.faults = [Fault("write", path_part="topics.json")] if bad else []
            machine.driver.end_job()
            machine.driver.run()
    machine.disk.faults = []
    machine.end_writes()
    for number, client in enumerate(clients):
        answers.update({(number, opaque): answer.code for opaque, answer in client.answers.items()})
    assert answers.keys() == asked.keys(), "each is answered once"
    last: dict[str, str] = {}
    for place, said in asked.items():
        if answers[place] == OK:
            last[said[1]] = said[0]
    for harness in (machine, machine.after("synced"), machine.after("all")):
        there = {name for name in harness.node.topics.table if name.startswith("T") and "-" in name}
        assert there == {name for name, kind in last.items() if kind == "made"}
    for name in there:
        assert all(bytes(unit.body) == b"x" for unit in machine.stored(name))


def test_days_of_chance() -> None:
    for seed in range(DAYS):
        try:
            a_day(seed)
        except AssertionError as wrong:
            wrong.add_note(f"seed {seed}")
            raise


# --- planted bugs


def answered_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    rest = Saves.rest

    def planted(self: Saves, peer: Any, command: Any, answer: Any, *, staged: bool) -> bool:
        self.touched.clear()
        return rest(self, peer, command, answer, staged=staged)

    patch.setattr(Saves, "rest", planted)


def answered_when_the_write_begins(patch: pytest.MonkeyPatch) -> None:
    encoded = Saves._encoded

    def planted(self: Saves, table: PersistedTable, chunks: Any, error: BaseException | None) -> None:
        while self._waiting[table]:
            self._waiting[table].popleft()[1](None)
        encoded(self, table, chunks, error)

    patch.setattr(Saves, "_encoded", planted)


def not_taken_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PersistedTable, "take_back", lambda self: 0)


def stored_before_its_topic(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TopicTable, "require_saved", lambda self, name: None)


def failure_passed_over(patch: pytest.MonkeyPatch) -> None:
    ended = Saves._ended

    def planted(self: Saves, table: PersistedTable, _result: object, error: BaseException | None) -> None:
        ended(self, table, _result, None)

    patch.setattr(Saves, "_ended", planted)


def later_changes_counted_in(patch: pytest.MonkeyPatch) -> None:
    """What was changed after the document was taken counts as written."""

    def planted(self: PersistedTable) -> None:
        self._written = self.changes
        self._undos.clear()

    patch.setattr(PersistedTable, "written", planted)


BY_TEST: dict[Plant, Callable[[], None]] = {
    answered_before_the_sync: no_answer_before_the_ticket,
    answered_when_the_write_begins: no_answer_before_the_ticket,
    not_taken_back: a_failed_write_takes_back,
    stored_before_its_topic: no_answer_before_the_ticket,
    failure_passed_over: a_failed_write_takes_back,
}
SEEDS_OF_BUGS: dict[Plant, int] = {
    answered_before_the_sync: 0,
    answered_when_the_write_begins: 2,
    not_taken_back: 0,
    stored_before_its_topic: 0,
    failure_passed_over: 2,
    later_changes_counted_in: 1,
}
"""Bug: the first day of chance that finds it."""


@pytest.mark.parametrize("plant", BY_TEST, ids=lambda plant: plant.__name__)
def test_planted_and_found_by_a_test(plant: Plant) -> None:
    find(plant, BY_TEST[plant])


@pytest.mark.parametrize("plant", SEEDS_OF_BUGS, ids=lambda plant: plant.__name__)
def test_planted_bugs_are_found(plant: Plant) -> None:
    find_by_seed(plant, a_day, [SEEDS_OF_BUGS[plant]])


@pytest.mark.nightly
@pytest.mark.parametrize("plant", SEEDS_OF_BUGS, ids=lambda plant: plant.__name__)
def test_the_pinned_seed_is_the_first(plant: Plant) -> None:
    assert find_by_seed(plant, a_day, range(DAYS)) == SEEDS_OF_BUGS[plant]


def test_a_table_that_would_grow_older_fences_the_store(machine: Machine) -> None:
    """An invariant: what the disk has is not newer than what is in memory."""
    client = machine.connect()
    opaque = client.send(create_topic("T"))
    machine.driver.run()
    machine.node.topics._in_writing = machine.node.topics.changes + 1
    machine.end_writes()
    assert client.answers[opaque].code == FAILED
    assert "a table on the disk grows newer, up to the one in memory: topics.json" in machine.node.store.refusal_text
    assert machine.node.store.refusal is Closed.FENCED
