"""What all rooms of tests share: which tests wait for the night, how hypothesis draws, a directory on a real disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ("tests.support.courses", "tests.support.cpu_seconds")
ROOT = Path(__file__).parents[1]

settings.register_profile("ci", deadline=None, print_blob=True)
settings.register_profile("nightly", deadline=None, print_blob=True, max_examples=1_000)
settings.load_profile("ci")
"""No deadline: how fast the machine is says nothing of the code.  `--hypothesis-profile=nightly` takes the other."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run the long variants, too (hours)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--nightly"):
        late = [item for item in items if item.get_closest_marker("nightly")]
        config.hook.pytest_deselected(items=late)
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """A directory on the file system of this checkout.  (`tmp_path` may lie in memory, where some calls of the system differ.)"""
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tests-", dir=build) as made:
        yield Path(made)
