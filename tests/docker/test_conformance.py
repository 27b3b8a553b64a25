"""The conformance suite against the real one in containers: every case comes out as expected, and no container is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.subjects.docker import LABEL
from tests.support.conform import conform

pytestmark = pytest.mark.docker


def test_the_image(daemon: Any, real: str, tmp_path: Path) -> None:
    outcomes = conform(tmp_path, "--docker", real)
    assert not outcomes["failed"]
    assert not outcomes["error"]
    assert not daemon.containers.list(all=True, filters={"label": LABEL})
