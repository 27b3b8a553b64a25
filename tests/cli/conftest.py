"""What the command line's tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client_shell import Shell
from tests.support.subject import Subject, start_subject


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty directory of its own."""
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture(scope="module")
def ours(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """A name server and a broker of ours for a module, with the `PROPERTIES` that it names."""
    running = start_subject("ours", tmp_path_factory.mktemp("ours"), properties=getattr(request.module, "PROPERTIES", None))
    yield running
    running.end()


@pytest.fixture
def shell(ours: Subject, home: Path) -> Shell:
    """Commands of `rmq` against it."""
    return Shell(ours.namesrv, home)
