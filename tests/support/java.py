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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

import pytest

from conformance.subjects import jars
from conformance.subjects.base import REFERENCE, SubjectFailed
from conformance.subjects.jars import shared_classes
from conformance.subjects.java import OPENED, SMALL, java_command, javac_command, rocketmq_home

__all__ = [
    "HERE",
    "OLD_CLIENT",
    "OLD_SERVER",
    "OPENED",
    "REFERENCE",
    "SMALL",
    "classpath",
    "compiled",
    "java",
    "javac",
    "judge",
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


def javac() -> list[str]:
    """The compiler beside `java`, and its flags."""
    try:
        return javac_command(java())
    except SubjectFailed as why:
        missing("java", str(why))


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
    sources = sorted((HERE / "src").rglob("*.java"))
    return _compiled("classes", [HERE / "pom.xml", *sources], "", _with_maven)


def judge(program: str, *words: str, version: str = REFERENCE) -> list[str]:
    """The command line of one of `judges/`, on the jars of a version: each asks a class of theirs one thing."""
    path = os.pathsep.join((classpath(version), str(_judges())))
    return [java(), *shared_classes(version, java()), *SMALL, "-cp", path, program, *words]


@functools.cache
def _judges() -> Path:
    return compiled("judges", sorted((HERE / "judges").glob("*.java")), classpath(REFERENCE))


def compiled(name: str, sources: Sequence[Path], classpath: str) -> Path:
    """The directory with the classes of these sources, compiled when they have changed: one compiler for all of them."""

    def with_javac(classes: Path) -> None:
        command = [*javac(), "-cp", classpath, "-d", str(classes), *map(str, sources)]
        _run_compiler(name, command)

    return _compiled(name, sources, classpath, with_javac)


def _compiled(name: str, sources: Sequence[Path], classpath: str, compile: Callable[[Path], None]) -> Path:
    digest = hashlib.sha256(b"\0".join([classpath.encode(), *(path.read_bytes() for path in sources)])).hexdigest()
    target = HERE / "target"
    stamp = target / name / ".compiled"
    target.mkdir(exist_ok=True)
    with (target / ".lock").open("w") as lock:  # several test runs may share the checkout
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != digest:
            javac()
            shutil.rmtree(target / name, ignore_errors=True)
            compile(target / name)
            stamp.write_text(digest)
    return target / name


def _with_maven(_classes: Path) -> None:
    """Where its project says."""
    maven = shutil.which("mvn") or missing("java", "no `mvn` to compile tests/java with")
    _run_compiler("tests/java", [maven, "-B", "-q", "-f", str(HERE / "pom.xml"), "compile"], env=jars.maven_environment())


def _run_compiler(what: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, f"{what} does not compile:\n{done.stdout}{done.stderr}"
