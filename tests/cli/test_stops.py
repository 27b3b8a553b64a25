"""Servers of the command line: how they stop, and what is there afterwards; where they register."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rmq_cli.ready import READY_S_MAX
from rmq_wire.bodies.cluster import ClusterInfo
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.naming import GetBrokerClusterInfo, PutKVConfig
from tests.support.requests import create_topic
from tests.support.rmq import DEV, Server, command, environment
from tests.support.talk import PATIENCE_S, Talk

COMMIT_LOG_BYTES = 1 << 30


def commit_log(store: Path) -> list[str]:
    return sorted(path.name for path in (store / "commitlog").iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("shell", [(), ("--plain-streams",)], ids=["epoll", "streams"])
def test_a_clean_stop(home: Path, number: signal.Signals, shell: tuple[str, ...]) -> None:
    """Status 0, no abort file, no preallocated log file, nothing in the log; a busy connection does not hold it up."""
    store = home / "store"
    with (
        Server(home, *DEV, "--store", str(store), *shell) as server,
        Talk(server.ready["broker"]) as talk,
        Talk(server.ready["broker"]),
    ):
        assert (store / "abort").exists()
        assert talk.send("T", b"kept").code == 0
        talk.raw(b"\0\0")
        assert server.stop(number) == 0
        assert server.log.read_text() == ""
    assert not (store / "abort").exists()
    assert commit_log(store) == ["0" * 20]
    assert (store / "commitlog" / ("0" * 20)).stat().st_size == COMMIT_LOG_BYTES
    assert sorted(path.name for path in (store / "config").iterdir() if path.suffix == ".json") == [
        "consumerFilter.json",
        "consumerOffset.json",
        "consumerOrderInfo.json",
        "delayOffset.json",
        "subscriptionGroup.json",
        "topics.json",
    ]


def test_a_stop_that_could_not_write_is_no_success(home: Path) -> None:
    """Changes were answered 1, for their files could not be written: the topic cannot be written at the stop, either; the name
    server has taken the value back, and has nothing to write."""
    store = home / "store"
    with (
        Server(home, *DEV, "--store", str(store)) as server,
        Talk(server.ready["broker"]) as broker,
        Talk(server.ready["namesrv"]) as names,
    ):
        for directory in (store / "config", store / "namesrv"):
            if directory.exists():
                directory.rename(f"{directory}.away")
            directory.write_text("in the way")
        assert broker.ask(create_topic("New")).code == ResponseCode.SYSTEM_ERROR
        assert names.ask(PutKVConfig(namespace="n", key="k", value="v")).code == ResponseCode.SYSTEM_ERROR
        assert server.stop() == 1
        assert "rmq: broker broker-a could not write everything at the stop" in server.log.read_text()


def test_two_stop_signals_end_it_at_once(home: Path) -> None:
    with Server(home, *DEV, "--ephemeral") as server:
        os.kill(server.pid, signal.SIGINT)
        assert server.stop(signal.SIGINT) in (0, 130)


@pytest.mark.parametrize("ignored", [False, True], ids=["", "in the background of a shell"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_stop_while_it_starts_leaves_nothing_behind(home: Path, number: signal.Signals, ignored: bool) -> None:
    """The signal comes when the temporary directory is there and the broker is not; a shell's `&` ignores Ctrl-C."""
    program = f"""
import os, signal, sys
from broker_impl import node
from rmq_cli.main import main
signal.signal(signal.SIGINT, signal.SIG_IGN if {ignored} else signal.default_int_handler)
class Node(node.BrokerNode):
    def __init__(self, *more):
        super().__init__(*more)
        assert len(os.listdir(os.environ["TMPDIR"])) == 1
        os.kill(os.getpid(), {int(number)})
import rmq_cli.servers
rmq_cli.servers.BrokerNode = Node
signal.alarm(150)
main({[*DEV, "--ephemeral"]!r})
"""
    (home / "tmp").mkdir()
    ignores = ignored and number is signal.SIGINT
    if ignores:
        program = program.replace("os.kill(", "os.kill(os.getpid(), signal.SIGINT); os.kill(").replace(
            f", {int(number)})", ", 15)"
        )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(home) | {"TMPDIR": str(home / "tmp")},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (128 + (15 if ignores else number), "", "")
    assert not list((home / "tmp").iterdir())


INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupts:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == sys.argv[1]:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                if len(sys.argv) > 2:
                    raise ImportError(sys.argv[2])
                raise

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupts)
from rmq_cli.main import main
main(["lag", "--once", "-n", "127.0.0.1:1"])
"""


@pytest.mark.parametrize(
    "words", [["click"], ["rmq_cli.printing"], ["rmq_cli.lag"], ["ssl", "what C makes of it"], ["trio"], ["rmq_client.client"]]
)
def test_an_interrupt_while_a_command_is_imported(home: Path, words: list[str]) -> None:
    """The first tenths of a second; what of it is Python's own start is nobody's."""
    line = [sys.executable, "-c", INTERRUPTED_IMPORT, *words]
    done = subprocess.run(line, env=environment(home), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_stop_while_the_name_server_is_waited_for(home: Path, number: signal.Signals) -> None:
    """It would be waited for 30 s; a mute name server takes the connection and says nothing."""
    store = home / "store"
    with socket.create_server(("127.0.0.1", 0)) as mute:
        mute.settimeout(PATIENCE_S)
        names = f"127.0.0.1:{mute.getsockname()[1]}"
        line = command("broker", "-n", names, "--set", f"storePathRootDir={store}", "--set", "listenPort=0")
        process = subprocess.Popen(line, cwd=home, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        links = [mute.accept()[0] for _ in range(2)]
        started = time.monotonic()
        process.send_signal(number)
        out, log = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out) == (0, b""), log
        assert time.monotonic() - started < READY_S_MAX / 2
        for link in links:
            link.close()
    assert not (store / "abort").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_restart_keeps_what_was_acknowledged(home: Path, number: signal.Signals) -> None:
    store, bodies = home / "store", [b"%d" % n for n in range(100)]
    with Server(home, *DEV, "--store", str(store)) as server, Talk(server.ready["broker"]) as talk:
        for n, body in enumerate(bodies):
            assert talk.send("T", body, n % 4).code == 0
        assert server.stop(number) == (0 if number is signal.SIGTERM else -9)
    with Server(home, *DEV, "--store", str(store)) as server, Talk(server.ready["broker"]) as talk:
        assert [talk.read("T", queue) for queue in range(4)] == [bodies[queue::4] for queue in range(4)]
        assert talk.send("T", b"and more").code == 0
        assert server.stop() == 0


def test_the_default_store_is_where_one_stands(home: Path) -> None:
    with Server(home, *DEV) as server:
        assert server.ready["store"] == str(home / ".rmq")
        assert server.stop() == 0
    assert (home / ".rmq" / "commitlog").is_dir()
    assert sorted(path.name for path in home.iterdir()) == [".rmq", "rmq.log"]


def test_a_broker_alone_registers_where_it_is_set_to(home: Path) -> None:
    """Java's file form, `NAMESRV_ADDR` in the environment, and a list of name servers."""
    with (
        Server(home, "namesrv", "--port", "0", "--json", name="one") as one,
        Server(home, "namesrv", "--port", "0", "--json", name="two") as two,
    ):
        servers = f"{one.ready['namesrv']};{two.ready['namesrv']}"
        (home / "broker.conf").write_text(
            "brokerName=mine\nbrokerIP1=127.0.0.1\nlistenPort=0\nbindAddress=127.0.0.1\n"
            f"storePathRootDir={home}/store\\\n2\n# a comment\nautoCreateTopicEnable = true\n"
        )
        with Server(home, "broker", "-c", "broker.conf", "-n", servers, "--json") as broker:
            assert broker.ready["store"] == f"{home}/store2"
            for names in (one, two):
                with Talk(names.ready["namesrv"]) as talk:
                    table = ClusterInfo.read(talk.ask(GetBrokerClusterInfo()).body).broker_addr_table
                    assert [(name, data.broker_addrs) for name, data in table.items()] == [("mine", {0: broker.ready["broker"]})]
            assert broker.stop() == 0
        for names in (one, two):
            with Talk(names.ready["namesrv"]) as talk:
                assert not ClusterInfo.read(talk.ask(GetBrokerClusterInfo()).body).broker_addr_table, "it took its leave"
            assert names.stop() == 0
