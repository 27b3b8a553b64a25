"""The processes of a benchmark: the generator, our broker as a child, and what the operating system says of them."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.process import ServerProcess, free_ports
from tests.support.reference import JavaNameServer, registered

HERE = Path(__file__).parent
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


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


class OurBroker(ServerProcess):
    """`rmq broker` with a properties file."""

    def __init__(self, directory: Path, namesrv: str, *, name: str, properties: Mapping[str, str]) -> None:
        super().__init__("rmq", directory)
        self.namesrv = namesrv
        self.port = free_ports(-2, 1)
        self.properties = {
            "brokerName": name,
            "brokerIP1": "127.0.0.1",
            "listenPort": str(self.port),
            "storePathRootDir": str(directory / "store"),
            "diskMaxUsedSpaceRatio": "95",
            "diskSpaceCleanForciblyRatio": "85",
            "diskSpaceWarningLevelRatio": "90",
            **properties,
        }

    def command(self) -> Sequence[str]:
        config = self.directory / "broker.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        return [sys.executable, "-O", "-m", "rmq_cli.main", "broker", "-c", str(config), "-n", self.namesrv]

    def environment(self) -> Mapping[str, str]:
        """An installed package has its modules compiled; empty is to Python as if the variable were not there."""
        return {"PYTHONDONTWRITEBYTECODE": ""}

    def ready(self) -> bool:
        return registered(self.namesrv, f"127.0.0.1:{self.port}")


def listening_seconds(directory: Path, rounds: int) -> float:
    """From exec of `rmq broker` on an empty store until its port takes a connection; median, seconds.

    One start before those is not counted: it leaves the modules compiled, as every start but the first finds them.
    """
    found = []
    with JavaNameServer(directory / "ns") as names:
        for turn in range(rounds + 1):
            broker = OurBroker(directory / f"ours-{turn}", names.address, name=f"start-{turn}", properties={})
            started = time.perf_counter()
            broker.start(wait=False)
            try:
                while broker.running:
                    with socket.socket() as probe:
                        if probe.connect_ex(("127.0.0.1", broker.port)) == 0:
                            break
                    time.sleep(0.002)
                found.append(time.perf_counter() - started)
                broker.wait_ready()
            finally:
                broker.stop()
    return statistics.median(found[1:])
