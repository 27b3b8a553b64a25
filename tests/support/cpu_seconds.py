"""Which tests take the most CPU (a plugin of pytest): seconds of this process and of all that it started, `--cpu 10` of them.

Wall time says how busy a machine was; the price of a run is its CPU.  What a server burns that several tests share, and what
courses do beside, counts for the test that runs just then: read a large figure of a small test so.  Linux only: elsewhere only
children that have ended are counted.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
SPENT: Final = pytest.StashKey[Counter[str]]()
MOST_DEFAULT: Final = 8


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu", type=int, default=0, metavar="N", help="name the N tests that took the most CPU")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SPENT] = Counter()


def children_of(pid: int) -> list[int]:
    """Living children of a process, of whichever thread of it."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def spent_by(pid: int) -> float:
    """CPU seconds of a living process, of its children that ended, and of all that live below it."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, words[11:15])) / TICKS_PER_S + sum(map(spent_by, children_of(pid)))


def spent() -> float:
    """CPU seconds of this process and of all below it, since it began."""
    own = os.times()
    return own.user + own.system + own.children_user + own.children_system + sum(map(spent_by, children_of(os.getpid())))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if not item.config.option.cpu:
        return (yield)
    before = spent()
    try:
        return (yield)
    finally:
        item.config.stash[SPENT][item.nodeid] += max(spent() - before, 0.0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.option.cpu:
        return
    taken = config.stash[SPENT]
    terminalreporter.section(f"most CPU: {config.option.cpu} of {len(taken)} tests, {sum(taken.values()):.0f} s in all")
    for name, seconds in taken.most_common(config.option.cpu):
        terminalreporter.write_line(f"{seconds:8.2f} s  {name}")
