"""Runs `rmq` under an audit hook that notes every process started, every file opened or changed, and every connection made.

`python -m tests.cli.audited REPORT ARGUMENTS…` writes the notes to REPORT as JSON when the command ends.  Nothing is forbidden
here: the test that reads the notes decides.  What Python itself opens while it imports is noted too, and told apart by its place.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn")
EVALUATES = ("pickle.find_class", "marshal.loads", "ctypes.dlopen")
PATHS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown")
"""Events whose first argument is a path (`os.rename` and the links have two)."""
CONNECTS = ("socket.connect", "socket.bind", "socket.getaddrinfo")


def main() -> None:
    """Note everything until the command ends."""
    report, *arguments = sys.argv[1:]
    notes: dict[str, Any] = {"started": [], "evaluated": [], "paths": [], "connected": []}

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in STARTS:
            notes["started"].append([event, str(arguments)[:200], _callers()])
        elif event in EVALUATES:
            notes["evaluated"].append([event, str(arguments)[:200]])
        elif event in CONNECTS:
            notes["connected"].append([event, str(arguments[1:])])
        elif event in PATHS:
            paths = arguments[:2] if event in ("os.rename", "os.link", "os.symlink") else arguments[:1]
            for path in paths:
                if isinstance(path, str | bytes | os.PathLike):
                    notes["paths"].append([event, os.path.abspath(os.fsdecode(path)), _writes(event, arguments)])

    sys.addaudithook(hook)
    from rmq_cli.main import main as rmq

    try:
        rmq(arguments)
    finally:
        with open(report + ".part", "w") as file:
            json.dump(dict(notes), file)
        os.replace(report + ".part", report)


def _callers() -> list[str]:
    """The files on the stack, innermost first."""
    frame, found = sys._getframe(2), []
    while frame is not None:
        found.append(frame.f_code.co_filename)
        frame = frame.f_back  # type: ignore[assignment]
    return found


def _writes(event: str, arguments: tuple[Any, ...]) -> bool:
    """Does this change something, or open it so that it could?"""
    if event != "open":
        return True
    flags = arguments[2] if len(arguments) > 2 else 0
    return bool(isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND))


if __name__ == "__main__":
    main()
