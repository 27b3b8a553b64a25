"""What `rmq inspect` says when it cannot give what was asked for: one line that names what is the matter."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.command import look
from tests.support.damaged_store import LOG_FILE_BYTES, Subject, fill
from tests.support.stores import golden_store
from tests.support.unprivileged import seen_by_somebody_else

MESSAGE_ID = "7F0000020000634200000000000000F5"
"""Of the message with the keys k1 and k2."""


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_store(tmp_path_factory.mktemp("golden") / "store")


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    fill(tmp_path / "store")
    return Subject(tmp_path / "store")


# --- a log that is not there, or short


def test_every_command_says_that_there_is_no_log(subject: Subject, tmp_path: Path) -> None:
    shutil.rmtree(subject.path("commitlog"))
    for words in (
        ("stats",),
        ("stats", "--json"),
        ("show",),
        ("find", "key4"),
        ("verify",),
        ("export", "--to", tmp_path / "x.jsonl"),
    ):
        seen = look(words[0], subject.root, *words[1:])
        assert (seen.status, seen.out) == (2, ""), words
        assert "no commit log file" in seen.err.splitlines()[-1]


def test_the_file_that_is_short_is_named(subject: Subject) -> None:
    end, unit = subject.units()[3]
    lost = [one.physical_offset for _, one in subject.units()[3:] if bytes(one.topic) == b"TopicB"]
    os.truncate(subject.log_files[1], end)
    seen = look("show", subject.root, "--topic", "TopicB", "--json", "--limit", 0)
    why = f"commitlog/{LOG_FILE_BYTES:020} ends at {unit.physical_offset}, and the next file begins at {2 * LOG_FILE_BYTES}"
    assert len(lost) > 3
    assert [line.partition(": the log has ")[2] for line in seen.err.splitlines()[1:]] == [f"no byte {at}: {why}" for at in lost]


def test_behind_the_end_of_the_log_its_bounds_are_named(subject: Subject) -> None:
    start, end = (int(subject.log_files[number].name) for number in (2, -1))
    for path in subject.log_files[:2]:
        path.unlink()
    end += LOG_FILE_BYTES
    for offset in (0, start - 1, end, end + 7):
        seen = look("explain", subject.root, "--offset", offset)
        assert f"the log has no byte {offset}: it goes from {start} to {end}" in seen.out + seen.err


@pytest.mark.parametrize("mode", [0, 0o400, 0o100])
def test_a_part_of_a_store_that_may_not_be_read(golden: Path, mode: int) -> None:
    """What is named is the directory that is there, and nothing that was looked for in it."""
    place = golden / "commitlog"
    before = place.stat().st_mode
    place.chmod(mode)
    try:
        [seen] = seen_by_somebody_else([("inspect", "show", "store/commitlog")], golden.parent)
    finally:
        place.chmod(before)
    assert (seen.status, seen.out, seen.err) == (2, "", f"rmq: Permission denied: {place}\n")


# --- arguments


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("k1", "--key", "k2"), "k1 and another key, --key"),
        ((MESSAGE_ID, "--id", "A" * 32), f"{MESSAGE_ID} and another id, --id"),
    ],
)
def test_nothing_that_is_to_be_found_is_dropped(golden: Path, words: tuple[str, ...], said: str) -> None:
    seen = look("find", golden, *words)
    assert (seen.status, seen.out) == (2, "")
    assert f"{said}: say one of them" in seen.err


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("k1", "--id", MESSAGE_ID), 0),
        (("b1", "--id", MESSAGE_ID), 1),
        ((MESSAGE_ID, "--key", "k2"), 0),
        ((MESSAGE_ID, "--key", "b1"), 1),
    ],
)
def test_an_id_and_a_key_must_both_hold(golden: Path, words: tuple[str, ...], status: int) -> None:
    assert look("find", golden, *words).status == status


def test_a_path_of_two_lines_is_said_in_one(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(golden.parent)
    Path("n\nl").symlink_to("store")
    for words in (
        ("show", "n\nl", "--topic", "x"),
        ("find", "n\nl", "k1", "--topic", "x"),
        ("explain", "n\nl", "--topic", "x", "--key", "k1"),
        ("stats", "no\nwhere"),
        ("verify", "no\nwhere"),
    ):
        seen = look(*words)
        assert seen.status in (1, 2), words
        assert all(line.startswith("rmq: ") for line in seen.err.splitlines()), (words, seen.err)
