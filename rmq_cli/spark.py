"""`rmq spark`: the operator's jobs over terabytes of stores, on Spark.  A subcommand is made of its job's parameters.

Exit status: 0 clean, 1 something was found, 2 could not look; 130 interrupted.  Listing the jobs and their help needs no PySpark.
`python -m rmq_cli.spark JOB …` takes the same words; `main` is what a script for `spark-submit` calls.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import click

from rmq_cli.inspect import CANNOT_LOOK, Looks
from rmq_spark.jobs import JOBS

GENERATE, HEAD = "generate", "head"
OTHERS = {
    HEAD: "Show the first messages of topics, found by their queues, without Spark.",
    GENERATE: "Write a store of any size to try them on, with planted faults and a ledger of them.",
}


class Jobs(Looks):
    """The jobs, and what makes a store for them."""

    lines: ClassVar[Mapping[str, str]] = {**dict.fromkeys(JOBS, ""), **OTHERS}

    def line_of(self, name: str) -> str:
        return JOBS[name].line if name in JOBS else OTHERS[name]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name == GENERATE:
            from rmq_cli.spark_generate import command as generate

            return generate
        if name == HEAD:
            from rmq_cli.spark_head import command as head

            return head
        if name not in JOBS:
            return None
        from rmq_cli.spark_job import command_of

        return command_of(name)

    def invoke(self, ctx: click.Context) -> Any:
        from rmq_cli.inspect_common import clear_progress
        from rmq_columns import BadOption, StoreError
        from rmq_spark import MissingPackage

        try:
            return super().invoke(ctx)
        except (BadOption, StoreError, MissingPackage) as reason:
            self._end(str(reason), CANNOT_LOOK)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except OSError as reason:
            self._end(f"{reason.filename}: {reason.strerror}" if reason.filename else str(reason), CANNOT_LOOK)
        except Exception:  # Python's own status for it is 1, which here says that something was found
            clear_progress()
            traceback.print_exc()
            self._end("this is a defect of rmq; the lines above say where", CANNOT_LOOK)


@click.group("spark", cls=Jobs)
def command() -> None:
    """Read stores on Spark, Java's or ours, and say whether messages were lost, doubled, reordered or late.

    \b
    rmq spark audit /data/broker-a/store
    rmq spark duplicates /data/brokers --topic Orders --since -1d --html dup.html
    rmq spark generate /tmp/planted --size 1GB --faults lost=3
    rmq spark duplicates --help

    Needs the extra: pip install -e '.[spark]' in the checkout, and a JDK, 17 or later.

    Exit status: 0 clean; 1 something was found; 2 could not look.
    """


def main(words: Sequence[str] | None = None) -> None:
    """Run a job.  words: those behind `rmq spark`; the process's own by default.  Ends with `SystemExit` and its status."""
    from rmq_cli.main import main as rmq

    rmq(["spark", *(sys.argv[1:] if words is None else words)])


if __name__ == "__main__":
    main()
