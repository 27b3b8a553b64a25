"""Class-data sharing: the classes that a JVM loads out of the same jars at every start are read and verified once.

An archive lies among the jars, one for each Java.  Whoever starts the first JVM on them makes it, under a lock.  That of stock
RocketMQ has the classes that a name server, a broker and mqadmin were seen to load.  Where it cannot be made, JVMs start without.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from conformance.subjects.java import java_version

Make = Callable[[Path, Path], object]
"""Makes an archive, given its file and an empty directory."""
Train = Callable[[Path], Iterable[Path]]
"""Runs JVMs in a directory; the lists of classes that they loaded."""
QUIET: Final = "-Xlog:disable"
"""What the JVM thinks of an archive that it does not take goes to standard output, which may be compared."""

_LOCK: Final = threading.Lock()
_MADE: Final[dict[Path, list[str]]] = {}


def list_classes(file: Path) -> str:
    """The flag by which a JVM writes down what it loads."""
    return f"-XX:DumpLoadedClassList={file}"


def sharing_flags(jars: Path, java: str, train: Train) -> Sequence[str]:
    """Flags of a JVM whose class path begins with all of `jars`."""
    return archive_flags(jars, java, lambda archive, scratch: _dump(archive, jars, java, train, scratch))


def archive_flags(jars: Path, java: str, make: Make) -> Sequence[str]:
    """Flags of a JVM that shares the archive which lies among `jars` and is made when there is none."""
    archive = jars / f"classes-{java_version(java)}.jsa"
    with _LOCK:
        if archive not in _MADE:
            try:
                with (jars / ".classes.lock").open("w") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    if not archive.exists() or _is_old(archive):
                        _make(archive, make)
                made = archive.stat().st_size > 0
            except OSError:  # a directory that nobody may write to
                made = False
            _MADE[archive] = [f"-XX:SharedArchiveFile={archive}", QUIET] if made else []
        return _MADE[archive]


def _is_old(archive: Path) -> bool:
    """Jars came later: no JVM takes it any more."""
    return any(jar.stat().st_mtime > archive.stat().st_mtime for jar in archive.parent.glob("*.jar"))


def _make(archive: Path, make: Make) -> None:
    """An empty file says that it did not work, and is not tried again."""
    part = archive.with_name(f"{archive.name}.part.{os.getpid()}")
    print(f"listing the classes that JVMs on {archive.parent} load, for the next ones to share (some 20 s)", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="rmq-classes-") as scratch:
        try:
            make(part, Path(scratch))
            part.rename(archive)
        except Exception as why:  # whatever a server or a tool had: this is only about time
            print(f"JVMs on {archive.parent} start without shared classes: {type(why).__name__}: {why}", file=sys.stderr)
            part.unlink(missing_ok=True)
            archive.touch()


def _dump(archive: Path, jars: Path, java: str, train: Train, scratch: Path) -> None:
    """Of all classes that were loaded."""
    names = dict.fromkeys(line for file in train(scratch) for line in file.read_text().splitlines())
    every = scratch / "classes"
    every.write_text("\n".join(names) + "\n")
    command = [java, "-Xshare:dump", f"-XX:SharedClassListFile={every}", f"-XX:SharedArchiveFile={archive}"]
    subprocess.run([*command, "-cp", f"{jars}/*"], capture_output=True, check=True, cwd=scratch)
