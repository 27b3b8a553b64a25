"""Lines of a server, limited by kind, by a clock of the test's making."""

from __future__ import annotations

import logging

import pytest

from rmq_net.log import LINES_MAX, NAMES_MAX, WINDOW_MS, Log

FLOOD = 5 * LINES_MAX


class Heard:
    """A log, what it wrote, and the time."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now_ms = 1_000
        self.log = Log("rmq.heard", lambda: self.now_ms)
        self._caplog = caplog

    def take(self) -> list[str]:
        """What was written since the last call."""
        lines = [record.getMessage() for record in self._caplog.records if record.name == "rmq.heard"]
        self._caplog.clear()
        return lines


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Heard:
    return Heard(caplog)


def test_a_kind_that_floods_is_cut_and_hides_no_other(heard: Heard) -> None:
    for number in range(FLOOD):
        heard.log.warning("peer %d came", number)
    heard.log.error("the disk is full: %s", "ENOSPC")
    lines = heard.take()
    assert lines == [*(f"peer {number} came" for number in range(LINES_MAX)), "the disk is full: ENOSPC"]
    heard.now_ms += WINDOW_MS - 1
    heard.log.warning("peer %d came", 1)
    assert not heard.take()
    heard.now_ms += 1
    heard.log.warning("peer %d came", 2)
    left_out = FLOOD - LINES_MAX + 1
    assert heard.take() == [f"{left_out} lines left out, most of them like 'peer %d came'", "peer 2 came"]
    heard.now_ms += WINDOW_MS
    heard.log.warning("peer %d came", 3)
    assert heard.take() == ["peer 3 came"]


def test_lines_below_the_level_use_nothing_up(heard: Heard) -> None:
    for _ in range(FLOOD):
        heard.log.info("%s came", "somebody")
    logging.getLogger("rmq.heard").setLevel(logging.INFO)
    heard.log.info("%s came", "somebody")
    logging.getLogger("rmq.heard").setLevel(logging.NOTSET)
    assert heard.take() == ["somebody came"]
    assert heard.log.left_out == 0


def test_what_unknown_peers_write_is_one_short_line(heard: Heard) -> None:
    heard.log.warning("%s", "a\nb\x1b[2J\u202e")
    heard.log.warning("%s", "x" * 10_000)
    heard.log.warning("%s", [f"n\n{number}" for number in range(100_000)])
    plain, long, many = heard.take()
    assert plain == "a\\nb\\x1b[2J\\u202e"
    assert long.endswith("… (10000 characters)")
    assert many.endswith(f" and {100_000 - NAMES_MAX} more")
    assert all(line.isprintable() and len(line) < 400 for line in (plain, long, many))


def test_a_bug_of_ours_comes_with_its_traceback(heard: Heard, caplog: pytest.LogCaptureFixture) -> None:
    heard.log.error("%s failed", "it", error=ZeroDivisionError("here"))
    assert "ZeroDivisionError: here" in caplog.text
