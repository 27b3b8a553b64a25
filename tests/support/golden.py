"""The golden bytes of `conformance/golden` for tests: frames by file, and the files of the golden store at full length."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from conformance.captures.frames import load
from conformance.frames import glance
from rmq_wire.message import MAGIC_BLANK, StoredMessage, read_size_and_magic, read_unit

GOLDEN: Final = Path(__file__).resolve().parents[2] / "conformance" / "golden"
STORE: Final = GOLDEN / "store-5.5.0"
FRAME_FILES: Final = tuple(sorted(path.stem for path in GOLDEN.glob("*.bin")))
SERVER_VERSION: Final = 513
"""What a 5.5.0 server writes as version into its answers."""


class Exchange(NamedTuple):
    """A frame, and for an answer the code that had been asked (None when the question was not kept)."""

    data: bytes
    asked: int | None
    is_response: bool


@cache
def exchanges(stem: str, directory: Path = GOLDEN) -> tuple[Exchange, ...]:
    """The frames of one file in order."""
    asked: dict[int, int] = {}
    found = []
    for data in load(directory / f"{stem}.bin"):
        seems = glance(data)
        if not seems.is_response:
            asked[seems.opaque] = seems.code
        found.append(Exchange(data, asked.get(seems.opaque), seems.is_response))
    return tuple(found)


@cache
def store_sizes() -> dict[str, int]:
    """Name in the store -> bytes of the whole file; the copy in the repository lacks the zeros at the end."""
    sizes: dict[str, int] = json.loads((STORE / "sizes.json").read_text())
    return sizes


def store_file(name: str) -> bytes:
    """One file as the broker left it."""
    return (STORE / name).read_bytes().ljust(store_sizes()[name], b"\0")


def store_files(under: str) -> dict[str, bytes]:
    """All files under one directory of the store, by name."""
    return {name: store_file(name) for name in sorted(store_sizes()) if name.startswith(f"{under}/")}


@cache
def stored_units() -> tuple[StoredMessage, ...]:
    """All messages in the store's log."""
    found: list[StoredMessage] = []
    for data in store_files("commitlog").values():
        at = 0
        while True:
            size, magic = read_size_and_magic(data, at)
            if magic == MAGIC_BLANK or size <= 0:
                break
            found.append(read_unit(data, at))
            at += size
    return tuple(found)


@cache
def answered() -> list[dict[str, Any]]:
    """What was sent and what the senders were answered: `version`, `sent` (arguments of the driver), `answers`."""
    read: list[dict[str, Any]] = json.loads((STORE / "told.json").read_text())
    return read


CAPTURES = GOLDEN / "captures"
STEMS = sorted(path.stem for path in CAPTURES.glob("*.jsonl"))


SMALL_FILES = {
    "mappedFileSizeCommitLog": "16384",
    "mappedFileSizeConsumeQueue": "2000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "2000",
    "persistConsumerOffset": "true",
    "flushDelayOffsetInterval": "1000",
}
"""Files so small that the log rolls and everything stays readable by eye."""
