"""Class-data sharing: made once among the jars, and never in the way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.subjects import jars, sharing

JAVA = """#!/bin/sh
for word in "$@"; do
    case $word in
        -version) echo 'openjdk version "17.0.1"' >&2; exit ;;
        -XX:SharedClassListFile=*) cp "${word#*=}" "$(dirname "$0")/dumped" ;;
        -XX:SharedArchiveFile=*) echo archive > "${word#*=}" ;;
    esac
done
test ! -e "$(dirname "$0")/broken"
"""


class Trainer:
    """Two JVMs that load one class together, and how often they were run."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, directory: Path) -> Iterator[Path]:
        self.times += 1
        for name in ("first", "second"):
            (directory / name).write_text(f"java/lang/Object\n{name}\n")
            yield directory / name


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sharing, "_MADE", {})
    (tmp_path / "jars").mkdir()
    java = tmp_path / "java"
    java.write_text(JAVA)
    java.chmod(0o755)
    return java


def test_the_first_makes_an_archive_of_what_was_loaded(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer()
    flags = sharing.sharing_flags(java.parent / "jars", str(java), trainer)
    assert flags == [f"-XX:SharedArchiveFile={java.parent}/jars/classes-17.0.1.jsa", sharing.QUIET]
    assert (java.parent / "dumped").read_text() == "java/lang/Object\nfirst\nsecond\n"
    monkeypatch.setattr(sharing, "_MADE", {})  # another process
    assert sharing.sharing_flags(java.parent / "jars", str(java), trainer) == flags
    assert trainer.times == 1


def test_jars_that_came_later_want_an_archive_of_their_own(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, jar = Trainer(), java.parent / "jars" / "some.jar"
    for since_ms, times in ((-1_000, 1), (-1_000, 1), (1_000, 2)):
        jar.touch()
        made = java.parent / "jars" / "classes-17.0.1.jsa"
        at = (made.stat().st_mtime if made.exists() else jar.stat().st_mtime) + since_ms / 1_000
        os.utime(jar, (at, at))
        monkeypatch.setattr(sharing, "_MADE", {})  # another process
        assert sharing.sharing_flags(java.parent / "jars", str(java), trainer)
        assert trainer.times == times


def test_what_cannot_be_made_is_not_tried_again(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer()
    (java.parent / "broken").touch()
    for _ in range(2):
        monkeypatch.setattr(sharing, "_MADE", {})
        assert sharing.sharing_flags(java.parent / "jars", str(java), trainer) == []
    assert trainer.times == 1


def test_servers_that_do_not_come_up_are_no_reason_to_fail(java: Path) -> None:
    def train(_directory: Path) -> list[Path]:
        raise OSError("no port")

    assert sharing.sharing_flags(java.parent / "jars", str(java), train) == []


def test_jars_that_nobody_may_write_to_are_used_without(java: Path) -> None:
    (java.parent / "jars" / ".classes.lock").mkdir()
    assert sharing.sharing_flags(java.parent / "jars", str(java), Trainer()) == []


@pytest.mark.parametrize("failures", [0, 1, 9])
def test_a_tool_that_fails_is_begun_again_a_few_times(tmp_path: Path, failures: int) -> None:
    runs = tmp_path / "runs"
    runs.touch()
    script = f'echo "$HOMED" >> {runs}; test $(wc -l < {runs}) -gt {failures}'
    jars._run_tool(["sh", "-c", script], tmp_path, {"HOMED": "here"})
    assert runs.read_text() == "here\n" * min(failures + 1, jars.TOOL_TRIES_MAX)
