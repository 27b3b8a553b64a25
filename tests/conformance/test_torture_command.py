"""`rmq conform serve` and `rmq conform torture`: what they print, write and return, for bad input, too."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from conformance.torture.script import ClientPart, find, names
from rmq_cli.main import rmq
from tests.conformance.torture_client import PythonClient

ROOT = Path(__file__).parents[2]
RMQ = (sys.executable, "-c", "from rmq_cli.main import main; main()")
SETTINGS = "namesrv={namesrv} topic={topic} program={program} count={count} timeout-ms={timeout_ms} retries={retries}"
CLIENT = f"{sys.executable} -m tests.conformance.torture_client {SETTINGS}"
SHELL = {"namesrv": "$1", "count": "$2", "topic": "$3", "program": "send", "timeout_ms": "6000", "retries": "2"}
"""The arguments of a shell script for the words of a client's command."""
WAIT_S = 180
IDLE_S = "5"
"""A client that connects for the next time is not gone, however slow the machine is."""


def conform(*arguments: str | Path) -> Result:
    return CliRunner().invoke(rmq, ["conform", *map(str, arguments)])


@pytest.fixture
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is run as a module of the tests."""
    monkeypatch.chdir(ROOT)


@contextlib.contextmanager
def served(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`rmq conform serve` and the name server's address that it prints first."""
    command = [*RMQ, "conform", "serve", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = process.stderr if "--json" in arguments else process.stdout
        name, _, address = lines.readline().strip().partition("=")
        assert name == "NAMESRV_ADDR"
        try:
            yield process, address
        finally:
            process.kill()


def send(address: str, client: PythonClient, part: ClientPart) -> None:
    trio.run(client.run, part, address, "TortureTopic", lambda line: None)


def test_a_served_client_gets_a_verdict_when_it_has_gone() -> None:
    with served("--script", "doubled-answers", "--idle", IDLE_S) as (process, address):
        send(address, PythonClient(), find("doubled-answers").client)
        out, _ = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0
    assert "doubled-answers: passed" in out
    assert " ?  MUST  every send is reported as done" in out  # only its own program could report it
    assert "ok  MUST  no message is sent twice" in out


def test_a_bad_one_is_reported() -> None:
    with served("--script", "doubled-answers", "--idle", IDLE_S, "--json") as (process, address):
        send(address, PythonClient("sends-twice"), find("doubled-answers").client)
        out, _ = process.communicate(timeout=WAIT_S)
        assert process.returncode == 1
    [verdict] = json.loads(out)
    assert verdict["outcome"] == "failed"
    assert [one["what"] for one in verdict["expectations"] if one["passed"] is False] == ["no message is sent twice"]
    assert any(event["kind"] == "torment" for event in verdict["timeline"])


def test_an_interrupted_server_judges_what_there_was() -> None:
    with served("--script", "doubled-answers", "--timeline") as (process, _):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 1
    assert "NOT MUST  the client meets the torment: it never asked for it" in out
    assert err == ""


def test_the_port_is_the_one_that_was_asked_for_and_a_taken_one_is_reported() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [*RMQ, "conform", "serve", "--script", "doubled-answers", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert f"port {port}" in done.stderr
    with served("--script", "doubled-answers", "--port", str(port)) as (_, address):
        assert address == f"127.0.0.1:{port}"


@pytest.mark.usefixtures("at_root")
def test_a_command_is_run_for_each_script(tmp_path: Path) -> None:
    out = tmp_path / "verdicts.json"
    done = conform("torture", "--client-command", CLIENT, "--only", "doubled-answers", "--only", "message-illegal", "--out", out)
    assert done.exit_code == 0, done.output
    assert done.output.endswith("2 of 2 scripts passed\n")
    verdicts = json.loads(out.read_text())
    assert [(one["script"], one["client"], one["outcome"]) for one in verdicts] == [
        ("doubled-answers", "command", "passed"),
        ("message-illegal", "command", "passed"),
    ]
    page = tmp_path / "page.md"
    again = conform("torture", "--results", out, "--document", page)
    assert again.exit_code == 0
    assert "| [message-illegal](#message-illegal) | passed |" in page.read_text()


def test_our_own_client_is_built_in(tmp_path: Path) -> None:
    out = tmp_path / "verdicts.json"
    done = conform("torture", "--client", "ours", "--only", "doubled-answers", "--only", "half-pull", "--out", out)
    assert done.exit_code == 0, done.output
    assert done.output.endswith("2 of 2 scripts passed\n")
    assert {(one["client"], one["outcome"]) for one in json.loads(out.read_text())} == {("ours", "passed")}


@pytest.mark.usefixtures("at_root")
def test_a_failure_is_tried_once_and_sets_the_status(tmp_path: Path) -> None:
    out = tmp_path / "verdicts.json"
    tries = tmp_path / "tries"
    client = tmp_path / "client.sh"
    client.write_text(f"echo >> {tries}\nexec {CLIENT.format_map(SHELL)} defect=retries-everything\n")
    command = f"sh {client} {{namesrv}} {{count}} {{topic}}"
    done = conform("torture", "--client-command", command, "--client", "mine", "--only", "message-illegal", "--out", out)
    assert done.exit_code == 1
    assert "failed  message-illegal" in done.output
    [verdict] = json.loads(out.read_text())
    assert verdict["client"] == "mine"
    assert [one["what"] for one in verdict["expectations"] if one["passed"] is False]
    assert tries.read_text() == "\n"


@pytest.mark.usefixtures("at_root")
def test_an_interrupted_run_keeps_what_there_is(tmp_path: Path) -> None:
    out = tmp_path / "verdicts.json"
    quick = tmp_path / "client.sh"
    quick.write_text(f'[ "$2" = 4 ] && exec {CLIENT.format_map(SHELL)}\nexec sleep {2 * WAIT_S}\n')
    command = [*RMQ, "conform", "torture", "--client-command", f"sh {quick} {{namesrv}} {{count}} {{topic}}", "--out", str(out)]
    only = ["--only", "doubled-answers", "--only", "null-fields"]
    with subprocess.Popen([*command, *only], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("passed  doubled-answers")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=WAIT_S)
        assert (process.returncode, err) == (130, "rmq: interrupted\n")
    assert [one["script"] for one in json.loads(out.read_text())] == ["doubled-answers"]


def test_listing() -> None:
    text = conform("torture", "--list")
    assert text.exit_code == 0
    assert [line.split()[0] for line in text.output.splitlines()] == names()
    rows = json.loads(conform("serve", "--list", "--json").output)
    assert [row["script"] for row in rows] == names()
    assert all(row["title"] and row["rests_on"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("serve", "--script", "nonsense"), "no script 'nonsense'"),
        (("serve",), "--list names them"),
        (("serve", "--script", "numbers", "--like", "new"), "no version"),
        (("torture",), "which client?"),
        (("torture", "--client", "java-3.2.6"), "no client 'java-3.2.6'"),
        (("torture", "--client-command", "true"), "needs {namesrv}"),
        (("torture", "--client-command", "x {namesrv} {nonsense}"), "nonsense"),
        (("torture", "--client-command", "/no/such/thing {namesrv}", "--only", "numbers"), "/no/such/thing"),
        (("torture", "--client", "java-5.5.0", "--only", "nonsense"), "no script 'nonsense'"),
        (("torture", "--client", "java-5.5.0", "--java", "/no/java"), "no Java at /no/java"),
    ],
)
def test_what_cannot_be_run_is_reported_in_one_line(arguments: tuple[str, ...], complaint: str) -> None:
    done = conform(*arguments)
    assert done.exit_code == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.output


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    done = conform("torture", "--client", "java-5.5.0", "--only", "numbers")
    assert done.exit_code == 2
    assert "no `java` on PATH" in done.stderr


def test_results_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    done = conform("torture", "--results", path)
    assert done.exit_code == 2
    assert "holds no verdicts" in done.stderr
