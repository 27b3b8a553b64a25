"""The committed truth is what the jars say today."""

from __future__ import annotations

import pytest

from conformance.truth import BODIES, HERE, VERSIONS
from conformance.truth.extract import render
from tests.support.java import javac

pytestmark = pytest.mark.java


@pytest.mark.parametrize("name", [BODIES, *(pytest.param(name, marks=pytest.mark.nightly) for name in VERSIONS)])
def test_extracting_again_changes_nothing(name: str) -> None:
    """By day of bodies alone: jars do not change."""
    javac()
    assert render(name) == (HERE / f"{name}.json").read_text(encoding="utf-8")
