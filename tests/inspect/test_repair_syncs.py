"""A store that was repaired: when `abort` goes, which says that it is half made, a power cut could take nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmq_inspect.decode.directory import list_store
from rmq_inspect.repair.repair import repair
from tests.support.power import Power
from tests.support.stores import golden_of, golden_store, rich_store


@pytest.mark.parametrize("kind", ["ours", "plain", "batch"])
def test_a_repaired_store_is_safe_before_it_counts_as_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    if kind == "ours":
        rich_store(tmp_path / "store")
    elif kind == "plain":
        golden_store(tmp_path / "store")
    else:
        golden_of(kind, tmp_path / "store")
    power = Power(tmp_path, monkeypatch)
    to = tmp_path / "new" / "repaired"
    left: list[list[str]] = []

    def at_its_end(call: str, path: str) -> None:
        if (call, path) == ("unlink", f"{to}/abort"):
            left.append(power.lost("new"))

    power.before_naming = at_its_end
    repair(list_store(tmp_path / "store"), to)
    assert left == [[]]
    assert power.lost("new") == []
    assert (to / "checkpoint").exists()
    assert not (to / "abort").exists()
