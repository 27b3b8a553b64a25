"""`rmq send`: what it reads, also when that takes long; how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmq_cli import sending
from rmq_cli.sending import Bodies
from tests.support import rmq
from tests.support.client_shell import Shell
from tests.support.subject import Subject
from tests.support.talk import PATIENCE_S

UNREADABLE = "/proc/self/mem"
"""Its first bytes are nobody's."""


@contextmanager
def typing(shell: Shell, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`rmq send` that waits for what is typed; unbuffered, so that a line is there when it is written."""
    process = subprocess.Popen(
        rmq.command("send", *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=shell.home,
        env=shell.environment,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def typed(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    """Type it; what is said of it."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line)
    return process.stdout.readline()


def bodies(shell: Shell, topic: str) -> list[str]:
    return [json.loads(row)["body"] for row in shell.good("tail", topic, "--from", "start", "--no-follow", "--json")]


@pytest.mark.parametrize("way", [("--queue", "broker-a:0"), ("--order-key", "o")], ids=["queue", "order key"])
def test_lines_go_on_when_the_broker_has_gone_and_come_meanwhile(shell: Shell, ours: Subject, way: tuple[str, str]) -> None:
    """A send to one queue is tried once: that the connection has ended is seen while a line is waited for."""
    topic = f"pause-{way[1][-1]}"
    with typing(shell, topic, "--lines", *way) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        assert typed(process, b"before\n")
        ours.restart()
        assert typed(process, b"after\n"), process.stderr.read()
        process.stdin.write(b"the last, without an end")
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
    assert bodies(shell, topic) == ["before", "after", "the last, without an end"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_ends_it_while_it_waits_for_a_line(shell: Shell, number: signal.Signals) -> None:
    with typing(shell, "signals", "--lines") as process:
        assert process.stderr is not None
        assert typed(process, b"sent\nbegun")
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 128 + number
        assert process.stderr.read() == b""


def test_a_pipe_by_name(shell: Shell) -> None:
    pipe = shell.home / "pipe"
    subprocess.run(["mkfifo", pipe], check=True)
    with typing(shell, "named-pipe", "--lines", "-f", str(pipe)) as process:
        pipe.write_bytes(b"one\ntwo\n")
        assert process.wait(PATIENCE_S) == 0
    assert sorted(bodies(shell, "named-pipe")) == ["one", "two"]


def test_a_body_that_is_no_text(shell: Shell) -> None:
    line = rmq.command("send", "bytes", "--json")
    ran = subprocess.run(
        [*line, b"body\xff"], capture_output=True, cwd=shell.home, env=shell.environment, timeout=PATIENCE_S, check=False
    )
    assert ran.returncode == 0, ran.stderr
    [row] = map(json.loads, shell.good("tail", "bytes", "--from", "start", "--no-follow", "--json"))
    assert row["body_base64"] == "Ym9kef8="


@pytest.mark.parametrize("option", ["--tag", "--key", "--property", "--access-key", "--secret-key"])
def test_an_option_that_is_no_text(shell: Shell, option: str) -> None:
    values = {"--access-key": b"a", "--secret-key": b"s"} if option in ("--access-key", "--secret-key") else {}
    values[option] = b"name=\xff" if option == "--property" else b"\xff"
    words = [word for name, value in values.items() for word in (name.encode(), value)]
    ran = subprocess.run(
        [*rmq.command("send", "t", "x"), *words],
        capture_output=True,
        cwd=shell.home,
        env=shell.environment,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert b"UTF-8" in ran.stderr
    assert ran.stderr.count(b"\n") == 1


def test_certificates_that_are_none(shell: Shell) -> None:
    (shell.home / "empty.pem").touch()
    assert "--ca empty.pem: " in shell.bad("send", "t", "x", "--ca", "empty.pem")


@pytest.mark.parametrize("lines", [(), ("--lines",)])
@pytest.mark.parametrize(
    ("arguments", "redirected", "said"),
    [(("-f", UNREADABLE), "", f"{UNREADABLE}: "), (("-f", "-"), "<&-", "standard input is closed")],
    ids=["unreadable", "closed"],
)
def test_what_cannot_be_read(
    shell: Shell, lines: tuple[str, ...], arguments: tuple[str, ...], redirected: str, said: str
) -> None:
    ran = shell.redirected(redirected, "send", "t", *arguments, *lines)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"rmq: {said}")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [("one",), ("--lines", "-f", "two-lines")], ids=["one", "lines"])
def test_what_was_sent_is_said_where_it_cannot_be_printed(shell: Shell, arguments: tuple[str, ...]) -> None:
    """Whoever sends it again has it twice."""
    (shell.home / "two-lines").write_text("one\ntwo\n")
    topic = f"full-{len(arguments)}"
    ran = shell.redirected(">/dev/full", "send", topic, *arguments)
    assert ran.returncode == 1
    assert ran.stderr == "rmq: standard output cannot be written: No space left on device; 1 message was sent before\n"
    assert bodies(shell, topic) == ["one"]


@pytest.mark.parametrize("chunk_bytes", range(1, 12))
async def test_lines_however_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    monkeypatch.setattr(sending, "CHUNK_BYTES", chunk_bytes)
    file = tmp_path / "lines"
    for text in (b"", b"\n", b"one", b"one\n", b"one\r\n\r\n\ntwo \n three\rthree\n", b"\none\n\ntwo"):
        file.write_bytes(text)
        found: list[bytes] = []
        with Bodies(None, file, lines=True) as source:
            while more := await source.more():
                found += more
            assert await source.more() == []
        assert found == [line for one in text.split(b"\n") if (line := one.rstrip(b"\r"))]
        with Bodies(None, file, lines=False) as source:
            assert [await source.more(), await source.more()] == [[text], []]
