"""What a compose file brings up: `docker compose` where it is there, else `docker-compose`.

A project of a name of its own, so that it meets nobody's other; ports that the file takes from NAMESRV_PORT and BROKER_PORT are
free ones unless those are set.  Of a file with the services `namesrv` and `broker` only these are started, else all.  The name
server is what publishes port 9876 (or listens there on the host's network); everything else is found by asking it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from conformance.subjects.address import find, masters
from conformance.subjects.base import SubjectFailed, Target
from conformance.subjects.ports import release_port, reserve_port
from conformance.subjects.process import NotReady, until
from conformance.version import dotted

DEFAULT_FILE: Final = Path("docker-compose.yml")
PORT_VARIABLES: Final = ("NAMESRV_PORT", "BROKER_PORT")
REFERENCE_SERVICES: Final = ("namesrv", "broker")
NAMESRV_PORT: Final = "9876"
COMMAND_S_MAX: Final = 600.0
"""`up` takes 7 s; with images to pull, minutes."""
DOWN_S: Final = "1"
"""Nobody reads the files afterwards: no need for the 13 s of a clean stop."""
LOOK_S: Final = 2.0


class ComposeSubject:
    """`--compose FILE`."""

    def __init__(self, file: Path | str = DEFAULT_FILE, *, broker_name: str | None = None) -> None:
        self.label = "compose"
        self.file = Path(file)
        self.broker_name = broker_name
        self.project = f"rmq-conformance-{uuid.uuid4().hex[:8]}"
        self._reserved = [reserve_port() for name in PORT_VARIABLES if not os.environ.get(name)]
        free = iter(self._reserved)
        self._variables = {name: os.environ.get(name) or str(next(free)) for name in PORT_VARIABLES}
        self._program: list[str] = []
        self._up = False
        self._log = ""
        self._looked = (0.0, True)

    def __enter__(self) -> Target:
        if not self.file.is_file():
            raise SubjectFailed(f"no compose file {self.file}")
        self._program = compose_program()
        services = self._do("config", "--services").split()
        wanted = [name for name in REFERENCE_SERVICES if name in services]
        chosen = wanted if len(wanted) == len(REFERENCE_SERVICES) else services
        try:
            self._up = True  # before it is: what is half up comes down too
            self._do("up", "-d", *chosen)
            namesrv = self._namesrv(chosen)
            until(lambda: bool(masters(namesrv)), f"a master at {namesrv}", alive=self.alive)
            details = {"compose file": str(self.file), "program": " ".join(self._program)}
            details |= self._images()
            target = find(namesrv, label=self.label, kind="compose", broker_name=self.broker_name, details=details)
            self.label = f"compose-{dotted(target.version)}" if target.version else self.label
            return replace(target, label=self.label)
        except BaseException as why:
            log = self.log_tail()
            with contextlib.suppress(SubjectFailed):  # what went wrong first is reported
                self.__exit__()
            if isinstance(why, NotReady):
                raise SubjectFailed(f"{self.label}: {why}", log) from None
            raise

    def __exit__(self, *_: object) -> None:
        if self._up:
            with contextlib.suppress(SubjectFailed):
                self._log = self._do("logs", "--no-color")
            self._up = False
            self._do("down", "--volumes", "--remove-orphans", "--timeout", DOWN_S)
        while self._reserved:
            release_port(self._reserved.pop())

    def alive(self) -> bool:
        """Do all its containers run?  Asked every `LOOK_S` at most."""
        looked, lives = self._looked
        if self._up and time.monotonic() - looked > LOOK_S:
            states = self._inspected("{{.State.Running}}")
            self._looked = (time.monotonic(), lives := "false" not in states)
        return self._up and lives

    def log_tail(self, characters: int = 4_000) -> str:
        """The end of what its services printed."""
        return self._printed()[-characters:]

    def collect_logs(self, into: Path) -> None:
        """What its services printed."""
        into.mkdir(parents=True, exist_ok=True)
        (into / "compose.out").write_text(self._printed())

    def _printed(self) -> str:
        if self._up:
            with contextlib.suppress(SubjectFailed):
                return self._do("logs", "--no-color")
        return self._log

    def _namesrv(self, services: Sequence[str]) -> str:
        for service in services:
            with contextlib.suppress(SubjectFailed):
                published = self._do("port", service, NAMESRV_PORT).strip()
                if published and not published.endswith(":0"):
                    return published.replace("0.0.0.0:", "127.0.0.1:")
        return f"127.0.0.1:{NAMESRV_PORT}"

    def _images(self) -> dict[str, str]:
        return {"images": ", ".join(sorted(set(self._inspected("{{.Config.Image}} {{.Image}}"))))}

    def _inspected(self, form: str) -> list[str]:
        """A line for each container; none where that cannot be asked."""
        docker = shutil.which("docker")
        with contextlib.suppress(SubjectFailed):
            containers = self._do("ps", "-q").split()
            if docker and containers:
                return _run([docker, "inspect", "--format", form, *containers]).splitlines()
        return []

    def _do(self, *arguments: str) -> str:
        command = [*self._program, "--project-name", self.project, "--file", str(self.file.resolve()), *arguments]
        return _run(command, self._variables)


def compose_program() -> list[str]:
    """Compose v2 (`docker compose`), else v1.  Raises SubjectFailed."""
    if shutil.which("docker"):
        with contextlib.suppress(SubjectFailed):
            _run(["docker", "compose", "version"])
            return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    raise SubjectFailed("neither `docker compose` nor `docker-compose` is there")


def _run(command: Sequence[str], variables: dict[str, str] | None = None) -> str:
    """What it printed.  Raises `SubjectFailed` with the last line of its complaint."""
    try:
        done = subprocess.run(
            list(command),
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(variables or {})},
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        raise SubjectFailed(f"{command[0]} does not run: {why}") from None
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        said = lines[-1] if lines else f"status {done.returncode}"
        raise SubjectFailed(f"{' '.join(command[:2])} {command[-1]}: {said}", done.stderr)
    return done.stdout
