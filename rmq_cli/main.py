"""The one command `rmq`: its subcommands by name, each imported when it runs.

A subcommand lives in a module of its own name.  What goes wrong for a reason that a user can mend is a `Complaint`: one line on
standard error that says what to do, and exit status 1 (2 where something may not be read, or less be opened than is needed, and
always of `rmq inspect` and `rmq spark`); wrong usage is click's, with exit status 2.
"""

from __future__ import annotations

try:
    import contextlib
    import os
    import signal
    import sys
    import threading
    from collections.abc import Iterator, Sequence
    from typing import Any

    import click

    from rmq_cli.complaint import Complaint, Unread
    from rmq_cli.lazy_group import LazyGroup
    from rmq_cli.printing import complaining_output
    from rmq_cli.stopping import INTERRUPTED, STATUS_OF_SIGNAL
except KeyboardInterrupt:  # Ctrl-C, in what is most of the time until `main` is called
    raise SystemExit(128 + 2) from None

SUBCOMMANDS = {
    "dev": "Start a name server and a broker in one process, ready for a Java client.",
    "namesrv": "Start a name server.",
    "broker": "Start a broker.",
    "send": "Send messages to any RocketMQ.",
    "consume": "Consume a topic: as a member of a group, or without; print, run a command, measure.",
    "tail": "Print messages of a topic as they come, without a group.",
    "lag": "Show how far groups are behind, live or once; end with 1 where it is too far.",
    "topic": "List, show, create and delete topics of any RocketMQ.",
    "codes": "List the request codes: what is answered, what is refused and why.",
    "inspect": "Look into the files of a store: decode, find, explain, verify, repair.",
    "spark": "Prove over terabytes, on Spark, whether messages were lost, doubled, reordered or late.",
    "conform": "Run the conformance suite against any RocketMQ; record, replay, torment clients.",
    "version": "Say which version this is, and of which RocketMQ.",
}
"""Name -> the line that `rmq --help` shows: kept here so that listing them imports none of them."""

DISTRIBUTION = "rmq-py-broker"
PROTOCOL_VERSION = "5.5.0"
LOOKING, LOOKING_FAILED = ("inspect", "spark"), 2
"""Their status 1 is an answer ("something is wrong"), which a report that could not be written is not."""
VERSION_LINE = f"%(prog)s %(version)s (RocketMQ {PROTOCOL_VERSION} protocol)"


class Subcommands(LazyGroup):
    """Each subcommand in a module of its name."""

    lines = SUBCOMMANDS

    def place(self, name: str) -> tuple[str, str]:
        return name, "command"

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        with _ended_at_once():
            return super().get_command(ctx, name)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _interruptible():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _interruptible():
            return super().invoke(ctx)


@contextlib.contextmanager
def _ended_at_once() -> Iterator[None]:
    """Ctrl-C ends the process while it only imports: a module in C makes another error of a `KeyboardInterrupt`."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda number, _frame: os._exit(STATUS_OF_SIGNAL + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends what is inside without a word; click would say "Aborted!", with status 1, and makes that of it at a prompt."""
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except click.Abort as aborted:
        if isinstance(aborted.__context__, KeyboardInterrupt):
            raise SystemExit(INTERRUPTED) from None
        raise


@click.group(cls=Subcommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(None, "--version", package_name=DISTRIBUTION, prog_name="rmq", message=VERSION_LINE)
def rmq() -> None:
    """RocketMQ in Python: a name server and a broker that stock Java clients and mqadmin take for the original.

    \b
    rmq dev                             both in one process, store in ./.rmq
    rmq dev --ephemeral --json          for a test: free of traces, one JSON line when ready
    rmq broker -c broker.conf -n 127.0.0.1:9876
    rmq send my-topic "hello"           and rmq tail my-topic: a message without Java
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `rmq`; a complaint ends it with one line and its status, that of `rmq inspect` or `rmq spark` with status 2."""
    if os.getpid() == 1:
        _heed_sigterm_from_the_start()
    try:
        with complaining_output():
            rmq.main(args=arguments, prog_name="rmq")
    except Unread as unread:
        sys.exit(unread.status)
    except Complaint as complaint:
        with contextlib.suppress(BrokenPipeError):  # 2>&1 | head
            click.echo(f"rmq: {complaint}", err=True)
        words = sys.argv[1:] if arguments is None else arguments
        sys.exit(LOOKING_FAILED if words and words[0] in LOOKING else complaint.status)


def _heed_sigterm_from_the_start() -> None:
    """What happens to any other process by default: SIGTERM ends it.

    Linux drops a signal that process 1 (we are, in a container without an init) has no handler for: `docker stop` in the first
    moment would wait in vain and then kill.  A server puts its own handler, for a clean stop, in this one's place.
    """
    signal.signal(signal.SIGTERM, lambda number, _frame: os._exit(128 + number))


if __name__ == "__main__":
    main()
