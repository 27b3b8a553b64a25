"""`rmq spark head`: the first messages of a topic, what they cost, and by what they were found.  Without Spark."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("numpy", reason="needs numpy and pyarrow: the extra [columns]")
pytest.importorskip("pyarrow", reason="needs numpy and pyarrow: the extra [columns]")

from planted_stores.generate import Wanted, generate
from rmq_cli.spark import command
from rmq_columns import read_store

LOG_BYTES = 4 << 20


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("made") / "g", Wanted(LOG_BYTES, 512, with_index=False, with_sent=False)).store


def head(*words: object) -> tuple[int, list[str], str]:
    """(exit status, lines, the last line of standard error)."""
    done = CliRunner().invoke(command, ["head", *map(str, words)])
    return done.exit_code, done.stdout.splitlines(), done.stderr.strip()


def wanted(store: Path, count: int, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_store(store, columns="queueId,queueOffset", pruning="off", **options).read_all().to_pylist()
    return rows[:count]


def test_the_first_messages(store: Path) -> None:
    status, lines, said = head(store, "--topic", "%DLQ%GID-orders", "-n", 5, "--columns", "queueId,queueOffset", "--json")
    assert (status, [json.loads(line) for line in lines]) == (0, wanted(store, 5, topics=["%DLQ%GID-orders"]))
    asked = r"asked for ([\d.]+) KiB in (\d+) requests, of ([\d.]+) MiB of log"
    found = re.fullmatch(rf"rmq: 5 messages; found by 1 consume queues; {asked}", said)
    assert found, said
    assert float(found[1]) / 1024 < float(found[3]) / 4


def test_from_an_offset_on(store: Path) -> None:
    chosen = {"clicks": {"0": 50}}
    words = ["--topic", "clicks", "-n", 3, "--columns", "queueId,queueOffset", "--json", "--option", "queueIds=0"]
    status, lines, _ = head(store, *words, "--option", f"startingOffsets={json.dumps(chosen)}")
    assert status == 0
    assert [json.loads(line) for line in lines] == [{"queueId": 0, "queueOffset": number} for number in (50, 51, 52)]


def test_without_queues_it_says_why_it_scanned(store: Path, tmp_path: Path) -> None:
    shutil.copytree(store, tmp_path / "store", ignore=shutil.ignore_patterns("consumequeue"))
    status, lines, said = head(tmp_path / "store", "--topic", "clicks", "-n", 2)
    assert (status, len(lines)) == (0, 2)
    assert said.startswith("rmq: 2 messages; scanned: queue 0 of clicks has no files; asked for ")


def test_none_and_nobody(store: Path) -> None:
    assert head(store, "--topic", "clicks", "--option", "startingTimestamp=2100-01-01")[:2] == (1, [])
    status, lines, said = head(store, "--topic", "Clicks")
    assert (status, lines, said) == (2, [], f"rmq: no topic Clicks in {store}: did you mean clicks?")
    assert head(store, "--topic", "clicks", "--columns", "bdy")[2].startswith("rmq: columns: no bdy; there are ")
