"""Damage that tests plant into a store (`damaged_store`), and what must be found of it; the kinds are in `plants_*`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rmq_wire.layout import checkpoint, consume_queue
from rmq_wire.layout.flat import flat
from tests.support.damaged_store import Subject

QUEUE_UNIT = flat(consume_queue.UNIT)
CHECKPOINT = flat(checkpoint.FIELDS)
WHOLE_FILE = -1


class Where(NamedTuple):
    """What must be found: a finding of this kind there, and besides it only kinds that follow from it."""

    code: str
    file: str
    offset: int
    along: frozenset[str] = frozenset()


def name(path: Path) -> str:
    return "/".join(path.parts[-2:]) if path.parent.name in ("commitlog", "index", "config") else "/".join(path.parts[-4:])


Plant = Callable[[Subject], Where]


class Plants(list[Plant]):
    """Of one module."""

    def add(self, function: Plant) -> Plant:
        self.append(function)
        return function


def flip(s: Subject, path: Path, at: int, bits: int = 0x40) -> None:
    s.write(path, at, bytes([s.read(path, at, 1)[0] ^ bits]))


LOST = frozenset({"queue-dangling", "index-wrong", "index-missing"})
