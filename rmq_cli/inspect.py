"""`rmq inspect`: look into the files of a store, without a broker.  One module a subcommand, each imported when it runs.

Exit status: 0 well, 1 the answer is no (findings, differences, nothing found), 2 could not look; 130 interrupted, 143 by SIGTERM.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import click

from rmq_cli.lazy_group import LazyGroup

SUBCOMMANDS = {
    "layouts": "Every layout of wire and store, as a table.",
    "show": "Print what is in a store or a file: messages, queue units, index entries, checkpoint, configuration.",
    "find": "Find messages by id, unique key, key, tag or time.",
    "explain": "Walk one look-up through the files, byte by byte.",
    "verify": "Check everything; say what is wrong, what follows from it and what to do.",
    "repair": "Save what can be saved into a new directory.",
    "diff": "Compare two stores; name the first difference.",
    "export": "Write messages as JSON lines or Parquet.",
    "stats": "Topics, queues, rates over time, sizes, keys.",
}
"""Name -> the line that `rmq inspect --help` shows: kept here so that listing them imports none of them."""
CANNOT_LOOK = 2


class Looks(LazyGroup):
    """Turns what hinders a look into one line."""

    lines: ClassVar[Mapping[str, str]] = SUBCOMMANDS

    def place(self, name: str) -> tuple[str, str]:
        return f"inspect_{name}", "command"

    def invoke(self, ctx: click.Context) -> Any:
        from rmq_cli.stopping import stoppable

        with stoppable():  # SIGTERM unwinds like Ctrl-C: processes of ours are ended, what is half written is taken away
            return self._look(ctx)

    def _look(self, ctx: click.Context) -> Any:
        from rmq_cli.complaint import Complaint, Unread
        from rmq_columns.errors import DENIED, NotPermitted
        from rmq_inspect.errors import CannotLook

        try:
            return super().invoke(ctx)
        except Unread:
            raise
        except (CannotLook, NotPermitted, Complaint) as reason:
            self._end(str(reason), CANNOT_LOOK)
        except PermissionError as reason:
            self._end(f"{DENIED}: {reason.filename}" if reason.filename else str(reason), CANNOT_LOOK)
        except KeyboardInterrupt:
            self._say("interrupted")
            raise  # with the status of its signal
        except MemoryError:
            self._end("out of memory", CANNOT_LOOK)

    def _end(self, line: str, status: int) -> None:
        self._say(line)
        sys.exit(status)

    def _say(self, line: str) -> None:
        """One line, whatever names are in it."""
        from rmq_cli.inspect_common import clear_progress
        from rmq_inspect.decode.records import printable

        clear_progress()
        click.echo(f"rmq: {printable(line)}", err=True)


@click.group("inspect", cls=Looks)
def command() -> None:
    """Look into the files of a store: Java's or ours, running or not, whole or damaged.  Only reads.

    \b
    rmq inspect show ./.rmq --topic my-topic --limit 10
    rmq inspect verify ./.rmq
    rmq inspect explain ./.rmq --topic my-topic --key order-1

    Exit status: 0 well; 1 findings, differences or nothing found; 2 could not look.
    """
