"""The consume queues of a repaired store, made from its log.

Unit k of a queue stands for offset k, so offsets whose messages were lost need a unit, too.  Where the next surviving message
lies behind the first log file that unit is the filler which Java puts before a queue's first message: every reader passes over
it.  Within the first log file Java would skip the survivors behind a filler (`DefaultMessageStore.getMessage`: after a unit that
leads nowhere it goes on behind that log file), so there the unit leads to the next survivor, without tags: who subscribes to all
tags gets that message more than once, and nobody misses one.  Units are gathered and written in portions; memory is bounded.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from rmq_columns.checks.readers import Readers
from rmq_inspect.decode.directory import StoreFile
from rmq_inspect.decode.log import Unit
from rmq_inspect.decode.queues import BATCH, FILLER_SIZE, UNIT, QueueUnit, unit_at
from rmq_inspect.decode.records import properties_of
from rmq_inspect.errors import CannotLook
from rmq_inspect.repair_extensions import Extensions
from rmq_inspect.repair_files import file_name, write_at
from rmq_inspect.repair_report import Report
from rmq_wire import property_names as prop
from rmq_wire import sys_flag as flags
from rmq_wire.implied.tags import tags_code
from rmq_wire.layout.consume_queue import EXT_ADDRESS_LAST
from rmq_wire.names import LMQ_PREFIX, SCHEDULE_TOPIC

GATHERED_BYTES_MAX: Final = 32 << 20
"""Of all queues together, before they are written."""
GATHERED_QUEUES_MAX: Final = 10_000
GAP_MAX: Final = 10_000_000
"""Offsets.  A larger step is no loss but another life of the topic: the queue begins anew behind it."""
QUEUE_ID_MAX: Final = (1 << 31) - 1
NAME_BYTES_MAX: Final = 255
UNQUEUED: Final = flags.TRANSACTION_PREPARED
"""This bit is set in the types prepared and rollback, which no queue has."""
DELAY_LEVELS_S: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""`messageDelayLevel` by default."""
LIGHT_SEPARATOR: Final = ","
"""`MixAll.LMQ_DISPATCH_SEPARATOR`."""
FILLER: Final = UNIT.packed.pack(0, FILLER_SIZE, 0)

Key = tuple[str, int]


class _Queue:
    """One queue that is being made."""

    __slots__ = ("directory", "gathered", "gathered_at", "next_offset", "start")

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.start = -1
        """first offset"""
        self.next_offset = 0
        self.gathered = bytearray()
        self.gathered_at = 0
        """byte of the queue"""


class Queues:
    """All queues of a store.  batch_topics: those with queue.type=BatchCQ.  old: files of the damaged store's queues."""

    def __init__(
        self,
        root: Path,
        report: Report,
        *,
        file_bytes: int,
        batch_file_bytes: int,
        batch_topics: Collection[str],
        first_file_end: int,
        old: Mapping[Key, Sequence[StoreFile]],
        extensions: Extensions,
    ) -> None:
        self._root = root
        self._report = report
        self._file_bytes = file_bytes
        self._batch_file_bytes = batch_file_bytes
        self._batch_topics = batch_topics
        self._first_file_end = first_file_end
        self._old = old
        self._readers = Readers()
        self._extensions = extensions
        self._queues: dict[Key, _Queue] = {}
        self._gathered: dict[Key, None] = {}
        self._gathered_bytes = 0

    def take(self, unit: Unit) -> bool:
        """Put a message of the log into its queue; whether it belongs into one."""
        message = unit.message
        if message.sys_flag & UNQUEUED:
            return False
        why, topic = _topic_of(message.topic, message.queue_id, message.queue_offset)
        if topic is None:
            self._report.add("unqueued", {"offset": message.physical_offset, "why": why})
            return False
        key = (topic, message.queue_id)
        properties = properties_of(message)
        if topic in self._batch_topics or message.sys_flag & flags.INNER_BATCH:
            self._take_batch(key, unit, properties)
            return True
        queue = self._queues.get(key) or self._new(key, "consumequeue")
        offset = message.queue_offset
        before = self._unit_before(key, unit, offset) if self._needs_old(key, queue, offset) else None
        if not self._align(queue, key, unit, offset, before):
            return False
        code = _code(topic, message.store_timestamp, properties)
        self._append_unit(queue, key, unit, self._code_before(key, unit, before, code))
        self._take_light(unit, properties, code)
        return True

    def _needs_old(self, key: Key, queue: _Queue, offset: int) -> bool:
        """Whether the old queue's unit has something to say: of most it is not read."""
        is_next = queue.start < 0 or offset == queue.next_offset
        return key[0] == SCHEDULE_TOPIC or self._extensions.has(key) or not is_next

    def _append_unit(self, queue: _Queue, key: Key, unit: Unit, code: int) -> None:
        message = unit.message
        self._append(queue, key, UNIT.packed.pack(message.physical_offset, message.total_size, code), self._file_bytes)
        queue.next_offset += 1
        self._report.queue_units += 1

    def _old_unit(self, key: Key, offset: int) -> QueueUnit | None:
        """What the old queue has at this offset; None also for an empty unit."""
        try:
            old = unit_at(self._old.get(key, ()), offset, self._readers)
        except CannotLook:
            return None
        return old if old is not None and old.is_written else None

    def _unit_before(self, key: Key, unit: Unit, offset: int) -> QueueUnit | None:
        """This message's unit in the old queue; None when there is another one, or none."""
        old = self._old_unit(key, offset)
        return old if old is not None and _leads_to(old, unit) else None

    def _code_before(self, key: Key, unit: Unit, before: QueueUnit | None, code: int) -> int:
        """The tags code with what only the old queue knows: when a delayed message is due, for the levels may have been other
        than by default; and the bit map of an extension.  With an extension it is that one's address."""
        stored = unit.message.store_timestamp
        extension = self._extensions.old(key, before, stored)
        if key[0] == SCHEDULE_TOPIC:
            due = extension.tags_code if extension else before.tags_code if before else 0
            code = due if due > 0 else code
        if not self._extensions.has(key) or (before is not None and before.tags_code > EXT_ADDRESS_LAST):
            return code
        bit_map = extension.bit_map if extension is not None and extension.tags_code == code else b""
        return self._extensions.put(key, code, stored, bit_map)

    def _take_light(self, unit: Unit, properties: dict[str, str], code: int) -> None:
        """The light queues that the broker gave the message offsets in (`MultiDispatchUtils`)."""
        queues = properties.get(prop.INNER_MULTI_DISPATCH, "").split(LIGHT_SEPARATOR)
        offsets = properties.get(prop.INNER_MULTI_QUEUE_OFFSET, "").split(LIGHT_SEPARATOR)
        for name, offset in dict.fromkeys(zip(queues, offsets, strict=False)):
            if not name.startswith(LMQ_PREFIX) or not (offset.isascii() and offset.isdigit() and len(offset) <= 16):
                continue
            _, topic = _topic_of(name.encode("utf-8", "replace"), 0, int(offset))
            if topic is None:
                continue  # such a queue never was
            key = (topic, 0)
            queue = self._queues.get(key) or self._new(key, "consumequeue")
            before = None if queue.next_offset == int(offset) else self._unit_before(key, unit, int(offset))
            if self._align(queue, key, unit, int(offset), before):
                self._append_unit(queue, key, unit, code)

    def _new(self, key: Key, tree: str) -> _Queue:
        queue = self._queues[key] = _Queue(self._root / tree / key[0] / str(key[1]))
        self._report.queues += 1
        return queue

    def _align(self, queue: _Queue, key: Key, unit: Unit, offset: int, before: QueueUnit | None) -> bool:
        """Make this offset of the message the next one of the queue; False when the message cannot have it.

        before: its unit in the old queue, if that offset is not the next one.
        """
        if queue.start >= 0 and queue.next_offset < offset <= queue.next_offset + GAP_MAX:
            self._fill(queue, key, unit, offset)
        elif queue.start < 0:
            self._begin(queue, key, offset)
        elif offset != queue.next_offset:
            if not self._begins_anew(key, queue, unit, offset, before):
                return False
            self._write(key, queue)
            if queue.start < offset < queue.next_offset:
                self._cut(queue, offset)
            else:
                self._begin(queue, key, offset)
        queue.next_offset = offset
        return True

    def _fill(self, queue: _Queue, key: Key, unit: Unit, offset: int) -> None:
        """Offsets whose messages were lost, now or before."""
        count = offset - queue.next_offset
        ends = self._old_unit(key, queue.next_offset), self._old_unit(key, offset - 1)
        was_lost = all(old is not None and (old.is_filler or _leads_to(old, unit)) for old in ends)
        gap = {"topic": key[0], "queueId": key[1], "from": queue.next_offset, "count": count}
        self._report.add("known" if was_lost else "gaps", gap)
        is_safe = unit.message.physical_offset >= self._first_file_end
        filler = FILLER if is_safe else UNIT.packed.pack(unit.message.physical_offset, unit.message.total_size, 0)
        for _ in range(count):
            self._append(queue, key, filler, self._file_bytes)

    def _begins_anew(self, key: Key, queue: _Queue, unit: Unit, offset: int, before: QueueUnit | None) -> bool:
        """Whether the queue goes on at another offset: its topic was deleted and made again, or nothing speaks against it."""
        if offset == 0 or before is not None:
            self._report.restarts += 1
            return True
        if self._old_unit(key, offset) is not None:
            why = f"it says that it is {key[0]} [{key[1]}] @{offset}, where the queue has another message"
            self._report.add("unqueued", {"offset": unit.message.physical_offset, "why": why})
            return False
        step = {"topic": key[0], "queueId": key[1], "from": queue.next_offset, "count": offset - queue.next_offset}
        why = f"the message after that says that its offset is {offset}: the queue was cut or begun anew there"
        self._report.add("gaps", {**step, "why": why})
        return True

    def _begin(self, queue: _Queue, key: Key, offset: int) -> None:
        """No file yet, or none that is still wanted; the file of this offset begins with fillers (`fillPreBlank`)."""
        self._remove_from(queue, 0)
        byte = offset * UNIT.size
        queue.gathered_at = byte - byte % self._file_bytes
        queue.start = offset
        for _ in range((byte - queue.gathered_at) // UNIT.size):
            self._append(queue, key, FILLER, self._file_bytes)

    def _cut(self, queue: _Queue, offset: int) -> None:
        """Keep what is before this offset."""
        byte = offset * UNIT.size
        start = byte - byte % self._file_bytes
        self._remove_from(queue, start if byte == start else start + self._file_bytes)
        path = queue.directory / file_name(start)
        if path.exists():
            os.truncate(path, byte - start)
            os.truncate(path, self._file_bytes)
        queue.gathered_at = byte

    def _remove_from(self, queue: _Queue, start: int) -> None:
        for path in queue.directory.glob("*"):
            if int(path.name) >= start:
                path.unlink()

    def _take_batch(self, key: Key, unit: Unit, properties: dict[str, str]) -> None:
        message = unit.message
        number = properties.get(prop.INNER_NUM, "1")
        is_batch = bool(message.sys_flag & flags.INNER_BATCH) and number.isascii() and number.isdigit() and len(number) < 5
        fields = (message.physical_offset, message.total_size, tags_code(properties.get(prop.TAGS)), message.store_timestamp)
        raw = BATCH.packed.pack(*fields, message.queue_offset, int(number) if is_batch else 1, -1, 0)
        queue = self._queues.get(key) or self._new(key, "batchconsumequeue")
        queue.start = max(queue.start, 0)
        self._append(queue, key, raw, self._batch_file_bytes)
        self._report.queue_units += 1

    # --- writing

    def _append(self, queue: _Queue, key: Key, raw: bytes, file_bytes: int) -> None:
        queue.gathered += raw
        self._gathered[key] = None
        self._gathered_bytes += len(raw)
        if (queue.gathered_at + len(queue.gathered)) % file_bytes == 0:
            self._write(key, queue, file_bytes)
        elif self._gathered_bytes > GATHERED_BYTES_MAX or len(self._gathered) > GATHERED_QUEUES_MAX:
            self.flush()

    def _write(self, key: Key, queue: _Queue, file_bytes: int | None = None) -> None:
        if file_bytes is None:
            file_bytes = self._batch_file_bytes if queue.directory.parts[-3] == "batchconsumequeue" else self._file_bytes
        if queue.gathered:
            write_at(queue.directory, queue.gathered_at, queue.gathered, file_bytes)
            queue.gathered_at += len(queue.gathered)
            self._gathered_bytes -= len(queue.gathered)
            queue.gathered = bytearray()
        self._gathered.pop(key, None)

    def bounds(self) -> dict[Key, tuple[int, int]]:
        """(first, behind the last) offset of each plain queue."""
        return {key: (one.start, one.next_offset) for key, one in self._queues.items() if one.next_offset}

    def flush(self) -> None:
        """Write what was gathered."""
        for key in list(self._gathered):
            self._write(key, self._queues[key])

    def close(self) -> None:
        """Write the rest; the old queues are not read any more."""
        self.flush()
        self._readers.close()
        self._extensions.close()


def _leads_to(old: QueueUnit, unit: Unit) -> bool:
    return (old.physical_offset, old.size) == (unit.message.physical_offset, unit.message.total_size)


def _topic_of(raw: bytes, queue_id: int, queue_offset: int) -> tuple[str, str | None]:
    """The topic, or why there can be no directory for it."""
    try:
        topic = raw.decode()
    except UnicodeDecodeError:
        return "the topic is no UTF-8", None
    if not topic or topic in (".", "..") or "/" in topic or "\0" in topic or len(raw) > NAME_BYTES_MAX:
        return "the topic cannot be the name of a directory", None
    if not 0 <= queue_id <= QUEUE_ID_MAX:
        return f"there is no queue {queue_id}", None
    if not 0 <= queue_offset < 1 << 56:
        return f"there is no queue offset {queue_offset}", None
    return "", topic


def _code(topic: str, stored_ms: int, properties: dict[str, str]) -> int:
    """The tags' hash; of a delayed message when it is due (`CommitLog.checkMessageAndReturnSize`)."""
    if topic == SCHEDULE_TOPIC:
        level = properties.get(prop.DELAY, "")
        if level.isascii() and level.isdigit() and 0 < len(level) < 9 and int(level) > 0:
            return stored_ms + 1000 * DELAY_LEVELS_S[min(int(level), len(DELAY_LEVELS_S)) - 1]
    return tags_code(properties.get(prop.TAGS))
