"""Where Java is for the tests: the harness's own (`conformance.subjects`), and our small Java programs, compiled once.

What is missing skips the test with a reason, unless RMQ_REQUIRE names it (CI sets `RMQ_REQUIRE=java`): then it fails.
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

from conformance.subjects import jars
from conformance.subjects.base import REFERENCE, SubjectFailed
from conformance.subjects.java import OPENED, SMALL, java_command, rocketmq_home

__all__ = [
    "HERE",
    "OLD_CLIENT",
    "OLD_SERVER",
    "OPENED",
    "REFERENCE",
    "SMALL",
    "classpath",
    "java",
    "javac",
    "library",
    "missing",
    "programs",
    "rocketmq_home",
]

HERE: Final = Path(__file__).resolve().parent.parent / "java"
OLD_CLIENT: Final = "4.9.8"
OLD_SERVER: Final = "4.9.7"
"""Of 4.9.8 no server jars are published."""


def missing(what: str, why: str) -> NoReturn:
    """Skip, or fail where RMQ_REQUIRE forbids to skip."""
    if what in os.environ.get("RMQ_REQUIRE", "").split(","):
        pytest.fail(f"RMQ_REQUIRE={what}: {why}", pytrace=False)
    pytest.skip(why)


def java() -> str:
    """The `java` command, of JAVA_HOME when that is set."""
    try:
        return java_command()
    except SubjectFailed as why:
        missing("java", str(why))


def javac() -> str:
    """The compiler beside `java`."""
    beside = Path(java()).resolve().parent / "javac"
    found = str(beside) if beside.exists() else shutil.which("javac")
    return found or missing("java", "no `javac`: a JRE is not enough (JDK 17)")


def library(version: str) -> Path:
    """The directory with the stock jars of one version, fetched when it is not there."""
    java()
    try:
        return jars.library(version)
    except SubjectFailed as why:
        missing("java", str(why))


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
