"""Stores of the real broker whose queues are built again, and all files of their queues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rmq_columns import parse_options
from rmq_columns.rebuild.work import Made, rebuild
from tests.support.stores import golden_of, golden_store

TREES = ("consumequeue", "batchconsumequeue", "consumequeue_ext")


def store_of(kind: str, root: Path) -> Path:
    return golden_store(root) if kind == "plain" else golden_of(kind, root)


def options_of(store: Path, **more: object) -> Any:
    logs = sorted(str(one) for one in store.glob("logs-*"))
    given = {"path": str(store), **({"storePathCommitLog": ",".join(logs)} if logs else {}), **more}
    return parse_options(given)


def files_of(root: Path) -> dict[str, bytes]:
    found = {}
    for tree in TREES:
        for path in sorted((root / tree).rglob("*")):
            if path.is_file():
                found[str(path.relative_to(root))] = path.read_bytes()
    return found


def built(store: Path, to: Path, how: dict[str, Any] | None = None, **more: object) -> list[Made]:
    return rebuild(options_of(store, **more), str(to), **(how or {}))
