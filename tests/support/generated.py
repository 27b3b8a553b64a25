"""Generated stores with planted faults, and what the checks of a store say of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from planted_stores.generate import Wanted, generate
from planted_stores.plan import Sizes
from tests.support.planted_kinds import SEEN_AS

SIZES = Sizes(log_file_bytes=1 << 20, queue_file_bytes=4000, hash_slots=500, index_entries=10_000)
SMALL, BIG = 2_500_000, 9_000_000
BODY_BYTES = 60
VISIBLE = SEEN_AS | {"position-ahead": {"position-ahead"}}
"""Kind -> what verify says of it."""


def make(root: Path, faults: dict[str, int], size: int = SMALL, seed: int = 11) -> tuple[Path, list[dict[str, Any]]]:
    """(store, ledger)."""
    store = generate(root, Wanted(size, BODY_BYTES, seed, faults, SIZES, with_sent="lost" in faults)).store
    return store, [json.loads(line) for line in (root / "faults.jsonl").read_text().splitlines()]


def idled(store: Path, topic: str = "orders", queue_id: int = 0) -> int:
    """Only the last log file is left, and this queue had its last message before.  Where the log begins."""
    files = sorted((store / "commitlog").iterdir())
    for path in files[:-1]:
        path.unlink()
    start = int(files[-1].name)
    for path in (store / "consumequeue" / topic / str(queue_id)).iterdir():
        units = [path.read_bytes()[at : at + 20] for at in range(0, path.stat().st_size, 20)]
        path.write_bytes(b"".join(one if int.from_bytes(one[:8]) < start else bytes(20) for one in units))
    return start
