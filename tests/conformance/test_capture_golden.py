"""The golden captures of the real servers, said again to ours: no difference but those that are listed, each with its reason."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conformance.captures.allowed import read_allowed, sort_out
from conformance.captures.decoding import decode_all
from conformance.captures.file import lines_of, read
from conformance.captures.replay import replay
from tests.support.golden import CAPTURES, STEMS
from tests.support.loops import each
from tests.support.subject import start_broker, start_name_server

DIFFERENCES = CAPTURES / "differences.toml"
AT_ONCE = 8
PAUSE_MS_MAX = 1000
"""Name servers hear of a new topic a little after its maker; the recorded pauses allow for that."""


def test_there_are_captures_and_each_says_how_it_was_made() -> None:
    assert len(STEMS) >= 5
    for stem in STEMS:
        capture = read(CAPTURES / f"{stem}.jsonl")
        assert capture.command == f"python -m tests.java.golden_captures {stem}"
        assert capture.subject.startswith("Apache RocketMQ 5.5.0")
        assert {server.role for server in capture.servers} == {"name server", "broker"}


@pytest.mark.parametrize("stem", STEMS)
def test_the_file_says_what_its_frames_say(stem: str) -> None:
    """When decoding has changed: `python -m tests.java.golden_captures --decode-again`."""
    path = CAPTURES / f"{stem}.jsonl"
    assert path.read_text(encoding="utf-8").splitlines() == list(lines_of(read(path)))


@pytest.mark.parametrize("stem", STEMS)
def test_everything_in_it_can_be_read(stem: str) -> None:
    for one in decode_all(read(CAPTURES / f"{stem}.jsonl").events):
        assert one is None or (one.problem is None and (one.body is None or one.body.problem is None))


def test_our_servers_answer_as_the_real_ones_did(tmp_path: Path) -> None:
    """Most of the time a capture pauses: some are played side by side."""
    with ThreadPoolExecutor(AT_ONCE) as players:
        played = {stem: players.submit(is_answered_alike, stem, tmp_path / stem) for stem in STEMS}
        each(STEMS, lambda stem: played[stem].result())


def is_answered_alike(stem: str, directory: Path) -> None:
    # Two processes with the configuration of the real ones, whose answers say what is configured.
    with contextlib.ExitStack() as stack:
        names = start_name_server("ours", directory / "namesrv")
        stack.callback(names.end)
        stack.callback(start_broker("ours", directory / "broker", names.address).end)
        report = replay(read(CAPTURES / f"{stem}.jsonl"), names.address, in_turn=True, pause_ms_max=PAUSE_MS_MAX)
    found = sort_out(report.differences, read_allowed(DIFFERENCES), stem)
    assert report.compared
    assert not found.unexpected
    assert not found.unused
