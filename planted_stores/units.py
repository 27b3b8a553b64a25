"""Pieces of a generated store: many message units at once, their queue units, their rows of the sent ledger.

A piece's bytes are runs of the pattern's round; then each thing that a unit has of its own is one array of texts or numbers, put
to its places in one scatter per kind.  Nothing walks the messages.
"""

from __future__ import annotations

import json
import os
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from planted_stores.pattern import KEY_PREFIX, SLOTS, UNIQUE_PREFIX, Kind, Var
from planted_stores.plan import Plan
from rmq_columns.decode.dtypes import QUEUE_UNIT, Bytes, Ints
from rmq_wire.checksum import MASK
from rmq_wire.message import pack_blank

_HEX: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
NUMBER_WIDTH: Final = 15
"""Of numbers in the sent ledger, filled with blanks before them."""
SENT: Final = (Kind.PLAIN, Kind.SHARDED, Kind.COMMIT)
"""Of these a producer knows topic, queue and place."""
_NUMBERS: Final = {
    "queue_offset": ">i8",
    "physical_offset": ">i8",
    "born_timestamp": ">i8",
    "store_timestamp": ">i8",
    "prepared_transaction_offset": ">i8",
    "body_crc": ">i4",
}


def digits(values: Ints, width: int) -> Bytes:
    """Decimal digits with zeros before them, a row each."""
    found = np.empty((len(values), width), np.uint8)
    for place in range(width - 1, -1, -1):
        values, found[:, place] = np.divmod(values, 10)
    found += ord("0")
    return found


def hexadecimal(values: Ints, width: int) -> Bytes:
    """Upper-case digits with zeros before them, a row each."""
    shifts = np.arange(width - 1, -1, -1) * 4
    return _HEX[(values[:, None] >> shifts) & 15]


def put(buffer: Bytes, places: Ints, rows: Bytes) -> None:
    """One run of bytes to each place."""
    width = rows.shape[1]
    windows: Any = np.ndarray((len(buffer) - width + 1,), f"V{width}", buffer, strides=(1,))
    texts: Any = np.ascontiguousarray(rows)
    windows[places] = texts.view(f"V{width}").ravel()


def runs(plan: Plan, first: int, last: int) -> Bytes:
    """The bytes of messages, all of one log file, as the pattern has them."""
    found: list[Bytes] = []
    at = first
    while at < last:
        slot = at % SLOTS
        take = min(SLOTS - slot, last - at)
        source = plan.early_round if plan.is_early(np.array([at]))[0] else plan.round
        found.append(source[plan.before[slot] : plan.before[slot + take]])
        at += take
    buffer = np.concatenate(found)
    for number in (one for one in plan.changes.ordinary if first <= one < last):
        begin = int((plan.physical(np.array([number])) - plan.physical(np.array([first])))[0])
        unit = plan.ordinary[number % SLOTS]
        buffer[begin : begin + len(unit)] = np.frombuffer(unit, np.uint8)
    return buffer


def pack(plan: Plan, first: int, last: int) -> Bytes:
    """The units of messages, all of one log file, one after another."""
    numbers = np.arange(first, last)
    buffer = runs(plan, first, last)
    slots, ordinary = numbers % SLOTS, plan.is_ordinary(numbers).astype(np.int64)
    physical = plan.physical(numbers)
    start = physical - physical[0]
    for name, places in plan.places.items():
        at = places[ordinary, slots]
        rows = np.flatnonzero(at >= 0)
        if len(rows):
            put(buffer, start[rows] + at[rows], _own(plan, name, numbers[rows]))
    return buffer


def _own(plan: Plan, name: str, numbers: Ints) -> Bytes:
    """What these messages have in the places of this name."""
    match name:
        case "UNIQUE":
            return hexadecimal(plan.identity(numbers), len(Var.UNIQUE))
        case "KEY":
            return digits(plan.key(numbers), len(Var.KEY))
        case "SEQUENCE":
            return digits(plan.sequence(numbers), len(Var.SEQUENCE))
        case "ORIGIN" | "DEAD_ORIGIN":
            return hexadecimal(plan.physical(plan.origin(numbers)), len(Var.ORIGIN))
        case "OUT_MS":
            return digits(plan.stored_ms(plan.origin(numbers)) + plan.wait_ms(numbers), len(Var.OUT_MS))
        case "DELAY_MS":
            return digits(plan.wait_ms(numbers), len(Var.DELAY_MS))
        case "OP_OFFSET":
            return digits(plan.queue_offset(plan.origin(numbers)), len(Var.OP_OFFSET))
        case "queue_offset":
            values = plan.queue_offset(numbers)
        case "physical_offset":
            values = plan.physical(numbers)
        case "born_timestamp":
            values = plan.born_ms(numbers)
        case "store_timestamp":
            values = plan.stored_ms(numbers)
        case "prepared_transaction_offset":
            values = plan.physical(plan.origin(numbers))
        case _:
            values = _op_crcs(plan, numbers)
    made: Bytes = values.astype(_NUMBERS[name]).view(np.uint8)
    return made.reshape(len(numbers), -1)


def _op_crcs(plan: Plan, numbers: Ints) -> Ints:
    bodies = digits(plan.queue_offset(plan.origin(numbers)), len(Var.OP_OFFSET))
    return np.array([zlib.crc32(body.tobytes() + b",") & MASK for body in bodies], np.int64)


class SentRows:
    """Rows of what producers say was acknowledged, JSON lines of a fixed width per slot."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.texts: list[bytes] = []
        self.at: dict[str, Ints] = {}
        for number, slot in enumerate(plan.slots):
            keys = (UNIQUE_PREFIX + Var.UNIQUE, KEY_PREFIX + Var.KEY)
            text = sent_row(slot.topic, slot.queue, *keys) if slot.kind in SENT else b""
            self.texts.append(text)
            for name in (*_SENT_NUMBERS, *_SENT_TEXTS) if text else ():
                mark = f'"{name}":'.encode()
                at = text.index(mark) + len(mark)
                if name in _SENT_TEXTS:
                    at += 1 + len(_SENT_TEXTS[name])
                self.at.setdefault(name, np.full(SLOTS, -1, np.int64))[number] = at
        self.size = np.array([len(text) for text in self.texts], np.int64)

    def rows(self, first: int, last: int) -> bytes:
        """Those of messages first to last."""
        numbers = np.arange(first, last)
        numbers = numbers[self.size[numbers % SLOTS] > 0]
        slots = numbers % SLOTS
        buffer = np.frombuffer(b"".join(map(self.texts.__getitem__, slots.tolist())), np.uint8).copy()
        if not len(buffer):
            return b""
        start = np.cumsum(self.size[slots]) - self.size[slots]
        plan = self.plan
        for name, values in zip(_SENT_NUMBERS, (plan.queue_offset(numbers), plan.born_ms(numbers)), strict=True):
            rows = digits(values, NUMBER_WIDTH)
            rows[np.cumsum(rows != ord("0"), axis=1) == 0] = ord(" ")
            rows[values == 0, -1] = ord("0")
            put(buffer, start + self.at[name][slots], rows)
        put(buffer, start + self.at["uniqKey"][slots], hexadecimal(plan.identity(numbers), len(Var.UNIQUE)))
        put(buffer, start + self.at["keys"][slots], digits(plan.key(numbers), len(Var.KEY)))
        return buffer.tobytes()


_SENT_NUMBERS: Final = ("queueOffset", "bornTimestamp")
_SENT_TEXTS: Final = {"uniqKey": UNIQUE_PREFIX, "keys": KEY_PREFIX}


def sent_row(topic: str, queue: int, unique_key: str, keys: str, queue_offset: int = 0, born_ms: int = 0) -> bytes:
    """One acknowledged send."""
    names = json.dumps({"topic": topic, "queueId": queue}, separators=(",", ":"))[:-1]
    numbers = f'"queueOffset":{queue_offset:{NUMBER_WIDTH}},"bornTimestamp":{born_ms:{NUMBER_WIDTH}}'
    return f'{names},{numbers},"uniqKey":"{unique_key}","keys":"{keys}"}}\n'.encode()


def write_piece(store: Path, plan: Plan, first: int, last: int) -> int:
    """Write messages of one log file and their queue units.  Returns bytes of the log."""
    numbers = np.arange(first, last)
    data = pack(plan, first, last)
    at = int(plan.physical(numbers[:1])[0])
    file, place = divmod(at, plan.sizes.log_file_bytes)
    with Opened(log_file(store, plan, at)) as log:
        write_at(log, data.data, place)
        if last == plan.file_first[file + 1] and last < plan.count:
            end = place + len(data)
            write_at(log, pack_blank(plan.sizes.log_file_bytes - end), end)
    _write_queue_units(store, plan, numbers)
    return len(data)


def log_file(store: Path, plan: Plan, at: int) -> Path:
    """The file that has this place of the log."""
    return store / "commitlog" / f"{at // plan.sizes.log_file_bytes * plan.sizes.log_file_bytes:020}"


def _write_queue_units(root: Path, plan: Plan, numbers: Ints) -> None:
    """Each queue's run of units with one write per file of it."""
    slots = numbers % SLOTS
    queues = plan.queue_of[slots]
    order = np.argsort(queues, kind="stable")
    numbers, slots, queues = numbers[order], slots[order], queues[order]
    units = np.zeros(len(numbers), QUEUE_UNIT)
    units["physical_offset"] = plan.physical(numbers)
    units["size"] = plan.size[slots]
    units["tags_code"] = plan.queue_tags_code(numbers)
    offsets = plan.queue_offset(numbers)
    a_file = plan.sizes.queue_file_bytes // QUEUE_UNIT.itemsize
    breaks = (np.diff(offsets) != 1) | (np.diff(queues) != 0) | (offsets[1:] % a_file == 0)
    edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(numbers)]
    for begin, end in pairwise(edges):
        path = queue_file(root, plan, int(queues[begin]), int(offsets[begin]))
        with Opened(path) as file:
            write_at(file, units[begin:end].view(np.uint8).data, int(offsets[begin]) % a_file * QUEUE_UNIT.itemsize)


def queue_file(root: Path, plan: Plan, queue: int, offset: int) -> Path:
    """The file of a queue that holds the unit of a queue offset."""
    topic, queue_id = plan.queues[queue]
    size = plan.sizes.queue_file_bytes
    return root / "consumequeue" / topic / str(queue_id) / f"{offset * QUEUE_UNIT.itemsize // size * size:020}"


class Opened:
    """A file for writes at places, not emptied."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> int:
        self.handle = os.open(self.path, os.O_RDWR)
        return self.handle

    def __exit__(self, *error: object) -> None:
        os.close(self.handle)


def write_at(handle: int, data: bytes | memoryview, at: int) -> None:
    view = memoryview(data).cast("B")
    while view:
        done = os.pwrite(handle, view, at)
        view, at = view[done:], at + done
