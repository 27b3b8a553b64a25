"""The committed truth is what the jars say today."""

from __future__ import annotations

import pytest

from conformance.truth import HERE, VERSIONS
from conformance.truth.extract import render
from tests.support.java import REFERENCE, javac

pytestmark = pytest.mark.java


@pytest.mark.parametrize(
    "version", [version if version == REFERENCE else pytest.param(version, marks=pytest.mark.nightly) for version in VERSIONS]
)
def test_extracting_again_changes_nothing(version: str) -> None:
    javac()
    assert render(version) == (HERE / f"{version}.json").read_text(encoding="utf-8")
