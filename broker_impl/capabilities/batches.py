"""Batch sends: each message as it came, with the hashes and keys that it is found by, and all of them stored together.

A batch is taken apart and packed in slices, beside the log, and then put into it in one step; whoever asks for something else
is served in between.  Of large ones, those that one slice is not enough for, one is made at a time.
(Java: `MessageExtEncoder.encode(MessageExtBatch, …)`, `SendMessageProcessor.sendBatchMessage`)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker_impl.capabilities.send_answers import SendAnswers
from broker_impl.engine.answers import Answer, Refusal, Reply, SlicedAnswer
from broker_impl.engine.call import Call
from broker_impl.engine.commits import END_OF_TURN
from broker_impl.engine.slices import BYTES_PER_SLICE, ROWS_PER_SLICE, OneAtATime, Slices, begun
from broker_impl.env import Env
from broker_impl.intake import Intake, Message, NotTaken, PutStatus
from broker_impl.state.stats import Stats
from rmq_store.errors import Illegal, StoreError
from rmq_store.log.batch import Batch
from rmq_store.log.draft import Draft, Placed
from rmq_wire import properties, sys_flag
from rmq_wire import property_names as prop
from rmq_wire.batch import Item, walk_items
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import BadBody
from rmq_wire.headers.send import SendBatchMessage, SendMessage, SendMessageV2
from rmq_wire.implied.index_keys import index_keys
from rmq_wire.implied.inner_batch import COUNT_MAX
from rmq_wire.implied.tags import tags_code

MESSAGES_PER_SLICE: Final = 4 * ROWS_PER_SLICE
"""Some 6 µs each."""
SHORT_BYTES: Final = 512
"""Of properties that are taken apart though three of them are wanted; 4 MiB of separators would take a fifth of a second."""
_FINDERS: Final = (prop.UNIQ_KEY, prop.KEYS, prop.TAGS)

Sent = SendMessage | SendMessageV2 | SendBatchMessage


class Batches:
    """What is checked of a batch as of any send has been checked."""

    def __init__(self, env: Env, intake: Intake, stats: Stats, answers: SendAnswers) -> None:
        self._env = env
        self._intake = intake
        self._stats = stats
        self._answers = answers
        self._large = OneAtATime()

    def answer(self, call: Call, asked: Sent, body: bytes | memoryview, queue_id: int, flags: int) -> Answer:
        """Store the messages one by one, their properties byte for byte as sent: 5.5.0 adds nothing."""
        kept = bytes(body)  # the turn's buffer may be gone before the second slice
        return begun(self._answered(self._stored(call, asked, kept, queue_id, flags)))

    def inner_answer(
        self, call: Call, asked: Sent, body: bytes | memoryview, queue_id: int, flags: int, values: dict[str, str]
    ) -> Answer:
        """For a batch queue: stored as it came, in one unit that takes as many offsets as it has messages.  `values` get them."""
        kept = bytes(body)
        return begun(self._answered(self._inner_stored(call, asked, kept, queue_id, flags, values)))

    def _answered(self, work: SlicedAnswer) -> SlicedAnswer:
        """What a sender is told when it goes wrong."""
        try:
            return (yield from work)
        except Refusal as no:
            return Reply(code=no.code, remark=no.remark, ext=self._answers.ext)
        except NotTaken as no:
            return self._answers.refusal(no.status)
        except (BadBody, Illegal):
            return self._answers.refusal(PutStatus.MESSAGE_ILLEGAL)
        except StoreError as error:  # the turn was not written
            return self._answers.undone(error)

    def _stored(self, call: Call, asked: Sent, body: bytes, queue_id: int, flags: int) -> SlicedAnswer:
        batch = self._intake.store.open_batch(asked.topic, queue_id)
        pack = self._packing(batch, asked, flags, call.peer.remote_packed)
        is_large = yield from self._walk(body, pack)
        placed = self._intake.put_batch(batch, self._env.wall_ms)
        first, last = placed[0], placed[-1]
        size = last.end_offset - first.physical_offset
        self._stats.add_put(asked.topic, queue_id, len(placed), size)
        message_id = self._answers.message_id
        ids: list[str] = []
        for at in range(0, len(placed), MESSAGES_PER_SLICE):
            if is_large:
                yield None
            ids += [message_id(one.physical_offset) for one in placed[at : at + MESSAGES_PER_SLICE]]
        # In another turn than its messages: it waits for the disk behind whoever waits by now.
        end = END_OF_TURN if is_large else last.end_offset
        common = properties.decode(asked.properties or "")
        whole = Placed(first.physical_offset, first.queue_offset, size, end)
        return self._answers.batch_stored(call, queue_id, whole, ",".join(ids), common)

    def _packing(self, batch: Batch, asked: Sent, flags: int, born_host: bytes) -> Callable[[Item], object]:
        topic, queue_id, born, times = batch.topic, batch.queue_id, asked.born_timestamp, asked.reconsume_times or 0
        store_host, most = self._intake.store_host, batch.units_max

        def pack(item: Item) -> None:
            if len(batch) >= most:
                raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"more than {most} messages in a batch")
            flag, body, encoded = item
            unique_key, keys, tags = _found(encoded)
            code, indexed = tags_code(tags), index_keys(unique_key, keys, tags)
            batch.add(Draft(topic, queue_id, body, encoded, born, born_host, store_host, flag, flags, times, 0, code, indexed))

        return pack

    def _inner_stored(
        self, call: Call, asked: Sent, body: bytes, queue_id: int, flags: int, values: dict[str, str]
    ) -> SlicedAnswer:
        count = 0

        def one(_: Item) -> None:
            nonlocal count
            count += 1
            if count > COUNT_MAX:
                raise NotTaken(PutStatus.MESSAGE_ILLEGAL, f"more than {COUNT_MAX} messages in a unit")

        yield from self._walk(body, one)
        values[prop.INNER_NUM] = str(count)
        message = Message(
            asked.topic,
            queue_id,
            body,
            values,
            flag=asked.flag,
            sys_flag=flags | sys_flag.NEED_UNWRAP | sys_flag.INNER_BATCH,
            born_timestamp=asked.born_timestamp,
            born_host=call.peer.remote_packed,
            reconsume_times=asked.reconsume_times or 0,
        )
        placed = self._intake.put(message, self._env.wall_ms)
        self._stats.add_put(asked.topic, queue_id, count, placed.size)
        return self._answers.inner_stored(call, queue_id, placed, values)

    def _walk(self, body: bytes, take: Callable[[Item], Any]) -> Slices[bool]:
        """`take` each message of the body; True when that took more than a slice.  Raises `BadBody`."""
        is_large = False
        left, upto = MESSAGES_PER_SLICE, BYTES_PER_SLICE
        try:
            for item in walk_items(body):
                if not left or upto <= 0:
                    if is_large:
                        yield None
                    else:
                        is_large = True
                        yield from self._large.enter()
                    left, upto = MESSAGES_PER_SLICE, BYTES_PER_SLICE
                take(item)
                left -= 1
                upto -= len(item.body) + len(item.properties)
        finally:
            if is_large:
                self._large.leave()
        return is_large


def _found(encoded: bytes) -> list[str | None]:
    if len(encoded) <= SHORT_BYTES:
        values = properties.decode(encoded.decode("utf-8", "replace"))
        return [values.get(name) for name in _FINDERS]
    found = [properties.find(encoded, name.encode()) for name in _FINDERS]
    return [None if value is None else value.decode("utf-8", "replace") for value in found]
