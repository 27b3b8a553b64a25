"""`rmq conform`: run the conformance suite against servers.  Subcommands live in modules of their own, imported when they run.

Exit status: 0 every case came as it should; 1 a MUST case failed (with --expected: a case came otherwise than expected); 2 the
suite could not run, or a server died in the middle; 130 interrupted.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rmq_cli.lazy_group import LazyGroup

if TYPE_CHECKING:
    from conformance.subjects.base import Target
    from conformance.suite.case import Case
    from conformance.suite.results import CaseResult, Run
    from conformance.suite.runner import Limits, Selection

SUBCOMMANDS: Final = {
    "record": ("conform_capture", "Keep what a client and a server say to each other in a file."),
    "show": ("conform_capture", "Print such a file as a timeline, every field decoded."),
    "replay": ("conform_capture", "Say it again to another server; report what is different."),
    "rounds": ("conform_rounds", "Run the suite many times; each round must come as expected."),
    "controls": ("conform_controls", "Put defects into a good server; each must be noticed."),
    "serve": ("conform_serve", "A server that torments clients by a script."),
    "torture": ("conform_serve", "Run client programs against it, script by script; judge and report."),
    "merge": ("conform_merge", "Put the outcomes of several runs into one matrix, one page."),
}
"""Name -> module, and the line that `rmq conform --help` shows: kept here so that listing them imports none of them."""
FAILED, CANNOT_RUN, INTERRUPTED = 1, 2, 130
PROGRESS_PAUSE_S, PROGRESS_PAUSE_PIPED_S = 0.2, 10.0
LINE_WIDTH: Final = 78
SEED_MAX: Final = 2**31


class Conform(LazyGroup):
    """Runs cases, unless a subcommand is named; turns what hinders it into one line."""

    lines = {name: about for name, (_, about) in SUBCOMMANDS.items()}

    def place(self, name: str) -> tuple[str, str]:
        return SUBCOMMANDS[name][0], name

    def invoke(self, ctx: click.Context) -> Any:
        from conformance.subjects.base import SubjectFailed
        from conformance.suite.expected import BadExpectations
        from conformance.suite.results import BadResults
        from rmq_cli.complaint import Complaint, Unread

        try:
            return super().invoke(ctx)
        except Unread:
            raise
        except (SubjectFailed, BadExpectations, BadResults, Complaint) as reason:
            complain(str(reason))
            sys.exit(CANNOT_RUN)
        except KeyboardInterrupt:
            complain("interrupted")
            sys.exit(INTERRUPTED)


def complain(line: str) -> None:
    """One line on standard error."""
    click.echo(f"rmq: {line}", err=True)


_FILE: Final = click.Path(path_type=Path, dir_okay=False)


@click.group("conform", cls=Conform, invoke_without_command=True)
@click.option("--ours", is_flag=True, help="Our broker, as a process of its own.")
@click.option("--jars", multiple=True, metavar="VERSION", help="Apache RocketMQ from Maven's jars (5.5.0, 5.3.3, 4.9.7, …).")
@click.option("--docker", multiple=True, metavar="IMAGE", help="Apache RocketMQ in containers ('' takes the official image).")
@click.option("--addr", multiple=True, metavar="HOST:PORT", help="A running name server or broker.")
@click.option("--compose", multiple=True, metavar="FILE", help="What a docker-compose file brings up.")
@click.option("--kept", multiple=True, metavar="FILE", help="As `python -m conformance.subjects NAME --json` printed it.")
@click.option("--only", multiple=True, metavar="GLOB", help="Cases by id: 'pull.*', '*.perm*', or a whole capability: 'pull'.")
@click.option("--level", metavar="LIST", default="must,should,info,quirk", show_default=True, help="Levels, joined by commas.")
@click.option("--slow", is_flag=True, help="Also the cases that take more than 20 s.")
@click.option("--list", "listing", is_flag=True, help="Only list the cases (slow ones with --slow; --json -: as JSON).")
@click.option("--coverage", is_flag=True, help="Only list which request codes the cases exercise.")
@click.option("--seed", type=int, help="Order of the cases; a random one is taken, and printed, without it.")
@click.option("--jobs", type=click.IntRange(1, 256), default=16, show_default=True, help="Cases at once.")
@click.option(
    "--patience",
    type=click.FloatRange(1, 100),
    default=1,
    show_default=True,
    help="So many times as long may things take.",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE", help="Write everything.")
@click.option("--junit", type=_FILE, metavar="FILE", help="Write JUnit XML; an expected failure passes there with --expected.")
@click.option("--html", type=_FILE, metavar="FILE", help="Write a page that shows everything.")
@click.option("--logs", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Keep the servers' logs here.")
@click.option("--expect", metavar="LABEL", default="", help="Take the expectations of this label (ours, java-5.5.0, …) instead.")
@click.option("--java", metavar="PATH", help="The JDK for --jars: its directory, or a `java` (else JAVA_HOME, PATH).")
@click.option(
    "--strict/--expected",
    "strict",
    default=None,
    help="What makes status 1: a MUST case that fails; or any outcome other than conformance/suite/expected has, which is the "
    "rule for a subject of which it has expectations (--ours, Apache RocketMQ).",
)
@click.option("-v", "--verbose", is_flag=True, help="Also each case that failed as expected, not only how many by cause.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Run the conformance suite against real servers, any of them; report case by case where they depart from RocketMQ.

    \b
    rmq conform --ours
    rmq conform --jars 5.5.0 --ours --html report.html
    rmq conform --addr 127.0.0.1:9876 --only pull --level must

    Several subjects run one after the other.  Names of topics and groups begin with CONF_; on a server that was found running
    they are deleted at the end.

    Exit status: 0 as it should be; 1 a case came otherwise than expected (with --strict, and of a server of which nothing is
    expected: a MUST case failed); 2 could not run, or a server died in the middle (what was found is written all the same);
    130 interrupted.
    """
    if ctx.invoked_subcommand is not None:
        return
    words = _words(options)
    selection = _selection(options)
    if options["listing"] or options["coverage"]:
        _print_listing(selection, options)
        return
    if not words:
        raise click.UsageError("name a server: --ours, --jars VERSION, --docker IMAGE, --addr HOST:PORT or --compose FILE")
    sys.exit(_run(words, selection, options))


def _words(options: dict[str, Any]) -> list[str]:
    """The subjects in one word each, as `conformance.suite.run.subject_of` takes them."""
    words = [f"{kind}:{what}" for kind in ("jars", "docker", "addr", "compose", "kept") for what in options[kind]]
    return [*words, "ours"] if options["ours"] else words


def _selection(options: dict[str, Any]) -> Selection:
    from conformance.suite.case import Level
    from conformance.suite.runner import Selection

    known = {level.value: level for level in Level}
    named = [word.strip() for word in options["level"].split(",") if word.strip()]
    if strange := [word for word in named if word not in known]:
        raise click.UsageError(f"no level {', '.join(strange)}: there are {', '.join(known)}")
    return Selection(options["only"], frozenset(known[word] for word in named), options["slow"])


def _cases(selection: Selection) -> tuple[list[Case], list[str]]:
    """The selected cases, and a line for each module of cases that cannot be imported."""
    from conformance.suite.case import load
    from rmq_cli.complaint import Complaint

    broken: dict[str, Exception] = {}
    cases = selection.of(load(broken).values())
    lines = [f"{module} cannot be imported: {type(error).__name__}: {error}" for module, error in broken.items()]
    if not cases:
        raise Complaint("no case is selected (rmq conform --list shows them)")
    return cases, lines


def _run(words: Sequence[str], selection: Selection, options: dict[str, Any]) -> int:
    """Everything but usage; the exit status."""
    from conformance.subjects.base import SubjectFailed
    from conformance.suite.expected import BadExpectations, is_label
    from conformance.suite.runner import INTERRUPTED as STOPPED
    from conformance.suite.runner import Limits

    if options["expect"] and not is_label(options["expect"]):
        raise click.UsageError(f"--expect {options['expect']}: nothing is expected of such a subject (ours, java-5.5.0, …)")
    cases, hindered = _cases(selection)
    seed = secrets.randbelow(SEED_MAX) if options["seed"] is None else options["seed"]
    limits = Limits(jobs=options["jobs"], patience=options["patience"])
    runs: list[Run] = []
    interrupted = False
    for word in words:
        if interrupted:
            break
        try:
            with ending_in_order():
                runs.append(_run_one(word, cases, seed, limits, options))
        except (SubjectFailed, BadExpectations) as reason:
            hindered.append(str(reason))
        except KeyboardInterrupt:
            interrupted = True
            hindered.append("interrupted")
        else:
            interrupted = runs[-1].ended == STOPPED
            if runs[-1].ended:
                hindered.append(f"{runs[-1].target.label}: {runs[-1].ended}")
    _name_apart(runs)
    write_outputs(runs, options["json_file"], options["junit"], options["html"], strict=options["strict"])
    for line in hindered:
        complain(line)
    if interrupted:
        return INTERRUPTED
    return CANNOT_RUN if hindered else status(runs, strict=options["strict"])


@contextlib.contextmanager
def ending_in_order() -> Iterator[None]:
    """Whoever asks us to end gets what Ctrl-C does: what was started is ended, what was found is written.

    A shell starts what runs in the background with SIGINT ignored; trio takes care of it only where Python's own handler is.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run_one(word: str, cases: Sequence[Case], seed: int, limits: Limits, options: dict[str, Any]) -> Run:
    from conformance.suite.report.text import run_lines
    from conformance.suite.run import run_on, subject_of

    with tempfile.TemporaryDirectory(prefix="rmq-conform-", ignore_cleanup_errors=True) as scratch, _Progress(len(cases)) as line:
        subject = subject_of(word, Path(scratch), java=options["java"])
        line.starting(subject.label)
        logs = options["logs"] / subject.label if options["logs"] else None
        outcome = run_on(
            subject, cases, seed=seed, limits=limits, expectations=options["expect"], begun=line.begun, done=line.done, logs=logs
        )
    known = options["verbose"] or is_strict(outcome, options["strict"])
    click.echo("\n".join(run_lines(outcome, all_known=known)))
    return outcome


def _name_apart(runs: Sequence[Run]) -> None:
    """Two subjects of one label, such as two addresses, are told apart by their brokers."""
    labels = [run.target.label for run in runs]
    for run in runs:
        if labels.count(run.target.label) > 1:
            run.target.label += f" {run.target.broker}"


def write_outputs(
    runs: Sequence[Run], json_file: Path | None, junit: Path | None, html: Path | None, *, strict: bool | None
) -> None:
    """The files that were asked for, and the matrix when there are several runs."""
    from conformance.suite import results
    from conformance.suite.report.text import matrix_lines
    from rmq_cli.complaint import Complaint

    if len(runs) > 1:  # passed of judged cases; behind an exclamation mark those that came otherwise than expected
        click.echo("\n".join(["", *matrix_lines(runs)]))

    def write_json(file: Path) -> None:
        results.write(file, runs)

    def write_xml(file: Path) -> None:
        from conformance.suite.report.junit import write_junit

        write_junit(runs, file, judged=not any(is_strict(run, strict) for run in runs))

    def write_page(file: Path) -> None:
        from conformance.suite.report.html import write_html

        write_html(list(runs), file)

    hindered = []
    for file, write in ((json_file, write_json), (junit, write_xml), (html, write_page)):
        try:
            if file is not None:
                write(file)
        except OSError as reason:  # the other files are written all the same
            hindered.append(f"{reason.filename or file}: {reason.strerror}")
    if hindered:
        raise Complaint("; ".join(hindered))


def status(runs: Sequence[Run], *, strict: bool | None) -> int:
    """0 or 1, for runs that went through."""
    return FAILED if any(run.failed_must if is_strict(run, strict) else run.surprises for run in runs) else 0


def is_strict(run: Run, asked: bool | None) -> bool:
    """Whether its MUST cases count, and not what is expected.  asked: None where the user said neither."""
    from conformance.suite.expected import is_label

    return not is_label(run.target.label.partition(" ")[0]) if asked is None else asked


def _print_listing(selection: Selection, options: dict[str, Any]) -> None:
    if options["coverage"]:
        from conformance.suite.coverage import lines

        click.echo("\n".join(lines(_cases(selection)[0])))
        return
    found, broken = _cases(selection)
    for line in broken:
        complain(line)
    cases = sorted(found, key=lambda case: case.id)
    rows = [
        {
            "id": case.id,
            "level": case.level.value,
            "title": case.title,
            "rests_on": case.rests_on,
            "codes": list(case.codes),
            "needs": sorted(need.name.lower() for need in case.needs),
            "since": ".".join(map(str, case.since)),
            "slow": case.slow,
            "alone": case.alone,
            "about": case.about,
        }
        for case in cases
    ]
    if options["json_file"] is None:
        width = max(len(case.id) for case in cases)
        click.echo("\n".join(f"{case.level.value:6}  {case.id:{width}}  {case.title}" for case in cases))
        click.echo(f"{len(cases)} cases")
        return
    text = json.dumps(rows, indent=1)
    if str(options["json_file"]) == "-":
        click.echo(text)
    else:
        options["json_file"].write_text(text + "\n", encoding="utf-8")


class _Progress(contextlib.AbstractContextManager["_Progress"]):
    """On a terminal one line, written again and again; in a pipe one every ten seconds.  All on standard error."""

    def __init__(self, of: int) -> None:
        self._of = of
        self._label = ""
        self._ended = 0
        self._bad = 0
        self._terminal = sys.stderr.isatty()
        self._pause_s = PROGRESS_PAUSE_S if self._terminal else PROGRESS_PAUSE_PIPED_S
        self._next = 0.0

    def __exit__(self, *_: object) -> None:
        self._clear()

    def starting(self, label: str) -> None:
        """Called when the subject is about to start, which may take its time."""
        self._label = label
        self._show(f"{label}: starting")

    def begun(self, target: Target) -> None:
        """Called when it runs."""
        self._label = target.label
        self._next = time.monotonic() + self._pause_s
        self._show(f"{target.label}: broker {target.broker}, {self._of} cases")

    def done(self, result: CaseResult) -> None:
        """Called with each case that has ended; one that surprises is printed at once on a terminal."""
        from conformance.suite.report.text import case_lines

        self._ended += 1
        if not result.as_expected and result.outcome != "passed":
            self._bad += 1
            if self._terminal:
                self._clear()
                click.echo("\n".join(case_lines(result)), err=True)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._pause_s
            self._show(f"{self._label}: {self._ended} of {self._of}, {self._bad} not as they should be; {result.id}")

    def _show(self, line: str) -> None:
        if self._terminal:
            print(f"\r{line[:LINE_WIDTH].ljust(LINE_WIDTH)}", end="\r", file=sys.stderr, flush=True)
        else:
            click.echo(line, err=True)

    def _clear(self) -> None:
        if self._terminal:
            print(" " * LINE_WIDTH, end="\r", file=sys.stderr, flush=True)
