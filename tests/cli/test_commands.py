"""The command line: what it refuses, with one line and status 1; what it prints."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_impl.dev_differences import DEV_DIFFERENCES
from rmq_wire.bodies.cluster import ClusterInfo
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.configuration import GetBrokerConfig
from rmq_wire.headers.naming import GetBrokerClusterInfo, GetRouteInfo
from rmq_wire.implied.delay_levels import DELAY_LEVELS_MS
from tests.support.command import complaint, invoke
from tests.support.rmq import DEV, ROOT, Server, environment, run
from tests.support.talk import Talk


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


def test_a_code_that_is_there_and_of_another_kind(home: Path) -> None:
    said = complaint("codes", "310", "--role", "client", home=home)
    assert said == "rmq: 310 SEND_MESSAGE_V2 (of broker) is not answered by the role client"
    assert complaint("codes", "310", "--refused", home=home) == "rmq: 310 SEND_MESSAGE_V2 (of broker) is not refused"
    assert complaint("codes", "no-such-code", "--role", "client", home=home).startswith("rmq: no request code 'no-such-code'")
    assert "310 SEND_MESSAGE_V2" in invoke("codes", "310", "--role", "broker", home=home).out
    assert "SEND_MESSAGE_V2" not in invoke("codes", "--role", "client", home=home).out


def test_help_says_what_its_options_take(home: Path) -> None:
    """`--json` takes a file: as JSON the list goes to `-`."""
    assert "--json -: as JSON" in " ".join(invoke("conform", "--help", home=home).out.split())
    assert invoke("conform", "--list", "--json", "-", "--only", "pull.*", home=home).out.startswith("[")


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
