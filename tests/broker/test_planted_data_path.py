"""Bugs planted into the data path, each caught by a test that otherwise passes.

A row names the test that must fail and what is done to the code before it runs.  The tests themselves, without the bug, are run
where they stand; numbers like V6 and S34 are those of the list of bugs that the suite must catch.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_impl.capabilities.pull import Pull
from broker_impl.capabilities.schedule import Schedule
from broker_impl.capabilities.send_back import SendBack
from broker_impl.intake import Message
from broker_impl.state.delay_offsets import DelayOffsets
from broker_impl.state.holds import Held, Holds
from broker_impl.wakes import Wakes
from rmq_store.log.commit_log import CommitLog
from rmq_store.log.draft import Draft
from rmq_store.read.lookup import Lookup
from rmq_wire.batch import Item, pack_items
from rmq_wire.properties import decode
from tests.support.delay_bugs import progress_is_not_clamped
from tests.support.engine import Harness
from tests.support.node_ids import function_of
from tests.support.planting import FAILURES, Errors, Plant, find
from tests.support.requests import SUBSCRIPTION, SUSPEND, batch, pairs, pull, send

Check = Callable[[Harness, pytest.MonkeyPatch], None]


def found_by(module: str, test: str, *more: object) -> Check:
    """A test of this room that gets a harness."""
    function = function_of(f"tests/broker/{module}.py::{test}")
    return lambda harness, _: function(harness, *more)


def plain(harness: Harness) -> Harness:
    harness.topic("T")
    return harness


def with_a_message(harness: Harness) -> Harness:
    harness.topic("T")
    harness.connect().ask(send(properties=pairs(UNIQ_KEY="K" * 32)), b"once more")
    return harness


def with_tagged_messages(harness: Harness) -> Harness:
    harness.topic("T")
    client = harness.connect()
    for number in range(5):
        client.ask(send(properties=pairs(TAGS="AB"[number % 2])), f"m{number}".encode())
    return harness


# S34: a part of a batch can be seen without the rest


def a_batch_is_never_torn(harness: Harness, _: pytest.MonkeyPatch) -> None:
    """A batch that does not fit into what is left of a file goes into the next one as a whole."""
    client = harness.connect()
    file_bytes = harness.node.config.mapped_file_size_commit_log
    while file_bytes - harness.node.store.written_offset > 3_000:
        client.ask(send(queue_id=1), b"x" * 1_000)
    request, body = batch(*[Item(0, b"y" * 500, b"")] * 8)
    assert len(pack_items([Item(0, b"y" * 500, b"")] * 8)) == len(body)
    client.ask(request, body)
    assert {unit.physical_offset // file_bytes for unit in harness.stored("T", 0)} == {1}


def no_room_made(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommitLog, "make_room", lambda *_: None)


# Pulls


def held_pulls_ignore_the_output_cap(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Pull, "_wake", lambda self, held: self._look_again(held.asked, held.pending, first=False))


def arrivals_wake_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Holds, "arrived", lambda *_: [])


def arrivals_wake_everybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("broker_impl.state.holds._Choosy.wanting", lambda self, *_: list(self))


def the_sweep_finds_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Holds, "behind", lambda *_: [])


def a_woken_pull_waits_again(patch: pytest.MonkeyPatch) -> None:
    real = Pull._look
    patch.setattr(Pull, "_look", lambda self, asked, pending, *, first: real(self, asked, pending, first=True))


def time_never_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Wakes, "_set_alarm", lambda _: None)


def those_who_left_are_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Holds, "of_peer", lambda *_: [])


def time_ends_early(patch: pytest.MonkeyPatch) -> None:
    real = Held.__init__

    def early(self: Held, *arguments: Any, deadline_ms: int, **more: Any) -> None:
        real(self, *arguments, deadline_ms=deadline_ms - 1_000, **more)

    patch.setattr(Held, "__init__", early)


def all_are_woken_in_one_turn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("broker_impl.wakes.WAKES_PER_TURN", 1 << 30)


def the_woken_are_held_as_well(patch: pytest.MonkeyPatch) -> None:
    real = Holds.more

    def more(self: Holds) -> list[Held]:
        woken = real(self)
        for held in woken:
            self.add(held)
        return woken

    patch.setattr(Holds, "more", more)


def the_last_one_goes_first(patch: pytest.MonkeyPatch) -> None:
    real = Holds.more
    patch.setattr(Holds, "more", lambda self: real(self)[::-1])


def any_commit_is_stored(patch: pytest.MonkeyPatch) -> None:
    def commit(self: Pull, asked: Any, peer: Any, read: Any, *, first: bool) -> None:
        self._offsets.commit(asked.consumer_group, asked.topic, asked.queue_id, asked.commit_offset)

    patch.setattr(Pull, "_commit", commit)


# Messages given back


def any_place_is_believed(patch: pytest.MonkeyPatch) -> None:
    real = Lookup.unit
    patch.setattr(Lookup, "unit", lambda self, at, checked: real(self, at, False))


def anybody_s_message_is_given_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SendBack, "_check_belongs", lambda *_: None)


# Delay levels


def progress_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    real: Any = Schedule._written
    patch.setattr(Schedule, "_written", lambda self, *arguments: real(self, *arguments[:-1], None))


def progress_written_before_its_copies(patch: pytest.MonkeyPatch) -> None:
    real = DelayOffsets.__init__
    patch.setattr(DelayOffsets, "__init__", lambda self, flushed, **more: real(self, lambda: 1 << 62, **more))


def delivered_copies_are_delayed_again(patch: pytest.MonkeyPatch) -> None:
    real = Schedule._readdress

    def readdress(self: Schedule, draft: Draft) -> None:
        real(self, draft)
        values = decode(draft.properties.decode())
        message = Message(
            draft.topic,
            draft.queue_id,
            draft.body,
            values,
            flag=0,
            sys_flag=0,
            born_timestamp=draft.born_timestamp,
            born_host=draft.born_host,
            reconsume_times=0,
        )
        self._intake.divert(message, self._env.wall_ms)
        draft.topic, draft.queue_id = message.topic, message.queue_id
        draft.deliver_delay_ms = self._delays[message.queue_id + 1]

    patch.setattr(Schedule, "_readdress", readdress)


def delivered_a_second_early(patch: pytest.MonkeyPatch) -> None:
    real = Schedule._due
    patch.setattr(Schedule, "_due", lambda self, level, rows: real(self, level, [(*row[:2], row[2] - 500) for row in rows]))


FAILING_APPEND = "tests/broker/test_schedule.py::test_a_failing_append_is_tried_again_and_nothing_is_passed_over"
COPIES_ARE_SAFE = "tests/broker/test_delay_offsets.py::test_progress_is_written_when_its_copies_are_safe"
ROWS: list[tuple[Check, Plant, Callable[[Harness], Harness]]] = [
    (a_batch_is_never_torn, no_room_made, plain),
    (
        found_by("test_long_polling", "test_a_peer_that_does_not_read_gets_no_messages_pushed"),
        held_pulls_ignore_the_output_cap,
        plain,
    ),
    (found_by("test_long_polling", "test_an_arrival_ends_the_wait"), arrivals_wake_nobody, plain),
    (found_by("test_long_polling", "test_a_pull_and_a_send_in_one_turn"), arrivals_wake_nobody, plain),
    (found_by("test_long_polling", "test_only_its_own_queue_and_tags_wake_it"), arrivals_wake_everybody, plain),
    (found_by("test_long_polling", "test_the_sweep_moves_it_past_what_it_does_not_want"), the_sweep_finds_nobody, plain),
    (found_by("test_long_polling", "test_it_waits_once_and_commits_once"), a_woken_pull_waits_again, plain),
    (found_by("test_long_polling", "test_two_hundred_that_end_together"), time_never_ends, plain),
    (found_by("test_long_polling", "test_those_of_a_closed_connection_are_dropped"), those_who_left_are_kept, plain),
    (found_by("test_wake_turns", "test_an_arrival_wakes_so_many_a_turn"), all_are_woken_in_one_turn, plain),
    (found_by("test_wake_turns", "test_an_arrival_wakes_so_many_a_turn"), the_woken_are_held_as_well, plain),
    (found_by("test_wake_turns", "test_an_arrival_wakes_so_many_a_turn"), the_last_one_goes_first, plain),
    (lambda harness, _: waits_its_time(harness), time_ends_early, plain),
    (found_by("test_pull", "test_commit_with_a_pull", 6, -1), any_commit_is_stored, with_tagged_messages),
    (found_by("test_send_back", "test_a_body_that_looks_like_a_message_is_none"), any_place_is_believed, with_a_message),
    (found_by("test_send_back", "test_messages_of_others_cannot_be_given_back"), anybody_s_message_is_given_back, with_a_message),
    (function_of(FAILING_APPEND), progress_before_the_commit, Harness.begun),
    (found_by("test_schedule", "test_progress_beyond_the_queue_is_clamped"), progress_is_not_clamped, Harness.begun),
    (
        lambda *_: function_of(COPIES_ARE_SAFE)(),
        progress_written_before_its_copies,
        plain,
    ),
    (found_by("test_schedule", "test_the_copy"), delivered_copies_are_delayed_again, Harness.begun),
    (found_by("test_schedule", "test_each_level_waits_its_time", 3), delivered_a_second_early, Harness.begun),
]


OTHERWISE: dict[Plant, Errors] = {
    arrivals_wake_nobody: (KeyError, ValueError),
    the_sweep_finds_nobody: KeyError,
    a_woken_pull_waits_again: KeyError,
    time_never_ends: KeyError,
    delivered_copies_are_delayed_again: ValueError,
}
"""Found by another error than a failed check: an answer or a message that a test looks at is not there."""


def waits_its_time(harness: Harness) -> None:
    client = harness.connect()
    opaque = client.send(pull(flags=SUBSCRIPTION | SUSPEND))
    assert opaque not in client.answers
    harness.driver.advance(14_999)
    assert opaque not in client.answers


@pytest.mark.parametrize(("check", "plant", "prepared"), ROWS, ids=[plant.__name__ for _, plant, _ in ROWS])
def test_the_bug_is_caught(
    tmp_path: Path,
    check: Check,
    plant: Plant,
    prepared: Callable[[Harness], Harness],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find(plant, check, prepared(Harness(tmp_path)), monkeypatch, by=OTHERWISE.get(plant, FAILURES))


def test_without_the_bug_the_new_checks_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_batch_is_never_torn(plain(Harness(tmp_path / "a")), monkeypatch)
    waits_its_time(plain(Harness(tmp_path / "b")))
