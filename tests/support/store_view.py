"""What a store directory means, from its log alone: which queues, which entries, which index, byte for byte.

Rests on `rmq_wire` and `index_model`; neither store has a say in it, so both ours and Java's are judged by it.
(Java: CommitLogDispatcherBuildConsumeQueue, ConsumeQueue, IndexService)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from rmq_wire import properties
from rmq_wire.implied.index_keys import index_hash, index_keys
from rmq_wire.implied.tags import tags_code
from rmq_wire.layout.consume_queue import UNIT
from rmq_wire.layout.flat import flat
from rmq_wire.message import MAGIC_BLANK, StoredMessage, read_size_and_magic, read_unit
from tests.support.index_model import IndexModel
from tests.support.store_differ import Files

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
PREPARED, COMMITTED, ROLLED_BACK = 0b0100, 0b1000, 0b1100
"""The transaction bits of a sysFlag."""
_ENTRY = flat(UNIT)

Queue = tuple[str, int]
"""Topic and queue id."""


class Shape(NamedTuple):
    """What a broker was set to for its files."""

    log_file_bytes: int
    queue_file_bytes: int
    hash_slots: int
    index_num: int
    delays_ms: tuple[int, ...]

    def properties(self) -> dict[str, str]:
        """The same as a broker's configuration."""
        return {
            "mappedFileSizeCommitLog": str(self.log_file_bytes),
            "mappedFileSizeConsumeQueue": str(self.queue_file_bytes),
            "maxHashSlotNum": str(self.hash_slots),
            "maxIndexNum": str(self.index_num),
            "messageDelayLevel": " ".join(f"{delay // 1000}s" for delay in self.delays_ms),
        }


class Stored(NamedTuple):
    """One unit of the log, read and as it lies there."""

    unit: StoredMessage
    data: bytes
    keys: tuple[str, ...]
    """What it is indexed under, without the topic."""

    @property
    def topic(self) -> str:
        return self.unit.topic.decode()


def units_of(log_files: Files) -> Iterator[Stored]:
    """The units of a log, in order. Raises BadRecord where one is damaged."""
    for _, data in sorted((name.rpartition("/")[2], data) for name, data in log_files.items()):
        at = 0
        while at + 8 <= len(data):
            size, magic = read_size_and_magic(data, at)
            if magic == MAGIC_BLANK or size == 0:
                break
            unit = read_unit(data, at)
            values = properties.decode(unit.properties.decode())
            keys = index_keys(values.get("UNIQ_KEY"), values.get("KEYS"), values.get("TAGS"))
            yield Stored(unit, data[at : at + size], keys)
            at += size


class View:
    """A store's content."""

    def __init__(self, files: Files, shape: Shape, deleted: Collection[str] = ()) -> None:
        """files: at least its log. deleted: topics whose queues are not there any more."""
        self.shape = shape
        self.deleted = set(deleted)
        self.made_again: set[str] = set()
        self.units = list(units_of({name: data for name, data in files.items() if name.startswith("commitlog/")}))
        self.at = {one.unit.physical_offset: one for one in self.units}
        self.queues: dict[Queue, list[Stored]] = defaultdict(list)
        self._indexed: dict[int, list[int]] = defaultdict(list)
        for one in self.units:
            transaction = one.unit.sys_flag & ROLLED_BACK
            if transaction in (0, COMMITTED):
                queue = self.queues[one.topic, one.unit.queue_id]
                if queue and not one.unit.queue_offset:  # its topic was deleted and made again
                    queue.clear()
                    self.made_again.add(one.topic)
                assert one.unit.queue_offset == len(queue), (
                    f"queue offset {one.unit.queue_offset} after {len(queue)} in {one.topic}"
                )
                queue.append(one)
            if transaction != ROLLED_BACK:
                for key in one.keys:
                    self._indexed[index_hash(one.topic, key)].append(one.unit.physical_offset)

    def live_queues(self) -> dict[Queue, list[Stored]]:
        """Without those of deleted topics."""
        return {queue: units for queue, units in self.queues.items() if queue[0] not in self.deleted}

    def indexed(self) -> dict[tuple[str, str], None]:
        """(topic, key) of everything indexed, in order of appearance; tags are `T#tags`."""
        return {(one.topic, key): None for one in self.units if one.topic not in self.deleted for key in one.keys}

    def hits(self, topic: str, key: str) -> list[int]:
        """Where the messages of a key lie, and those of keys with the same hash; ascending, each once."""
        return sorted(set(self._indexed[index_hash(topic, key)]))

    def _tags_code(self, one: Stored) -> int:
        values = properties.decode(one.unit.properties.decode())
        level = int(values.get("DELAY", 0))
        if one.topic == SCHEDULE and level > 0:
            return one.unit.store_timestamp + self.shape.delays_ms[min(level, len(self.shape.delays_ms)) - 1]
        return tags_code(values.get("TAGS"))

    def queue_files(self, *, deleted_too: bool = False) -> dict[str, bytes]:
        """The consume queues at full length; of deleted topics as well when somebody makes all queues anew."""
        found = {}
        size = self.shape.queue_file_bytes
        for (topic, queue_id), units in (self.queues if deleted_too else self.live_queues()).items():
            data = b"".join(_ENTRY.packed.pack(u.unit.physical_offset, len(u.data), self._tags_code(u)) for u in units)
            for at in range(0, len(data), size):
                found[f"consumequeue/{topic}/{queue_id}/{at:020}"] = data[at : at + size].ljust(size, b"\0")
        return found

    def index_files(self) -> dict[str, bytes]:
        """The index at full length, named by age as `tests.support.store_differ.by_age` does."""
        model = IndexModel(self.shape.hash_slots, self.shape.index_num)
        for one in self.units:
            if one.unit.sys_flag & ROLLED_BACK != ROLLED_BACK:
                model.put(one.topic, one.keys, one.unit.physical_offset, one.unit.store_timestamp)
        return {f"index/{number:03}": data for number, data in enumerate(model.contents())}

    def files(self, *, deleted_too: bool = False) -> dict[str, bytes]:
        """Queues and index."""
        return self.queue_files(deleted_too=deleted_too) | self.index_files()


def written(files: Files) -> dict[str, bytes]:
    """Files without the zeros at their end: what somebody wrote into them."""
    return {name: data.rstrip(b"\0") for name, data in files.items()}


def rewritten(before: Files, after: Files) -> Mapping[str, str]:
    """What changed of log and queues other than growth: file -> what. Nothing for stores that are only appended to."""
    found = {}
    for name, old in written(before).items():
        if name.startswith("index/") or not old:
            continue
        if name not in after:
            found[name] = "removed"
        elif after[name][: len(old)] != old:
            found[name] = "rewritten"
    return found
