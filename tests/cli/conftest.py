"""What the command line's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty directory of its own."""
    path = tmp_path / "home"
    path.mkdir()
    return path
