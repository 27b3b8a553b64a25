"""The stock Java clients as clients to torment: `java/Tortured.java`, compiled against the jars of a version, one JVM for all.

Jars and JDK are found by `conformance.subjects`.  Classes lie in the user's cache under the hash of their source.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from conformance.subjects.base import SubjectFailed
from conformance.subjects.jars import library, shared_classes
from conformance.subjects.java import OPENED, SMALL, java_command, javac_command
from conformance.torture.client import ClientFailed, ResidentClient, resident
from conformance.torture.script import version

SOURCE: Final = Path(__file__).parent / "java" / "Tortured.java"
MAIN: Final = SOURCE.stem
BUILT_IN: Final = ("java-5.5.0", "java-4.9.8")
HEAP: Final = ("-Xms32m", "-Xmx192m")


def classes(release: str, java: str | None = None) -> Path:
    """The directory with the compiled program.  Raises `SubjectFailed`."""
    command = java_command(java)
    digest = hashlib.sha256(SOURCE.read_bytes() + release.encode()).hexdigest()[:16]
    target = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "rmq-torture" / f"{release}-{digest}"
    if (target / f"{MAIN}.class").exists():
        return target
    compiler = javac_command(command)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as made:
        line = [*compiler, "-d", made, "-cp", f"{library(release)}/*", str(SOURCE)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SubjectFailed(f"{SOURCE.name} does not compile with {release}: {(done.stdout + done.stderr)[-300:]}")
        ready = Path(made) / "ready"
        ready.mkdir()
        for found in Path(made).glob("*.class"):
            shutil.move(found, ready / found.name)
        if not target.exists():  # another run may have been quicker
            ready.rename(target)
    return target


@asynccontextmanager
async def java_client(label: str, directory: Path, java: str | None = None) -> AsyncIterator[ResidentClient]:
    """A stock client of the version in the label (`java-5.5.0`).  directory: for its logs.  Raises `ClientFailed`."""
    release = label.removeprefix("java-")
    try:
        classpath = f"{library(release)}/*{os.pathsep}{classes(release, java)}"
        shared = shared_classes(release, java_command(java))
        command = [java_command(java), *shared, *SMALL, *HEAP, *OPENED, f"-Duser.home={directory}", "-cp", classpath, MAIN]
    except SubjectFailed as wrong:
        raise ClientFailed(str(wrong)) from None
    environment = {**os.environ, "NAMESRV_ADDR": ""}
    log = directory / f"{label}.log"
    async with resident(command, label=label, behaves_like=version(release), environment=environment, log=log) as client:
        yield client
