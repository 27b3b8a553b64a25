"""Damaged stores, each from a number, and how a task reads one: in every mode, nothing allowed but an error of the store."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from rmq_columns import StoreError, read_store
from rmq_wire.layout.message import MAGIC_BLANK, MAGIC_V1, MAGIC_V2

EDGES: Final = (0, 1, 2, 7, 8, 20, 90, 91, 1 << 15, 1 << 16, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
"""Lengths at which something changes its sign or its meaning."""
WORDS: Final = tuple(word.to_bytes(4, "big", signed=True) for word in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK))
TABLES: Final = ("messages", "consumequeue", "index", "gaps", "files")
OUTCOME: Final = pa.schema([("number", pa.int32()), ("reads", pa.int32()), ("refused", pa.int32()), ("wrong", pa.string())])


def mutate(raw: bytearray, chance: random.Random) -> None:
    """A few changes in place; the file keeps its size but for the last kind."""
    for _ in range(chance.randint(1, 6)):
        used = max(len(raw.rstrip(b"\0")), 1)
        at = chance.randrange(used)
        match chance.randrange(6):
            case 0:
                raw[at] = chance.randrange(256)
            case 1:
                raw[at : at + 4] = chance.choice(EDGES).to_bytes(4, "big")[: len(raw) - at]
            case 2:
                raw[at : at + 4] = chance.choice(WORDS)[: len(raw) - at]
            case 3:
                size = chance.randrange(1, 400)
                raw[at : at + size] = bytes(min(size, len(raw) - at))
            case 4:
                source, size = chance.randrange(used), chance.randrange(1, 600)
                piece = bytes(raw[source : source + size])[: len(raw) - at]
                raw[at : at + len(piece)] = piece
            case _:
                if chance.randrange(4) == 0 and len(raw) > 8:
                    del raw[chance.randrange(len(raw)) :]


def mutant(store: Path, target: Path, number: int) -> Path:
    """A copy of a store with one or two of its files damaged."""
    shutil.copytree(store, target)
    chance = random.Random(number)
    kinds = ("commitlog", "commitlog", "commitlog", "consumequeue", "index")
    for _ in range(chance.randint(1, 2)):
        files = sorted(path for path in (target / chance.choice(kinds)).rglob("*") if path.is_file())
        path = chance.choice(files)
        raw = bytearray(path.read_bytes())
        if raw:
            mutate(raw, chance)
            path.write_bytes(raw)
    return target


def read_mutants(store: str, numbers: range) -> Iterator[pa.RecordBatch]:
    """Reads each in every mode; a row says how often, and what was wrong."""
    for number in numbers:
        with tempfile.TemporaryDirectory() as scratch:
            root = mutant(Path(store), Path(scratch) / "broker-a", number)
            reads, refused, wrong = _read(root)
        row = ([number], [reads], [refused], [wrong])
        yield pa.record_batch([pa.array(value, field.type) for value, field in zip(row, OUTCOME, strict=True)], schema=OUTCOME)


def _read(root: Path) -> tuple[int, int, str | None]:
    reads = refused = 0
    for table in TABLES:
        shown = _rows(root, table=table, mode="PERMISSIVE", **_more(table))
        sound = _rows(root, table=table, mode="DROPMALFORMED", **_more(table))
        if table != "gaps" and len(sound) > len(shown):
            return reads, refused, f"{table}: more rows are sound than there are"
        reads += 3
        try:
            every = _rows(root, table=table, **_more(table))
        except StoreError as reason:
            refused += 1
            if str(root) not in str(reason):
                return reads, refused, f"{table}: {reason} does not say where"
            continue
        if every != sound:
            return reads, refused, f"{table}: read as sound, but with other rows"
    return reads, refused, None


def _more(table: str) -> dict[str, str]:
    return {"verifyCrc": "true", "decompress": "true", "includeSystemTopics": "true"} if table == "messages" else {}


def _rows(root: Path, **options: str) -> list[str]:
    """As text: a damaged time may be none that Python knows."""
    found = []
    for batch in read_store(root, batchRows=50, **options):
        batch.validate(full=True)
        columns = [
            column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
            if name != "_corrupt"
        ]
        found += [repr(row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]
    return found
