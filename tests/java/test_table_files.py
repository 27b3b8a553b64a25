"""Configuration files that the Java broker's classes read and write again: our tables write the same bytes."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from tests.support.filled_tables import COPIED, KINDS, LARGE, Kind
from tests.support.java import judge

pytestmark = pytest.mark.java
VERSION: Final = re.compile(rb'"dataVersion":[^}]*')
FORGETS_VERSION: Final = "offset.LmqConsumerOffsetManager"
"""It reads no data version, where ours keeps that of the file."""
COMPACT: Final = "transaction.TransactionMetrics"
"""A broker writes its file without white space."""


def read_and_written(kinds: Mapping[str, Kind]) -> Iterator[tuple[str, bytes, bytes, bytes]]:
    """Of each: its class, a file, what we write that have read it, and what Java does."""
    wall_ms = time.time_ns() // 1_000_000
    tables = {name: kind.tables(wall_ms) for name, kind in kinds.items()}
    files = {name: filled.encode() for name, (filled, _) in tables.items()}
    classes = [f"org.apache.rocketmq.broker.{name}" for name in kinds]
    given = b"".join(file + b"\0" for file in files.values())
    ran = subprocess.run(judge("TableFile", *classes), input=given, capture_output=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    *written, rest = ran.stdout.split(b"\0")
    assert rest == b""
    for (name, file), theirs in zip(files.items(), written, strict=True):
        table = tables[name][1]
        table.load(file)
        yield name, file, table.encode(), theirs


def test_java_and_we_write_what_we_read_in_one_order() -> None:
    """Java takes some maps as its JSON reader has made them, and copies others to its own."""
    for name, file, ours, theirs in read_and_written(KINDS):
        if name == FORGETS_VERSION:
            ours, theirs, file = (VERSION.sub(b"", text) for text in (ours, theirs, file))
        assert ours == theirs, name
        assert (theirs == file) is (name in COPIED), name


def test_java_makes_room_for_many_rows_before_it_copies_them() -> None:
    for name, file, ours, theirs in read_and_written(LARGE):
        if name == COMPACT:
            theirs = theirs.translate(None, b"\n\t")
        assert ours == theirs, name
        assert theirs != file, name
