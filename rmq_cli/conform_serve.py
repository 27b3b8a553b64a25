"""`rmq conform serve` and `rmq conform torture`: torment a client by a script and judge what it does next.

`serve` waits for any client; `torture` runs a client itself, over all scripts.  Exit status: 0 every verdict good, 1 one was not,
2 nothing could be run.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rmq_cli.complaint import Complaint

if TYPE_CHECKING:
    from conformance.torture.client import Client
    from conformance.torture.judge import Verdict
    from conformance.torture.script import Script
    from conformance.torture.server import Server

FAILED: Final = 1
IDLE_S: Final = 2.0
"""A client that has had no connection for so long has gone."""
MARKS: Final = {True: "ok ", False: "NOT", None: " ? "}


@click.command("serve", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--script", "name", metavar="NAME|FILE", help="What to do to the client: a script of the package, or a TOML file.")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Of the name server; a free one without it.")
@click.option("--like", metavar="VERSION", default="5.5.0", show_default=True, help="Whose behaviour is expected.")
@click.option("--quirks", is_flag=True, help="The oddities of the Java client are owed, too.")
@click.option("--idle", type=float, default=IDLE_S, show_default=True, metavar="SECONDS", help="When a client counts as gone.")
@click.option("--timeline", is_flag=True, help="With the verdict, print everything that happened.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON, timeline and all.")
@click.option("--list", "listing", is_flag=True, help="Only list the scripts.")
def serve(
    name: str | None, port: int, like: str, quirks: bool, idle: float, timeline: bool, as_json: bool, listing: bool
) -> None:
    """A name server and brokers that torment the client that comes, and say what it made of it.

    Prints NAMESRV_ADDR and the topic; the verdict when the client has gone, or at Ctrl-C.  What only the client's own program
    can know is left open.
    """
    import trio

    if listing:
        _list([], as_json)
        return
    if name is None:
        raise click.UsageError("which script?  --list names them")
    script = _find(name)
    verdict = trio.run(_serve, script, port, _version(like), quirks, idle, as_json)
    if as_json:
        _print_json(verdict)
    else:
        _print_verdict(verdict)
        if timeline:
            _print_timeline(verdict)
    sys.exit(0 if verdict.outcome == "passed" else FAILED)


@click.command("torture", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--client", "label", metavar="NAME", help="ours, java-5.5.0 or java-4.9.8; or a name for --client-command.")
@click.option(
    "--client-command", "command", metavar="LINE", help="A client to run: has {namesrv} {topic} {program} {count} in it."
)
@click.option("--only", multiple=True, metavar="NAME|FILE", help="Only these scripts.")
@click.option("--like", metavar="VERSION", default="5.5.0", show_default=True, help="Whose behaviour --client-command owes.")
@click.option("--jobs", type=click.IntRange(1, 64), help="Scripts at once.")
@click.option("--java", metavar="PATH", help="The JDK: its directory, or a `java` (else JAVA_HOME, PATH).")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the verdicts as JSON.")
@click.option("--list", "listing", is_flag=True, help="Only list the scripts.")
@click.option("--json", "as_json", is_flag=True, help="With --list: as JSON.")
@click.option(
    "--results",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Run nothing: read what --out wrote, for --document.",
)
@click.option("--document", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a page of the results.")
def torture(
    label: str | None,
    command: str | None,
    only: tuple[str, ...],
    like: str,
    jobs: int | None,
    java: str | None,
    out: Path | None,
    listing: bool,
    as_json: bool,
    results: tuple[Path, ...],
    document: Path | None,
) -> None:
    """Run a client through all scripts, several at once, and judge it.

    \b
    rmq conform torture --client ours
    rmq conform torture --client java-5.5.0 --out torture.json
    rmq conform torture --client-command './my-client {namesrv} {topic} {program} {count} {timeout_ms}'
    rmq conform torture --results a.json --results b.json --document torture.md
    """
    import trio

    from conformance.torture import report

    if listing:
        _list(list(only), as_json)
        return
    interrupted = False
    if results:
        verdicts = [verdict for path in results for verdict in _read(path)]
    else:
        if not label and not command:
            raise click.UsageError("which client?  --client ours, --client java-5.5.0, or --client-command")
        scripts = [_find(name) for name in only] or _find_all()
        verdicts = []
        try:
            trio.run(_torture, scripts, label, command, _version(like), jobs, java, verdicts)
        except* KeyboardInterrupt:
            interrupted = True
        verdicts.sort(key=lambda verdict: verdict.script)
        _summary(verdicts)
    if out is not None:
        out.write_bytes(report.encode(verdicts))
    if interrupted:
        raise KeyboardInterrupt
    if document is not None:
        document.write_text(report.document(verdicts), encoding="utf-8")
    bad = [verdict for verdict in verdicts if verdict.outcome != "passed"]
    if verdicts and all(verdict.outcome == "broken" for verdict in verdicts):
        raise Complaint(f"the client cannot be run: {verdicts[0].expectations[-1].seen}")
    sys.exit(FAILED if bad else 0)


async def _serve(script: Script, port: int, like: tuple[int, ...], quirks: bool, idle: float, quiet: bool) -> Verdict:
    import trio

    from conformance.torture.judge import judge
    from conformance.torture.server import serving

    try:
        async with serving(script, port) as server:
            async with trio.open_nursery() as nursery:
                await nursery.start(_until_interrupted, nursery.cancel_scope)
                click.echo(f"NAMESRV_ADDR={server.namesrv}\nTOPIC={server.topic}", err=quiet)
                click.echo(f"{script.name}: {script.title}", err=quiet)
                await _until_gone(server, idle)
                nursery.cancel_scope.cancel()
            return judge(script, server.events, client="unknown", behaves_like=like, quirks=quirks, reports=False)
    except* OSError as wrong:
        reason = wrong.exceptions[0]
    raise Complaint(f"port {port} cannot be listened at: {reason}")


async def _until_interrupted(scope: Any, *, task_status: Any) -> None:
    import trio

    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()


async def _until_gone(server: Server, idle: float) -> None:
    """Somebody has come, and nobody has been there for a while."""
    import trio

    while not any(event.kind == "connect" for event in server.events.all):
        await server.changed.wait()
    while True:
        while server.connections:
            await server.changed.wait()
        with trio.move_on_after(idle) as scope:
            await server.changed.wait()
        if scope.cancelled_caught:
            return


async def _torture(
    scripts: list[Script],
    label: str | None,
    command: str | None,
    like: tuple[int, ...],
    jobs: int | None,
    java: str | None,
    verdicts: list[Verdict],
) -> None:
    """Appends to the verdicts, so that those there are stay when this is interrupted."""
    from conformance.torture.run import torment_all

    def keep(verdict: Verdict) -> None:
        verdicts.append(verdict)
        _print_failures(verdict)

    async with _client(label, command, like, java) as client:
        client.at_once = jobs or client.at_once
        await torment_all(scripts, client, keep)


@contextlib.asynccontextmanager
async def _client(label: str | None, command: str | None, like: tuple[int, ...], java: str | None) -> AsyncIterator[Client]:
    from conformance.torture.client import ClientFailed, CommandClient
    from conformance.torture.java_client import BUILT_IN, java_client

    with contextlib.ExitStack() as stack:
        stack.enter_context(_complaining(ClientFailed))
        if command is not None:
            yield CommandClient(command, label=label or "command", behaves_like=like)
            return
        if label == "ours":
            from conformance.torture.our_client import OurClient

            yield OurClient()
            return
        if label not in BUILT_IN:
            raise Complaint(f"no client {label!r}: ours, {', '.join(BUILT_IN)}, or say --client-command")
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="torture-", ignore_cleanup_errors=True))
        async with java_client(label, Path(directory), java) as client:
            yield client


@contextlib.contextmanager
def _complaining(*kinds: type[Exception]) -> Any:
    try:
        yield
    except kinds as wrong:
        raise Complaint(str(wrong)) from None


def _find(name: str) -> Script:
    from conformance.torture.script import ScriptError, find

    with _complaining(ScriptError):
        return find(name)


def _find_all() -> list[Script]:
    from conformance.torture.script import find_all

    return find_all()


def _version(text: str) -> tuple[int, ...]:
    from conformance.torture.script import version

    try:
        return version(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no version: say for instance 5.5.0", param_hint="--like") from None


def _read(path: Path) -> list[Verdict]:
    from conformance.torture import report

    try:
        return report.decode(path.read_bytes())
    except ValueError as wrong:
        raise Complaint(f"{path} holds no verdicts: {wrong}") from None


def _list(only: list[str], as_json: bool) -> None:
    scripts = [_find(name) for name in only] or _find_all()
    if as_json:
        rows = [
            {"script": one.name, "title": one.title, "rests_on": one.rests_on, "program": one.client.program} for one in scripts
        ]
        click.echo(json.dumps(rows, indent=1))
        return
    width = max(len(script.name) for script in scripts)
    for script in scripts:
        click.echo(f"{script.name:<{width}}  {script.title}")


def _print_failures(verdict: Verdict) -> None:
    click.echo(f"{verdict.outcome:<7} {verdict.script} ({verdict.seconds:g} s)")
    for one in verdict.expectations:
        if one.passed is False:
            click.echo(f"        {one.level} {one.what}: {one.seen}")


def _summary(verdicts: list[Verdict]) -> None:
    good = sum(verdict.outcome == "passed" for verdict in verdicts)
    click.echo(f"{good} of {len(verdicts)} scripts passed")


def _print_verdict(verdict: Verdict) -> None:
    click.echo(f"{verdict.script}: {verdict.outcome}")
    for one in verdict.expectations:
        click.echo(f"  {MARKS[one.passed]} {one.level:<5} {one.what}: {one.seen}")


def _print_timeline(verdict: Verdict) -> None:
    for event in verdict.timeline:
        parts = [f"#{event.connection}" if event.connection else "", f"code {event.code}" if event.code is not None else ""]
        parts += [event.message, event.note, json.dumps(event.app) if event.app else ""]
        click.echo(f"{event.ms:>7} ms {event.where:<11} {event.kind:<16} {' '.join(part for part in parts if part)}")


def _print_json(verdict: Verdict) -> None:
    from conformance.torture import report

    click.echo(report.encode([verdict]).decode())
