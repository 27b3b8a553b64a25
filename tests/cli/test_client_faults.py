"""What the commands that talk to a cluster say at a terminal when something is wrong, and what they need not import."""

from __future__ import annotations

import os
import re
import socket
import subprocess

import pytest

from tests.support import rmq
from tests.support.client_shell import Shell
from tests.support.subject import Subject
from tests.support.talk import PATIENCE_S


@pytest.fixture(scope="module", autouse=True)
def filled(ours: Subject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One message."""
    Shell(ours.namesrv, tmp_path_factory.mktemp("filled")).good("send", "t", "x")


PRINTING = {
    "send": ("send", "t", "x"),
    "tail": ("tail", "t", "--from", "start", "-c", "1"),
    "consume": ("consume", "t", "--from", "start", "-c", "1"),
    "consume -g": ("consume", "t", "-g", "faults", "--from", "start", "-c", "1"),
    "lag": ("lag", "--once"),
    "topic list": ("topic", "list"),
    "topic show": ("topic", "show", "t"),
}


@pytest.mark.parametrize("name", PRINTING)
@pytest.mark.parametrize(
    ("where", "said"), [(">&-", "standard output is closed: give it a place to go"), (">/dev/full", "No space left on device")]
)
def test_output_that_cannot_be_written(shell: Shell, name: str, where: str, said: str) -> None:
    ran = shell.redirected(where, *PRINTING[name])
    assert ran.returncode == 1
    assert ran.stderr.startswith("rmq: standard output ")
    assert said in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["send", "consume -g", "lag"])
def test_a_name_server_that_says_nothing(shell: Shell, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        said = shell.bad(*PRINTING[name], "-n", f"127.0.0.1:{mute.getsockname()[1]}")
    assert "no name server" in said


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("nowhere", "HOST:PORT"),
        ("127.0.0.1:99999", "HOST:PORT"),
        ("", "name one (HOST:PORT), or set NAMESRV_ADDR"),
        ("127.0.0.1:1;127.0.0.1:2", "127.0.0.1:2: Connection refused"),
    ],
)
def test_a_wrong_address(shell: Shell, address: str, said: str) -> None:
    for name in ("consume -g", "lag"):
        assert said in shell.bad(*PRINTING[name], "-n", address)


NOT_NEEDED = ("asyncio", "numpy", "pyarrow", "pandas", "rmq_store", "broker_impl")
CONSUMING = "rmq_client.consuming.push_consumer"


@pytest.mark.parametrize("name", PRINTING)
def test_what_costs_time_is_not_imported(shell: Shell, name: str) -> None:
    """The first output of each is to come within 0.3 s: what is imported is most of that."""
    line = rmq.command(*PRINTING[name])
    ran = subprocess.run(
        [line[0], "-X", "importtime", *line[1:]],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=shell.home,
        env={**os.environ, **shell.environment},
        check=False,
    )
    assert ran.returncode == 0
    imported = set(re.findall(r"^import time: .* \| +(\S+)$", ran.stderr, re.MULTILINE))
    assert "rmq_client.client" in imported
    assert not {one for one in imported for name in NOT_NEEDED if one == name or one.startswith(f"{name}.")}
    assert (CONSUMING in imported) is (name == "consume -g")
