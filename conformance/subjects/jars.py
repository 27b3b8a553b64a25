"""The real Apache RocketMQ from Maven Central, as subprocesses on loopback: any version whose servers are published.

`library(version)` is the directory of its jars: under RMQ_JARS when that is set, in a checkout beside the Java programs of the
tests, else in the user's cache; fetched once by plain Maven with the pom beside this module.  Each server has a directory of
its own and a free port that it keeps over restarts.  A broker is ready when the name server lists it (code 106), a name server
when it answers that.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from conformance.subjects import remoting
from conformance.subjects.base import REFERENCE, SubjectFailed, Target
from conformance.subjects.java import BRIEF, OPENED, SHARING, SMALL, JavaServer, java_command, java_version, rocketmq_home
from conformance.subjects.own import OwnSubject, registered
from conformance.subjects.ports import BROKER_PORTS
from conformance.subjects.properties import (
    OWN_BROKER_PROPERTIES,
    OWN_JAVA_SYSTEM_PROPERTIES,
    OWN_NAMESRV_PROPERTIES,
    PATIENT,
    QUIET,
    SMALL_STORE,
)
from conformance.subjects.sharing import list_classes, sharing_flags
from conformance.version import version_of

POM: Final = Path(__file__).with_name("pom.xml")
COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
FETCHED: Final = ".fetched"
"""In a complete directory: what it was fetched by."""
CHECKOUT: Final = POM.parents[2] / "tests" / "java"

MQADMIN: Final = "org.apache.rocketmq.tools.command.MQAdminStartup"
TOOL_S_MAX: Final = 60
TOOL_TRIES_MAX: Final = 2

PROFILES: Final[Mapping[str, tuple[str, ...]]] = {
    "5.5.0": ("server", "tools", "more", "example"),
    "4.9.8": ("tools",),
    "4.9.7": ("server",),
}
"""What is taken of a version; of 4.9.8 no server jars are published."""
PROFILES_ELSE: Final = ("server", "tools")


def jars_directory() -> Path:
    """Where the jars of all versions are kept."""
    if named := os.environ.get("RMQ_JARS"):
        return Path(named).expanduser().resolve()
    if CHECKOUT.is_dir():
        return CHECKOUT
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "rmq-jars"


@functools.cache
def library(version: str) -> Path:
    """The directory with the stock jars of one version, fetched when it is not there.  Raises `SubjectFailed`."""
    if version_of(version) is None:
        raise SubjectFailed(f"{version!r} is no version of Apache RocketMQ: say for instance {REFERENCE}")
    directory = jars_directory() / f"lib-{version}"
    profiles = PROFILES.get(version, PROFILES_ELSE)
    want = hashlib.sha256(POM.read_bytes() + " ".join((version, *profiles)).encode()).hexdigest()
    stamp = directory / FETCHED
    if _stamped(stamp) == want:
        return directory
    maven = shutil.which("mvn")
    if maven is None:
        if stamp.exists():  # of an older pom: better than nothing
            return directory
        raise SubjectFailed(f"no jars of {version} in {directory} and no `mvn` to fetch them with")
    java_command()
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with (directory.parent / ".fetch.lock").open("w") as lock:  # one at a time: several runs may share the directory
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _stamped(stamp) != want:
                print(f"fetching the jars of Apache RocketMQ {version} into {directory} (some 20 s)", file=sys.stderr)
                _fetch(maven, version, profiles, directory, want)
    except OSError as why:
        raise SubjectFailed(f"the jars of {version} cannot be kept in {directory}: {why}") from None
    return directory


def _stamped(stamp: Path) -> str:
    return stamp.read_text().strip() if stamp.exists() else ""


def maven_environment() -> dict[str, str]:
    """For a Maven that runs once: the flags that a short life wants (a third of its CPU), unless somebody has set others."""
    return {"MAVEN_OPTS": " ".join(BRIEF), **os.environ}


def _fetch(maven: str, version: str, profiles: Sequence[str], directory: Path, stamp: str) -> None:
    """Into a directory beside, which takes the place of the old one when it is complete."""
    part = directory.with_name(f"{directory.name}.part.{os.getpid()}")
    try:
        command = [maven, "-B", "-q", "-f", str(POM), f"-Drocketmq.version={version}", "-P", ",".join(profiles), COPY]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={part}"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=maven_environment()
        )
        if done.returncode != 0:
            lines = [line.removeprefix("[ERROR] ") for line in done.stdout.splitlines() if line.startswith("[ERROR]")]
            raise SubjectFailed(f"the jars of {version} cannot be fetched: {lines[0][:600] if lines else done.stderr[-600:]}")
        (part / FETCHED).write_text(f"{stamp}\n")
        shutil.rmtree(directory, ignore_errors=True)
        part.rename(directory)
    finally:
        shutil.rmtree(part, ignore_errors=True)


class JarsServer(JavaServer):
    """A server out of the stock jars.  One that is quick to start shares classes with the others."""

    class_list: Path | None = None
    """Where it writes down the classes that it loads, instead of sharing them."""

    def classpath(self) -> str:
        return f"{library(self.version)}/*"

    def command(self) -> Sequence[str]:
        java, *rest = super().command()
        if self.class_list:
            return [java, list_classes(self.class_list), *rest]
        return [java, *(shared_classes(self.version, java) if SHARING in self.jvm else ()), *rest]


class JavaNameServer(JarsServer):
    """`org.apache.rocketmq.namesrv.NamesrvStartup`."""

    main_class = "org.apache.rocketmq.namesrv.NamesrvStartup"
    logging = "rmq.namesrv.logback.xml"

    def __init__(
        self,
        directory: Path,
        *,
        version: str = REFERENCE,
        port: int = 0,
        properties: Mapping[str, str] | None = None,
        java: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__("namesrv", directory, version=version, port=port, properties=properties, heap="192m", java=java)

    def ready(self) -> bool:
        return remoting.ask(self.address, remoting.GET_BROKER_CLUSTER_INFO).code == 0


class JavaBroker(JarsServer):
    """`org.apache.rocketmq.broker.BrokerStartup`, a master unless `properties` say otherwise.

    It also listens on `port` - 2 (the fast port) and `port` + 1 (replication).
    """

    main_class = "org.apache.rocketmq.broker.BrokerStartup"
    logging = "rmq.broker.logback.xml"
    offsets = BROKER_PORTS

    def __init__(
        self,
        directory: Path,
        namesrv: str,
        *,
        name: str = "broker-a",
        cluster: str = "DefaultCluster",
        version: str = REFERENCE,
        port: int = 0,
        store: Path | None = None,
        properties: Mapping[str, str] | None = None,
        jvm: Sequence[str] = SMALL,
        heap: str = "384m",
        java: str | os.PathLike[str] | None = None,
        patient: bool = True,
    ) -> None:
        """Unless `patient`, sends that waited are refused as Java does it by default: to be measured, not judged."""
        super().__init__("broker", directory, version=version, port=port, jvm=jvm, heap=heap, java=java)
        self.namesrv = namesrv
        self.broker_name = name
        self.store = store or directory / "store"
        self.properties |= {
            "brokerClusterName": cluster,
            "brokerName": name,
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "namesrvAddr": namesrv,
            "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / "commitlog"),
            **SMALL_STORE,
            **({**PATIENT, **QUIET} if patient else {}),
            **(properties or {}),
        }

    def ready(self) -> bool:
        return registered(self.namesrv, f"{self.properties['brokerIP1']}:{self.port}")


class JarsSubject(OwnSubject):
    """`--jars VERSION`.  `directory` takes all that the two servers write; `properties` go to the broker besides its own."""

    kind = "jars"

    def __init__(
        self,
        version: str,
        directory: Path,
        *,
        java: str | os.PathLike[str] | None = None,
        properties: Mapping[str, str] | None = None,
        namesrv_port: int = 0,
        broker_port: int = 0,
    ) -> None:
        super().__init__(f"java-{version}", directory, properties, namesrv_port, broker_port)
        self.version = version
        self.java = java

    def start(self) -> Target:
        java = java_command(self.java)
        details = {"java": f"{java} ({java_version(java)})"}
        jars = library(self.version)
        if not (jars / f"rocketmq-broker-{self.version}.jar").exists():
            raise SubjectFailed(f"no broker among the jars of {self.version}: only client and tools of it are published")
        names = JavaNameServer(
            self.directory / "namesrv", version=self.version, port=self.namesrv_port, properties=OWN_NAMESRV_PROPERTIES, java=java
        )
        self.run(names)
        broker = JavaBroker(
            self.directory / "broker",
            names.address,
            version=self.version,
            port=self.broker_port,
            java=java,
            properties={**OWN_BROKER_PROPERTIES, **self.properties},
            jvm=[*SMALL, *(f"-D{key}={value}" for key, value in OWN_JAVA_SYSTEM_PROPERTIES.items())],
        )
        self.run(broker)
        return self.target(version_of(self.version), names, broker, details, OWN_JAVA_SYSTEM_PROPERTIES)


def shared_classes(version: str, java: str) -> Sequence[str]:
    """Flags of a JVM whose class path begins with all jars of a version; none where there is no server among them."""
    jars = library(version)
    if not all((jars / f"rocketmq-{what}-{version}.jar").exists() for what in ("broker", "tools")):
        return ()
    return sharing_flags(jars, java, lambda directory: _class_lists(version, java, directory))


def _class_lists(version: str, java: str, directory: Path) -> list[Path]:
    """What a name server, a broker and mqadmin load while a topic is written and read."""
    names = JavaNameServer(directory / "namesrv", version=version, java=java)
    broker = JavaBroker(directory / "broker", names.address, version=version, java=java)
    lists = [directory / "namesrv.classes", directory / "broker.classes"]
    names.class_list, broker.class_list = lists
    with names, broker:
        flags = [*SMALL, *OPENED, f"-Duser.home={directory}", "-cp", f"{library(version)}/*"]
        topic = ["-n", names.address, "-t", "Shared"]
        for line in (["sendMessage", "-p", "body"], ["consumeMessage", "-c", "1"]):
            lists.append(directory / f"{line[0]}.classes")
            command = [java, list_classes(lists[-1]), *flags, MQADMIN, *line, *topic]
            _run_tool(command, directory, rocketmq_home(broker.directory))
    return [file for file in lists if file.exists()]


def _run_tool(command: Sequence[str], directory: Path, home: Mapping[str, str]) -> None:
    """A send that gave up on a slow machine is begun again, a consumer that waits for it is ended: both have loaded classes."""
    for _ in range(TOOL_TRIES_MAX):
        with contextlib.suppress(subprocess.CalledProcessError, subprocess.TimeoutExpired):
            subprocess.run(
                command,
                env={**os.environ, **home},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                cwd=directory,
                timeout=TOOL_S_MAX,
                check=True,
            )
            return


def main(versions: Sequence[str]) -> int:
    """`python -m conformance.subjects.jars VERSION...`: fetch what is not there, print where it is."""
    try:
        for version in versions or [REFERENCE]:
            print(library(version))
    except SubjectFailed as why:
        print(why, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
