"""All defects: the tables of the areas as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from conformance.controls import (
    store_files,
    wire_admin,
    wire_clients,
    wire_frames,
    wire_later,
    wire_messages,
    wire_naming,
    wire_waiting,
)
from conformance.controls.defect import Defect, Row

AREAS: Final = (store_files, wire_messages, wire_clients, wire_admin, wire_frames, wire_waiting, wire_later, wire_naming)


def by_name(tables: Iterable[Mapping[str, Row]]) -> dict[str, Defect]:
    """Their rows.  Raises `ValueError` when a name is taken or nothing is to catch a defect."""
    found: dict[str, Defect] = {}
    for name, row in (item for table in tables for item in table.items()):
        if name in found:
            raise ValueError(f"defect {name} is declared twice")
        if not row.caught_by or "." not in name:
            raise ValueError(f"defect {name}: name it capability.what, and the cases that catch it")
        found[name] = Defect(name, row.wrong, tuple(row.caught_by.split()), row.mutate, row.spoil)
    return found


@cache
def load() -> dict[str, Defect]:
    """All defects by name, in the order of the tables."""
    return by_name(area.DEFECTS for area in AREAS)
