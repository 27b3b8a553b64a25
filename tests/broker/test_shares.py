"""What there is of something for all peers together, nobody takes for himself: bytes of a turn, places of waiting pulls."""

from __future__ import annotations

from pathlib import Path

from broker_impl.limits import Limits
from rmq_wire.headers.query import ViewMessage
from tests.support.bare_engine import Server, put
from tests.support.driver import Client
from tests.support.engine import House
from tests.support.fake_store import FakeStore
from tests.support.requests import SUBSCRIPTION, SUSPEND, pull, send

TURN_BYTES = 100_000
LARGE = 90_000
SMALL = 2_000
"""More than a few answers without a body."""
CROWD = 40


def turned(server: Server, *arrived: tuple[Client, bytes]) -> int:
    """One turn; so many bytes of answers were handed out in it."""
    before = sum(client.peer.sent_bytes for client in server.driver.clients.values())
    server.driver.turn(*arrived)
    return sum(client.peer.sent_bytes for client in server.driver.clients.values()) - before


def test_a_turn_s_answers_have_an_end_for_all_together() -> None:
    server = Server(limits=Limits(turn_output_bytes_max=TURN_BYTES), store=FakeStore())
    crowd = [server.connect() for _ in range(CROWD)]
    sender, late = server.connect(), server.connect()
    asked = [(client, client.frame(ViewMessage(offset=LARGE))) for client in crowd]
    bytes_of_turns = [turned(server, *asked, (sender, sender.frame(put("sent"))), (late, late.frame(ViewMessage(offset=10))))]
    assert sender.answers, "a send does not wait for the answers of others"
    assert not late.answers
    while not all(client.answers for client in crowd):
        bytes_of_turns.append(turned(server))
        assert len(bytes_of_turns) <= CROWD, "somebody starves"
    server.driver.run()
    assert late.answers
    assert max(bytes_of_turns) <= TURN_BYTES + LARGE + SMALL


def test_who_came_first_is_served_first() -> None:
    server = Server(limits=Limits(turn_output_bytes_max=TURN_BYTES, turn_backlogs_max=7))
    crowd = [server.connect() for _ in range(CROWD)]
    order: list[int] = []
    server.driver.turn(*((client, client.frame(ViewMessage(offset=LARGE))) for client in crowd))
    for _ in range(CROWD):
        order += [place for place, client in enumerate(crowd) if client.answers and place not in order]
        server.driver.turn()
    assert order == list(range(CROWD))


def test_waiters_that_are_woken_together_share_turns(tmp_path: Path) -> None:
    house = House(tmp_path, Limits(turn_output_bytes_max=TURN_BYTES))
    house.topic("T", queues=1)
    crowd = [house.connect() for _ in range(CROWD)]
    for client in crowd:
        client.send(pull("T", flags=SUBSCRIPTION | SUSPEND))
    producer = house.connect()
    house.driver.turn((producer, producer.frame(send("T"), b"x" * LARGE)))
    woken = []
    while not all(client.answers for client in crowd):
        before = sum(bool(client.answers) for client in crowd)
        house.driver.turn()
        woken.append(sum(bool(client.answers) for client in crowd) - before)
        assert len(woken) <= CROWD + 2
    assert max(woken) <= TURN_BYTES // LARGE + 1
    assert all(len(client.answers.popitem()[1].body) > LARGE for client in crowd)
