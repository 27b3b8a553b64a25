"""What two stores hold, made comparable: digests of blocks of queue offsets (`details`: single messages, where those differ).

A message's digest is the first 128 bits of SHA-256 over a key of this comparison and its whole unit.  A block's digest is the sum
of its messages' digests, in four parts so that no sum overflows: it does not depend on the order, and parts from several splits
simply add up.  Sums of plain hashes could be met by someone who chooses messages; nobody who does not know the key can.  What
belongs to the place and not to the message (physical offsets, store time and host) is zero while it is hashed, unless the
comparison is an exact one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rmq_columns.decode.dtypes import Bytes, Ints, Mask
from rmq_columns.decode.implied import is_queued
from rmq_columns.decode.ragged import ragged
from rmq_columns.decode.scan import Batch
from rmq_columns.decode.units import Units
from rmq_columns.errors import Malformed
from rmq_columns.read.messages import scanned
from rmq_columns.read.options import Mode
from rmq_columns.read.plan import Split
from rmq_wire.layout.message import FIXED, HEAD_FLAT, HOST_V4_SIZE, HOST_V6_SIZE, STORE_V6
from rmq_wire.message import PROPERTIES_LENGTH

BLOCK_OFFSETS: Final = 4096
"""Queue offsets in a block."""
UNQUEUED_BLOCK: Final = -1
"""Of prepared and rolled back messages, which have no offset of their own."""
GATHERED_MAX: Final = 1 << 18
"""Messages kept before they are summed up."""
PARTS: Final = 4
KEY_BYTES: Final = 64
"""One block of SHA-256: the key costs nothing for each message."""
_PART: Final = np.dtype("<u4")
_PAIR_END: Final = b"\x02"
_SYS_FLAG: Final = HEAD_FLAT.field("sys_flag")
_SYS_FLAG_AT: Final = HEAD_FLAT.at["sys_flag"]
_TOTAL_SIZE: Final = HEAD_FLAT.field("total_size")
_NAME_END: Final = b"\x01"

Queue = tuple[str, int]
DIGESTS: Final = pa.schema(
    [
        ("side", pa.int32()),
        ("split", pa.int32()),
        ("brokerName", pa.string()),
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("block", pa.int64()),
        ("count", pa.int64()),
        *((f"sum{part}", pa.int64()) for part in range(PARTS)),
        ("minOffset", pa.int64()),
        ("endOffset", pa.int64()),
        ("minPhysicalOffset", pa.int64()),
        ("endPhysicalOffset", pa.int64()),
        ("aheadPhysicalOffset", pa.int64()),
        ("beforePhysicalOffset", pa.int64()),
    ]
)
"""A row is a part of a block; without topic it is damage: `count` times, `sum0` bytes.  The last two only within bounds: where
the first message at or behind them lies, and the last one before them."""


@dataclass(frozen=True)
class How:
    """How messages are compared.  key: secret of this comparison; ignored: names of properties that do not count."""

    key: bytes
    is_exact: bool = False
    ignored: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """Of one queue: only these blocks, only offsets from low on and below high."""

    low: int
    high: int
    blocks: frozenset[int]


@dataclass(frozen=True)
class DigestTask:
    """One split of one side.  broker: by which its store is paired.  wanted: None for everything, else only these queues.

    looked: of which queues what messages are to be shown (`details`).
    """

    split: Split
    number: int
    side: int
    broker: str
    how: How
    wanted: Mapping[Queue, Wanted] | None = None
    looked: Mapping[Queue, Wanted] = field(default_factory=dict)


def digest_split(task: DigestTask) -> Iterator[pa.RecordBatch]:
    """Parts of blocks, with the schema `DIGESTS`.  Raises `SeamMismatch`, `CannotRead`."""
    yield from Digester(task).run()


def batches(task: DigestTask, damage: list[int]) -> Iterator[Batch]:
    """Sound units; sizes of what is none go to `damage`.  Raises `Malformed` in mode FAILFAST."""
    split = task.split
    tree = split.store.tree(split.options)
    for part in split.parts:
        for item in scanned(tree, part, split.options):
            if not isinstance(item, Batch):
                if item.kind == "unwritten":
                    continue
                if split.options.mode is Mode.FAILFAST:
                    raise Malformed(item.path, item.start, f"{item.end - item.start} bytes are no message ({item.kind})")
                damage.append(item.end - item.start)
                continue
            wrong = item.units["physical_offset"] != item.units.at + (item.base + part.file_start + part.displaced_by)
            if wrong.any():
                damage += item.units["total_size"][wrong].tolist()
                item = item._replace(units=item.units.take(~wrong))
            yield item


class Queues:
    """Numbers of queues, and which rows are wanted."""

    def __init__(self, task: DigestTask) -> None:
        self._task = task
        self.names: list[Queue] = []
        self._numbers: dict[tuple[bytes, int], int] = {}
        options = task.split.options
        self._topics, self._queue_ids = options.topics, options.queue_ids
        self._with_system = options.include_system_topics

    def choose(self, buffer: Bytes, units: Units, *, within: bool) -> tuple[Units, Ints, Ints]:
        """(units, number of the queue, block of each), of the wanted queues; within: of the wanted blocks and offsets, too."""
        queue = self._of(buffer, units)
        offset = units["queue_offset"].astype(np.int64)
        block = np.where(is_queued(units["sys_flag"]), offset // BLOCK_OFFSETS, UNQUEUED_BLOCK)
        keep = queue >= 0
        if within and self._task.wanted is not None:
            keep &= self.inside(queue, offset, block)
        if keep.all():
            return units, queue, block
        return units.take(keep), queue[keep], block[keep]

    def inside(self, queue: Ints, offset: Ints, block: Ints) -> Mask:
        """Within the bounds and blocks."""
        found = np.zeros(len(queue), np.bool_)
        for number in np.unique(queue[queue >= 0]).tolist():
            wanted = (self._task.wanted or {})[self.names[number]]
            rows = queue == number
            bounded = (block == UNQUEUED_BLOCK) | ((offset >= wanted.low) & (offset < wanted.high))
            found |= rows & bounded & np.isin(block, list(wanted.blocks))
        return found

    def _of(self, buffer: Bytes, units: Units) -> Ints:
        encoded = ragged(buffer, units.topic_at, units.topic_size).dictionary_encode()
        topics = encoded.dictionary.to_pylist()
        both = encoded.indices.to_numpy().astype(np.int64) << 32 | units["queue_id"].astype(np.uint32)
        found, place = np.unique(both, return_inverse=True)
        numbers = []
        for one in found.tolist():
            raw = topics[one >> 32], (one & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
            number = self._numbers.get(raw)
            numbers.append(self._new(*raw) if number is None else number)
        return np.array(numbers, np.int64)[place]

    def _new(self, raw: bytes, queue_id: int) -> int:
        from rmq_columns.read.stores import chosen

        topic = raw.decode("utf-8", "replace")
        wanted = self._task.wanted
        is_chosen = chosen(self._task.split.options, topic) and (self._queue_ids is None or queue_id in self._queue_ids)
        number = -1
        if is_chosen and (wanted is None or (topic, queue_id) in wanted):
            number = len(self.names)
            self.names.append((topic, queue_id))
        self._numbers[raw, queue_id] = number
        return number


class Digester:
    """Sums messages up by block."""

    def __init__(self, task: DigestTask) -> None:
        self.task, self.queues = task, Queues(task)
        self.gathered: list[tuple[npt.NDArray[Any], ...]] = []
        self.count = 0

    def run(self) -> Iterator[pa.RecordBatch]:
        damage: list[int] = []
        for batch in batches(self.task, damage):
            yield from self.take(batch)
        yield from self.summed()
        if damage:
            blank: dict[str, Any] = dict.fromkeys(DIGESTS.names, 0) | {"topic": None, "queueId": None}
            blank |= {"side": self.task.side, "split": self.task.number, "brokerName": self.task.broker}
            blank |= {"count": len(damage), "sum0": sum(damage)}
            yield pa.record_batch([pa.array([blank[one.name]], one.type) for one in DIGESTS], schema=DIGESTS)

    def take(self, batch: Batch) -> Iterator[pa.RecordBatch]:
        """Some messages; rows when there are many."""
        units, queue, block = self.queues.choose(batch.buffer, batch.units, within=False)
        if not len(units):
            return
        offset, physical = units["queue_offset"].astype(np.int64), units["physical_offset"].astype(np.int64)
        size = units["total_size"].astype(np.int64)
        inside = np.ones(len(units), np.bool_)
        if self.task.wanted is not None:
            inside = self.queues.inside(queue, offset, block)
        digests = np.zeros((len(units), PARTS), np.int64)
        if inside.any():
            chosen = units if inside.all() else units.take(inside)
            digests[inside] = np.frombuffer(b"".join(hashes(batch.buffer, chosen, self.task.how)), _PART).reshape(-1, PARTS)
        self.gathered.append((queue, block, offset, physical, size, inside, digests))
        self.count += len(units)
        if self.count >= GATHERED_MAX:
            yield from self.summed()

    def summed(self) -> Iterator[pa.RecordBatch]:
        """One row for each block that was met."""
        if not self.count:
            return
        queue, block, offset, physical, size, inside, digests = map(np.concatenate, zip(*self.gathered, strict=True))
        self.gathered, self.count = [], 0
        order = np.lexsort((block, queue))
        queue, block, offset, physical, size, inside = (one[order] for one in (queue, block, offset, physical, size, inside))
        begins = np.concatenate(([0], np.flatnonzero((np.diff(queue) != 0) | (np.diff(block) != 0)) + 1))
        sums = np.add.reduceat(digests[order], begins)
        first = queue[begins].tolist()
        names = [self.queues.names[number] for number in first]
        rows = len(begins)
        columns: dict[str, Any] = {
            "side": np.full(rows, self.task.side),
            "split": np.full(rows, self.task.number),
            "brokerName": [self.task.broker] * rows,
            "topic": [name[0] for name in names],
            "queueId": [name[1] for name in names],
            "block": block[begins],
            "count": np.add.reduceat(inside.astype(np.int64), begins),
            "minOffset": np.minimum.reduceat(offset, begins),
            "endOffset": np.maximum.reduceat(offset, begins) + 1,
            "minPhysicalOffset": np.minimum.reduceat(physical, begins),
            "endPhysicalOffset": np.maximum.reduceat(physical + size, begins),
            **{f"sum{part}": sums[:, part] for part in range(PARTS)},
            **self._edges(queue, offset, physical, begins),
        }
        arrays = [pa.array(columns[one.name], one.type) for one in DIGESTS]
        yield pa.record_batch(arrays, schema=DIGESTS)

    def _edges(self, queue: Ints, offset: Ints, physical: Ints, begins: Ints) -> dict[str, Any]:
        """Where messages outside of the bounds lie."""
        never = np.iinfo(np.int64).max
        wanted = self.task.wanted
        if wanted is None:
            return {"aheadPhysicalOffset": [None] * len(begins), "beforePhysicalOffset": [None] * len(begins)}
        low = np.array([wanted[name].low for name in self.queues.names], np.int64)[queue]
        high = np.array([wanted[name].high for name in self.queues.names], np.int64)[queue]
        ahead = np.minimum.reduceat(np.where(offset >= high, physical, never), begins)
        before = np.maximum.reduceat(np.where(offset < low, physical, -1), begins)
        return {
            "aheadPhysicalOffset": pa.array(ahead, pa.int64(), mask=ahead == never),
            "beforePhysicalOffset": pa.array(before, pa.int64(), mask=before < 0),
        }


# --- single messages


def hashes(buffer: Bytes, units: Units, how: How) -> list[bytes]:
    """The digest of each unit, 16 bytes.  What does not count is overwritten in the buffer."""
    if not how.is_exact:
        _blank(buffer, units)
    keyed = hashlib.sha256(how.key.ljust(KEY_BYTES, b"\0"))
    view, found = buffer.data, []
    special = (units.host_bits & STORE_V6) != 0 if not how.is_exact else np.zeros(len(units), np.bool_)
    plain = not special.any() and not how.ignored
    for row, (start, end) in enumerate(zip(units.at.tolist(), units.end.tolist(), strict=True)):
        one = keyed.copy()
        one.update(view[start:end] if plain else _rewritten(buffer, units, row, how))
        found.append(one.digest()[:16])
    return found


def _blank(buffer: Bytes, units: Units) -> None:
    """Zeros where a unit speaks of its place."""
    for bits in units.kinds_of_hosts():
        rows = units.at[units.host_bits == bits]
        layout = FIXED[bits]
        for name in ("physical_offset", "store_timestamp", "store_host", "prepared_transaction_offset"):
            size = layout.field(name).size
            windows: npt.NDArray[np.void] = np.ndarray((len(buffer) - size + 1,), f"V{size}", buffer, strides=(1,))
            windows[rows + layout.at[name]] = np.zeros(1, f"V{size}")


def _rewritten(buffer: Bytes, units: Units, row: int, how: How) -> bytes:
    """A unit as it would be with an IPv4 store host and without the properties that do not count."""
    start, end = int(units.at[row]), int(units.end[row])
    at, bits = int(units.properties_at[row]), int(units.host_bits[row])
    head, properties = bytearray(buffer[start : at - PROPERTIES_LENGTH.size]), buffer[at:end].tobytes()
    if not how.is_exact and bits & STORE_V6:
        [flags] = _SYS_FLAG.unpack_from(head, _SYS_FLAG_AT)
        _SYS_FLAG.pack_into(head, _SYS_FLAG_AT, flags & ~STORE_V6)
        host = FIXED[bits].at["store_host"]
        del head[host + HOST_V4_SIZE : host + HOST_V6_SIZE]
    properties = kept(properties, how.ignored)
    _TOTAL_SIZE.pack_into(head, 0, len(head) + PROPERTIES_LENGTH.size + len(properties))
    return bytes(head) + PROPERTIES_LENGTH.pack(len(properties)) + properties


def kept(properties: bytes, ignored: tuple[bytes, ...]) -> bytes:
    """The properties without those of these names."""
    if not ignored:
        return properties
    pairs = properties.removesuffix(_PAIR_END).split(_PAIR_END)
    return b"".join(pair + _PAIR_END for pair in pairs if pair and pair.partition(_NAME_END)[0] not in ignored)
