"""What is installed is what is used: the extra that a page names has what its examples import, and no server pays for numpy."""

from __future__ import annotations

import re
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.support.rmq import DEV, Server
from tests.support.talk import Talk
from tests.tidy.trees import PRODUCT_ROOMS, ROOMS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
METHODS = {"read_pandas": "pandas"}
"""Called in an example -> what that needs."""
EXTRA_OF = {"columns.md": "columns", "spark.md": "spark", "spark-jobs.md": "spark"}


def names_of(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=\[ ]", one)[0] for one in requirements}


@pytest.mark.parametrize("page", EXTRA_OF)
def test_an_example_has_what_it_imports(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    extra = EXTRA_OF[page]
    assert f"[{extra}]" in text
    blocks = "".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    used = set(re.findall(r"^(?:import|from) (\w+)", blocks, re.MULTILINE))
    used |= {needed for method, needed in METHODS.items() if f".{method}(" in blocks}
    own = {*ROOMS, *sys.stdlib_module_names, "pyspark_rocketmq_store"}
    assert used - own <= names_of(PROJECT["dependencies"]) | names_of(PROJECT["optional-dependencies"][extra])


def test_what_is_said_to_install_is_there() -> None:
    """In messages and pages: an extra that there is, from the checkout, for no index has the package."""
    for path in (*ROOT.glob("rmq_*/**/*.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md"):
        text = path.read_text(encoding="utf-8")
        assert f"install '{PROJECT['name']}" not in text, path
        for extra in re.findall(r"pip install (?:-q |-e )*'?\.\[(\w+)\]", text):
            assert extra in PROJECT["optional-dependencies"], path


def test_every_room_is_packed_and_checked() -> None:
    """In a wheel, in the image's context, by mypy."""
    rooms = {room for room in PRODUCT_ROOMS if (ROOT / room).is_dir()}
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    context = [line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")]
    assert rooms == set(tool["mypy"]["packages"])
    for patterns in (tool["setuptools"]["packages"]["find"]["include"], context):
        assert not {room for room in rooms if not any(fnmatchcase(room, pattern) for pattern in patterns)}, patterns


def test_a_server_imports_neither_numpy_nor_pyarrow(tmp_path: Path) -> None:
    """From its start over a message to its stop; and numpy, which `verify` and `export` need, comes with the package."""
    assert "numpy" in names_of(PROJECT["dependencies"])
    program = [sys.executable, "-X", "importtime", "-m", "rmq_cli.main", *DEV, "--ephemeral"]
    with Server(tmp_path, program=program) as server, Talk(server.ready["broker"]) as talk:
        assert talk.send("T", b"x").code == 0
        assert server.stop() == 0
    imported = set(re.findall(r"^import time:.*\| +(\S+)$", server.log.read_text(), re.MULTILINE))
    assert {"trio", "msgspec"} <= imported
    assert not {name.partition(".")[0] for name in imported} & {"numpy", "pyarrow", "pandas", "duckdb", "pyspark"}
