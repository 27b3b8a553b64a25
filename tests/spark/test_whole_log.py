"""Jobs that look at the whole log refuse a range of it, before Spark is asked: the rest would be lost to them, or left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmq_columns import BadOption
from rmq_spark.measuring import source_of
from rmq_spark.picking import RANGES, WHOLE, refuse_ranges
from tests.spark.kit import outcome_of
from tests.support.stores import golden_store

OF_ORDERS = '{"Orders": {"0": 1}}'
PARAMETERS: dict[str, dict[str, Any]] = {
    "diff": {"other": "another"},
    "lag": {},
    "loss": {"ledger": ["sent.jsonl"]},
    "pending": {},
    "rebuild-queues": {"to": "queues"},
    "retries": {},
}


@pytest.mark.parametrize("name", ["startingOffsets", "endingoffsets"])
@pytest.mark.parametrize("job", PARAMETERS)
def test_a_range_of_queue_offsets(tmp_path: Path, job: str, name: str) -> None:
    store = golden_store(tmp_path / "store")
    given = {one: str(tmp_path / value) if isinstance(value, str) else value for one, value in PARAMETERS[job].items()}
    with pytest.raises(BadOption, match="whole"):
        outcome_of(None, job, store, **given, **{name: OF_ORDERS})


@pytest.mark.parametrize("name", RANGES)
def test_any_range(name: str) -> None:
    with pytest.raises(BadOption, match=rf"loss: looks at the whole log.*\({name}\)"):
        refuse_ranges(source_of("store", {name.upper(): OF_ORDERS}), "loss")


@pytest.mark.parametrize("word", [*WHOLE, " Earliest"])
def test_what_leaves_nothing_out(word: str) -> None:
    refuse_ranges(source_of("store", {"startingOffsets": word}), "loss")
