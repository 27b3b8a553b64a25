"""The real Apache RocketMQ in containers: a name server and a broker of one image on the host's network.

The official image's name by default (ROCKETMQ_IMAGE names another); the image is pulled when the daemon does not have it, never
built.  Both servers get the properties of own subjects through the environment, and a directory of ours under its own path as
home and store, as long as a container can write there and we can read it.  What is made carries the label `rmq.conformance`
with our host and process id: it is always removed, and what a killed run left is removed by the next one.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from conformance.subjects import remoting
from conformance.subjects.address import runtime
from conformance.subjects.base import SubjectFailed, Target
from conformance.subjects.java import DISK
from conformance.subjects.own import ports_are_free, registered
from conformance.subjects.ports import BROKER_PORTS, release_port, reserve_port
from conformance.subjects.process import STOP_S_MAX, NotReady, until
from conformance.subjects.properties import OWN_BROKER_PROPERTIES, OWN_JAVA_SYSTEM_PROPERTIES, OWN_NAMESRV_PROPERTIES
from conformance.version import dotted, version_of

DEFAULT_IMAGE: Final = "apache/rocketmq:5.5.0"
LABEL: Final = "rmq.conformance"
ORIGIN: Final = "rocketmq.image"
"""The label by which a local rebuild tells itself apart from the official image."""
HEAP: Final = {"namesrv": "-Xms64m -Xmx192m -Xmn64m", "broker": "-Xms64m -Xmx384m -Xmn128m -XX:MaxDirectMemorySize=1g"}
LOOK_S: Final = 0.5
"""How often the daemon is asked whether a container runs."""
LOG_LINES_MAX: Final = 20_000
IN_CONTAINER: Final = 'printf %s "$RMQ_CONF" >/tmp/rmq.conf && exec sh "$RMQ_SCRIPT" -c /tmp/rmq.conf'
"""Run through the image's entry point, in its directory of scripts."""
LOGS: Final = "/home/rocketmq/logs"


def default_image() -> str:
    """ROCKETMQ_IMAGE, or the official one of the reference."""
    return os.environ.get("ROCKETMQ_IMAGE") or DEFAULT_IMAGE


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """What the SDK raises becomes a `SubjectFailed`."""
    import docker.errors  # type: ignore[import-untyped, unused-ignore]
    import requests.exceptions  # type: ignore[import-untyped, unused-ignore]

    try:
        yield
    except (docker.errors.DockerException, requests.exceptions.RequestException) as why:
        explanation = getattr(why, "explanation", None) or str(why)
        raise SubjectFailed(f"{what}: {explanation}") from None


def daemon() -> Any:
    """A client of the Docker daemon (`docker.DockerClient`: the SDK has no types).  Raises `SubjectFailed`."""
    try:
        import docker  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise SubjectFailed("the Python package `docker` is not installed: pip install -e '.[docker]' in the checkout") from None
    with translated("no Docker daemon answers"):
        client = docker.from_env()
        try:
            client.ping()
        except BaseException:
            client.close()
            raise
        return client


class DockerSubject:
    """`--docker IMAGE`.  `directory` takes what the servers write where a container can write there [a temporary one]."""

    def __init__(
        self,
        image: str | None = None,
        directory: Path | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        namesrv_port: int = 0,
        broker_port: int = 0,
    ) -> None:
        self.image = image or default_image()
        version = version_of(self.image.rpartition("/")[2])
        self.label = f"docker-{dotted(version)}" if version else "docker"
        self.directory = directory.resolve() if directory else None
        self.properties = dict(properties or {})
        self.namesrv_port = namesrv_port
        self.broker_port = broker_port
        self._containers: dict[str, Any] = {}
        self._logs: dict[str, bytes] = {}
        self._stack = contextlib.ExitStack()
        self._looked = (0.0, True)
        self._registered: Callable[[], bool] = lambda: False

    def _reserve(self, *offsets: int) -> int:
        """A port that is ours until the containers are gone."""
        port = reserve_port(*offsets)
        self._stack.callback(release_port, port)
        return port

    def __enter__(self) -> Target:
        try:
            ports_are_free(self.label, self.namesrv_port, self.broker_port)
            client = daemon()
            self._stack.callback(client.close)
            with translated(f"{self.label}: the Docker daemon refuses"):
                return self._start(client)
        except BaseException as why:
            log = self.log_tail()
            with contextlib.suppress(SubjectFailed):  # what went wrong first is reported
                self.__exit__()
            if isinstance(why, SubjectFailed) and not why.log:
                why.log = log
            raise

    def __exit__(self, *_: object) -> None:
        left: list[SubjectFailed] = []
        for name, container in reversed(self._containers.items()):
            with contextlib.suppress(SubjectFailed), translated(name):
                self._logs[name] = container.logs(tail=LOG_LINES_MAX)
            try:
                _remove(container)
            except SubjectFailed as why:
                left.append(why)
        self._containers.clear()
        self._stack.close()
        if left:
            raise left[0]

    def restart_broker(self, *, kill: bool = False) -> None:
        """End the broker, cleanly or by SIGKILL, and start it on the same store and ports.  Raises `SubjectFailed`."""
        container = self._containers["broker"]
        with translated(f"{self.label}: the broker cannot be restarted"):
            if kill:
                container.kill()
            else:  # the official scripts do not hand a signal on to their JVM
                container.exec_run(["sh", "mqshutdown", "broker"])
                with contextlib.suppress(SubjectFailed), translated("too slow"):
                    container.wait(timeout=STOP_S_MAX)
                container.stop(timeout=0)
            container.start()
            self._looked = (time.monotonic(), True)
            self._wait("broker", self._registered)

    def alive(self) -> bool:
        """Do both containers run?  Asked of the daemon every `LOOK_S` at most."""
        looked, lives = self._looked
        if self._containers and time.monotonic() - looked > LOOK_S:
            with contextlib.suppress(SubjectFailed), translated(self.label):
                lives = all(_runs(container) for container in self._containers.values())
            self._looked = (time.monotonic(), lives)
        return bool(self._containers) and lives

    def log_tail(self, characters: int = 4_000) -> str:
        """The end of what both printed."""
        texts = {name: text.decode(errors="replace") for name, text in self._printed().items()}
        return "\n".join(f"--- end of {name}\n{text[-characters // max(1, len(texts)) :]}" for name, text in texts.items())

    def collect_logs(self, into: Path) -> None:
        """What both printed, and the log files of the broker."""
        into.mkdir(parents=True, exist_ok=True)
        for name, printed in self._printed().items():
            (into / f"{name}.out").write_bytes(printed)
        for name, container in self._containers.items():
            home = self.directory / name if self.directory else None
            with contextlib.suppress(SubjectFailed, OSError, tarfile.TarError), translated(name):
                parts, _ = container.get_archive(f"{home}/logs" if home else LOGS)
                with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as archive:
                    archive.extractall(into / name, filter="data")

    def _printed(self) -> dict[str, bytes]:
        now = {}
        for name, container in self._containers.items():
            with contextlib.suppress(SubjectFailed), translated(name):
                now[name] = container.logs(tail=LOG_LINES_MAX)
        return {**self._logs, **now}

    def _start(self, client: Any) -> Target:
        image = self._image(client)
        remove_leftovers(client)
        if self.directory is None:
            self.directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-docker-")))
        shared = self._is_shared(client)
        store = f"{self.directory}/broker/store" if shared else "/tmp/rmq-store"
        if not shared:
            self.directory = None
        names = self.namesrv_port or self._reserve()
        namesrv = f"127.0.0.1:{names}"
        self._run(client, "namesrv", {"listenPort": str(names), "bindAddress": "127.0.0.1", **OWN_NAMESRV_PROPERTIES}, [names])
        self._wait("namesrv", lambda: remoting.ask(namesrv, remoting.GET_BROKER_CLUSTER_INFO).code == remoting.SUCCESS)
        port = self.broker_port or self._reserve(*BROKER_PORTS)
        broker = f"127.0.0.1:{port}"
        properties = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": str(port),
            "namesrvAddr": namesrv,
            "storePathRootDir": store,
            "storePathCommitLog": f"{store}/commitlog",
            **OWN_BROKER_PROPERTIES,
            **self.properties,
        }
        self._run(client, "broker", properties, [port + offset for offset in BROKER_PORTS])
        self._registered = lambda: registered(namesrv, broker)
        self._wait("broker", self._registered)
        says = runtime(broker).get("brokerVersionDesc", "")
        version = version_of(says) or version_of(self.image)
        self.label = f"docker-{dotted(version)}" if version else self.label
        return Target(
            label=self.label,
            kind="docker",
            version=version,
            namesrv=namesrv,
            broker=broker,
            broker_name=properties["brokerName"],
            cluster=properties["brokerClusterName"],
            store=Path(store) if shared else None,
            details={
                "image": self.image,
                "image id": image.id,
                ORIGIN: image.labels.get(ORIGIN, "no such label: not a local rebuild"),
                "docker": client.version().get("Version", "unknown"),
                "it says of itself": says,
            },
            config={**properties, **OWN_JAVA_SYSTEM_PROPERTIES},
        )

    def _image(self, client: Any) -> Any:
        import docker.errors

        try:
            return client.images.get(self.image)
        except docker.errors.ImageNotFound:
            pass
        with translated(f"no image {self.image} here, and it cannot be pulled"):
            repository, colon, tag = self.image.rpartition(":")
            if not colon or "/" in tag:
                repository, tag = self.image, "latest"
            return client.images.pull(repository, tag=tag)

    def _is_shared(self, client: Any) -> bool:
        """Can a container write into our directory, and do we see it?  Not with a daemon on another machine."""
        assert self.directory is not None
        for name in HEAP:
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        probe = self.directory / "probe"
        probe.unlink(missing_ok=True)
        with contextlib.suppress(SubjectFailed), translated("probe"):
            command = ["sh", "-c", 'echo seen >"$0"', str(probe)]
            client.containers.run(self.image, command, remove=True, network_mode="none", labels=_labels(), **self._mounted())
        seen = probe.exists()
        probe.unlink(missing_ok=True)
        return seen

    def _mounted(self) -> dict[str, Any]:
        if self.directory is None:
            return {}
        place = str(self.directory)
        return {"volumes": {place: {"bind": place, "mode": "rw"}}, "user": f"{os.getuid()}:{os.getgid()}"}

    def _run(self, client: Any, name: str, properties: Mapping[str, str], ports: list[int]) -> None:
        """Start one server; it is known before it runs, so that it is removed whatever happens."""
        flags = [HEAP[name], *DISK, *(f"-D{key}={value}" for key, value in OWN_JAVA_SYSTEM_PROPERTIES.items())]
        if self.directory:
            flags.append(f"-Duser.home={self.directory / name}")
        self._containers[name] = client.containers.create(
            self.image,
            ["sh", "-c", IN_CONTAINER],
            name=f"rmq-conformance-{name}-{ports[0]}-{os.getpid()}",
            network_mode="host",
            labels=_labels(),
            environment={
                "RMQ_CONF": "".join(f"{key}={value}\n" for key, value in properties.items()),
                "RMQ_SCRIPT": f"mq{name}",
                "JAVA_OPT_EXT": " ".join(flags),
                "NAMESRV_ADDR": "",
            },
            **self._mounted(),
        )
        self._containers[name].start()

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        try:
            until(ready, f"start of {name}", alive=self.alive)
        except NotReady as why:
            container = self._containers[name]
            container.reload()
            state = container.attrs["State"]
            printed = container.logs(tail=20).decode(errors="replace").split("\n")
            last = next((line.strip() for line in reversed(printed) if line.strip()), "nothing")
            ended = "" if state["Running"] else f" with status {state['ExitCode']}"
            raise SubjectFailed(f"{self.label} ({self.image}): {why}{ended}; it printed last: {last[:300]}") from None


def remove_leftovers(client: Any) -> None:
    """Containers with our label whose owner, a process of this machine, is gone."""
    for container in client.containers.list(all=True, filters={"label": LABEL}):
        host, _, pid = container.labels.get(LABEL, "").rpartition(":")
        if host == socket.gethostname() and pid.isdecimal() and not _is_there(int(pid)):
            with contextlib.suppress(SubjectFailed):
                _remove(container)


def _remove(container: Any) -> None:
    """Running or not, with its volumes; one that is gone is as good."""
    import docker.errors

    with translated(f"the container {container.name} cannot be removed"), contextlib.suppress(docker.errors.NotFound):
        container.remove(force=True, v=True)


def _labels() -> dict[str, str]:
    return {LABEL: f"{socket.gethostname()}:{os.getpid()}"}


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _runs(container: Any) -> bool:
    container.reload()
    return bool(container.status in ("running", "created"))
