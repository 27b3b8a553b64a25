"""What a user gets wrong, and what the machine refuses: one line each that says what to do, and exit status 1."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
import trio

from rmq_cli import ready
from rmq_cli.codes import rows
from rmq_net.reason import reason
from rmq_wire.bodies.route import BrokerData, TopicRouteData
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.command import Command, encode_response
from rmq_wire.conversation import Conversation
from rmq_wire.headers.configuration import GetBrokerConfig, UpdateBrokerConfig
from tests.support.command import complaint, invoke
from tests.support.rmq import DEV, Server, command, environment, run
from tests.support.stores import golden_store
from tests.support.talk import PATIENCE_S, Talk

EPHEMERAL = (*DEV, "--ephemeral")
PRINTING = (["codes"], ["codes", "310"], ["version"], ["--version"], ["--help"], ["dev", "--help"], [*EPHEMERAL])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


# Standard output


def _with_output(home: Path, arguments: Sequence[str], output: int, *, unbuffered: bool) -> tuple[int, str]:
    """Exit status and standard error."""
    surroundings = environment(home) | ({"PYTHONUNBUFFERED": "1"} if unbuffered else {})
    if not unbuffered:
        surroundings.pop("PYTHONUNBUFFERED", None)
    done = subprocess.run(
        command(*arguments),
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        cwd=home,
        env=surroundings,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("arguments", PRINTING, ids=lambda arguments: arguments[0])
def test_an_output_that_takes_nothing(home: Path, arguments: list[str], unbuffered: bool) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        seen = _with_output(home, arguments, full, unbuffered=unbuffered)
    finally:
        os.close(full)
    assert seen == (1, "rmq: standard output cannot be written: No space left on device\n")


LOOKING = (
    ["inspect", "layouts"],
    ["inspect", "stats", "store"],
    ["conform", "--list"],
    ["conform", "--coverage"],
    ["spark", "--help"],
)


@pytest.mark.parametrize("arguments", [*PRINTING, *LOOKING], ids=" ".join)
def test_a_pipe_that_nobody_reads(home: Path, arguments: list[str]) -> None:
    """`| head`: without a word, and with the status of what SIGPIPE ends."""
    if "store" in arguments:
        golden_store(home / "store")
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert _with_output(home, arguments, writing, unbuffered=False) == (141, "")
    finally:
        os.close(writing)


def test_a_pipe_that_is_left_in_the_middle(home: Path) -> None:
    golden_store(home / "store")
    with subprocess.Popen(
        command("inspect", "show", "store", "--limit", "0", "--full"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=home,
        env=environment(home),
    ) as shown:
        assert shown.stdout is not None
        assert shown.stderr is not None
        assert shown.stdout.readline().startswith(b"commitlog/")
        shown.stdout.close()
        assert shown.stderr.read() == b""
        assert shown.wait(PATIENCE_S) == 141


def test_no_output_at_all(home: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command("version")],
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        cwd=home,
        env=environment(home),
        check=False,
    )
    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        ["rmq: standard output is closed: give it a place to go, for example >/dev/null"],
    )


@pytest.mark.parametrize("output", [">&-", ">/dev/full"])
def test_a_look_whose_answer_cannot_be_written_says_neither_yes_nor_no(home: Path, output: str) -> None:
    (home / "store").mkdir()
    (home / "store" / "checkpoint").write_bytes(bytes(4096))
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {output}', "sh", *command("inspect", "verify", "store")],
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        cwd=home,
        env=environment(home),
        check=False,
    )
    assert done.returncode == 2, done
    [line] = done.stderr.splitlines()
    assert line.startswith("rmq: standard output ")


# Addresses, files and directories


def test_a_host_that_nobody_knows(home: Path) -> None:
    for server in (DEV, ("namesrv", "--port", "0")):
        line = complaint(*server, "--bind", os.fsdecode(b"\xff"), home=home)
        assert line == "rmq: the name server cannot listen on \\udcff:0: that is no host name"
    line = complaint("namesrv", "--port", "0", "--bind", "no-such-host.invalid", home=home)
    assert line.startswith("rmq: the name server cannot listen on no-such-host.invalid:0: ")
    assert "error" not in line
    assert "name" in line.rpartition(": ")[2].lower()


def test_a_bad_escape_in_a_file_is_reported_with_file_and_line(home: Path) -> None:
    (home / "broker.conf").write_text("# names\nlistenPort=\\\n0\nbrokerName=x\\u12zz\n")
    for subcommand in ("broker", "namesrv"):
        line = complaint(subcommand, "-c", "broker.conf", home=home)
        assert "broker.conf: line 4: \\u12zz is no character" in line


def test_a_directory_for_a_file_and_a_file_for_a_directory(home: Path) -> None:
    (home / "file").write_text("")
    for subcommand in ("broker", "namesrv"):
        assert "configuration file . cannot be read: Is a directory" in complaint(subcommand, "-c", ".", home=home)
    line = complaint(*DEV, "--store", "file", home=home)
    assert f"the store directory {home / 'file'} is not a directory; choose another with --store" in line
    line = complaint("broker", "--set", "listenPort=0", "--set", f"storePathRootDir={home / 'file'}", home=home)
    assert "is not a directory; choose another: storePathRootDir=" in line


@pytest.mark.parametrize("subcommand", ["broker", "namesrv"])
def test_a_configuration_file_without_an_end(home: Path, subcommand: str) -> None:
    line = complaint(subcommand, "-c", "/dev/zero", home=home)
    assert line == "rmq: the configuration file /dev/zero is none: it has more than 1048576 bytes"


def test_a_current_directory_that_is_gone(home: Path) -> None:
    gone = home / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", 'rmdir ../gone && exec "$@"', "sh", *command(*DEV)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=gone,
        env=environment(home),
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "rmq: the current directory is gone; change to another, or give --store an absolute path\n"


def test_a_store_without_a_name(home: Path) -> None:
    """An empty text is no path: the store must not land where one stands."""
    for arguments in (("--store", ""), ("--set", "storePathRootDir=")):
        assert "the store directory has no name" in complaint(*DEV, *arguments, home=home)
    assert not list(home.iterdir())


@pytest.mark.parametrize("name", ["nohost.invalid", "two words", "x" * 300, "::1::"])
def test_a_broker_address_that_is_none(home: Path, name: str) -> None:
    line = complaint(*DEV, "--ephemeral", "--set", f"brokerIP1={name}", home=home)
    assert line.startswith("rmq: brokerIP1='")
    assert "has no address" in line


@pytest.mark.parametrize(
    ("arguments", "host", "stored"),
    [
        (("--bind", "localhost"), "127.0.0.1", "7F000001"),
        (("--set", "brokerIP1=localhost"), "127.0.0.1", "7F000001"),
        (("--bind", "127.0.0.2"), "127.0.0.2", "7F000002"),
        (("--set", "brokerIP1=[::1]"), "127.0.0.1", "0" * 31 + "1"),
    ],
)
def test_message_ids_hold_an_address_where_the_broker_listens(
    home: Path, arguments: tuple[str, ...], host: str, stored: str
) -> None:
    """`brokerIP1` may be a host name, as for Java: clients are given the name, units and ids hold its address."""
    with Server(home, *DEV, "--ephemeral", *arguments) as server, Talk(server.ready["broker"]) as talk:
        address, port = server.ready["broker"].rsplit(":", 1)
        assert address == host
        answer = talk.send("T", b"x")
        assert answer.code == 0, answer.remark
        assert answer.ext_map()["msgId"].startswith(f"{stored}{int(port):08X}")
        assert server.stop() == 0


# Several brokers of one process


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--set", "brokerName=broker-b"), "brokerName=broker-b is the name of another broker of --brokers 2"),
        (("--set", "storePathCommitLog={home}/log"), "storePathCommitLog= would give several brokers one log"),
        (("--broker-port", "65534"), "port 65544 for the broker is none: they end at 65535; choose others with --broker-port"),
    ],
)
def test_what_several_brokers_cannot_have_in_common(home: Path, arguments: tuple[str, ...], said: str) -> None:
    reported = [argument.format(home=home) for argument in arguments]
    assert said in complaint(*DEV, "--ephemeral", "--brokers", "2", *reported, home=home)
    assert not (home / "log").exists()


# The same thing said twice


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("dev", "--broker-port", "0", "--set", "listenPort=0"), "--broker-port and --set listenPort="),
        (("dev", "--broker-port", "10911", "--set", "listenPort=10911"), "--broker-port and --set listenPort="),
        (("dev", "--bind", "127.0.0.1", "--set", "bindAddress=127.0.0.1"), "--bind and --set bindAddress="),
        (("dev", "--store", "a", "--set", "storePathRootDir=b"), "--store and --set storePathRootDir="),
        (("dev", "--ephemeral", "--set", "storePathRootDir=b"), "--ephemeral and --set storePathRootDir="),
        (("broker", "-n", "127.0.0.1:1", "--set", "namesrvAddr=127.0.0.1:1"), "-n and --set namesrvAddr="),
    ],
)
def test_what_is_said_twice_is_refused(home: Path, arguments: tuple[str, ...], said: str) -> None:
    assert complaint(*arguments, home=home) == f"rmq: {said} say the same thing: leave one of them out"
    assert not list(home.iterdir())


def test_what_is_said_once_by_set_counts(home: Path) -> None:
    settings = ("--set", "listenPort=0", "--set", "bindAddress=127.0.0.2", "--set", f"storePathRootDir={home / 'there'}")
    with Server(home, "dev", "--json", "--namesrv-port", "0", *settings) as server:
        assert server.ready["store"] == str(home / "there")
        assert server.ready["namesrv"].startswith("127.0.0.2:")
        assert server.ready["broker"].startswith("127.0.0.2:")
        assert server.stop() == 0
    assert (home / "there" / "commitlog").is_dir()


# Reasons


def _reasons() -> Iterator[tuple[BaseException, str]]:
    refused = ConnectionRefusedError(111, "Connection refused")
    wrapped = OSError("all attempts to connect to 127.0.0.1:1 failed")
    wrapped.__cause__ = refused
    several = OSError("all attempts to connect to localhost:1 failed")
    again = ConnectionRefusedError(111, "Error connecting to ('127.0.0.1', 1): Connection refused")
    several.__cause__ = ExceptionGroup("multiple", [refused, again, OSError(101, "Network is unreachable")])
    yield wrapped, "Connection refused"
    yield several, "Connection refused; Network is unreachable"
    yield trio.TooSlowError(), "no answer in time"
    yield socket.gaierror(-2, "Name or service not known"), "Name or service not known"
    yield RuntimeError(), "RuntimeError"


@pytest.mark.parametrize(("error", "text"), list(_reasons()))
def test_the_reason_at_the_bottom(error: BaseException, text: str) -> None:
    assert reason(error) == text


def test_the_log_says_why_a_name_server_cannot_be_reached(home: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        names = f"127.0.0.1:{closed.getsockname()[1]}"
        settings = ("--set", f"storePathRootDir={home / 'store'}", "--set", "listenPort=0")
        line = command("broker", "-n", names, *settings)
        with subprocess.Popen(line, cwd=home, env=environment(home), stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            first = process.stderr.readline()
            process.terminate()
        assert f"name server {names}: Connection refused; tried again every" in first


def test_a_change_from_afar_names_the_peer_and_says_what_waits_for_the_next_start(home: Path) -> None:
    with Server(home, *EPHEMERAL) as server, Talk(server.ready["broker"]) as talk:
        talk.ask(UpdateBrokerConfig(), b"maxMessageSize=5000\nautoCreateTopicEnable=false\n")
        assert server.wait_logged(f"configuration changed by {talk.name}: ", "maxMessageSize", "autoCreateTopicEnable")
        later = server.wait_logged("these count from the next start")
        assert later.endswith(": maxMessageSize")
        assert "maxMessageSize=5000\n" in bytes(talk.ask(GetBrokerConfig()).body).decode()
        assert not server.logged("<Peer")
        assert server.stop() == 0


# rmq codes


def _codes(home: Path, **variables: str) -> list[str]:
    return invoke("codes", "--refused", home=home, **variables).out.splitlines()


def test_reasons_are_whole_whatever_the_width(home: Path) -> None:
    reasons = {why for row in rows() for why in row["refused"].values()}
    piped = _codes(home)
    narrow, wide = _codes(home, COLUMNS="60"), _codes(home, COLUMNS="200")
    assert len(piped) == len([row for row in rows() if row["refused"]]) + 2, "a pipe gets one line a code"
    assert len(narrow) > len(wide) >= len(piped)
    for lines in (piped, narrow, wide):
        text = " ".join(" ".join(lines).split())
        assert all(" ".join(why.split()) in text for why in reasons)
    assert max(len(line) for line in wide) <= 200
    assert max(len(line) for line in narrow if line.startswith(" " * 11)) <= 60


# Waiting until ready


def test_pauses_grow_to_a_second() -> None:
    pauses = ready._pauses()
    first = [next(pauses) for _ in range(10)]
    assert first[:3] == [0.02, 0.04, 0.08]
    assert first == sorted(first)
    assert first[-1] == 1.0


class Names:
    """Stands for a name server: gives these answers, one after the other."""

    def __init__(self, answers: Sequence[tuple[int, bytes]]) -> None:
        self.answers = answers
        self.asked: list[int] = []
        self.connections = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        conversation = Conversation()
        async for data in stream:
            for request in conversation.feed(data):
                assert isinstance(request, Command)
                code, body = self.answers[len(self.asked)]
                self.asked.append(request.code)
                answer = encode_response(code, request.opaque, form=request.form, body=body)
                await stream.send_all(answer if isinstance(answer, bytes) else b"".join(answer))

    async def satisfy(self, listed: ready.Listed | None = None) -> None:
        """Somebody asks until he has the answer that he wants, which is the last."""
        async with trio.open_nursery() as nursery:
            serving = partial(trio.serve_tcp, self.serve, 0, host="127.0.0.1")
            [listener] = await nursery.start(lambda task_status: serving(task_status=task_status))
            address = f"127.0.0.1:{listener.socket.getsockname()[1]}"
            assert await ready.answers_default_route([address], PATIENCE_S, listed)
            nursery.cancel_scope.cancel()
        assert self.asked == [RequestCode.GET_ROUTEINFO_BY_TOPIC] * len(self.answers)


NO_ROUTE = (ResponseCode.TOPIC_NOT_EXIST, b"")


async def test_one_connection_asks_until_the_route_is_there() -> None:
    """The name server says no twice (both topics), then yes."""
    names = Names([NO_ROUTE] * 4 + [(ResponseCode.SUCCESS, b"{}")])
    await names.satisfy()
    assert names.connections == 1


async def test_the_route_of_another_broker_is_not_enough() -> None:
    """Neither one of another name nor one of the same name at another address."""

    def route(name: str, address: str) -> tuple[int, bytes]:
        broker = BrokerData(cluster="c", broker_name=name, broker_addrs={0: address})
        return ResponseCode.SUCCESS, TopicRouteData(broker_datas=[broker]).encode()

    names = Names(
        [
            route("broker-a", "127.0.0.1:1"),
            NO_ROUTE,
            route("broker-b", "127.0.0.1:3"),
            NO_ROUTE,
            route("broker-b", "127.0.0.1:2"),
        ]
    )
    await names.satisfy(ready.Listed("broker-b", "127.0.0.1:2"))


def test_codes_of_one_code_still_prints(home: Path) -> None:
    assert run("codes", "310", home=home).stdout.startswith("310 SEND_MESSAGE_V2")
