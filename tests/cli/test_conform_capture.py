"""`rmq conform record`, `show` and `replay` from outside: files, lines and exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.captures.allowed import read_allowed
from conformance.captures.file import BadCapture, read
from conformance.captures.recorder import Frame
from rmq_wire.command import Command
from rmq_wire.encoding import encode_request
from tests.support.capture_server import ScriptedServer, reply
from tests.support.talk import Talk

ROOT = Path(__file__).parents[2]
CLIENT = """
import os, socket, sys
from rmq_wire.encoding import encode_request
assert sys.argv[1] == os.environ["NAMESRV_ADDR"]
host, port = os.environ["NAMESRV_ADDR"].split(":")
with socket.create_connection((host, int(port))) as s:
    for opaque in (1, 2):
        s.sendall(encode_request(206, opaque=opaque))
        s.recv(65536)
sys.exit(int(sys.argv[2]))
"""


def rmq(*words: str | Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-m", "rmq_cli.main", "conform", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, env=env, cwd=ROOT, timeout=120, check=False)


def topics(*names: str) -> ScriptedServer:
    def answer(command: Command) -> list[bytes]:
        return [reply(command, body=json.dumps({"topicList": names}).encode())]

    return ScriptedServer(answer)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, subprocess.CompletedProcess[str]]]:
    out = tmp_path_factory.mktemp("capture") / "c.jsonl"
    with topics("a", "b") as server:
        command = [sys.executable, "-c", CLIENT, "{namesrv}", "0"]
        done = rmq("record", "--namesrv", server.address, "--out", out, "--about", "two lists", "--", *command)
        yield out, done


def test_a_client_is_recorded_until_it_ends(recorded: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    out, done = recorded
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("rmq: 4 frames in ")
    capture = read(out)
    assert sum(isinstance(event, Frame) for event in capture.events) == 4
    assert capture.about == "two lists"
    assert capture.command.startswith(sys.executable)


def test_the_status_of_the_client_is_ours(tmp_path: Path) -> None:
    with topics() as server:
        client = [sys.executable, "-c", CLIENT, "{namesrv}", "7"]
        done = rmq("record", "-n", server.address, "-o", tmp_path / "c.jsonl", "--", *client)
    assert done.returncode == 7
    assert len(read(tmp_path / "c.jsonl").events) > 4


def test_it_is_shown(recorded: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    done = rmq("show", recorded[0])
    assert done.returncode == 0
    assert "C0 -> name-server  GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206)  opaque 1" in done.stdout
    assert 'topicList: ["a", "b"]' in done.stdout
    listed = [json.loads(line) for line in rmq("show", recorded[0], "--json", "--code", "206").stdout.splitlines()]
    assert [line["what"] for line in listed] == ["request", "answer"] * 2
    assert listed[1]["round_trip_ms"] >= 0


def test_no_difference_is_status_0(recorded: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    with topics("b", "a") as server:
        done = rmq("replay", recorded[0], "--to", server.address)
        shown = rmq("show", recorded[0], "--differences", server.address)
    assert done.returncode == 0, done.stdout
    assert done.stdout == ""
    assert "2 requests said, 2 answers compared: 0 differences" in done.stderr
    assert "GET_ALL" not in shown.stdout


def test_differences_are_status_1(recorded: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    known = tmp_path / "known.toml"
    known.write_text('[[difference]]\nasked = "GET_ALL*"\npath = "body.topicList[*]"\nreason = "no b here"\n')
    with topics("a") as server:
        done = rmq("replay", recorded[0], "--to", server.address)
        listed = rmq("replay", recorded[0], "--to", server.address, "--json")
        accepted = rmq("replay", recorded[0], "--to", server.address, "--expected", known)
        shown = rmq("show", recorded[0], "--differences", server.address)
    assert done.returncode == 1
    assert "body.topicList[b]: an element is missing" in done.stdout
    reported = [json.loads(line) for line in listed.stdout.splitlines()]
    assert [line["type"] for line in reported] == ["difference", "difference", "summary"]
    assert (reported[0]["path"], reported[-1]["differences"]) == ("body.topicList[b]", 2)
    assert (accepted.returncode, accepted.stdout) == (0, "")
    assert "2 known" in accepted.stderr
    assert shown.stdout.count("GET_ALL_TOPIC_LIST_FROM_NAMESERVER") == 4


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("replay", "{file}", "--to", "127.0.0.1:1"), "127.0.0.1:1 cannot be reached"),
        (("replay", "absent.jsonl", "--to", "127.0.0.1:1"), "No such file"),
        (("replay", "{file}", "--to", "127.0.0.1:1", "--expected", "absent.toml"), "No such file"),
        (("show", "README.md"), "not a capture"),
        (("show", "{file}", "--code", "nonsense"), "no request code"),
        (("record", "-n", "127.0.0.1:1", "-o", "{file}.2", "--", "true"), "127.0.0.1:1 cannot be reached"),
        (("record", "-n", "nonsense", "-o", "{file}.2", "--", "true"), "not HOST:PORT"),
    ],
)
def test_what_hinders_is_one_line_and_status_2(
    recorded: tuple[Path, subprocess.CompletedProcess[str]], words: tuple[str, ...], why: str
) -> None:
    done = rmq(*(word.replace("{file}", str(recorded[0])) for word in words))
    assert done.returncode == 2
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_without_a_client_it_records_until_it_is_interrupted(tmp_path: Path) -> None:
    out = tmp_path / "c.jsonl"
    with topics("a") as server:
        line = [sys.executable, "-m", "rmq_cli.main", "conform", "record", "-n", server.address, "-o", str(out)]
        recorder = subprocess.Popen(
            line, stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        try:
            assert recorder.stderr is not None
            reported = recorder.stderr.readline()
            relay = reported.split(" at ")[1].split(";")[0]
            with Talk(relay) as client:
                client.raw(encode_request(206, opaque=1))
                client.hear()
            recorder.send_signal(signal.SIGINT)
            assert recorder.wait(timeout=60) == 0
        finally:
            recorder.kill()
            recorder.wait()
    assert sum(isinstance(event, Frame) for event in read(out).events) == 2


@pytest.mark.parametrize(
    "text", ["[[difference]]\nasked = 1\n", "nonsense = 1\n", "[[", '[[difference]]\nasked = "A"\npath = "b"\n']
)
def test_a_broken_list_of_differences_is_reported(tmp_path: Path, text: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(BadCapture, match=r"known\.toml"):
        read_allowed(path)


def test_a_taken_port_and_a_missing_client_are_reported(tmp_path: Path) -> None:
    with topics() as server:
        taken = rmq("record", "-n", server.address, "--listen", server.address, "-o", tmp_path / "c", "--", "true")
        absent = rmq("record", "-n", server.address, "-o", tmp_path / "c", "--", "/no/such/client")
    assert (taken.returncode, absent.returncode) == (2, 2)
    assert "cannot listen" in taken.stderr
    assert "No such file" in absent.stderr
