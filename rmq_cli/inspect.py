"""`rmq inspect`: look into the files of a store, without a broker.  One module a subcommand, each imported when it runs.

Exit status: 0 well, 1 the answer is no (findings, differences, nothing found), 2 could not look; 130 interrupted.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

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
INTERRUPTED = 130


class Looks(click.Group):
    """Finds a subcommand's module when it is asked for, and turns what hinders it into one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in SUBCOMMANDS:
            return None
        command = importlib.import_module(f"rmq_cli.inspect_{name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUBCOMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
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
            self._end("interrupted", INTERRUPTED)
        except MemoryError:
            self._end("out of memory", CANNOT_LOOK)

    def _end(self, line: str, status: int) -> None:
        from rmq_cli.inspect_common import clear_progress

        clear_progress()
        click.echo(f"rmq: {line}", err=True)
        sys.exit(status)


@click.group("inspect", cls=Looks)
def command() -> None:
    """Look into the files of a store: Java's or ours, running or not, whole or damaged.  Only reads.

    \b
    rmq inspect show ./.rmq --topic my-topic --limit 10
    rmq inspect verify ./.rmq
    rmq inspect explain ./.rmq --topic my-topic --key order-1

    Exit status: 0 well; 1 findings, differences or nothing found; 2 could not look.
    """
