"""The command line: what it refuses, with one line and status 1; what it prints; how it stops and what is there afterwards."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_impl.dev_differences import DEV_DIFFERENCES
from rmq_cli.ready import READY_S_MAX
from rmq_wire.bodies.cluster import ClusterInfo
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.configuration import GetBrokerConfig
from rmq_wire.headers.naming import GetBrokerClusterInfo, GetRouteInfo, PutKVConfig
from rmq_wire.implied.delay_levels import DELAY_LEVELS_MS
from tests.support.command import complaint, invoke
from tests.support.requests import create_topic
from tests.support.rmq import DEV, ROOT, Server, command, environment, run
from tests.support.talk import PATIENCE_S, Talk

COMMIT_LOG_BYTES = 1 << 30


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock.getsockname()[1]


# What is refused


def test_a_taken_port(home: Path, taken: int) -> None:
    port = str(taken)
    line = complaint("dev", "--ephemeral", "--namesrv-port", port, "--broker-port", "0", home=home)
    assert f"port {port} for the name server is taken" in line
    assert "--namesrv-port" in line
    line = complaint("dev", "--ephemeral", "--namesrv-port", "0", "--broker-port", port, home=home)
    assert f"port {port} for the broker is taken" in line
    assert "--broker-port" in line
    line = complaint("broker", "--set", f"listenPort={port}", "--set", "bindAddress=127.0.0.1", home=home)
    assert f"port {port} for the broker is taken" in line
    line = complaint("broker", "--set", f"listenPort={taken + 2}", "--set", "bindAddress=127.0.0.1", home=home)
    assert f"port {port} for the broker's fast port" in line
    line = complaint("namesrv", "--port", port, home=home)
    assert f"port {port} for the name server is taken" in line
    assert "--port" in line


def test_an_address_that_is_not_ours(home: Path) -> None:
    assert "cannot listen on 192.0.2.1:0" in complaint("namesrv", "--port", "0", "--bind", "192.0.2.1", home=home)


def test_a_store_that_cannot_be_written(home: Path) -> None:
    (home / "file").write_text("x")
    for place in (home / "file" / "store", Path("/proc/store")):
        line = complaint(*DEV, "--store", str(place), home=home)
        assert f"the store directory {place} cannot be made" in line
        assert "choose another with --store" in line
    line = complaint("broker", "--set", "listenPort=0", "--set", "storePathRootDir=/proc/store", home=home)
    assert "the store directory /proc/store cannot be made" in line
    assert "storePathRootDir" in line


def test_a_locked_store(home: Path) -> None:
    store = home / "store"
    with Server(home, *DEV, "--store", str(store)) as first:
        before = sorted(path.name for path in store.iterdir())
        line = complaint(*DEV, "--store", str(store), home=home)
        assert f"{store} is in use by another broker: stop it, or choose another directory" in line
        assert sorted(path.name for path in store.iterdir()) == before
        with Talk(first.ready["broker"]) as talk:
            assert talk.send("T", b"still served").code == 0
        assert first.stop() == 0


def test_the_second_broker_that_cannot_start_leaves_the_first_as_after_a_clean_stop(home: Path) -> None:
    store = home / "store"
    with Server(home, *DEV, "--store", str(store / "broker-b")) as other:
        assert "is in use" in complaint(*DEV, "--brokers", "2", "--store", str(store), home=home)
        assert not (store / "abort").exists()
        assert other.stop() == 0


def test_a_file_that_does_not_belong_in_the_store(home: Path) -> None:
    log = home / "store" / "commitlog"
    log.mkdir(parents=True)
    (log / ("0" * 20)).symlink_to("/dev/null")
    line = complaint(*DEV, "--store", str(home / "store"), home=home)
    assert f"{log / ('0' * 20)} is a symbolic link: move it away" in line


def test_a_configuration_file_of_the_store_that_cannot_be_read(home: Path) -> None:
    config = home / "store" / "config"
    config.mkdir(parents=True)
    (config / "topics.json").write_text("{torn")
    assert f"{config / 'topics.json'}" in complaint(*DEV, "--store", str(home / "store"), home=home)
    assert (config / "topics.json").read_text() == "{torn"
    assert not (home / "store" / "abort").exists()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("maxMessageSize=x", "maxMessageSize='x': a whole number from"),
        ("maxMessageSize=99999999999", "maxMessageSize='99999999999': a whole number from"),
        ("autoCreateTopicEnable=yes", "autoCreateTopicEnable='yes': true or false is expected"),
        ("flushDiskType=NEVER", "flushDiskType='NEVER': one of"),
        ("listenPort=70000", "listenPort='70000': a whole number from"),
        ("listenPort=65535", "listenPort='65535': a whole number from 0 to 65534"),
        ("messageDelayLevel=1s 2y", "messageDelayLevel='1s 2y': times like 1s 5s 1m 2h 1d"),
        ("namesrvAddr=nowhere", "namesrvAddr: 'nowhere' is not host:port"),
        ("brokerName=a/b", "brokerName='a/b' cannot name a topic"),
        ("novalue", "'novalue' is not KEY=VALUE"),
        ("=x", "'=x' is not KEY=VALUE"),
        ("brokerRole=SLAVE", "brokerRole=SLAVE is refused"),
        ("brokerRole=SYNC_MASTER", "brokerRole=SYNC_MASTER is refused"),
        ("enableControllerMode=true", "enableControllerMode=true is refused"),
        ("enableDLegerCommitLog=true", "enableDLegerCommitLog=true is refused"),
        ("storeType=defaultRocksDB", "storeType=defaultRocksDB is refused"),
        ("authenticationEnabled=true", "authenticationEnabled=true is refused"),
        ("authorizationEnabled=true", "authorizationEnabled=true is refused"),
        ("aclEnable=true", "aclEnable=true is refused"),
    ],
)
def test_a_bad_or_refused_setting(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, setting: str, said: str
) -> None:
    """By option and by file; nothing is made on disk."""
    from rmq_cli.main import main

    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(home))
    (home / "broker.conf").write_text(f"listenPort=0\n{setting}\n")
    ways = [["broker", "--set", "listenPort=0", "--set", setting]]
    if "=" in setting and not setting.startswith("="):
        ways.append(["broker", "-c", "broker.conf"])
    for arguments in ways:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 1
        out, err = capsys.readouterr()
        assert out == ""
        [line] = err.splitlines()
        assert line.startswith("rmq: bad configuration: ")
        assert said in line
    assert sorted(path.name for path in home.iterdir()) == ["broker.conf"]


def test_all_faults_at_once(home: Path) -> None:
    bad = ["--set", "maxMessageSize=x", "--set", "brokerRole=SLAVE", "--set", "flushDiskType=NEVER"]
    line = complaint(*DEV, "--ephemeral", *bad, home=home)
    assert all(key in line for key in ("maxMessageSize", "brokerRole", "flushDiskType"))


def test_a_missing_configuration_file(home: Path) -> None:
    assert "none.conf cannot be read: No such file" in complaint("broker", "-c", "none.conf", home=home)
    assert "none.conf cannot be read: No such file" in complaint("namesrv", "-c", "none.conf", home=home)


def test_bad_values_for_the_name_server(home: Path) -> None:
    (home / "names.conf").write_text("scanNotActiveBrokerInterval=soon\n")
    assert "scanNotActiveBrokerInterval='soon'" in complaint("namesrv", "-c", "names.conf", "--port", "0", home=home)
    (home / "names.conf").write_text("enableControllerInNamesrv=true\n")
    assert "enableControllerInNamesrv=true" in complaint("namesrv", "-c", "names.conf", "--port", "0", home=home)


def test_wrong_usage_is_status_2(home: Path) -> None:
    for arguments in (["dev", "--ephemeral", "--store", "x"], ["dev", "--brokers", "0"], ["nothing"], ["dev", "--nothing"]):
        seen = invoke(*arguments, home=home)
        assert (seen.status, seen.out) == (2, ""), seen
        assert "Error" in seen.err
    done = run("dev", "--brokers", "0", home=home)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert "Error" in done.stderr


# What is reported, and does not keep from starting


def test_unknown_and_idle_keys_are_reported_at_the_start(home: Path) -> None:
    """Of a file: it may be another broker's, and Java passes over them, too."""
    (home / "broker.conf").write_text(
        f"maxMesageSize=1\nsendThreadPoolQueueCapacity=1\ndefaultTopicQueueNums=3\n"
        f"listenPort=0\nstorePathRootDir={home / 'store'}\n"
    )
    with Server(home, "broker", "-c", "broker.conf", "--json") as server:
        assert server.wait_logged("unknown property maxMesageSize", "maxMessageSize")
        assert server.wait_logged("sendThreadPoolQueueCapacity=1", "has no effect")
        assert not server.logged("defaultTopicQueueNums")
        assert server.stop() == 0


def test_an_unknown_key_of_the_command_line_is_an_error(home: Path) -> None:
    """A test that says --set believes that it has what it set."""
    line = "rmq: bad configuration: unknown property flushDiskTyp (near: flushDiskType"
    for words in (DEV, ("broker", "--set", "listenPort=0")):
        assert complaint(*words, "--set", "flushDiskTyp=SYNC_FLUSH", home=home).startswith(line)
    assert "unknown property nothing" in complaint(*DEV, "--set", "maxMessageSize=5000", "--set", "nothing=1", home=home)
    assert not list(home.iterdir())


# What is printed when ready


def test_one_json_line_with_four_keys(home: Path) -> None:
    with Server(home, *DEV, "--ephemeral") as server:
        reported = server.ready
        assert list(reported) == ["namesrv", "broker", "store", "pid"]
        assert reported["pid"] == server.pid
        store = Path(reported["store"])
        assert (store / "commitlog").is_dir()
        for address in (reported["namesrv"], reported["broker"]):
            host, _, port = address.partition(":")
            assert host == "127.0.0.1"
            assert 1024 < int(port) < 65_536
        with Talk(reported["broker"]) as talk:
            assert talk.send("T", b"x").code == 0
        assert server.stop() == 0
        assert server.rest == b""
        assert server.log.read_text() == ""
        assert not store.exists(), "an ephemeral store is removed"


def test_ready_means_that_the_route_is_there(home: Path) -> None:
    with Server(home, *DEV, "--ephemeral", "--brokers", "2") as server:
        assert list(server.ready) == ["namesrv", "broker", "store", "pid", "brokers"]
        assert server.ready["brokers"][0] == server.ready["broker"]
        assert len(set(server.ready["brokers"])) == 2
        with Talk(server.ready["namesrv"]) as names:
            cluster = ClusterInfo.read(names.ask(GetBrokerClusterInfo()).body)
        listed = {name: data.broker_addrs for name, data in cluster.broker_addr_table.items()}
        assert listed == {f"broker-{letter}": {0: address} for letter, address in zip("ab", server.ready["brokers"], strict=True)}
        for address in server.ready["brokers"]:
            with Talk(address) as talk:
                assert talk.send("T", address.encode()).code == 0
                assert talk.read("T") == [address.encode()]
        assert server.stop() == 0


def test_ready_without_automatic_topics(home: Path) -> None:
    """There is no TBW102 then, in Java neither."""
    with Server(home, *DEV, "--ephemeral", "--set", "autoCreateTopicEnable=false") as server:
        with Talk(server.ready["namesrv"]) as talk:
            assert talk.ask(GetRouteInfo(topic="TBW102")).code == ResponseCode.TOPIC_NOT_EXIST
            assert talk.ask(GetRouteInfo(topic="SELF_TEST_TOPIC")).code == ResponseCode.SUCCESS
        assert server.stop() == 0


def test_fast_delays_are_said_when_it_is_ready(home: Path) -> None:
    with Server(home, *DEV, "--ephemeral", "--fast-delays") as server:
        levels = server.ready["messageDelayLevel"].split(" ")
        with Talk(server.ready["broker"]) as talk:
            shown = talk.ask(GetBrokerConfig()).body.decode()
    assert len(levels) == len(DELAY_LEVELS_MS)
    assert all(level.endswith("ms") for level in levels)
    assert f"messageDelayLevel={' '.join(levels)}" in shown.splitlines()
    server = Server(home, *DEV[:-1], "--ephemeral", "--fast-delays")
    with server.start(wait=False):
        assert server.line().startswith(b"ready: name server ")
        assert server.line() == f"delay levels and retries in milliseconds: {' '.join(levels)}".encode()
    line = complaint(*DEV, "--ephemeral", "--fast-delays", "--set", "messageDelayLevel=1s", home=home)
    assert "--fast-delays and --set messageDelayLevel= say the same thing" in line


def test_the_sheet_for_people(home: Path) -> None:
    server = Server(home, "dev", "--ephemeral", "--namesrv-port", "0", "--broker-port", "0")
    server.start(wait=False)
    first = server.line().decode()
    assert first.startswith("ready: name server 127.0.0.1:")
    assert server.line() == b""
    address = first.split()[3].rstrip(",")
    assert server.line().decode() == f"  export NAMESRV_ADDR={address}"
    assert server.stop() == 0
    assert f'producer.setNamesrvAddr("{address}");' in server.rest.decode()


def test_only_loopback_unless_set_otherwise(home: Path) -> None:
    """Also attack 40: whoever reaches a name server may change everything, so it takes an explicit word to widen it."""
    for arguments in (("namesrv", "--port", "0", "--json"), (*DEV, "--ephemeral")):
        with Server(home, *arguments) as server:
            for address in filter(None, (server.ready["namesrv"], server.ready["broker"])):
                with pytest.raises(ConnectionRefusedError):
                    Talk(address.replace("127.0.0.1", "127.0.0.2"))
            assert server.stop() == 0
    with Server(home, "namesrv", "--port", "0", "--json", "--bind", "0.0.0.0") as server:
        Talk(server.ready["namesrv"].replace("127.0.0.1", "127.0.0.2")).close()
        assert server.stop() == 0


# How it stops


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
        "consumerOffset.json",
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
signal.alarm(20)
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


# What only prints


def test_codes_as_json(home: Path) -> None:
    seen = invoke("codes", "--json", home=home)
    assert seen.status == 0
    rows = json.loads(seen.out)
    by_code = {(row["code"], *row["roles"]): row for row in rows}
    assert by_code[310, "broker"]["name"] == "SEND_MESSAGE_V2"
    refused = [row for row in rows if row["refused"]]
    assert refused
    assert all(reason for row in refused for reason in row["refused"].values())
    assert invoke("codes", "no-such-code", home=home).status == 1
    assert run("codes", "no-such-code", home=home).returncode == 1


def test_versions(home: Path) -> None:
    for arguments in (["version"], ["--version"]):
        done = run(*arguments, home=home)
        assert done.returncode == 0
        assert "5.5.0" in done.stdout
        assert done.stdout.count("\n") == 1


def test_help_of_dev_names_every_difference(home: Path) -> None:
    seen = invoke("dev", "--help", home=home)
    assert seen.status == 0
    assert all(key in seen.out for key in DEV_DIFFERENCES)


SCRIPT = """
import sys
from rmq_cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code
heavy = {"trio", "construct", "asyncio", "numpy", "pyarrow"} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.mark.parametrize("line", ["--version", "--help", "version", "codes 310", "dev --help", "broker --help"])
def test_what_only_prints_imports_no_trio_and_no_layouts(home: Path, line: str) -> None:
    command = [sys.executable, "-c", SCRIPT, *line.split()]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(home), cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
