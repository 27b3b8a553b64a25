"""A newcomer's first message without Java: the commands and the program of README, those of docs/client.md, as they stand."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support.client_shell import Shell
from tests.support.rmq import ROOT
from tests.support.subject import Subject


@pytest.fixture
def shell(ours: Subject, home: Path) -> Shell:
    """With `rmq` as a command."""
    made = Shell(ours.namesrv, home)
    command = home / "bin" / "rmq"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m rmq_cli.main "$@"\n')
    command.chmod(0o755)
    made.environment["PATH"] = f"{command.parent}:{made.environment['PATH']}"
    return made


def ran(shell: Shell, program: list[str], text: str) -> str:
    done = shell.program(*program, typed=text.encode())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_readme(shell: Shell, ours: Subject) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    section = page[page.index("\n## Without Java\n") :]
    section = section[: section.index("\n## ", 4)]
    lines = re.findall(r"^    (rmq .*)$", section, re.MULTILINE)
    assert len(lines) >= 5
    printed = ran(shell, ["bash", "-e"], "\n".join(lines))
    assert printed.count("hello") == 2, "tail and consume"
    assert "my-consumers: 0 behind" in printed
    [program] = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert "SEND_OK" in ran(shell, [sys.executable, "-"], program.replace("127.0.0.1:9876", ours.namesrv))


def test_the_page_of_the_client(shell: Shell) -> None:
    page = (ROOT / "docs/client.md").read_text(encoding="utf-8")
    [script] = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    printed = ran(shell, ["bash", "-e"], script)
    assert "billing: " in printed
    assert "shipping: " in printed
    assert len((shell.home / "all.jsonl").read_text().splitlines()) == 101
    assert len((shell.home / "sent.txt").read_text().splitlines()) == 100
