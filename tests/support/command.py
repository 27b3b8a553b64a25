"""`rmq` within this process: what it prints and how it ends.  `tests.support.rmq` starts it as one of its own."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from rmq_cli.inspect import command
from rmq_cli.main import main
from tests.support.rmq import environment


class Seen(NamedTuple):
    """What one command did."""

    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Its lines of JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


def look(*arguments: object) -> Seen:
    """`rmq inspect …` within this process; what it does not turn into a line is raised."""
    done = CliRunner().invoke(command, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert "Traceback" not in done.stderr
    return Seen(done.exit_code, done.stdout, done.stderr)


def invoke(*arguments: str, home: Path, **variables: str) -> Seen:
    """`rmq …` in this directory and its surroundings: `run` of `tests.support.rmq` within this process."""
    surroundings = {**dict.fromkeys(os.environ), **environment(home), **variables}
    with contextlib.chdir(home), _put_back(), CliRunner().isolation(env=surroundings) as (out, err, _):
        status: Any = 0
        try:
            main(arguments)
        except SystemExit as ended:
            status = ended.code or 0
        return Seen(status, out.getvalue().decode(), err.getvalue().decode())


def complaint(*arguments: str, home: Path) -> str:
    """The one line with which a subcommand refuses; exit status 1 and nothing else printed."""
    seen = invoke(*arguments, home=home)
    assert (seen.status, seen.out) == (1, ""), seen
    [line] = seen.err.splitlines()
    assert line.startswith("rmq: ")
    return line


@contextlib.contextmanager
def _put_back() -> Iterator[None]:
    """What a server's start changes of its process is afterwards as before."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    handled = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    files, thresholds = resource.getrlimit(resource.RLIMIT_NOFILE), gc.get_threshold()
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
        for number, handler in handled.items():
            signal.signal(number, handler)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files[0], resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        gc.set_threshold(*thresholds)
        gc.unfreeze()
