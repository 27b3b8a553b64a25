"""What the engine does as time passes: deadlines, sweeps, questions to clients, long work.  Time is a number that tests set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_impl.engine.deadlines import Deadline, Deadlines
from broker_impl.engine.limits import Limits
from rmq_wire.codes import RequestCode
from rmq_wire.headers.clients import GetConsumerListByGroup, NotifyConsumerIdsChanged, UnregisterClient
from rmq_wire.headers.query import ViewMessage
from tests.support.bare_engine import Server, answer_of, response, where

UNREGISTER = UnregisterClient(client_id="c")


# Deadlines


def test_deadlines_happen_in_order_once_and_not_when_cancelled() -> None:
    server = Server()
    now = server.env.mono_ms
    seen: list[object] = []
    for ms in (30, 10, 20, 10):
        server.engine.at(now + ms, lambda ms=ms: seen.append((ms, server.env.mono_ms - now)))  # type: ignore[misc]
    server.engine.at(now + 15, lambda: seen.append("never")).cancel()
    server.driver.advance(100)
    assert seen == [(10, 10), (10, 10), (20, 20), (30, 30)]


def test_a_period_survives_errors_and_does_not_pile_up() -> None:
    server = Server()
    seen: list[int] = []

    def tick() -> None:
        seen.append(server.env.mono_ms)
        raise RuntimeError("a bug")

    ticking = server.engine.every(100, tick, first_ms=10)
    server.driver.advance(250)
    assert seen == [1010, 1110, 1210]
    server.env.advance(1000)
    server.driver.run()
    assert len(seen) == 4
    ticking.cancel()
    server.driver.advance(1000)
    assert len(seen) == 4


def test_wall_clock_jumps_move_no_deadline() -> None:
    """V15: deadlines use the monotonic clock."""
    server = Server()
    client = server.connect()
    client.ask(where(1))
    seen: list[int] = []
    server.engine.at(server.env.mono_ms + 100, lambda: seen.append(1))
    server.env.wall_ms += 25 * 365 * 86_400_000
    server.driver.run()
    assert not seen
    assert not client.closed
    server.env.wall_ms -= 50 * 365 * 86_400_000
    server.driver.advance(100)
    assert seen == [1]
    server.driver.advance(119_899)
    assert not client.closed
    server.driver.advance(1)
    assert client.closed


def test_many_deadlines_at_once_are_spread_over_turns() -> None:
    server = Server(limits=Limits(due_max=10))
    seen: list[int] = []
    for n in range(25):
        server.engine.at(server.env.mono_ms, lambda n=n: seen.append(n))  # type: ignore[misc]
    server.driver.turn()
    assert seen == list(range(10))
    server.driver.run()
    assert seen == list(range(25))


def test_what_enters_at_once_waits_for_the_next_turn() -> None:
    """Who goes on and on has a piece in each turn, and not the turn."""
    heap = Deadlines()
    seen: list[int] = []

    def again() -> None:
        seen.append(len(seen))
        heap.at(10, again)
        heap.at(5, lambda: seen.append(-1))

    heap.at(10, again)
    heap.at(10, lambda: seen.append(-2))
    for expected in ([0, -2], [0, -2, 2, -1], [0, -2, 2, -1, 4, -1]):
        for action in heap.due(10, 1_000):
            action()
        assert seen == expected
        assert heap.next() == 10


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=3000))
def test_cancelled_deadlines_leave_nothing_behind(entries: list[tuple[int, bool]]) -> None:
    heap = Deadlines()
    seen: list[int] = []
    kept = []
    made: list[Deadline] = []
    for n, (due, cancelled) in enumerate(entries):
        made.append(heap.at(due, lambda n=n: seen.append(n)))  # type: ignore[misc]
        if not cancelled:
            kept.append((due, n))
    for deadline, (_due, cancelled) in zip(made, entries, strict=True):
        if cancelled:
            deadline.cancel()
            deadline.cancel()
    assert len(heap) == len(kept)
    assert heap.next() == min((due for due, _n in kept), default=None)
    for action in heap.due(50, 10_000):
        action()
    assert seen == [n for _due, n in sorted(kept)]
    assert heap.next() is None


def test_a_large_heap_forgets_cancelled_entries() -> None:
    heap = Deadlines()
    deadlines = [heap.at(n, lambda: None) for n in range(10_000)]
    for deadline in deadlines[:-1]:
        deadline.cancel()
    assert len(heap._heap) < 2048
    assert heap.next() == 9_999


# Sweeps


def test_an_idle_peer_is_closed_after_120_s_and_not_before() -> None:
    server = Server()
    idle, beating = server.connect(), server.connect()
    idle.ask(where(1))
    beating.ask(where(1))
    for _ in range(3):
        server.driver.advance(39_990)
        beating.ask(where(1))
    assert not idle.closed
    server.driver.advance(30)
    assert idle.closed
    assert not beating.closed


@pytest.mark.parametrize("sent", [b"", b"\x00\x00", b"\x00\x00\x00\x40\x00\x00\x00\x20half"])
def test_a_peer_without_a_first_frame_is_closed_after_10_s(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    server = Server()
    client = server.connect()
    if sent:
        client.raw(sent)
    server.driver.advance(9_999)
    assert not client.closed
    server.driver.advance(1)
    assert client.closed
    assert f"{client.peer.remote[1]} closed: no complete frame" in caplog.text


def test_half_a_frame_and_silence_is_closed_within_a_minute() -> None:
    server = Server()
    client = server.connect()
    client.ask(where(1))
    client.raw(client.frame(where(2))[:20])
    server.driver.advance(29_000)
    assert not client.closed
    server.driver.advance(32_000)
    assert client.closed


@pytest.mark.parametrize(("bytes_per_s", "survives"), [(1, False), (1000, False), (1100, True)])
def test_a_started_frame_must_progress(bytes_per_s: int, survives: bool) -> None:
    server = Server()
    client = server.connect()
    client.ask(where(1))
    client.raw((1_000_000).to_bytes(4, "big") + (10).to_bytes(4, "big"))
    for _ in range(200):
        server.driver.advance(1000)
        if client.closed:
            break
        client.raw(b"x" * bytes_per_s)
    assert client.closed is not survives


def test_memory_follows_received_bytes_and_not_the_announced_length() -> None:
    server = Server()
    client = server.connect()
    client.raw((16_777_212).to_bytes(4, "big") + (10).to_bytes(4, "big") + b"x" * 10)
    assert client.peer.conversation.bytes_pending == 18


def test_a_peer_that_takes_no_answer_is_closed_and_one_that_reads_slowly_is_not() -> None:
    server = Server()
    deaf, slow = server.connect(), server.connect()
    for client in (deaf, slow):
        client.ask(where(1))
        client.reads = False
        client.send(ViewMessage(offset=10_000))
    for _ in range(7):
        server.driver.advance(9_000)
        slow.peer.sent_bytes += 100
        slow.peer.unsent_bytes -= 100
    assert not deaf.closed
    for _ in range(2):
        server.driver.advance(9_000)
        slow.peer.sent_bytes += 100
        slow.peer.unsent_bytes -= 100
    assert deaf.closed
    assert not slow.closed


def test_two_thousand_idle_peers_are_looked_at_rarely() -> None:
    server = Server()
    clients = [server.connect() for _ in range(2000)]
    for client in clients:
        client.ask(where(1))
    turns = 0
    end = server.env.mono_ms + 60_000
    while (due := server.engine.next_deadline()) is not None and due <= end:
        server.env.advance(max(due - server.env.mono_ms, 0))
        server.driver.turn()
        turns += 1
    assert turns <= 32, "looks coincide: all were connected in the same millisecond"
    assert not any(client.closed for client in clients)


# Questions


def test_a_client_is_asked_and_the_asker_gets_its_answer() -> None:
    server = Server()
    asker, one, two = server.connect(), server.connect(), server.connect()
    one.on_request = lambda request: answer_of(11)
    two.on_request = lambda request: answer_of(22)
    assert asker.ask(UNREGISTER).remark == "11,22"
    assert [request.code for request in one.asked] == [RequestCode.GET_MAX_OFFSET]
    server.driver.advance(10_000)
    assert server.engine.counters.errors == 0


def test_a_silent_client_ends_its_question_at_the_deadline_and_a_late_answer_is_dropped() -> None:
    server = Server()
    asker, silent = server.connect(), server.connect()
    opaque = asker.send(UNREGISTER)
    server.driver.advance(2999)
    assert not asker.answers
    server.driver.advance(1)
    assert asker.answers[opaque].remark == "None"
    silent.raw(response(silent.asked[0].opaque))
    assert server.engine._client_requests.unasked == 1
    assert silent.peer.client_requests == 0


def test_a_question_ends_with_its_connection() -> None:
    server = Server()
    asker, leaving = server.connect(), server.connect()
    opaque = asker.send(UNREGISTER)
    leaving.close()
    assert asker.answers[opaque].remark == "None"


def test_the_questions_of_those_who_went_end_some_in_each_turn() -> None:
    """Ten thousand replies may wait for one client, and each is stored then."""
    server = Server(limits=Limits(due_max=3))
    heard: list[object] = []
    leaving = [server.connect() for _ in range(2)]
    for client in leaving:
        for _ in range(4):
            server.engine.ask(
                client.peer, NotifyConsumerIdsChanged(consumer_group="g"), timeout_ms=1_000, then=heard.append, counted=False
            )
    server.driver.run()
    for client in leaving:
        server.engine.closed(client.peer, "closed by the peer")
    seen = []
    for _ in range(3):
        server.driver.turn()
        seen.append(len(heard))
    server.driver.advance(1_000)
    assert (seen, heard) == ([3, 6, 8], [None] * 8)


def test_an_answer_counts_only_from_the_peer_that_was_asked() -> None:
    server = Server()
    asker, asked = server.connect(), server.connect()
    forger = server.connect()
    forger.on_request = lambda request: answer_of(1)
    opaque = asker.send(UNREGISTER)
    forger.raw(response(asked.asked[0].opaque))
    server.driver.advance(3000)
    assert asker.answers[opaque].remark == "1,None"


def test_open_questions_are_limited() -> None:
    server = Server(limits=Limits(client_requests_max=1))
    asker, silent = server.connect(), server.connect()
    first, second = asker.send(UNREGISTER), asker.send(UNREGISTER)
    assert list(asker.answers) == [second]
    assert len(silent.asked) == 1
    server.driver.advance(3000)
    assert first in asker.answers


def test_a_question_that_fits_into_no_frame_is_none() -> None:
    server = Server()
    client = server.connect()
    heard: list[object] = []
    for _ in range(2):
        with pytest.raises(ValueError, match="a frame of"):
            server.engine.ask(
                client.peer, NotifyConsumerIdsChanged(consumer_group="g"), bytes(17 << 20), timeout_ms=1_000, then=heard.append
            )
    server.driver.advance(10_000)
    assert (client.peer.client_requests, heard, server.engine.counters.errors) == (0, [], 0)


def test_a_notice_is_one_way() -> None:
    server = Server()
    client = server.connect()
    server.engine.send_oneway(client.peer, NotifyConsumerIdsChanged(consumer_group="g"))
    server.driver.run()
    [notice] = client.asked
    assert (notice.code, notice.is_oneway) == (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, True)


def test_who_listens_hears_that_a_peer_has_gone() -> None:
    server = Server()
    gone: list[int] = []

    def bad(peer: object) -> None:
        raise RuntimeError("a bug")

    server.engine.on_peer_closed(bad)
    server.engine.on_peer_closed(lambda peer: gone.append(peer.id))
    first, second = server.connect(), server.connect()
    second.close()
    first.raw(b"\xff" * 8)
    assert gone == [2, 1]
    assert not server.engine.peers


# Long work


def test_long_work_goes_on_in_slices_between_other_requests() -> None:
    server = Server()
    long, quick = server.connect(), server.connect()
    server.driver.turn((long, long.frame(GetConsumerListByGroup(consumer_group="5"))))
    server.driver.turn((quick, quick.frame(where(1))))
    assert quick.answers[1].code == 0
    assert not long.answers
    assert server.engine.next_deadline() == server.env.mono_ms
    server.driver.run()
    assert long.answers[1].remark == "done"
    assert [step for step in server.kit.seen if isinstance(step, int)] == list(range(5))


def test_long_work_ends_with_its_asker() -> None:
    server = Server()
    client = server.connect()
    server.driver.turn((client, client.frame(GetConsumerListByGroup(consumer_group="1000000"))))
    client.close()
    assert len(server.kit.seen) <= 2
    assert not server.engine._tasks


def test_a_peer_has_some_long_works_at_once_and_its_next_request_waits() -> None:
    server = Server()
    most = server.engine.limits.tasks_of_peer_max
    greedy, quick = server.connect(), server.connect()
    long = GetConsumerListByGroup(consumer_group="5")
    server.driver.turn((greedy, b"".join([*(greedy.frame(long) for _ in range(100)), greedy.frame(where(7))])))
    assert (greedy.peer.tasks, len(server.engine._tasks)) == (most, most), "a listing each in memory"
    assert greedy.peer.congested, "nothing more is read"
    tasks = []
    while len(greedy.answers) < 101:
        server.driver.turn((quick, quick.frame(where(1))))
        tasks.append(greedy.peer.tasks)
    assert max(tasks) == most
    assert len(quick.answers) == len(tasks), "others are served each turn"
    assert list(greedy.answers).index(101) > 100 - most, "what waits comes in its turn"
    assert greedy.peer.tasks == 0
    assert not greedy.peer.congested


def test_a_peer_that_goes_while_it_is_held_leaves_nothing() -> None:
    server = Server()
    greedy = server.connect()
    server.driver.turn((greedy, b"".join(greedy.frame(GetConsumerListByGroup(consumer_group="1000000")) for _ in range(100))))
    greedy.close()
    assert not server.engine._tasks
    assert not server.engine._backlogs


def test_a_bug_in_long_work_is_its_asker_s_answer() -> None:
    server = Server()
    client = server.connect()
    assert client.ask(GetConsumerListByGroup(consumer_group="x")).remark == (
        "ValueError: invalid literal for int() with base 10: 'x'"
    )


def test_a_background_task_of_our_own_reports_its_end() -> None:
    server = Server()
    ends: list[object] = []

    def work(error: bool):  # type: ignore[no-untyped-def]
        yield
        if error:
            raise ValueError("bad")
        return 5

    server.engine.in_background(work(False), lambda result, error: ends.append((result, str(error))))
    server.engine.in_background(work(True), lambda result, error: ends.append((result, str(error))))
    server.driver.run()
    assert ends == [(5, "None"), (None, "bad")]


@pytest.mark.parametrize(("peers", "slices"), [(0, 1), (1, 1), (8, 2), (16, 3), (99, 4)])
def test_background_tasks_get_a_slice_and_more_beside_much_else(peers: int, slices: int) -> None:
    """Who asks alone waits for one, and a crowd does not keep them from going on."""
    server = Server()
    clients = [server.connect() for _ in range(peers)]
    ran: list[int] = []

    def work(number: int):  # type: ignore[no-untyped-def]
        while True:
            ran.append(number)
            yield

    for number in range(6):
        server.engine.in_background(work(number))
    frame = clients[0].frame(where(1)) if clients else b""
    for turn in range(1, 4):
        server.engine.turn([(client.peer, frame) for client in clients])
        server.engine.settle()
        assert ran == [number % 6 for number in range(turn * slices)]
