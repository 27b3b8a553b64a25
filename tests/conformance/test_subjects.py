"""Subjects: found or started, given where they are, and nothing left of them however it ends.

What is really Java's is in tests/java, what needs a daemon in tests/docker.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_impl.config_keys import keys
from conformance import truth
from conformance.subjects import jars, remoting
from conformance.subjects.address import SAMPLING_S, AddressSubject, runtime
from conformance.subjects.base import SubjectFailed, Target
from conformance.subjects.compose import ComposeSubject
from conformance.subjects.docker import DockerSubject
from conformance.subjects.jars import JarsSubject
from conformance.subjects.java import java_command, java_version
from conformance.subjects.named import subject_named
from conformance.subjects.ours import OurNameServer, OursSubject
from conformance.subjects.own import registered
from conformance.subjects.ports import reserve_port
from conformance.subjects.process import ServerProcess, until
from conformance.subjects.properties import OWN_BROKER_PROPERTIES, OWN_NAMESRV_PROPERTIES
from conformance.version import version_of
from tests.support.process import processes_in

NOBODY = "127.0.0.1:1"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


def why_not(subject: object) -> str:
    """The one line of a subject that cannot be had."""
    with pytest.raises(SubjectFailed) as caught, subject:  # type: ignore[attr-defined]
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with OursSubject(tmp_path_factory.mktemp("ours")) as target:
        yield target


def test_ours_says_where_it_is(ours: Target) -> None:
    assert (ours.label, ours.kind, ours.version) == ("ours", "ours", (5, 5, 0))
    assert ours.store is not None
    assert (ours.store / "commitlog").is_dir()
    assert ours.config["transactionTimeOut"] == OWN_BROKER_PROPERTIES["transactionTimeOut"]
    assert "rmq_cli.main broker" in ours.details["command rmq-broker"]


@pytest.mark.parametrize("of", ["namesrv", "broker"])
def test_an_address_finds_the_rest(ours: Target, of: str) -> None:
    with AddressSubject(getattr(ours, of)) as found:
        assert (found.namesrv, found.broker) == (ours.namesrv, ours.broker)
        assert (found.broker_name, found.cluster) == (ours.broker_name, ours.cluster)
        assert (found.label, found.version, found.store) == ("address", (5, 5, 0), None)
        assert found.config["transactionTimeOut"] == OWN_BROKER_PROPERTIES["transactionTimeOut"]


def test_a_master_that_is_not_listed(ours: Target) -> None:
    assert "no master broker-z: there are broker-a" in why_not(AddressSubject(ours.namesrv, broker_name="broker-z"))


def test_nobody_at_the_address() -> None:
    assert NOBODY in why_not(AddressSubject(NOBODY))


@pytest.mark.parametrize("word", ["", "127.0.0.1", ":9876", "127.0.0.1:port", "127.0.0.1:0", "127.0.0.1:65536"])
def test_no_address(word: str) -> None:
    assert "is no address" in why_not(AddressSubject(word))


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x08\0\0\0\x04nope", b""])
def test_another_protocol_at_the_address(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(said)

        thread = threading.Thread(target=speak)
        thread.start()
        assert "cannot be asked" in why_not(AddressSubject(f"127.0.0.1:{server.getsockname()[1]}"))
        thread.join()


def test_a_name_server_without_a_master(tmp_path: Path) -> None:
    with OurNameServer(tmp_path) as names:
        assert "lists no master" in why_not(AddressSubject(names.address))


@pytest.mark.parametrize("which", ["namesrv_port", "broker_port"])
def test_a_port_that_is_taken(tmp_path: Path, which: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", reserve_port()))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port {port} is taken" in why_not(OursSubject(tmp_path, **{which: port}))
    assert not processes_in(tmp_path)


def test_a_broker_that_refuses_to_start(tmp_path: Path) -> None:
    why = why_not(OursSubject(tmp_path, properties={"useTLS": "true"}))
    assert "useTLS" in why
    assert not processes_in(tmp_path)


def test_a_broker_that_has_not_sampled_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the real one answers in the first second of its life."""
    reported = remoting.Answer(remoting.SUCCESS, None, {}, b'{"table":{"brokerVersionDesc":"V5_5_0"}}')
    unable = remoting.Answer(1, "java.util.NoSuchElementException, java.util.LinkedList.getLast", {}, b"")
    answers, pauses = [unable, unable, reported], list[float]()
    monkeypatch.setattr(remoting, "ask", lambda *_: answers.pop(0))
    assert runtime("127.0.0.1:1", pauses.append) == {"brokerVersionDesc": "V5_5_0"}
    assert pauses == [SAMPLING_S] * 2
    monkeypatch.setattr(remoting, "ask", lambda *_: unable)
    assert runtime("127.0.0.1:1", pauses.append) == {}


def test_a_broker_that_a_name_server_still_lists_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as broker:
        broker.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{broker.getsockname()[1]}"
        text = f'"{address}"'
        table = remoting.Answer(0, None, {}, text.encode())
        monkeypatch.setattr(remoting, "ask", lambda *_: table)
        with pytest.raises(ConnectionRefusedError):
            registered("127.0.0.1:9876", address)
        broker.listen()
        assert registered("127.0.0.1:9876", address)
    assert not registered("127.0.0.1:9876", "127.0.0.1:1")


def test_a_broker_that_dies_in_the_middle_and_one_that_is_restarted(tmp_path: Path) -> None:
    subject = OursSubject(tmp_path)
    with subject as target:
        assert subject.alive()
        subject.restart_broker(kill=True)
        assert subject.alive()
        broker = subject.servers[-1]
        os.kill(broker.pid, signal.SIGKILL)
        until(lambda: not subject.alive(), "death")
        subject.collect_logs(tmp_path / "logs")
        assert target.namesrv
    assert not subject.alive()
    assert not processes_in(tmp_path)
    logs = {path.name for path in (tmp_path / "logs").rglob("*") if path.is_file()}
    assert {"rmq-broker.out", "rmq-namesrv.out", "broker.conf"} <= logs


@contextmanager
def kept(directory: Path, stdin: int) -> Iterator[subprocess.Popen[bytes]]:
    """`python -m conformance.subjects ours`, ready."""
    command = [sys.executable, "-m", "conformance.subjects", "ours", "--json", "--dir", str(directory)]
    with subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as holder:
        try:
            assert holder.stdout is not None
            assert json.loads(holder.stdout.readline())["label"] == "ours"
            yield holder
        finally:
            holder.kill()


def test_it_ends_with_the_one_that_keeps_it_even_when_that_is_killed(tmp_path: Path) -> None:
    with kept(tmp_path, subprocess.DEVNULL) as holder:
        assert len(processes_in(tmp_path)) == 3
        holder.kill()
        holder.wait()
        until(lambda: not processes_in(tmp_path), "end of all")


def test_it_ends_when_standard_input_is_closed_and_when_it_is_asked_to(tmp_path: Path) -> None:
    with kept(tmp_path / "a", subprocess.PIPE) as holder:
        assert holder.stdin is not None
        holder.stdin.close()
        assert holder.wait(60) == 0
    with kept(tmp_path / "b", subprocess.DEVNULL) as holder:
        holder.send_signal(signal.SIGTERM)
        assert holder.wait(60) == 0
    assert not processes_in(tmp_path)


def test_what_cannot_be_had_ends_with_status_2_and_one_line() -> None:
    command = [sys.executable, "-m", "conformance.subjects", NOBODY]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert NOBODY in done.stderr


def test_a_child_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    class Sleeper(ServerProcess):
        def command(self) -> list[str]:
            return ["sleep", "60"]

    sleeper = Sleeper("sleeper", tmp_path)
    thread = threading.Thread(target=sleeper.start, kwargs={"wait": False})
    thread.start()
    thread.join()
    with pytest.raises(subprocess.TimeoutExpired):
        sleeper._process.wait(0.2)  # type: ignore[union-attr]
    assert sleeper.kill() == -signal.SIGKILL


@pytest.mark.parametrize("name", ["theirs", "ours-5", "", "jar"])
def test_no_such_subject(tmp_path: Path, name: str) -> None:
    with pytest.raises(SubjectFailed, match="no such subject"):
        subject_named(name, tmp_path)


def test_the_names(tmp_path: Path) -> None:
    labels = {
        "ours": "ours",
        "jars-4.9.7": "java-4.9.7",
        "java": "java-5.5.0",
        "docker-a/b:5.3.3": "docker-5.3.3",
        "h:1": "address",
    }
    assert {name: subject_named(name, tmp_path).label for name in labels} == labels


@pytest.mark.parametrize(
    ("text", "version"), [("V5_3_3", (5, 3, 3)), ("apache/rocketmq:5.5.0", (5, 5, 0)), ("latest", None), ("4.9", None)]
)
def test_versions(text: str, version: tuple[int, ...] | None) -> None:
    assert version_of(text) == version


# --- properties ----------------------------------------------------------------------------------------------------------------


def test_java_knows_every_property() -> None:
    known = truth.load("5.5.0")["configuration"]
    for properties, owners in (
        (OWN_BROKER_PROPERTIES, ("BrokerConfig", "MessageStoreConfig")),
        (OWN_NAMESRV_PROPERTIES, ("NamesrvConfig",)),
    ):
        assert not set(properties) - {name for owner in owners for name in known[owner]["keys"]}


def test_ours_is_spared_exactly_what_it_refuses() -> None:
    of = keys()
    own = OWN_BROKER_PROPERTIES.items()
    assert not [name for name, value in own if of[name].status == "refused" and value not in (of[name].allowed or ())]


# --- Java that is not there ----------------------------------------------------------------------------------------------------


def script(place: Path, text: str) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)
    return place


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A machine with the directory `bin` on its PATH, `sh` aside: nothing in it yet; and no jars."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("RMQ_JARS", str(tmp_path / "jars"))
    jars.library.cache_clear()
    yield tmp_path
    jars.library.cache_clear()


BRINGS = 'for a; do case $a in -DoutputDirectory=*) /bin/mkdir "${{a#*=}}"; echo >"${{a#*=}}/{}";; esac; done'
"""A `mvn` that brings one jar."""
JAVA_17 = """echo 'openjdk version "17.0.15" 2025-04-15' >&2"""


def test_no_java(bare: Path) -> None:
    assert "no `java` on PATH or in JAVA_HOME" in why_not(JarsSubject("5.5.0", bare / "d"))
    assert f"no Java at {bare}" in why_not(JarsSubject("5.5.0", bare / "d", java=bare))


def test_java_is_found_where_it_is_named(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path, at_home, named = (script(bare / place, JAVA_17) for place in ("bin/java", "home/bin/java", "named/bin/java"))
    assert java_command() == str(on_path)
    monkeypatch.setenv("JAVA_HOME", str(bare / "home"))
    assert java_command() == str(at_home)
    assert java_command(bare / "named") == java_command(named) == str(named)
    assert java_version(str(named)) == "17.0.15"
    monkeypatch.chdir(bare)
    assert java_command("named/bin/java") == str(named)


def test_java_too_old_or_broken(bare: Path) -> None:
    script(bare / "bin" / "java", """echo 'java version "1.8.0_392"' >&2""")
    assert "is Java 1.8.0_392: a newer one is needed" in why_not(JarsSubject("5.5.0", bare / "d"))
    broken = script(bare / "broken", "exit 1")
    assert "does not run" in why_not(JarsSubject("5.5.0", bare / "d", java=broken))


def test_no_maven(bare: Path) -> None:
    script(bare / "bin" / "java", JAVA_17)
    assert "no `mvn` to fetch them with" in why_not(JarsSubject("5.5.0", bare / "d"))


def test_no_such_version(bare: Path) -> None:
    script(bare / "bin" / "java", JAVA_17)
    script(bare / "bin" / "mvn", "echo '[ERROR] Could not find artifact rocketmq-all:pom:5.9.9'; echo '[ERROR] more'; exit 1")
    assert "cannot be fetched: Could not find artifact rocketmq-all:pom:5.9.9" in why_not(JarsSubject("5.9.9", bare / "d"))
    assert not list((bare / "jars").glob("lib-*"))
    assert "is no version" in why_not(JarsSubject("../5", bare / "d"))


def test_jars_are_fetched_once_and_again_for_another_pom(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(bare / "bin" / "java", JAVA_17)
    script(bare / "bin" / "mvn", f"echo fetched >>{bare}/count\n{BRINGS.format('rocketmq-client.jar')}")
    fetched = lambda: (bare / "count").read_text().count("\n")  # noqa: E731
    assert jars.library("5.5.0") == bare / "jars" / "lib-5.5.0"
    jars.library.cache_clear()
    assert (jars.library("5.5.0") / "rocketmq-client.jar").exists()
    assert fetched() == 1
    other = bare / "pom.xml"
    other.write_text("<project/>")
    monkeypatch.setattr(jars, "POM", other)
    jars.library.cache_clear()
    jars.library("5.5.0")
    assert fetched() == 2
    assert "no broker among the jars" in why_not(JarsSubject("5.5.0", bare / "d"))


def test_a_jvm_that_does_not_come_up(bare: Path) -> None:
    script(bare / "bin" / "java", f"{JAVA_17}\n[ \"$1\" = -version ] || {{ echo 'Error: no main class'; exit 1; }}")
    script(bare / "bin" / "mvn", BRINGS.format("rocketmq-broker-5.5.0.jar"))
    why = why_not(JarsSubject("5.5.0", bare / "d"))
    assert "java-5.5.0: start of namesrv: the process has ended; it printed last: Error: no main class" in why
    assert not processes_in(bare)


# --- containers that cannot be had ---------------------------------------------------------------------------------------------


def test_no_docker_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    assert "`docker` is not installed" in why_not(DockerSubject())


def test_no_docker_daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("docker")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    assert "no Docker daemon answers" in why_not(DockerSubject())


def test_no_compose_file_or_program(bare: Path) -> None:
    assert "no compose file" in why_not(ComposeSubject(bare / "compose.yml"))
    (bare / "compose.yml").write_text("")
    assert "neither `docker compose` nor `docker-compose` is there" in why_not(ComposeSubject(bare / "compose.yml"))


def test_what_compose_brought_half_up_comes_down(bare: Path) -> None:
    (bare / "compose.yml").write_text("")
    script(
        bare / "bin" / "docker-compose",
        f'echo "$*" >>{bare}/said\n'
        'case "$*" in *config*) echo namesrv broker ours;; *" up "*) echo "no such image: x" >&2; exit 1;; esac',
    )
    assert "no such image: x" in why_not(ComposeSubject(bare / "compose.yml"))
    said = (bare / "said").read_text().splitlines()
    assert said[-1].endswith("down --volumes --remove-orphans --timeout 1")
    assert [line for line in said if line.endswith("up -d namesrv broker")]
