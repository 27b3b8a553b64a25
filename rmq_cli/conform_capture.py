"""`rmq conform record`, `show` and `replay`: captures of what a client and a server say to each other."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rmq_cli.complaint import Complaint

if TYPE_CHECKING:
    from conformance.captures.file import Capture
    from conformance.captures.replay import Difference

DIFFERENT: Final = 1
RELAY_HERE: Final = "127.0.0.1:0"
NAMESRV_MARK: Final = "{namesrv}"
WAIT_S: Final = 3600.0
VALUE_COLUMNS: Final = 160

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON value a line.")


@click.command("record", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--namesrv", "-n", required=True, metavar="HOST:PORT", help="The name server to record; its brokers follow.")
@click.option("--listen", default=RELAY_HERE, show_default=True, metavar="HOST:PORT", help="Where clients find the relay.")
@click.option("--out", "-o", required=True, metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help="The capture.")
@click.option(
    "--broker",
    "brokers",
    multiple=True,
    metavar="ADVERTISED=REAL",
    help="A broker at REAL that gives clients ADVERTISED, where the relay can listen: no answer is altered for it.",
)
@click.option("--subject", default="", help="What is recorded; asked of the broker when not given.")
@click.option("--about", default="", help="A line for the reader.")
@click.argument("client", nargs=-1, metavar="[-- CLIENT COMMAND...]", type=click.UNPROCESSED)
def record(
    namesrv: str, listen: str, out: Path, brokers: tuple[str, ...], subject: str, about: str, client: tuple[str, ...]
) -> None:
    """Keep what clients say to a name server and its brokers, and what they are answered.

    \b
    rmq conform record -n 127.0.0.1:9876 --out session.jsonl -- java -cp ... my.Producer
    rmq conform record -n 127.0.0.1:9876 --listen 127.0.0.1:9999 --out session.jsonl

    The client runs with NAMESRV_ADDR set to the relay ({namesrv} in its command becomes the address, too), and recording ends
    when it ends; without a command, with Ctrl-C.  The route answers name a port of the relay for each broker.

    Exit status: the client's; 2 could not.
    """
    from conformance.captures.asking import CannotReach, listed_brokers
    from conformance.captures.file import write
    from conformance.captures.session import Recording
    from conformance.subjects.remoting import split_address

    try:
        advertised = dict(_pair(text) for text in brokers)
        listed_brokers(namesrv)
        recording = Recording(namesrv, split_address(listen), advertised)
    except (ValueError, CannotReach) as wrong:
        raise Complaint(str(wrong)) from None
    except OSError as wrong:
        raise Complaint(f"the relay cannot listen at {listen}: {wrong.strerror or wrong}") from None
    with recording:
        words = [word.replace(NAMESRV_MARK, recording.address) for word in client]
        status = _run(words, recording.address) if words else _wait(recording.address)
        capture = recording.capture(shlex.join(client), subject, about)
    try:
        write(out, capture)
    except OSError as wrong:
        raise Complaint(f"{out}: {wrong.strerror or wrong}") from None
    frames = sum(hasattr(event, "data") for event in capture.events)
    click.echo(f"rmq: {frames} frames in {out}" + (f"; the client ended with status {status}" if status else ""), err=True)
    if status:
        raise SystemExit(status)


def _pair(text: str) -> tuple[str, str]:
    from conformance.subjects.remoting import split_address

    advertised, equals, real = text.partition("=")
    if not equals:
        raise ValueError(f"--broker {text!r} is not ADVERTISED=REAL")
    split_address(advertised), split_address(real)
    return advertised, real


def _run(words: Sequence[str], relay: str) -> int:
    """Run the client to its end; its status, 130 when it was interrupted."""
    try:
        client = subprocess.Popen(words, env={**os.environ, "NAMESRV_ADDR": relay})
    except OSError as wrong:
        raise Complaint(f"{words[0]}: {wrong.strerror or wrong}") from None
    try:
        status = client.wait()
    except KeyboardInterrupt:  # the terminal has interrupted the client, too
        status = client.wait()
    return status if status >= 0 else 128 - status


def _wait(relay: str) -> int:
    click.echo(f"rmq: recording; clients find the name server at {relay}; Ctrl-C ends it", err=True)
    try:
        while True:
            time.sleep(WAIT_S)
    except KeyboardInterrupt:
        return 0


@click.command("show")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--code", "codes", multiple=True, metavar="CODE", help="Only requests of this code (name or number), and answers.")
@click.option("--connection", "connections", multiple=True, type=click.IntRange(0), metavar="N", help="Only this connection.")
@click.option(
    "--differences", metavar="HOST:PORT", help="Only what is answered otherwise by the servers behind this name server."
)
@click.option("--full", is_flag=True, help="Values whole, however long.")
@json_option
def show(
    file: Path, codes: tuple[str, ...], connections: tuple[int, ...], differences: str | None, full: bool, as_json: bool
) -> None:
    """Print a capture as a timeline: when, who to whom, what, how long the answer took, every field and the body.

    \b
    rmq conform show session.jsonl
    rmq conform show session.jsonl --code SEND_MESSAGE_V2 --code 11
    rmq conform show session.jsonl --differences 127.0.0.1:9876
    """
    import json

    from conformance.captures import timeline

    capture = _read(file)
    named = {code: timeline.code_named(code) for code in codes}
    if unknown := [code for code, name in named.items() if name is None]:
        raise Complaint(f"--code {unknown[0]}: no request code has this name (rmq codes lists them)")
    events = None
    if differences is not None:
        found = _replay(capture, differences)
        events = frozenset(at for difference in found for at in _with_question(capture, difference.event))
    wanted = frozenset(name for name in named.values() if name is not None)
    shown = timeline.Shown(wanted, frozenset(connections), events, full)
    for line in timeline.as_json(capture, shown) if as_json else timeline.lines(capture, shown):
        click.echo(line if isinstance(line, str) else json.dumps(line))


def _with_question(capture: Capture, event: int) -> list[int]:
    from conformance.captures.decoding import decode_all

    one = decode_all(capture.events)[event]
    return [event] if one is None or one.question is None else [one.question, event]


@click.command("replay")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--to", "namesrv", required=True, metavar="HOST:PORT", help="A name server; its brokers take the recorded parts.")
@click.option("--expected", metavar="FILE", type=click.Path(path_type=Path), help="Differences that are known (TOML).")
@click.option("--in-turn", is_flag=True, help="Ask one by one, in the order of the answers, what was asked at once.")
@click.option("--answer-s", default=10.0, show_default=True, metavar="S", help="How long an answer is awaited beyond its time.")
@click.option("--pause-ms", default=100.0, show_default=True, metavar="MS", help="Recorded pauses are kept up to this.")
@json_option
def replay(file: Path, namesrv: str, expected: Path | None, as_json: bool, **options: Any) -> None:
    """Say the client's side of a capture to another server and report in what its answers differ in meaning.

    \b
    rmq conform replay session.jsonl --to 127.0.0.1:9876

    Addresses, times, message ids and offsets are put in the other server's terms; it should not have had the topics and groups
    before.  What a client asked at once meets in a server's threads by chance: --in-turn takes the chance out (else the order of
    answers to the same code is compared, too).

    Exit status 0 no difference, 1 differences, 2 could not.
    """
    import json

    from conformance.captures.allowed import read_allowed, sort_out
    from conformance.captures.file import BadCapture

    capture = _read(file)
    try:
        allowed = read_allowed(expected) if expected is not None else []
    except BadCapture as wrong:
        raise Complaint(str(wrong)) from None
    report = _report(capture, namesrv, options)
    found = sort_out(report.differences, allowed, file.name.partition(".jsonl")[0])
    for difference in found.unexpected:
        click.echo(json.dumps(difference.as_json()) if as_json else _line(difference))
    summary = {
        "type": "summary",
        "requests": report.requests,
        "compared": report.compared,
        "differences": len(found.unexpected),
        "expected": len(found.expected),
        "unused": [entry._asdict() for entry in found.unused],
    }
    if as_json:
        click.echo(json.dumps(summary))
    else:
        known = f", {len(found.expected)} known" if allowed else ""
        said = f"{report.requests} requests said, {report.compared} answers compared"
        click.echo(f"rmq: {said}: {len(found.unexpected)} differences{known}", err=True)
    if found.unexpected:
        raise SystemExit(DIFFERENT)


def _line(difference: Difference) -> str:
    from rmq_inspect.decode.records import fit, printable

    finding = difference.finding
    head = f"{difference.at_ms:>10.3f}  C{difference.connection} #{difference.event}  {difference.asked or '-'}"
    text = f"{finding.path}: {finding.why}: recorded {finding.expected!r}, here {finding.found!r}"
    return f"{head}  {fit(printable(text), VALUE_COLUMNS)}"


def _read(file: Path) -> Capture:
    from conformance.captures.file import BadCapture, read

    try:
        return read(file)
    except BadCapture as wrong:
        raise Complaint(str(wrong)) from None


def _replay(capture: Capture, namesrv: str) -> tuple[Difference, ...]:
    differences: tuple[Difference, ...] = _report(capture, namesrv, {}).differences
    return differences


def _report(capture: Capture, namesrv: str, options: dict[str, Any]) -> Any:
    from conformance.captures.replay import CannotReplay, replay

    if "pause_ms" in options:
        options["pause_ms_max"] = options.pop("pause_ms")
    try:
        return replay(capture, namesrv, **options)
    except CannotReplay as wrong:
        raise Complaint(str(wrong)) from None
