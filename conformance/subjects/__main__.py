"""`python -m conformance.subjects NAME`: keep one subject running in the foreground, for as many runs of the suite as you like.

    python -m conformance.subjects jars-5.5.0 [--dir D] [--json] [--java J] [--set KEY=VALUE] [--namesrv-port P] [--broker-port P]

Prints where it is when it is ready: one line of JSON (`Target`), or a few for eyes.  Ends it, and itself, at SIGTERM, at Ctrl-C,
when a pipe on standard input is closed, and when the subject dies (status 1).  What cannot be had: one line, status 2.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import stat
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from conformance.subjects.base import SubjectFailed, Target
from conformance.subjects.named import __doc__ as names
from conformance.subjects.named import subject_named

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LOOK_S = 0.5
"""How often it is looked whether the subject lives."""


class Ended(Exception):
    """Somebody wants us to stop."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Keep what was named; returns the exit status."""
    asked = _parser().parse_args(arguments)
    for number in SIGNALS:
        signal.signal(number, _end)
    properties = dict(pair.partition("=")[::2] for pair in asked.set)
    with contextlib.ExitStack() as stack:
        try:
            directory = asked.dir or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-subject-")))
            subject = subject_named(
                asked.name,
                directory,
                java=asked.java,
                properties=properties,
                namesrv_port=asked.namesrv_port,
                broker_port=asked.broker_port,
            )
            with subject as target:
                print(shown(target, as_json=asked.json), flush=True)
                while subject.alive():
                    _wait()
                print(f"{subject.label} has died\n{subject.log_tail()}", file=sys.stderr)
                return 1
        except SubjectFailed as why:
            print(f"{why}" + (f"\n{why.log}" if why.log and not asked.json else ""), file=sys.stderr)
            return 2
        except Ended:
            return 0


def shown(target: Target, *, as_json: bool) -> str:
    """A target as one line of JSON, or for eyes."""
    if as_json:
        return msgspec.json.encode(target, enc_hook=str).decode()
    return "\n".join(
        f"{name:15} {value}"
        for name, value in (
            ("namesrv", target.namesrv),
            ("broker", f"{target.broker} ({target.broker_name} of {target.cluster})"),
            ("store", target.store or "out of reach"),
            *target.details.items(),
        )
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m conformance.subjects", description=names, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name")
    parser.add_argument("--dir", type=Path, help="where it writes, kept afterwards [a temporary directory]")
    parser.add_argument("--json", action="store_true", help="print exactly one line of JSON when ready")
    parser.add_argument("--java", help="a `java`, or the directory of a JDK [JAVA_HOME, PATH]")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a broker property (repeatable)")
    parser.add_argument("--namesrv-port", type=int, default=0, help="[a free one]")
    parser.add_argument("--broker-port", type=int, default=0, help="[a free one]")
    return parser


def _wait() -> None:
    """A moment; raises `Ended` when a pipe on standard input was closed.

    Other kinds of standard input end nothing: a shell gives /dev/null to what it starts in the background.
    """
    piped = sys.stdin is not None and not sys.stdin.closed and _is_pipe(sys.stdin.fileno())
    ready, _, _ = select.select([sys.stdin.fileno()] if piped else [], [], [], LOOK_S)
    if ready and not os.read(sys.stdin.fileno(), 1 << 16):
        raise Ended


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _end(*_: object) -> None:
    for number in SIGNALS:  # whoever asks again must not disturb the cleaning up
        signal.signal(number, signal.SIG_IGN)
    raise Ended


if __name__ == "__main__":
    sys.exit(main())
