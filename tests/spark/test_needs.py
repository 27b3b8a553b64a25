"""Without PySpark, numpy or pyarrow: what is said, and that nothing is loaded too early.  Needs none of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rmq_spark
from rmq_spark import MissingPackage, needs


def run(code: str, *blocked: str) -> str:
    """What a Python without these packages prints."""
    whole = f"import sys\nsys.modules.update(dict.fromkeys({blocked!r}))\n{code}"
    return subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("missing", [("pyspark",), ("numpy", "pyarrow")])
def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...]) -> None:
    monkeypatch.setattr(needs, "find_spec", lambda name: None if name in missing else object())
    with pytest.raises(MissingPackage, match=rf"needs {', '.join(missing)}: pip install -e '\.\[spark\]'"):
        rmq_spark.need()


def test_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "find_spec", lambda _name: object())
    rmq_spark.need()


def test_the_module_of_the_format_without_pyspark() -> None:
    code = "try:\n import pyspark_rocketmq_store\nexcept ImportError as reason:\n print(type(reason).__name__, reason)"
    said = run(code, "pyspark")
    assert said.startswith("MissingPackage rocketmq_store needs pyspark")
    assert "pip install -e '.[spark]'" in said


def test_the_package_loads_nothing() -> None:
    code = "import sys, rmq_spark\nprint([n for n in ('pyspark', 'numpy', 'pyarrow', 'rmq_columns') if n in sys.modules])"
    assert run(code) == "[]\n"


def test_formats_are_found_without_pyarrow() -> None:
    """A module that fails here would take the formats of others with it; what is missing is said when a store is read."""
    pytest.importorskip("pyspark", reason="needs PySpark: the extra [spark]")
    code = (
        "from pyspark_rocketmq_store import DefaultSource\nprint(DefaultSource.name())\n"
        "try:\n DefaultSource({'path': 'x'}).schema()\nexcept ImportError as reason:\n print(reason)"
    )
    said = run(code, "pyarrow", "numpy").splitlines()
    assert said[0] == "rocketmq_store"
    assert said[1].startswith("rocketmq_store needs numpy, pyarrow: pip install")


def test_no_other_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'stream'"):
        _ = rmq_spark.stream
