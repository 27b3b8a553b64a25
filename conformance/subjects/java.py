"""A Java machine to run the stock jars on: found, looked at, and started with flags that all of RocketMQ's versions need.

`java_command` takes what is named (`--java`: a `java` or the home of a JDK), then JAVA_HOME, then PATH.  The flags are
those of the servers' own scripts, less what only big machines have.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from conformance.subjects.base import SubjectFailed
from conformance.subjects.process import ServerProcess

JAVA_OLDEST: Final = 9
"""The flags below are refused by a Java without modules."""

OPENED: Final = (
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
)
"""What RocketMQ's direct buffers and Netty need on a JDK with modules."""

SHARING: Final = "-Xshare:auto"
PLAIN: Final = "-Dtls.server.mode=disabled"
"""Otherwise a server makes itself a key of RSA when it starts: two to five seconds of CPU."""
BRIEF: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", SHARING, "-XX:-UsePerfData")
"""For a JVM that lives for seconds: compiling better takes longer than it saves."""
SMALL: Final = (*BRIEF, "-Dfile.encoding=UTF-8", PLAIN)
"""Quick to start and modest with two cores; a benchmark leaves these out."""

DISK: Final = ("-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99", "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.99")
"""A test machine's disk may be fuller than a broker likes."""

LOGBACK: Final = """<configuration>
<appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%d %p %t - %m%n</pattern></encoder></appender>
<root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


def rocketmq_home(directory: Path) -> dict[str, str]:
    """The environment that servers and tools want: a ROCKETMQ_HOME, for 4.x with these files in it."""
    conf = directory / "conf"
    conf.mkdir(exist_ok=True)
    for program in ("namesrv", "broker", "tools"):
        (conf / f"logback_{program}.xml").write_text(LOGBACK)
    return {"ROCKETMQ_HOME": str(directory), "NAMESRV_ADDR": ""}


def java_command(named: str | os.PathLike[str] | None = None) -> str:
    """The `java` to run.  Raises `SubjectFailed` when there is none."""
    if named:
        found = shutil.which(str(Path(named) / "bin" / "java")) or shutil.which(os.fspath(named))
        if not found:
            raise SubjectFailed(f"no Java at {os.fspath(named)}: name a `java` or the directory of a JDK")
        return os.path.abspath(found)  # servers run in directories of their own
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None) or shutil.which("java")
    if not found:
        raise SubjectFailed("no `java` on PATH or in JAVA_HOME (JDK 17)")
    return found


def javac_command(java: str) -> list[str]:
    """The compiler beside a `java`, with what a short life wants.  Raises `SubjectFailed` where there is but a JRE."""
    compiler = Path(java).resolve().with_name("javac")
    found = str(compiler) if compiler.exists() else shutil.which("javac")
    if not found:
        raise SubjectFailed(f"no javac beside {java}: a JRE is not enough (JDK 17)")
    return [found, *(f"-J{flag}" for flag in BRIEF), "-nowarn", "-encoding", "UTF-8"]


@functools.cache
def java_version(java: str) -> str:
    """What it says it is: `17.0.15`.  Raises `SubjectFailed` when it does not run or is too old."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as why:
        raise SubjectFailed(f"{java} -version does not run: {why}") from None
    found = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    version = found.group(1) if found else "unknown"
    major = re.match(r"(?:1\.)?(\d+)", version)
    if major and int(major.group(1)) < JAVA_OLDEST:
        raise SubjectFailed(f"{java} is Java {version}: a newer one is needed (JDK 17)")
    return version


class JavaServer(ServerProcess):
    """What both servers share: how a JVM is started, where the configuration stands.

    `classpath` names the jars, `java` the JVM; each server has a directory of its own, which is also its `user.home`.
    """

    main_class = ""
    logging = ""
    offsets: tuple[int, ...] = ()

    def __init__(
        self,
        name: str,
        directory: Path,
        *,
        version: str,
        port: int = 0,
        properties: Mapping[str, str] | None = None,
        jvm: Sequence[str] = SMALL,
        heap: str = "384m",
        java: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(name, directory)
        self.version = version
        self.java = java
        self.port = port or self.reserve(*self.offsets)
        self.address = f"127.0.0.1:{self.port}"
        self.properties: dict[str, str] = {"listenPort": str(self.port), **(properties or {})}
        self.jvm = [*jvm, "-Xms64m", f"-Xmx{heap}", "-XX:MaxDirectMemorySize=1g"]
        if not version.startswith("4."):  # 4.x listens on every address and has no setting for it
            self.properties.setdefault("bindAddress", "127.0.0.1")

    def classpath(self) -> str:
        """Where its classes are."""
        raise NotImplementedError

    def command(self) -> Sequence[str]:
        config = self.directory / f"{self.name}.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        flags = [*self.jvm, *OPENED, *DISK, f"-Duser.home={self.directory}", f"-Drmq.logback.configurationFile={self.logging}"]
        return [java_command(self.java), *flags, "-cp", self.classpath(), self.main_class, "-c", str(config)]

    def environment(self) -> Mapping[str, str]:
        return rocketmq_home(self.directory)

    def last_stop(self) -> None:
        """When nobody reads its files any more there is no need for the 13 s of a clean stop."""
        self.kill()
