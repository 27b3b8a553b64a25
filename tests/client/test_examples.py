"""The scenarios of `examples/` on our broker, and that the page beside them names each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import example_runs
from tests.support.example_runs import EXAMPLES
from tests.support.rmq import ROOT
from tests.support.subject import Subject, start_broker, start_name_server


@pytest.mark.parametrize("name", EXAMPLES)
def test_scenario(ours: Subject, name: str, tmp_path: Path) -> None:
    example_runs.play(name, ours, tmp_path)


def test_one_of_two_brokers_dies(tmp_path: Path) -> None:
    names = start_name_server("ours", tmp_path / "namesrv")
    brokers = [start_broker("ours", tmp_path / name, names.address, name=name) for name in ("broker-a", "broker-b")]
    try:
        printed = example_runs.run("broker_dies", names.address, tmp_path, [str(brokers[1].pid)])
    finally:
        for process in (*brokers, names):
            process.end()
    assert re.match(
        r"both alive: {'broker-[ab]': 4, 'broker-[ab]': 4}\none is killed: {'broker-a': 8}\nbroker-a has all 12 ", printed
    )


def test_the_page_names_each_and_no_other() -> None:
    page = (ROOT / "examples" / "README.md").read_text()
    named = set(re.findall(r"^\| `(\w+)\.py", page, re.MULTILINE))
    there = {file.stem for file in (ROOT / "examples").glob("*.py")} - {"scenario"}
    assert named == there == {*EXAMPLES, "broker_dies"}
