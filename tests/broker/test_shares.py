"""What there is of something for all peers together, nobody takes for himself: bytes of a turn, places of waiting pulls."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from broker_impl.engine import shares
from broker_impl.engine.backlogs import Backlogs
from broker_impl.engine.limits import Limits
from broker_impl.engine.shares import CREATIONS_MAX, Large, Shares
from rmq_store.store import NEW_QUEUES_MAX
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command
from rmq_wire.declare import Request
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.query import ViewMessage
from rmq_wire.headers.topics import CreateTopic, DeleteTopic
from tests.support.bare_engine import Server, put, where
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.fake_store import FakeStore
from tests.support.requests import SUBSCRIPTION, SUSPEND, heartbeat, pull, send

HOLDS = 20
TURN_BYTES = 100_000
LARGE = 90_000
SMALL = 2_000
"""More than a few answers without a body."""
CROWD = 40


def test_what_takes_long_is_done_so_often_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the next one waits, until the row of those who wait has its own share."""
    monkeypatch.setattr(shares, "FOUND_MAX", 8)
    limits = Limits()
    subject = Shares(limits, Server(limits=limits).engine._buffers, Backlogs())
    for _ in range(2):
        assert not subject.worked
        subject.one_query()
        subject.queried(6)
        assert not subject.worked
        subject.one_query()
        assert subject.worked, "that is as many as it may find"
        with pytest.raises(Large):
            subject.one_query()
        subject.forget_work()
    subject.one_heavy()
    assert subject.worked
    with pytest.raises(Large):
        subject.one_heavy()
    subject.begin(arrived=1)
    assert not subject.worked
    subject.one_heavy()


def turned(server: Server, *arrived: tuple[Client, bytes]) -> int:
    """One turn; so many bytes of answers were handed out in it."""
    before = sum(client.peer.sent_bytes for client in server.driver.clients.values())
    server.driver.turn(*arrived)
    return sum(client.peer.sent_bytes for client in server.driver.clients.values()) - before


def test_attack_03_a_turn_s_answers_have_an_end_for_all_together() -> None:
    server = Server(limits=Limits(turn_output_bytes_max=TURN_BYTES), store=FakeStore())
    crowd = [server.connect() for _ in range(CROWD)]
    sender, late = server.connect(), server.connect()
    asked = [(client, client.frame(ViewMessage(offset=LARGE))) for client in crowd]
    bytes_of_turns = [turned(server, *asked, (sender, sender.frame(put("sent"))), (late, late.frame(ViewMessage(offset=10))))]
    assert sender.answers, "a send does not wait for the answers of others"
    assert late.answers, "nor does who wants little"
    while not all(client.answers for client in crowd):
        bytes_of_turns.append(turned(server))
        assert len(bytes_of_turns) <= CROWD, "somebody starves"
    assert max(bytes_of_turns) <= TURN_BYTES + LARGE + SMALL


def test_attack_03_who_wants_little_does_not_wait_in_a_row_of_those_who_want_much() -> None:
    """Also when a turn has no room for all that he asks for, and when he is served again later."""
    server = Server(limits=Limits(turn_output_bytes_max=TURN_BYTES, turn_requests_max=1, turn_backlogs_max=7), store=FakeStore())
    crowd = [server.connect() for _ in range(CROWD)]
    modest = server.connect()
    asked = [(client, client.frame(ViewMessage(offset=LARGE))) for client in crowd]
    server.driver.turn(*asked, (modest, b"".join(modest.frame(where(number)) for number in range(3))))
    for answered in (1, 2, 3):
        assert len(modest.answers) == answered
        server.driver.turn()
    again = modest.frame(where(4))
    [command] = modest.peer.conversation.feed(again)
    assert isinstance(command, Command)
    server.engine.serve_again(modest.peer, command.kept())
    server.driver.turn()
    assert len(modest.answers) == 4
    assert not all(client.answers for client in crowd), "the crowd was there all the while"


READ_NOTHING = 400


def test_attack_03_a_small_pull_does_not_wait_behind_large_ones_of_peers_that_do_not_read() -> None:
    """Nor behind those that they ask for later, nor when it comes later; and theirs go on leaving meanwhile."""
    server = Server(limits=Limits(turn_output_bytes_max=TURN_BYTES, turn_backlogs_max=7), store=FakeStore())
    crowd = [server.connect() for _ in range(READ_NOTHING)]
    for client in crowd:
        client.reads = False
    modest = server.connect()
    server.driver.turn(*((client, b"".join(client.frame(ViewMessage(offset=LARGE)) for _ in range(4))) for client in crowd))
    for number in range(1, 50):
        server.driver.turn((modest, modest.frame(ViewMessage(offset=SMALL))))
        assert len(modest.answers) == number, "answered in the turn that it came in"
    server.driver.turn((modest, b"".join(modest.frame(ViewMessage(offset=SMALL)) for _ in range(20))))
    for _ in range(3):
        server.driver.turn()
    assert len(modest.answers) == 49 + 20, "a share of bytes in each turn"
    given = [client.peer.unsent_bytes for client in crowd]
    assert sum(map(bool, given)) >= 50, "a large answer at least leaves in each turn"
    assert max(given) < 2 * LARGE, "nobody has a second one before everybody has one"


def test_attack_03_small_answers_have_an_end_too_and_are_shared() -> None:
    """And do not keep large ones back for ever."""
    server = Server(limits=Limits(turn_output_bytes_max=TURN_BYTES, small_turn_bytes_max=LARGE), store=FakeStore())
    crowd = [server.connect() for _ in range(CROWD)]
    greedy = server.connect()
    small = 60_000
    many = [(client, b"".join(client.frame(ViewMessage(offset=small)) for _ in range(40))) for client in crowd]
    bytes_of_turns = [turned(server, *many, (greedy, b"".join(greedy.frame(ViewMessage(offset=LARGE)) for _ in range(40))))]
    for _ in range(2 * CROWD):
        bytes_of_turns.append(turned(server))
        answered = [len(client.answers) for client in crowd]
        assert max(answered) - min(answered) <= 2, "one after the other"
    assert len(greedy.answers) >= min(answered) // 2, "a large one leaves after two rounds of theirs"
    assert max(bytes_of_turns) <= TURN_BYTES + LARGE + LARGE + small + SMALL


def test_attack_03_who_waits_for_a_large_pull_is_counted_once(tmp_path: Path) -> None:
    """What a pull commits and counts happens when it is answered."""
    harness = Harness(tmp_path, Limits(turn_output_bytes_max=TURN_BYTES))
    harness.topic("T", queues=1)
    harness.topic("Small", queues=1)
    producer = harness.connect()
    producer.ask(send("T"), b"x" * LARGE)
    producer.ask(send("Small"), b"y")
    crowd = [harness.connect() for _ in range(CROWD)]
    modest = harness.connect()
    harness.driver.turn(*((client, client.frame(pull("T"))) for client in crowd), (modest, modest.frame(pull("Small"))))
    assert modest.answers
    assert sum(bool(client.answers) for client in crowd) == 2
    harness.driver.run()
    assert all(len(client.answers[1].body) > LARGE for client in crowd)
    assert harness.capability(pull().code)._stats.get_now == CROWD + 1


def test_who_came_first_is_served_first() -> None:
    server = Server(limits=Limits(turn_output_bytes_max=TURN_BYTES, turn_backlogs_max=7))
    crowd = [server.connect() for _ in range(CROWD)]
    order: list[int] = []
    server.driver.turn(*((client, client.frame(ViewMessage(offset=LARGE))) for client in crowd))
    for _ in range(CROWD):
        order += [place for place, client in enumerate(crowd) if client.answers and place not in order]
        server.driver.turn()
    assert order == list(range(CROWD))


def test_attack_03_waiters_that_are_woken_together_share_turns(tmp_path: Path) -> None:
    harness = Harness(tmp_path, Limits(turn_output_bytes_max=TURN_BYTES))
    harness.topic("T", queues=1)
    crowd = [harness.connect() for _ in range(CROWD)]
    for client in crowd:
        client.send(pull("T", flags=SUBSCRIPTION | SUSPEND))
    producer = harness.connect()
    harness.driver.turn((producer, producer.frame(send("T"), b"x" * LARGE)))
    woken = []
    while not all(client.answers for client in crowd):
        before = sum(bool(client.answers) for client in crowd)
        harness.driver.turn()
        woken.append(sum(bool(client.answers) for client in crowd) - before)
        assert len(woken) <= CROWD + 2
    assert max(woken) <= TURN_BYTES // LARGE + 1
    assert all(len(client.answers.popitem()[1].body) > LARGE for client in crowd)


WAIT = SUBSCRIPTION | SUSPEND


def holding(harness: Harness, client: Client, queues: range) -> list[int]:
    """Have it wait at these queues of T; the codes of what is answered at once."""
    sent = [client.send(pull("T", number, flags=WAIT)) for number in queues]
    return [client.answers.pop(opaque).code for opaque in sent if opaque in client.answers]


def test_attack_27_places_of_waiting_pulls_are_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One who takes them all gives up what is more than his share, oldest first, when others come."""
    monkeypatch.setattr("broker_impl.capabilities.pull.HOLDS_MAX", HOLDS)
    harness = Harness(tmp_path)
    harness.topic("T", queues=2 * HOLDS)
    greedy, modest, other = harness.connect(), harness.connect(), harness.connect()
    assert holding(harness, greedy, range(2 * HOLDS)) == [ResponseCode.SYSTEM_BUSY] * HOLDS
    assert not holding(harness, modest, range(3))
    given_up = [greedy.answers.pop(opaque) for opaque in sorted(greedy.answers)]
    assert [answer.code for answer in given_up] == [ResponseCode.PULL_RETRY_IMMEDIATELY] * 3
    assert [answer.opaque for answer in given_up] == [1, 2, 3]
    assert all(answer.ext_map()["nextBeginOffset"] == "0" for answer in given_up)
    assert holding(harness, greedy, range(3)) == [ResponseCode.SYSTEM_BUSY] * 3, "it has more than its share still"
    assert holding(harness, modest, range(3, HOLDS)) == [ResponseCode.SYSTEM_BUSY] * (HOLDS - 3 - 7), "a half each"
    assert len(holding(harness, other, range(HOLDS))) == HOLDS - HOLDS // 3
    holds = harness.capability(pull().code).holds
    assert len(holds) == HOLDS
    assert holds.count_of(greedy.peer) >= HOLDS // 3
    assert holds.count_of(modest.peer) >= HOLDS // 3
    producer = harness.connect()
    assert producer.ask(send("T", HOLDS), b"x").code == 0
    harness.driver.advance(20_000)
    assert not holds, "everybody is answered once"
    client_left = harness.connect()
    assert not holding(harness, client_left, range(HOLDS))


def test_attack_27_a_pull_with_many_tags_takes_the_places_of_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small requests that rest on a large subscription filled the memory: 4 MB each, without an end."""
    monkeypatch.setattr("broker_impl.capabilities.pull.HOLDS_MAX", HOLDS)
    harness = Harness(tmp_path)
    harness.topic("T", queues=2 * HOLDS)
    client = harness.connect()
    tags = "||".join(f"tag{number}" for number in range(20))
    sent = [client.send(pull("T", number, flags=WAIT, subscription=tags)) for number in range(HOLDS)]
    refused = [client.answers[opaque].code for opaque in sent if opaque in client.answers]
    held = HOLDS - len(refused)
    assert set(refused) == {ResponseCode.SYSTEM_BUSY}
    assert 0 < held <= HOLDS // 5
    assert not holding(harness, harness.connect(), range(held)), "others have their share"


def test_pulls_share_what_their_group_subscribes_to(tmp_path: Path) -> None:
    """Each made a set of its own of the group's tags: 5 ms and 4 MB with what fits into a heartbeat."""
    harness = Harness(tmp_path)
    harness.topic("T", queues=4)
    client = harness.connect()
    heartbeat(client, expression="A")
    for queue_id in range(3):
        assert client.send(pull("T", queue_id, flags=SUSPEND)) not in client.answers
    holds = harness.capability(pull().code).holds
    assert len({id(held.codes) for held in holds.drain()}) == 1


def test_who_left_gives_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_impl.capabilities.pull.HOLDS_MAX", HOLDS)
    harness = Harness(tmp_path)
    harness.topic("T", queues=2 * HOLDS)
    crowd = [harness.connect() for _ in range(HOLDS)]
    for number, client in enumerate(crowd):
        assert not holding(harness, client, range(number, number + 1))
    late = harness.connect()
    assert holding(harness, late, range(1)) == [ResponseCode.SYSTEM_BUSY], "everybody has one; there is nothing to give up"
    crowd[0].close()
    assert not holding(harness, late, range(1))


def test_requests_that_take_tens_of_milliseconds_are_served_few_in_a_turn(tmp_path: Path) -> None:
    """A write of 40 KB held 256 of them, and as many peers as liked could send one: all in one turn."""
    harness = Harness(tmp_path)
    for number in range(CROWD):
        harness.topic(f"T{number}", queues=1)
    crowd, light = [harness.connect() for _ in range(4)], harness.connect()
    share = CROWD // len(crowd)
    asked = [
        (client, b"".join(client.frame(DeleteTopic(topic=f"T{at * share + n}")) for n in range(share)))
        for at, client in enumerate(crowd)
    ]
    left = [len(harness.node.topics)]
    harness.driver.turn(*asked, (light, light.frame(GetMaxOffset(topic=f"T{CROWD - 1}", queue_id=0))))
    assert len(light.answers) == 1, "others do not wait"
    while len(harness.node.topics) > left[0] - CROWD:
        left.append(len(harness.node.topics))
        harness.driver.turn()
    assert max(before - after for before, after in pairwise(left)) <= 2
    harness.driver.run()
    assert [len(client.answers) for client in crowd] == [share] * len(crowd)
    assert all(answer.code == 0 for client in crowd for answer in client.answers.values())


@pytest.mark.parametrize("asked", [lambda name: send(name), lambda name: CreateTopic(**created(name))], ids=["send", "code 17"])
def test_so_many_topics_are_made_in_a_turn(tmp_path: Path, asked: Callable[[str], Request]) -> None:
    """256 sends of one turn, each to a topic that is not there, took 27 to 75 ms; eight peers may do so at a time."""
    harness = Harness(tmp_path)
    harness.topic("T")
    crowd, other = [harness.connect() for _ in range(4)], harness.connect()
    before, turns = len(harness.node.topics), 0
    frames = [b"".join(one.frame(asked(f"new-{at}-{n}"), b"x") for n in range(200)) for at, one in enumerate(crowd)]
    arrived = list(zip(crowd, frames, strict=True))
    queues: set[str] = set()
    while not all(len(one.answers) == 200 for one in crowd):
        was, had = len(harness.node.topics), len(queues)
        harness.driver.turn(*arrived, (other, other.frame(send(), b"y")))
        arrived = []
        queues = {name for name in harness.node.store.topic_names() if harness.node.store.queue_bounds(name, 0)[1]}
        turns += 1
        assert len(harness.node.topics) - was <= 2 * CREATIONS_MAX
        assert len(queues) - had <= NEW_QUEUES_MAX
        assert len(other.answers) == turns, "others are served in each of these turns"
    assert len(harness.node.topics) - before == 800
    harness.driver.run()
    assert {answer.code for one in crowd for answer in one.answers.values()} == {0}
    for at, one in enumerate(crowd):
        assert list(one.answers) == sorted(one.answers), f"peer {at} is answered in the order of its asking"


def created(name: str) -> dict[str, Any]:
    return {
        "topic": name,
        "default_topic": "TBW102",
        "read_queue_nums": 1,
        "write_queue_nums": 1,
        "perm": 6,
        "topic_filter_type": "SINGLE_TAG",
        "order": False,
    }
