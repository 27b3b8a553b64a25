"""README's commands for Spark, and those of `docs/spark.md`, on the store that the real broker wrote.

By day one after the other in the session of the tests, on less data; by night as they stand, each in a JVM of its own, also in an
environment that the first two of them make.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster import DRIVER_S_MAX, clean_environment, needs_spark
from tests.support.rmq import NOT_COPIED

ROOT = Path(__file__).parents[2]
SETTING_UP = ["python3 -m venv build/spark && . build/spark/bin/activate", "pip install -q '.[spark]'"]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(document: str, heading: str = "") -> list[str]:
    """The shell blocks behind a heading, up to the next of that level; or all of a document."""
    text = (ROOT / document).read_text(encoding="utf-8")
    if heading:
        text = text[text.index(f"\n## {heading}\n") + 1 :]
        text = text[: text.index("\n## ")]
    return BLOCK.findall(text)


def run(commands: str, checkout: Path) -> str:
    """Both streams.  The first command that fails ends it."""
    done = subprocess.run(
        ["bash", "-ex"],
        input=commands,
        cwd=checkout,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DRIVER_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def without_setting_up(block: str) -> str:
    """The same with this Python's environment in place of the one that would be made."""
    lines = block.splitlines(keepends=True)
    assert [line.rstrip("\n") for line in lines[:2]] == SETTING_UP
    return "PATH=build/spark/bin:$PATH\n" + "".join(lines[2:])


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory with all of ours in it and a `build` of its own."""
    needs_spark()
    for entry in ROOT.iterdir():
        if entry.name not in ("build", ".git", ".venv"):
            (tmp_path / entry.name).symlink_to(entry)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "spark").symlink_to(sys.prefix)
    return tmp_path


def in_session(block: str, monkeypatch: pytest.MonkeyPatch, checkout: Path) -> str:
    """Each `rmq spark …` of a block in the Spark that is there, its exit status held to what the block says of it."""
    from rmq_cli.main import main

    monkeypatch.chdir(checkout)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    reported = ""
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        if words[:2] != ["rmq", "spark"]:
            reported += run(f"PATH=build/spark/bin:$PATH\n{line}\n", checkout)
            continue
        own, _, expected = line.partition("|| test $? = ")
        with contextlib.redirect_stdout(io.StringIO()) as said, pytest.raises(SystemExit) as ended:
            main(shlex.split(own, comments=True)[1:])
        assert (ended.value.code or 0) == int(expected.split()[0] if expected else 0), line
        reported += said.getvalue()
    return reported


def assert_done(checkout: Path, reported: str) -> None:
    """What the section says of its commands."""
    assert "no finding" in reported or "clean" in reported
    assert (checkout / "build" / "skew.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    exported = json.loads((checkout / "build" / "export" / "_SUCCESS").read_text(encoding="utf-8"))
    assert exported["rows"] > 0
    assert exported["corrupt_rows"] == 0


def test_the_section_of_the_readme(checkout: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    [block] = blocks_of("README.md", "Over terabytes")
    assert without_setting_up(block).count("200MB") == 1
    assert_done(checkout, in_session("".join(block.splitlines(keepends=True)[2:]).replace("200MB", "8MB"), monkeypatch, checkout))
    assert spark.range(1).count() == 1


@pytest.mark.nightly
def test_the_section_from_a_shell(checkout: Path) -> None:
    [block] = blocks_of("README.md", "Over terabytes")
    assert_done(checkout, run(without_setting_up(block), checkout))


@pytest.mark.nightly
def test_the_shell_and_the_cluster(checkout: Path) -> None:
    shell, cluster = blocks_of("docs/spark.md")
    reported = run(without_setting_up(shell) + cluster, checkout)
    assert "|topic " in reported
    assert "|consumerGroup" in reported or "|group" in reported


@pytest.mark.nightly
def test_the_section_in_an_environment_of_its_own(tmp_path: Path) -> None:
    """As a newcomer has it: what the extra brings in is all there is."""
    needs_spark()
    shutil.copytree(ROOT, tmp_path / "checkout", ignore=NOT_COPIED)
    (tmp_path / "checkout" / "build").mkdir()
    [block] = blocks_of("README.md", "Over terabytes")
    run(block, tmp_path / "checkout")
