"""Our image: who it runs as, when it is healthy, what a client on the host gets, how it stops and what it leaves."""

from __future__ import annotations

import time
from typing import Any

import pytest

from conformance.subjects.ports import reserve_port
from tests.docker.conftest import Run
from tests.support import remoting
from tests.support.process import until
from tests.support.talk import Talk

pytestmark = pytest.mark.docker

USER = 3000
"""The user of Apache RocketMQ's own images: a volume can change hands."""
STORE = "/var/lib/rmq"
STOP_S = 10
"""What `docker stop` allows before it kills; a stop takes a quarter of a second."""
TOPIC = "InABox"


class Box:
    """A container of ours with its ports on the host's loopback, the broker advertising them."""

    def __init__(self, run: Run, **options: Any) -> None:
        self.namesrv_port, self.broker_port = reserve_port(), reserve_port()
        self.namesrv, self.broker = f"127.0.0.1:{self.namesrv_port}", f"127.0.0.1:{self.broker_port}"
        ports = {f"{port}/tcp": ("127.0.0.1", port) for port in (self.namesrv_port, self.broker_port)}
        self.container = run(
            "rmq",
            "dev",
            "--bind",
            "0.0.0.0",
            "--store",
            STORE,
            "--set",
            "brokerIP1=127.0.0.1",
            "--namesrv-port",
            str(self.namesrv_port),
            "--broker-port",
            str(self.broker_port),
            ports=ports,
            environment={"RMQ_NAMESRV": self.namesrv},
            **options,
        )
        until(self._is_healthy, "health of the container", alive=self._runs)

    def _state(self) -> dict[str, Any]:
        self.container.reload()
        state = self.container.attrs["State"]
        assert isinstance(state, dict)
        return state

    def _is_healthy(self) -> bool:
        return bool(self._state()["Health"]["Status"] == "healthy")

    def _runs(self) -> bool:
        return bool(self._state()["Running"])

    def says(self, *command: str) -> str:
        """What a command in the container prints; it must succeed."""
        status, printed = self.container.exec_run(list(command))
        text = printed.decode()
        assert status == 0, text
        assert isinstance(text, str)
        return text


def stop(container: Any) -> tuple[int, float]:
    """`docker stop`: the exit status (137 when it had to be killed) and the seconds it took."""
    began = time.monotonic()
    container.stop(timeout=STOP_S)
    took = time.monotonic() - began
    return int(container.wait()["StatusCode"]), took


def stored(container: Any, name: str) -> bool:
    """Does the store have this file?  Also of a container that has ended; a file of a gigabyte is not fetched."""
    asked = container.client.api
    return bool(asked.head(asked._url("/containers/{0}/archive", container.id), params={"path": f"{STORE}/{name}"}).ok)


def route(namesrv: str) -> bytes:
    """What the name server says where the topic is; empty as long as it knows none."""
    return remoting.ask(namesrv, remoting.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC}).body


def test_nothing_in_it_needs_root(run: Run) -> None:
    box = Box(run, read_only=True, cap_drop=["ALL"], security_opt=["no-new-privileges"])
    assert box.says("id", "-u").strip() == str(USER)
    uids = next(line for line in box.says("cat", "/proc/1/status").splitlines() if line.startswith("Uid:"))
    assert uids.split()[1:] == [str(USER)] * 4
    assert box.says("stat", "-c", "%u", f"{STORE}/commitlog").strip() == str(USER)
    with Talk(box.broker) as talk:
        assert talk.send(TOPIC, b"from a locked box").code == 0


def test_health_follows_the_broker(run: Run) -> None:
    """Healthy when the name server lists a broker; the same question at a port where nobody listens is refused, in one word."""
    box = Box(run)
    health = box.container.attrs["State"]["Health"]
    assert health["Log"][-1]["ExitCode"] == 0
    status, printed = box.container.exec_run(["python", "-m", "rmq_cli.ready", "127.0.0.1:1"])
    assert (status, printed) == (1, b"")


def test_a_client_on_the_host_is_given_an_address_that_it_reaches(run: Run) -> None:
    box = Box(run)
    bodies = [f"message {number}".encode() for number in range(100)]
    with Talk(box.broker) as talk:
        assert {talk.send(TOPIC, body).code for body in bodies} == {0}
        assert talk.read(TOPIC) == bodies
    assert f'"{box.broker}"'.encode() in until(lambda: route(box.namesrv), "route of the topic")


def test_a_stop_is_clean_and_the_store_is_found_again(volume: str, run: Run) -> None:
    """Acknowledged before the stop, read by the next container of the same volume."""
    box = Box(run, volumes={volume: {"bind": STORE, "mode": "rw"}})
    with Talk(box.broker) as talk:
        assert talk.send(TOPIC, b"kept").code == 0
        assert stored(box.container, "abort"), "while it runs: the mark that Java's recovery looks for"
        status, took = stop(box.container)
    assert status == 0, box.container.logs().decode()
    assert took < STOP_S
    assert not stored(box.container, "abort")
    assert all(stored(box.container, name) for name in ("checkpoint", "config/topics.json", f"commitlog/{0:020d}"))
    again = Box(run, volumes={volume: {"bind": STORE, "mode": "rw"}})
    with Talk(again.broker) as talk:
        assert talk.read(TOPIC) == [b"kept"]


def test_killed_it_leaves_the_mark_and_comes_back(volume: str, run: Run) -> None:
    """A message acknowledged before a SIGKILL is in the system's memory, which outlives the process."""
    box = Box(run, volumes={volume: {"bind": STORE, "mode": "rw"}})
    with Talk(box.broker) as talk:
        assert talk.send(TOPIC, b"kept").code == 0
    box.container.kill()
    assert int(box.container.wait()["StatusCode"]) == 137
    assert stored(box.container, "abort")
    again = Box(run, volumes={volume: {"bind": STORE, "mode": "rw"}})
    with Talk(again.broker) as talk:
        assert talk.read(TOPIC) == [b"kept"]


NOT_COMPILED = """
import importlib.util, os, pathlib, sys
import rmq_cli, broker_impl.broker, rmq_cli.main, rmq_cli.ready
ours = [str(f) for f in pathlib.Path(rmq_cli.__path__[0]).parent.glob("[rb]*_*/**/*.py")]
if len(ours) < 100: sys.exit(f"is this all? {ours}")
loaded = [m.__file__ for m in list(sys.modules.values()) if (getattr(m, "__file__", None) or "").endswith(".py")]
if len(loaded) < 200: sys.exit(f"is this all? {loaded}")
print(*(f for f in [*ours, *loaded] if not os.path.exists(importlib.util.cache_from_source(f))))
"""
"""Prints the modules that every start would have to compile anew: all of ours, and whatever a server loads."""


def test_every_module_was_compiled_when_the_image_was_built(run: Run) -> None:
    container = run("sleep", "60")
    status, printed = container.exec_run(["python", "-c", NOT_COMPILED])
    assert (status, printed.strip()) == (0, b"")


def test_a_stop_in_the_first_moment_is_heeded(run: Run) -> None:
    """Under an init (`docker run --init`, as the compose file has it) there is no moment in which SIGTERM is lost."""
    status, took = stop(run(init=True))
    assert status in (0, 143)
    assert took < STOP_S


def test_the_image_says_what_it_needs(daemon: Any, ours: str) -> None:
    config = daemon.images.get(ours).attrs["Config"]
    assert config["User"] == str(USER)
    assert config["StopSignal"] == "SIGTERM"
    assert set(config["ExposedPorts"]) >= {"9876/tcp", "10911/tcp"}
    assert list(config["Volumes"]) == [STORE]
    assert not config["Entrypoint"]
