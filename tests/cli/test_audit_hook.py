"""Attack 38, seen from Python itself: whatever a server is asked, it starts no process and touches no file but its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import rmq_wire.headers.all  # noqa: F401  (fills the registry)
from rmq_wire.command import Command, encode_request
from rmq_wire.declare import REQUESTS, Role
from rmq_wire.headers.configuration import UpdateBrokerConfig
from rmq_wire.headers.naming import GetRouteInfo, PutKVConfig, UpdateNamesrvConfig
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.topics import DeleteTopic
from tests.support.rmq import ROOT, Server, environment
from tests.support.talk import Talk

HOSTILE = ["../../../../tmp/evil", "/etc/passwd", "$(touch /tmp/evil)", "; touch /tmp/evil", "`id`", "|id", "a\nb", "T"]
FORBIDDEN = [b"storePathRootDir=/tmp/evil", b"brokerConfigPath=/tmp/evil", b"rocketmqHome=/tmp/evil"]
BOOT_ID = "/proc/sys/kernel/random/boot_id"
SYSTEM = ("/proc/self", "/etc/localtime", BOOT_ID)
READABLE = tuple({str(ROOT), sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), *SYSTEM})
"""Where Python and its libraries live, and what it asks of the system; for reading only."""
OWN = {
    "store",
    "commitlog",
    "consumequeue",
    "consumequeue_ext",
    "index",
    "timerwheel",
    "timerlog",
    "config",
    "namesrv",
    "checkpoint",
    "abort",
    "abort.boot",
    "inventory",
    "lock",
}
"""What a store directory and its name server's place in it may hold."""
SINKS = ("/dev/null", "/dev/urandom")
TRIO_LOOKS_FOR_PTHREAD = "trio/_core/_thread_cache.py"
"""While trio is imported it asks `ctypes.util.find_library`, which runs `ldconfig -p`: once, before anything listens, with
arguments that nobody else chooses.
"""


@pytest.fixture
def notes(tmp_path: Path) -> dict[str, Any]:
    """What a server noted of itself while it was asked everything there is."""
    report, store = tmp_path / "report.json", tmp_path / "store"
    arguments = ["dev", "--namesrv-port", "0", "--broker-port", "0", "--json", "--store", str(store)]
    with Server(tmp_path, program=[sys.executable, "-m", "tests.cli.audited", str(report), *arguments]) as server:
        ask_everything(server)
        status = server.stop()
        assert status == 0, server.log_tail()
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def good(answer: Command) -> None:
    assert answer.code == 0, answer


def ask_everything(server: Server) -> None:
    with Talk(server.ready["broker"]) as broker, Talk(server.ready["namesrv"]) as names:
        good(broker.send("T", b"x"))
        for line in (*FORBIDDEN, b"maxMessageSize=4194305"):
            broker.ask(UpdateBrokerConfig(), line)
        for line in (b"configStorePath=/tmp/evil", b"kvConfigPath=/tmp/evil", b"orderMessageEnable=true"):
            names.ask(UpdateNamesrvConfig(), line)
        good(names.ask(PutKVConfig(namespace="../evil", key="/etc/passwd", value="x")))
        good(broker.ask(DeleteTopic(topic="T")))
        for (role, code), request in REQUESTS.items():
            if role is Role.CLIENT:
                continue
            talk = broker if role is Role.BROKER else names
            for opaque, text in enumerate(HOSTILE, 1_000_000):
                fields = {field.wire: text if field.kind is str else "0" for field in request.fields()}
                talk.raw(encode_request(code, None, json.dumps({"groupName": text}).encode(), opaque=opaque, ext=fields))
        good(broker.ask(GetMaxOffset(topic="T", queue_id=0)))
        good(names.ask(GetRouteInfo(topic="TBW102")))


def test_attack_38_no_process_no_foreign_file_no_connection_outwards(tmp_path: Path, notes: dict[str, Any]) -> None:
    ours = [note for note in notes["started"] if not any(file.endswith(TRIO_LOOKS_FOR_PTHREAD) for file in note[2])]
    assert ours == []
    assert [note for note in notes["evaluated"] if note[0] == "pickle.find_class"] == []
    own = str(tmp_path)
    foreign = [
        [event, path]
        for event, path, writes in notes["paths"]
        if not path.startswith(own + os.sep) and path not in SINKS and (writes or not path.startswith(READABLE))
        if not (path.endswith((".pyc", "__pycache__")) or ".pyc." in path)
    ]
    assert foreign == []
    outwards = [note for note in notes["connected"] if note[0] != "socket.getaddrinfo" and "127.0.0.1" not in note[1]]
    assert outwards == []


def test_attack_38_within_its_directory_it_writes_only_its_own_files(tmp_path: Path, notes: dict[str, Any]) -> None:
    below = [Path(path) for _, path, writes in notes["paths"] if writes and path.startswith(f"{tmp_path}/")]
    written = {path.relative_to(tmp_path) for path in below}
    rooms = {path.parts[1] if len(path.parts) > 1 else path.parts[0] for path in written if path.parts[0] == "store"}
    assert rooms <= OWN, rooms
    assert {path.parts[0] for path in written} <= {"store", "report.json", "report.json.part"}


MISBEHAVING = """
import os, pickle, runpy, subprocess, sys, types

def main(_):
    subprocess.run(["true"])
    os.system("true")
    os.close(os.open("/dev/null", os.O_WRONLY))
    pickle.loads(pickle.dumps(os.getcwd))

fake = types.ModuleType("rmq_cli.main")
fake.main = main
sys.modules["rmq_cli.main"] = fake
runpy.run_module("tests.cli.audited", run_name="__main__")
"""


def test_the_hook_sees_what_it_should(tmp_path: Path) -> None:
    """A command that does all that: the notes hold it."""
    report = tmp_path / "report.json"
    command = [sys.executable, "-c", MISBEHAVING, str(report)]
    done = subprocess.run(command, env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    assert {note[0] for note in found["started"]} >= {"subprocess.Popen", "os.system"}
    assert [note for note in found["evaluated"] if note[0] == "pickle.find_class"]
    assert ["open", "/dev/null", True] in found["paths"]
