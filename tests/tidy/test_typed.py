"""Who installs this gets its types: without the mark of PEP 561 mypy takes every name of a package for `Any`."""

from __future__ import annotations

import tomllib

from tests.tidy.trees import ROOT


def test_every_package_that_is_checked_says_so() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["packages"]
    assert [name for name in told if name != "planted_stores" and not (ROOT / name / "py.typed").exists()] == []
