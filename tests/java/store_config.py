"""The `config` files and the checkpoint that a broker leaves at a clean stop: their style, and what the other made of them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from rmq_wire import fastjson
from rmq_wire.layout.checkpoint import FIELDS, FILE_SIZE
from rmq_wire.layout.index import HEADER
from tests.support.store_differ import by_age, read_files
from tests.support.store_view import View

PROGRESS = {"consumerOffset.json": "offsetTable", "delayOffset.json": "offsetTable"}
"""Tables of numbers that only grow."""
TABLES = {"topics.json": "topicConfigTable", "subscriptionGroup.json": "subscriptionGroupTable"}
"""Tables whose rows nobody changes unless he is asked to."""


def with_number_keys(value: Any) -> Any:
    """Keys that are numbers as numbers: the reader gives them as text, the writer leaves them bare."""
    if isinstance(value, dict):
        return {int(key) if str(key).isdigit() else key: with_number_keys(one) for key, one in value.items()}
    if isinstance(value, list):
        return [with_number_keys(one) for one in value]
    return value


class Configuration:
    """What the JSON files say, and that each is written as Java 5.5.0 writes it."""

    def __init__(self, store: Path, *, by_java: bool) -> None:
        self.by_java = by_java
        self.documents: dict[str, dict[str, Any]] = {}
        for path in sorted((store / "config").glob("*.json")):
            text = path.read_bytes()
            document = with_number_keys(fastjson.loads(text))
            assert fastjson.dumps_pretty(document) == text, f"style of {path.name}"
            self.documents[path.name] = document
        assert self.documents.keys() >= TABLES.keys() | PROGRESS.keys()

    def follows(self, before: Configuration, *, deleted: Collection[str]) -> None:
        """The same files with the same members; rows as they were, numbers not less, but for deleted topics."""
        assert self.documents.keys() >= before.documents.keys()
        for name, document in before.documents.items():
            assert document.keys() <= self.documents[name].keys(), f"members of {name}"
        for name, table in TABLES.items():
            now = self.documents[name][table]
            for key, row in before.documents[name][table].items():
                if key not in deleted:
                    assert now.get(key) == row, f"{key} in {name}"
                    assert list(now[key]) == list(row), f"order of members of {key} in {name}"
        for name, table in PROGRESS.items():
            now = self.documents[name][table]
            for key, row in before.documents[name][table].items():
                if str(key).split("@")[0] not in deleted:
                    assert _not_less(now.get(key), row), f"{key} in {name}: {row} became {now.get(key)}"


def _not_less(now: Any, before: Any) -> bool:
    if isinstance(before, dict):
        return isinstance(now, dict) and all(_not_less(now.get(key), value) for key, value in before.items())
    return now is not None and bool(now >= before)


def check_checkpoint(store: Path, view: View) -> None:
    """Each field is explained by the log: it lags behind the truth or is 0 (unknown), and names a message that is there.

    Both brokers write it when they flush, so the values differ from run to run; none may run ahead.
    """
    data = (store / "checkpoint").read_bytes()
    assert len(data) == FILE_SIZE
    assert not any(data[FIELDS.sizeof() :])
    found = FIELDS.parse(data)
    times = {one.unit.store_timestamp for one in view.units}
    assert found.physic_msg_timestamp in times | {0}
    assert found.logics_msg_timestamp in times | {0}
    assert found.logics_physical_offset in view.at.keys() | {0}
    if found.logics_physical_offset:
        assert view.at[found.logics_physical_offset].unit.store_timestamp == found.logics_msg_timestamp
    headers = [HEADER.parse(data) for name, data in by_age(read_files(store, ("index",))).items()]
    assert found.index_msg_timestamp in {header.end_timestamp for header in headers} | {0}
    assert found.confirm_phy_offset in view.at.keys() | {0}
    assert found.master_flushed_offset == 0
