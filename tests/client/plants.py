"""Bugs to plant into the client."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from rmq_client.consuming import concurrently
from rmq_client.consuming.assignment import Assignment
from rmq_client.consuming.giving_back import GivingBack
from rmq_client.consuming.listener import Outcome
from rmq_client.consuming.offset_table import OffsetTable
from rmq_client.consuming.process_queue import Held, ProcessQueue
from rmq_client.consuming.progress import RemoteProgress
from rmq_client.consuming.queue_locks import QueueLocks
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.producing.attempts import SendAttempts
from rmq_client.producing.queue_choice import QueueChooser
from rmq_client.routes import RouteTable
from rmq_wire.conversation import Conversation, Pending

remove, match, choose = ProcessQueue.remove, Conversation.match, QueueChooser.choose
tell_all = RemoteProgress.tell_all


def progress_passes_what_is_not_done(patch: pytest.MonkeyPatch) -> None:
    def plant(self: ProcessQueue, messages: Iterable[Held], now_ms: int) -> int | None:
        found = remove(self, messages, now_ms)
        return None if found is None else self._offset_max + 1

    patch.setattr(ProcessQueue, "remove", plant)


def ack_index_is_ignored(patch: pytest.MonkeyPatch) -> None:
    def plant(count: int, status: Outcome, ack_index: int | None) -> int:
        return count if status is None else 0

    patch.setattr(concurrently, "acknowledged", plant)


def a_lock_never_expires(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProcessQueue, "lock_expired", lambda self, now_ms: False)


def an_answer_of_another_question_is_taken(patch: pytest.MonkeyPatch) -> None:
    def plant(self: Conversation, response: Any) -> Pending | None:
        found = match(self, response)
        return self._pending.pop(next(iter(self._pending))) if found is None and self._pending else found

    patch.setattr(Conversation, "match", plant)


def a_retry_goes_to_the_broker_that_failed(patch: pytest.MonkeyPatch) -> None:
    def plant(self: QueueChooser, topic: str, queues: Sequence[Any], now_ms: int, *, last_broker: str | None = None) -> Any:
        same = [queue for queue in queues if queue.broker_name == last_broker]
        return choose(self, topic, same or queues, now_ms)

    patch.setattr(QueueChooser, "choose", plant)


def a_queue_goes_without_telling_how_far_it_is(patch: pytest.MonkeyPatch) -> None:
    async def plant(self: RemoteProgress, queues: Any, *, wait: bool) -> None:
        if not wait or len(queues) > 1:
            await tell_all(self, queues, wait=wait)

    patch.setattr(RemoteProgress, "tell_all", plant)


def what_failed_is_done(patch: pytest.MonkeyPatch) -> None:
    async def plant(self: GivingBack, message: ReceivedMessage, delay_level: int) -> None:
        return None

    patch.setattr(GivingBack, "give_back", plant)


def a_late_result_moves_progress_back(patch: pytest.MonkeyPatch) -> None:
    update = OffsetTable.update

    def plant(self: OffsetTable, queue: Any, offset: int, *, increase_only: bool) -> None:
        update(self, queue, offset + 1, increase_only=False)

    patch.setattr(OffsetTable, "update", plant)


def an_orderly_consumer_needs_no_lock(patch: pytest.MonkeyPatch) -> None:
    async def plant(self: QueueLocks, queue: Any) -> bool:
        return True

    async def renewed(self: QueueLocks, held: Any) -> None:
        for one in held.values():
            one.locked = True

    patch.setattr(QueueLocks, "granted", plant)
    patch.setattr(QueueLocks, "renew", renewed)
    patch.setattr(ProcessQueue, "lock_expired", lambda self, now_ms: False)


def what_failed_is_tried_again_behind_the_others(patch: pytest.MonkeyPatch) -> None:
    def plant(self: ProcessQueue, messages: Iterable[Held]) -> None:
        for message in messages:
            self._waiting[message.queue_offset] = self._taken.pop(message.queue_offset)

    patch.setattr(ProcessQueue, "consume_again", plant)


def a_failed_send_is_said_to_be_stored_nowhere(patch: pytest.MonkeyPatch) -> None:
    failed = SendAttempts.failed

    def plant(self: SendAttempts, attempt: Any, error: Any, now_ms: int) -> None:
        error.maybe_stored = False
        failed(self, attempt, error, now_ms)

    patch.setattr(SendAttempts, "failed", plant)


def a_queue_begins_at_its_end(patch: pytest.MonkeyPatch) -> None:
    async def plant(self: Assignment, queue: Any) -> int:
        return await self._puller.max_offset(queue)

    patch.setattr(Assignment, "where_to_begin", plant)


def the_master_of_another_broker_is_asked(patch: pytest.MonkeyPatch) -> None:
    master = RouteTable.master

    def plant(self: RouteTable, broker_name: str) -> str | None:
        return master(self, "broker-a")

    patch.setattr(RouteTable, "master", plant)
