"""The processes of a benchmark: the generator, our broker as a child, and what the operating system says of them."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from conformance.subjects import ours
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.topics import CreateTopic
from rmq_wire.names import AUTO_CREATE_TOPIC
from tests.support.reference import JavaNameServer
from tests.support.talk import Talk

HERE = Path(__file__).parent
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
DEFAULTS = {
    "mappedFileSizeCommitLog": str(1 << 30),
    "diskMaxUsedSpaceRatio": "95",
    "diskSpaceCleanForciblyRatio": "85",
    "diskSpaceWarningLevelRatio": "90",
}


@functools.cache
def load_generator() -> Path:
    """`bench/load.c`, compiled when it is newer than its program."""
    source, program = HERE / "load.c", HERE.parent / ".cache" / "load"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise SystemExit("the load generator needs a C compiler (the broker does not)")
        program.parent.mkdir(exist_ok=True)
        subprocess.run([compiler, "-O2", "-o", str(program), str(source)], check=True)
    return program


def cpu_seconds(pid: int) -> float:
    """User and system time of a whole process, its ended threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def rss_anon_mib(pid: int) -> float:
    """Resident memory that no file backs."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} has no RssAnon")


def drop_cache(directory: Path) -> None:
    """Push a store's files out of the page cache."""
    os.sync()
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


PIDFD_MADVISE: Final = 440
MADV_PAGEOUT: Final = 21
CACHESTAT: Final = 451
"""System calls and advice of Linux that Python has no names for; the numbers are the same on all its platforms."""


def evict(pid: int, directory: Path) -> float:
    """`drop_cache`, of what the process has mapped, too, which `posix_fadvise` leaves alone.

    Returns the share of the log's written bytes that is in memory all the same.
    """
    os.sync()
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = os.pidfd_open(pid)
    try:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if str(directory) in line:
                low, high = (int(part, 16) for part in line.split()[0].split("-"))
                extent = (ctypes.c_uint64 * 2)(low, high - low)
                libc.syscall(PIDFD_MADVISE, pidfd, extent, ctypes.c_size_t(1), MADV_PAGEOUT, 0)
    finally:
        os.close(pidfd)
    drop_cache(directory)
    found = written = 0
    for path in (directory / "commitlog").iterdir():
        with path.open("rb") as file:
            counts = (ctypes.c_uint64 * 5)()
            if libc.syscall(CACHESTAT, file.fileno(), (ctypes.c_uint64 * 2)(0, 0), counts, 0):
                return float("nan")
            found += counts[0] * os.sysconf("SC_PAGE_SIZE")
            written += path.stat().st_blocks * 512
    return found / max(written, 1)


class OurBroker(ours.OurBroker):
    """`rmq broker` as it is installed: optimized, with files of the sizes that are the default."""

    def __init__(self, directory: Path, namesrv: str, *, name: str, properties: Mapping[str, str]) -> None:
        super().__init__(directory, namesrv, name=name, properties={**DEFAULTS, **properties})

    def command(self) -> Sequence[str]:
        python, *rest = super().command()
        return [python, "-O", *rest]

    def environment(self) -> Mapping[str, str]:
        """An installed package has its modules compiled; empty is to Python as if the variable were not there."""
        return {**super().environment(), "PYTHONDONTWRITEBYTECODE": ""}


def make_topic(port: int, topic: str, queues: int) -> None:
    """Make it at the broker of this port, readable and writable.  Ends the benchmark when it is refused."""
    with Talk(f"127.0.0.1:{port}") as talk:
        asked = CreateTopic(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            order=False,
        )
        answer = talk.ask(asked)
        if answer.code:
            raise SystemExit(f"topic {topic}: {answer.remark}")


def answers(port: int) -> bool:
    """Ours takes connections from the beginning and answers when the store is open; Java's refuses them until then."""
    with contextlib.suppress(OSError), Talk(f"127.0.0.1:{port}") as talk:
        talk.ask(GetMaxOffset(topic=AUTO_CREATE_TOPIC, queue_id=0))
        return True
    return False


def listening_seconds(directory: Path, rounds: int) -> float:
    """From exec of `rmq broker` on an empty store until it answers its first request; median, seconds.

    One start before those is not counted: it leaves the modules compiled, as every start but the first finds them.
    """
    found = []
    with JavaNameServer(directory / "ns") as names:
        for turn in range(rounds + 1):
            broker = OurBroker(directory / f"ours-{turn}", names.address, name=f"start-{turn}", properties={})
            started = time.perf_counter()
            broker.start(wait=False)
            try:
                while broker.running and not answers(broker.port):
                    time.sleep(0.002)
                found.append(time.perf_counter() - started)
                broker.wait_ready()
            finally:
                broker.stop()
    return statistics.median(found[1:])
