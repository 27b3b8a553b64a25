"""The Python blocks of `docs/spark.md` and `docs/spark-jobs.md`, and by night the commands, run as they stand.

Only where the stores lie is another place: `/data`, `/backup` and `/tmp/planted` are directories of the test.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs PySpark: the extra [spark]")
from rmq_columns import read_store
from tests.spark.kit import made
from tests.support.logs import write_log

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACES = ("/data", "/backup", "/tmp/planted")
FILE_OF_A_JOB = "# job.py"
"""Begins a block that is a file for `spark-submit`, which `test_cluster` submits."""
ORDERS = [{"id": number, "paid": number % 3 == 0, "lines": [{"sku": f"s{number}", "count": number}]} for number in range(9)]
JOB = re.compile(r"rmq spark (?!generate|JOB)[a-z-]+ ")
ELSEWHERE = ("s3://", "sent.csv", "sent.jsonl")
"""What is not there: a bucket, ledgers of the reader's own."""


def blocks(document: str, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall((DOCS / document).read_text(encoding="utf-8")) if kind == language]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With stores of two brokers, one of them with orders in JSON, a copy of it, and a planted one."""
    root = tmp_path_factory.mktemp("places")
    for name in ("broker-a", "broker-b"):
        store = root / "data" / name / "store"
        write_log(store, [json.dumps(order).encode() for order in ORDERS], topic=b"Orders")
        (store / "consumequeue" / "T").rename(store / "consumequeue" / "Orders")
    (root / "data" / "brokers").mkdir()
    for name in ("broker-a", "broker-b"):
        shutil.copytree(root / "data" / name, root / "data" / "brokers" / name)
    shutil.copytree(root / "data" / "brokers", root / "data" / "moved-brokers")
    shutil.copytree(root / "data" / "broker-a", root / "backup" / "broker-a")
    made(root / "tmp" / "planted", 1 << 20, lost=3, duplicate=5)
    return root


def moved(text: str, places: Path) -> str:
    for place in PLACES:
        text = re.sub(rf"(?<![\w/]){place}(?=/)", f"{places}{place}", text)
    return text


@pytest.mark.parametrize("number", range(len(blocks("spark.md", "python"))))
def test_blocks_about_reading(spark: Any, places: Path, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"spark": spark}
    exec(compile(moved(blocks("spark.md", "python")[number], places), f"block {number}", "exec"), names)
    if "how_many" in names:
        assert names["how_many"] == len(ORDERS)
        assert names["paid"].count() == 0
    if "records" in names:
        assert names["records"].columns[:2] == ["key", "value"]
    if "orders" in names:
        assert names["orders"].count() == len(ORDERS)
        shown = capsys.readouterr().out
        assert [line for line in shown.splitlines() if "s6" in line]
        assert "s7" not in shown


@pytest.mark.parametrize("number", range(len(blocks("spark-jobs.md", "python"))))
def test_blocks_about_jobs(spark: Any, places: Path, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    block = moved(blocks("spark-jobs.md", "python")[number], places)
    if block.startswith(FILE_OF_A_JOB):
        compile(block, "job.py", "exec")
        return
    names: dict[str, Any] = {"spark": spark}
    if "duckdb" in block:
        names["duckdb"] = pytest.importorskip("duckdb")
        from rmq_columns.export.parquet import export_store
        from tests.support.exports import options_of

        export_store(f"{places}/data/export", options_of(places / "data" / "broker-a" / "store"))
    exec(compile(block, f"block {number}", "exec"), names)
    if "found" in names:
        assert "uniqKey" in names["found"].columns or names["found"].columns


def test_the_store_of_the_example(places: Path) -> None:
    rows = read_store(places / "data" / "broker-a" / "store", topics=["Orders"], columns="body").read_all()
    assert [json.loads(body) for body in rows["body"].to_pylist()] == ORDERS


@pytest.mark.nightly
def test_the_commands(spark: Any, places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ends with what it may end with: clean, or something found.  Nobody "could not look"."""
    from rmq_cli.main import main

    monkeypatch.chdir(tmp_path)
    ran = 0
    for line in "".join(blocks("spark-jobs.md", "sh")).splitlines():
        if not JOB.match(line) or any(place in line for place in ELSEWHERE):
            continue
        words = shlex.split(moved(line, places), comments=True)[1:]
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), pytest.raises(SystemExit) as ended:
            main(words)
        assert (ended.value.code or 0) in (0, 1), f"{line}: {said.getvalue()}"
        print(line, said.getvalue()[:80].splitlines()[:1], file=sys.stderr)
        ran += 1
    assert ran > 12
    assert spark.range(1).count() == 1
