"""What all rooms of tests share: which tests wait for the night, how hypothesis draws, a directory on a real disk."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.garbage import collect_seldom

pytest.register_assert_rewrite("tests.support.client_behaviours")  # its statements are tests: they say what was found
pytest_plugins = ("tests.support.courses", "tests.support.cpu_seconds")
ROOT = Path(__file__).parents[1]

settings.register_profile("ci", deadline=None, print_blob=True)
settings.register_profile("nightly", deadline=None, print_blob=True, max_examples=1_000)
settings.load_profile("ci")
"""No deadline: how fast the machine is says nothing of the code.  `--hypothesis-profile=nightly` takes the other."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run the long variants, too (hours)")
    parser.addoption("--only-nightly", action="store_true", help="run nothing that would come out as it did by day")


def pytest_configure() -> None:
    # a shell's background job ignores Ctrl-C, and so would all that tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--only-nightly"):
        _deselect(config, items, lambda item: bool(item.get_closest_marker("nightly")) or tries_more(item))
    elif not config.getoption("--nightly"):
        _deselect(config, items, lambda item: not item.get_closest_marker("nightly"))


def pytest_collection_finish() -> None:
    collect_seldom()


def _deselect(config: pytest.Config, items: list[pytest.Item], is_kept: Callable[[pytest.Item], bool]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if not is_kept(item)])
    items[:] = filter(is_kept, items)


def tries_more(item: pytest.Item) -> bool:
    """Is it a property that takes as many examples as the profile says?  With a number of its own it draws by night what it drew
    by day: both follow from the commit.
    """
    test = getattr(item, "obj", None)
    if not getattr(test, "is_hypothesis_test", False):
        return False
    own = getattr(test, "_hypothesis_internal_use_settings", None) or settings.default
    return own.max_examples == settings.get_profile("nightly").max_examples


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """A directory on the file system of this checkout.  (`tmp_path` may lie in memory, where some calls of the system differ.)"""
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tests-", dir=build) as made:
        yield Path(made)
