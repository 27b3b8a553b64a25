"""Text that standard output has no characters for: it becomes escapes, and nothing ends with a traceback."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support import rmq
from tests.support.client_shell import Shell
from tests.support.talk import PATIENCE_S

TEXT = "grü€😀"


@pytest.fixture
def sent(shell: Shell, request: pytest.FixtureRequest) -> str:
    """A topic with two messages."""
    topic = "encoded-" + re.sub(r"\W", "-", request.node.name)[-60:]
    shell.good("topic", "create", topic, "-q", "1")
    for body in (TEXT, "plain"):
        shell.good("send", topic, body, "-t", "t€")
    return topic


def printed(shell: Shell, encoding: str, *arguments: str) -> list[bytes]:
    """The lines of a run whose standard output has this encoding."""
    ran = subprocess.run(
        rmq.command(*arguments),
        capture_output=True,
        timeout=PATIENCE_S,
        cwd=shell.home,
        env={**shell.environment, "PYTHONIOENCODING": encoding},
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    return ran.stdout.splitlines()


@pytest.mark.parametrize("command", [("tail",), ("consume",), ("consume", "-g", "encoded-g")], ids=" ".join)
@pytest.mark.parametrize(
    ("encoding", "shown"), [("latin-1", b"gr\xfc\\u20ac\\U0001f600"), ("ascii", b"gr\\xfc\\u20ac\\U0001f600")]
)
def test_a_message_that_standard_output_cannot_encode(
    shell: Shell, sent: str, command: tuple[str, ...], encoding: str, shown: bytes
) -> None:
    """With a group it is done, and those behind it come, too."""
    name, *group = command
    group = [f"{one}-{encoding}" if one != "-g" else one for one in group]
    lines = printed(shell, encoding, name, sent, *group, "--from", "start", "-c", "2")
    assert sorted(line.split(b"  ")[-2:] for line in lines) == sorted([[b"t\\u20ac", shown], [b"t\\u20ac", b"plain"]])
    if group:
        shell.good("send", sent, "the next one")
        [next_one] = printed(shell, encoding, name, sent, *group, "-c", "1")
        assert next_one.endswith(b"the next one")


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8:strict"])
def test_json_stays_json(shell: Shell, sent: str, encoding: str) -> None:
    lines = printed(shell, encoding, "tail", sent, "--from", "start", "--no-follow", "--json")
    rows = [json.loads(line.decode(encoding.partition(":")[0])) for line in lines]
    assert [(row["body"], row["tags"]) for row in rows] == [(TEXT, "t€"), ("plain", "t€")]


def test_json_has_its_characters_where_there_are_such(shell: Shell, sent: str) -> None:
    lines = printed(shell, "utf-8", "tail", sent, "--from", "start", "--no-follow", "--json")
    assert TEXT.encode() in lines[0]


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8:strict", b"s\\udcff"), ("ascii", b"s\\udcff")])
def test_a_store_whose_name_is_no_text(home: Path, encoding: str, shown: bytes) -> None:
    line = rmq.command("dev", "--namesrv-port", "0", "--broker-port", "0", "--store", os.fsdecode(b"s\xff"))
    environment = {**rmq.environment(home), "PYTHONIOENCODING": encoding}
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=home, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        ready = process.stdout.readline().rstrip()
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
        assert ready.startswith(b"ready: ")
        assert ready.endswith(shown)
        assert process.stderr.read() == b""


def test_a_full_disk_where_standard_output_is_ascii(home: Path) -> None:
    """click would write past what complains."""
    ran = subprocess.run(
        ["bash", "-c", '"$@" >/dev/full', "bash", *rmq.command("version")],
        capture_output=True,
        timeout=PATIENCE_S,
        env={**rmq.environment(home), "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (1, b"rmq: standard output cannot be written: No space left on device\n")
