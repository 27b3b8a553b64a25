"""`rmq spark` where PySpark is not: help, what to install, words that need none of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rmq_spark.jobs import JOBS
from tests.cli.spark_stub import Seen, look
from tests.support.rmq import run

WITHOUT = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Without())
import importlib.util
there = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {blocked!r} else there(name, package)
from rmq_cli.main import main
main({words!r})
"""


def without(blocked: tuple[str, ...], *words: str) -> Seen:
    """The command in a Python that has not got these packages."""
    code = WITHOUT.format(blocked=blocked, words=words)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return Seen(done.returncode, done.stdout, done.stderr)


def test_help_needs_no_pyspark() -> None:
    seen = without(("pyspark", "py4j"), "spark", "--help")
    assert seen.status == 0, seen.err
    assert all(name in seen.out for name in (*JOBS, "generate", "head"))
    assert "pip install -e '.[spark]'" in seen.out


@pytest.mark.parametrize("name", [*JOBS, "generate", "head"])
def test_help_of_each_job_needs_no_pyspark(name: str) -> None:
    seen = without(("pyspark", "py4j"), "spark", name, "--help")
    assert seen.status == 0, seen.err
    assert seen.out.startswith(f"Usage: rmq spark {name} ")


def test_without_pyspark_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    seen = without(("pyspark", "py4j"), "spark", "duplicates", str(tmp_path))
    assert (seen.status, seen.out) == (2, "")
    [line] = seen.err.splitlines()
    assert "needs pyspark: pip install -e '.[spark]'" in line


def test_a_job_that_there_is_not(tmp_path: Path) -> None:
    done = run("spark", "sort", ".", home=tmp_path)
    assert done.returncode == 2
    assert "No such command 'sort'" in done.stderr


# The generator


def test_generate_and_what_it_says(tmp_path: Path) -> None:
    pytest.importorskip("numpy", reason="needs numpy")
    seen = look("generate", tmp_path / "g", "--size", "1MiB", "--faults", "lost=1", "--workers", "0")
    assert (seen.status, seen.err) == (0, "")
    assert f"{tmp_path / 'g' / 'store'}: " in seen.out
    assert "1 faults" in seen.out
    assert len((tmp_path / "g" / "faults.jsonl").read_text().splitlines()) == 1
    reported = json.loads(look("generate", tmp_path / "h", "--size", "1MiB", "--workers", "0", "--no-index", "--json").out)
    assert (reported["indexEntries"], reported["faults"]) == (0, 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--size", "big"], "'big' is no size"), (["--faults", "x=1"], "not a fault: 'x=1'"), ([], "is not empty")],
)
def test_generate_refuses_in_a_line(tmp_path: Path, words: list[str], said: str) -> None:
    pytest.importorskip("numpy", reason="needs numpy")
    (tmp_path / "file").write_text("")
    seen = look("generate", tmp_path if not words else tmp_path / "g", *words, "--workers", "0")
    assert (seen.status, seen.out) == (2, "")
    [line] = seen.err.splitlines()
    assert said in line


# As a module


def test_python_m_takes_the_same_words() -> None:
    done = subprocess.run([sys.executable, "-m", "rmq_cli.spark", "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: rmq spark [OPTIONS] COMMAND")
