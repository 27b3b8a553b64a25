"""Generated stores for the tests of jobs: made once, clean and with faults, and the ledger of what was planted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planted_stores.generate import Wanted, generate
from planted_stores.plan import Sizes
from rmq_spark.jobs import JOBS
from rmq_spark.measuring import source_of
from rmq_spark.outcome import Outcome
from rmq_spark.session import silent

SMALL = Sizes(log_file_bytes=2 << 20, queue_file_bytes=6000, hash_slots=1000, index_entries=40000)
LOG_BYTES = 6 << 20
BODY_BYTES = 128
"""More messages to the byte: timed messages are delivered twenty rounds of a thousand messages later."""


def made(directory: Path, size: int = LOG_BYTES, **faults: int) -> Path:
    """A directory with store/, sent/ and faults.jsonl."""
    named = {name.replace("_", "-"): count for name, count in faults.items()}
    generate(directory, Wanted(size, BODY_BYTES, faults=named, sizes=SMALL, with_index=False))
    return directory


def planted(directory: Path, *kinds: str) -> list[dict[str, Any]]:
    """Rows of the ledger of faults, of these kinds."""
    rows = [json.loads(line) for line in (directory / "faults.jsonl").read_text().splitlines()]
    return [row for row in rows if row["kind"] in kinds]


def outcome_of(spark: Any, name: str, paths: Any, **options: Any) -> Outcome:
    """A job as the command runs it.  paths: one or several; options: parameters and options of the format."""
    job = JOBS[name]
    given, rest = job.arguments(options)
    outcome = job.run(spark, source_of(paths, rest), given, silent)
    json.dumps(outcome.as_json())
    return outcome


def job(spark: Any, name: str, *paths: Path, options: Mapping[str, str] | None = None, **given: Any) -> Outcome:
    """The same, of splits of 1 MiB."""
    return outcome_of(spark, name, paths, **{"splitBytes": "1m", **(options or {}), **given})


def figures(outcome: Outcome) -> dict[str, Any]:
    """By name."""
    return {one.name: one.value for one in outcome.figures}
