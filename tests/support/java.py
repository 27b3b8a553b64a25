"""Where Java is: JDK, Maven, the stock jars and our small Java programs, compiled once.

`classpath(version)` brings the jars by `tests/java/fetch.sh` when they are not there.  What is missing skips the test with a
reason, unless RMQ_REQUIRE names it (CI sets `RMQ_REQUIRE=java`): then it fails.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final, NoReturn

import pytest

HERE: Final = Path(__file__).resolve().parent.parent / "java"
REFERENCE: Final = "5.5.0"
"""The version that we are measured against."""
OLD_CLIENT: Final = "4.9.8"
OLD_SERVER: Final = "4.9.7"
"""Of 4.9.8 no server jars are published."""

OPENED: Final = (
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
)
"""What RocketMQ's direct buffers and Netty need on a JDK with modules."""

SMALL: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData", "-Dfile.encoding=UTF-8")
"""Quick to start and modest with two cores; a benchmark leaves these out."""

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


def missing(what: str, why: str) -> NoReturn:
    """Skip, or fail where RMQ_REQUIRE forbids to skip."""
    if what in os.environ.get("RMQ_REQUIRE", "").split(","):
        pytest.fail(f"RMQ_REQUIRE={what}: {why}", pytrace=False)
    pytest.skip(why)


def java() -> str:
    """The `java` command, of JAVA_HOME when that is set."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None) or shutil.which("java")
    return found or missing("java", "no `java` on PATH or in JAVA_HOME (JDK 17)")


def javac() -> str:
    """The compiler beside `java`."""
    beside = Path(java()).resolve().parent / "javac"
    found = str(beside) if beside.exists() else shutil.which("javac")
    return found or missing("java", "no `javac`: a JRE is not enough (JDK 17)")


@functools.cache
def library(version: str) -> Path:
    """The directory with the stock jars of one version, fetched when it is not there."""
    java()
    directory = HERE / f"lib-{version}"
    if not (directory / ".complete").exists() and not shutil.which("mvn"):
        missing("java", f"no {directory.name} and no `mvn` to fetch it with")
    if shutil.which("mvn"):
        done = subprocess.run([str(HERE / "fetch.sh"), version], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            missing("java", f"the jars of {version} cannot be fetched: {(done.stdout + done.stderr)[-600:]}")
    return directory


def classpath(version: str) -> str:
    """A class path with all jars of one version."""
    return f"{library(version)}/*"


@functools.cache
def programs() -> Path:
    """Our Java programs (the Maven project `tests/java`): compiled once, against 4.9.8, and good for every version."""
    sources = [HERE / "pom.xml", *sorted((HERE / "src").rglob("*.java"))]
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()
    target = HERE / "target"
    stamp = target / "classes" / ".compiled"
    target.mkdir(exist_ok=True)
    with (target / ".lock").open("w") as lock:  # several test runs may share the checkout
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != digest:
            javac()
            maven = shutil.which("mvn") or missing("java", "no `mvn` to compile tests/java with")
            shutil.rmtree(target / "classes", ignore_errors=True)
            command = [maven, "-B", "-q", "-f", str(HERE / "pom.xml"), "compile"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"tests/java does not compile:\n{done.stdout}{done.stderr}"
            stamp.write_text(digest)
    return target / "classes"
