"""What `rmq lag` makes of what brokers and members say: what is stuck, what is beyond a limit, what has room."""

from __future__ import annotations

from rmq_cli.lag_table import STUCK_MS, Heads, Limits, ago, needs_another_look, plain, text
from rmq_client.groups import GroupLag, QueueLag
from rmq_wire.bodies.consumer_answers import ProcessQueueInfo
from rmq_wire.fastjson import MessageQueue

NOW_MS = 1_800_000_000_000


def queue(
    number: int, *, lag: int = 0, at: int = 10, ordered: bool = True, cached: int = 0, delay_ms: int | None = None
) -> QueueLag:
    held = ProcessQueueInfo(commit_offset=at, cached_msg_count=cached, last_consume_timestamp=NOW_MS - 3_000)
    return QueueLag(MessageQueue("t", "b", number), at + lag, at, NOW_MS - 60_000, delay_ms, "me", ordered, held)


def group(*queues: QueueLag, name: str = "g") -> GroupLag:
    return GroupLag(name, queues, ("me",), ())


def test_a_head_that_stays_is_stuck_and_one_that_moves_is_not() -> None:
    heads = Heads()
    heads.see([group(queue(0, lag=5, cached=5), queue(1, lag=5, cached=5), queue(2, lag=5, cached=5, ordered=False))], NOW_MS)
    later = group(queue(0, lag=5, cached=5), queue(1, lag=5, cached=5, at=11), queue(2, lag=5, cached=5, ordered=False))
    heads.see([later], NOW_MS + STUCK_MS)
    stuck = [heads.stuck_ms("g", one, NOW_MS + STUCK_MS) for one in later.queues]
    assert stuck == [STUCK_MS, None, None]
    assert "stuck on its head at 10 for 2.0 s" in text([later], heads, NOW_MS + STUCK_MS)
    assert heads.stuck_ms("g", queue(0, lag=5, cached=5), NOW_MS + STUCK_MS - 1) is None


def test_a_queue_that_nobody_works_on_or_that_is_empty_is_not_stuck() -> None:
    heads = Heads()
    idle = group(queue(0, lag=5), queue(1, cached=1), QueueLag(MessageQueue("t", "b", 2), 9, 1, None, 5, None, True, None))
    for passed_ms in (0, STUCK_MS):
        heads.see([idle], NOW_MS + passed_ms)
    assert [heads.stuck_ms("g", one, NOW_MS + STUCK_MS) for one in idle.queues] == [None] * 3
    assert needs_another_look([idle])
    assert not needs_another_look([group(queue(0), queue(1, lag=3, ordered=False))])


def test_what_its_owner_says_counts_where_brokers_have_not_heard_yet() -> None:
    ahead = QueueLag(MessageQueue("t", "b", 0), 10, 3, None, None, "me", True, ProcessQueueInfo(commit_offset=7))
    assert (ahead.lag, ahead.next_offset) == (7, 7)


def test_limits_are_of_a_group() -> None:
    late = group(queue(0, lag=3, delay_ms=1_500), queue(1, lag=4, delay_ms=500))
    assert Limits().beyond(late) == []
    assert Limits(7, 1.5).beyond(late) == []
    assert Limits(6).beyond(late) == ["g is 7 messages behind, more than 6"]
    assert Limits(None, 1.4).beyond(late) == ["g has a message that waits for 1.5 s, longer than 1.4 s"]
    assert Limits(0, 0).beyond(group(queue(0))) == []


def test_worst_first_and_what_has_no_room_is_counted() -> None:
    shown = text([group(*(queue(number, lag=number) for number in range(20)))], Heads(), NOW_MS, lines_max=5).splitlines()
    assert shown[0].startswith("g: 190 behind, 1 member")
    assert [line.split()[2:4] for line in shown[2:4]] == [["19", "19"], ["18", "18"]]
    assert shown[4].startswith("… 18 lines more")
    assert len(shown) == 5


def test_where_not_all_groups_have_room_the_worst_comes_first() -> None:
    """Those that are as far behind stay by name; with room for all that is the order."""
    groups = [group(queue(0, lag=lag), name=name) for name, lag in (("a", 0), ("b", 7), ("c", 7), ("d", 9))]

    def names(**room: int) -> list[str]:
        lines = text(groups, Heads(), NOW_MS, **room).splitlines()
        return [line.partition(":")[0] for line in lines if " behind" in line]

    assert names() == ["a", "b", "c", "d"]
    assert names(lines_max=4) == ["d"]
    assert names(lines_max=11) == ["d", "b", "c", "a"]


def test_what_a_member_calls_itself_commands_no_terminal() -> None:
    queues = (QueueLag(MessageQueue("t", "b", 0), 9, 1, None, 5, "me\x1b[2J\n!", False, None),)
    shown = text([GroupLag("g", queues, ("me",), ())], Heads(), NOW_MS)
    assert shown.splitlines()[2].endswith("  me\\x1b[2J\\n!")
    assert "\x1b" not in shown


def test_for_programs() -> None:
    found = plain([group(queue(0, lag=2, delay_ms=9))], Heads(), Limits(1), NOW_MS)
    assert (found["time"], found["lag"], len(found["beyond"])) == (NOW_MS, 2, 1)
    [one] = found["groups"][0]["queues"]
    assert (one["consumerOffset"], one["delayMs"], one["owner"], one["lastConsumed"]) == (10, 9, "me", NOW_MS - 3_000)


def test_spans_of_time() -> None:
    assert [ago(ms) for ms in (-5, 1_500, 120_000, 7_200_000, 864_000_000)] == ["0.0 s", "1.5 s", "2 min", "2 h", "10 d"]


def test_a_line_that_is_wider_than_the_window_is_cut_and_says_first_what_is_stuck() -> None:
    heads, one = Heads(), group(queue(0, lag=5, cached=5))
    heads.see([one], NOW_MS)
    heading, row = text([one], heads, NOW_MS + STUCK_MS).splitlines()[1:]
    assert row.endswith("stuck on its head at 10 for 2.0 s  me")
    assert heading.endswith("owner")
    cut = text([one], heads, NOW_MS + STUCK_MS, columns_max=len(row) - 1).splitlines()
    assert cut[2] == f"{row[:-2]}…"
    assert all(len(line) < len(row) for line in cut)
