"""Runs one job: what was asked is checked before Spark starts, which takes seconds; what went wrong becomes one line.

Standard output gets the summary or the JSON and nothing else; what the JVM prints is kept from both streams and shown only when
it ended by itself.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rmq_cli.complaint import Complaint
from rmq_cli.inspect_common import clear_progress, progress, width
from rmq_columns import BadOption
from rmq_columns.shown import Zone, json_line, span_text, text_of
from rmq_spark import need, reasons
from rmq_spark.arguments import format_options
from rmq_spark.asking import asked, figures_of
from rmq_spark.committer import committer_of
from rmq_spark.jobs import Job, Source
from rmq_spark.known import topics_of_logs
from rmq_spark.quiet import Said, quietly
from rmq_spark.session import jvm_of, silent
from rmq_spark.writing import check_file, check_free, check_outside, check_shared, check_uri, is_local, write_frames
from rmq_spark.zone import SUBMITTED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rmq_columns.read.topics import Missing
    from rmq_spark.outcome import Outcome

CLEAN, FOUND = 0, 1
JVM_END_S_MAX: Final = 2
"""From its last word to the end of its process."""
NAMES: Final = {"topic": "topics", "since": "startingTimestamp", "until": "endingTimestamp"}
"""Option of the command -> of the format."""


@dataclass(frozen=True)
class Request:
    """What was asked.  given: of the job's own; common: of `rmq_cli.spark_job.COMMON`."""

    paths: tuple[str, ...]
    given: dict[str, Any]
    common: dict[str, Any]
    zone: Zone
    """of times that have none, and of those that are shown"""


def run_job(job: Job, request: Request) -> int:
    """Exit status 0 or 1.  Raises `BadOption`, `StoreError`, `MissingPackage`, `Complaint`, `KeyboardInterrupt`."""
    common = request.common
    source = Source(request.paths, options_of(request.paths, common, request.zone))
    if twice := source.options.keys() & request.given.keys():
        raise BadOption(f"--option {min(twice)}: say --{min(twice)}")
    settings = settings_of(common["conf"])
    missing = _check_places(request, source)
    if missing is not None and missing.is_sure and not job.has_topics_of_its_own:
        raise BadOption(missing.line)
    need()
    check_java()
    begun = time.time()
    outcome: Outcome | None = None
    try:
        with session(common["master"], settings, f"rmq spark {job.name}") as spark, asked(spark) as bytes_asked:
            if common["out"]:
                check_uri(spark, common["out"], overwrite=common["overwrite"])
                check_shared(spark, common["out"])
            if missing is not None and not job.has_topics_of_its_own:
                missing = _look_into_logs(spark, source, missing)
            outcome = _judged(job.run(spark, source, request.given, progress(silent)), missing, common)
            outcome.zone = request.zone
            if common["out"]:
                _write_found(spark, outcome, request)
            outcome.close()
    finally:
        clear_progress()
        if outcome is not None:  # what was found after hours is printed also when the disk is full, or nobody waits any longer
            outcome.figures = [*outcome.figures, *figures_of(bytes_asked)]
            _print_outcome(outcome, as_json=common["json"])
    if common["html"]:
        _write_page(outcome, common["html"], _about(source, request, begun))
    return CLEAN if outcome.is_clean else FOUND


def _look_into_logs(spark: SparkSession, source: Source, missing: Missing) -> Missing | None:
    """Topics of logs beside which nothing names them.  Raises `BadOption` when no other store is left that could have one."""
    if not missing.unnamed:
        return missing
    left = missing.found(topics_of_logs(spark, source, missing.unnamed, missing.topics))
    if left is not None and all(is_local(path) for path in missing.paths):
        raise BadOption(left.line)
    return left


def _judged(outcome: Outcome, missing: Missing | None, common: Mapping[str, Any]) -> Outcome:
    """What was found, unless it is nothing: then that is said.  Raises `BadOption` where a topic asked for was met nowhere."""
    if outcome.messages == 0:
        if missing is not None:
            raise BadOption(missing.line)
        if outcome.is_clean:
            is_chosen = any(common.get(name) for name in ("topic", "since", "until"))
            outcome.verdict = "no messages of this choice" if is_chosen else "no messages yet"
    return outcome


def _write_found(spark: SparkSession, outcome: Outcome, request: Request) -> None:
    place, kind, overwrite = (request.common[name] for name in ("out", "format", "overwrite"))
    names = list(write_frames(spark, outcome, place, kind, progress(silent), overwrite=overwrite, stores=request.paths))
    clear_progress()
    click.echo(f"rmq: written to {place}: {', '.join(names) or 'nothing'}; by {committer_of(spark, place).line()}", err=True)


def _print_outcome(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_line(outcome.as_json()))
        return
    from rmq_spark.report_text import lines

    for line in lines(outcome, width()):
        click.echo(line)


def settings_of(conf: Sequence[str]) -> dict[str, str]:
    """Of Spark.  Raises `BadOption`."""
    return dict(pair_of(one, "--conf") for one in conf)


def options_of(paths: Sequence[str], common: Mapping[str, Any], zone: Zone) -> dict[str, str]:
    """Of the format, as Spark takes them.  zone: of times that have none.

    Raises `BadOption` for one that there is not, or that was said twice.
    """
    from rmq_columns import parse_options

    options: dict[str, str] = {}
    for said, value in (pair_of(one, "--option") for one in common["option"]):
        made = format_options({said: value}, zone=zone)
        if twice := made.keys() & options.keys():
            raise BadOption(f"{min(twice)}: given twice")
        options |= made
    for said, name in NAMES.items():
        value = common[said]
        if value in (None, ()):
            continue
        if said == "until":
            value += 1  # the format's range ends before its end
        if name in options:
            raise BadOption(f"--{said} and --option {name} say the same thing: leave one of them out")
        options |= format_options({name: value})
    parse_options({**options, "paths": json.dumps(list(paths))})
    return options


def pair_of(text: str, option: str) -> tuple[str, str]:
    """Of `NAME=VALUE`.  Raises `BadOption`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise BadOption(f"{option} {text}: give NAME=VALUE")
    return name.strip(), value


def _check_places(request: Request, source: Source) -> Missing | None:
    """Before anything is started: stores are there, and what is to be written has a place outside of them."""
    from rmq_columns.read.stores import list_stores
    from rmq_columns.read.topics import missing_topic
    from rmq_spark.options import located

    options = located({**source.options, "paths": list(request.paths)})
    other = request.given.get("other")
    options = replace(options, paths=(*options.paths, other)) if other else options
    stores = (*options.paths, *options.commit_logs)
    for path in filter(is_local, options.paths):
        try:
            os.stat(path)
        except PermissionError:
            raise
        except OSError:
            raise BadOption(f"{path}: no such file or directory") from None
    for name in ("html", "out"):
        if target := request.common[name]:
            check_outside(target, stores)
    if directory := request.common["out"]:
        check_free(directory, overwrite=request.common["overwrite"], stores=stores)
    if page := request.common["html"]:
        check_file(page)
    if options.broker_names and "other" not in request.given and all(map(is_local, options.paths)):
        list_stores(options)  # two brokers must not have one name
    return missing_topic(options, options.topics or ())


def check_java() -> None:
    if SUBMITTED in os.environ:
        return
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else None
    if not (java.exists() if java else shutil.which("java")):
        raise Complaint(f"Spark needs a JDK, 17 or later: {f'none is in JAVA_HOME={home}' if home else 'set JAVA_HOME'}")


@contextlib.contextmanager
def session(master: str | None, settings: Mapping[str, str], name: str) -> Iterator[SparkSession]:
    """A session that ends with the block, unless it was there before; Spark's errors become a `Complaint`."""
    from pyspark.sql import SparkSession

    from rmq_spark.session import make_session

    said: Said | None = None
    there: SparkSession | None = SparkSession.getActiveSession()
    spark = there
    heard = signal.getsignal(signal.SIGINT)
    with _silent_logging():  # to the end: what an error of py4j says is asked of the JVM, which may be gone by then
        try:
            if there is None and SUBMITTED in os.environ:
                spark = make_session(master, settings, name)
            elif there is None:
                if sys.stderr.isatty():
                    print("starting Spark", end="\r", file=sys.stderr, flush=True)
                with quietly() as said:
                    spark = make_session(master, settings, name)
            signal.signal(signal.SIGINT, heard)  # PySpark's own talks to the JVM in the midst of another talk
            yield spark
        except Exception as error:
            if not reasons.is_of_spark(error):
                raise
            raise Complaint(_reason(error, said, spark)) from error
        finally:
            if spark is not None and there is None:
                _stop(spark)


@contextlib.contextmanager
def _silent_logging() -> Iterator[None]:
    """What py4j logs of a call that was interrupted, or of a JVM that is gone, is said in our one line."""
    root, nowhere = logging.getLogger(), logging.NullHandler()
    root.addHandler(nowhere)
    try:
        yield
    finally:
        root.removeHandler(nowhere)


def _reason(error: Exception, said: Said | None, spark: SparkSession | None) -> str:
    """One line, and those of the JVM where it ended by itself, or those of a worker where our code is to blame."""
    clear_progress()
    if reasons.NOT_STARTED in str(error) and said is not None:
        return reasons.why_not_started(said.lines())
    if _is_jvm_gone(error, spark):
        for line in said.lines() if said is not None else ():
            click.echo(f"  {line}", err=True)
        return "Spark's JVM is gone"
    if reasons.is_defect(error):
        click.echo(str(error), err=True)
    return reasons.reason_of(error)


def _is_jvm_gone(error: Exception, spark: SparkSession | None) -> bool:
    """Known by the error, or, where py4j only knows that a call failed, by the process itself."""
    if type(error).__name__ in reasons.GONE:
        return True
    process = None if spark is None else jvm_of(spark)
    if type(error).__name__ != reasons.NO_ANSWER or process is None:
        return False
    try:
        process.wait(JVM_END_S_MAX)
    except subprocess.TimeoutExpired:
        return False
    return True


def _stop(spark: SparkSession) -> None:
    """A second Ctrl-C while it ends would only leave things lying about."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # the JVM may be gone, or a call that was interrupted may have cost the connection: PySpark warns of it
        with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            spark.stop()
    finally:
        signal.signal(signal.SIGINT, before)


def _about(source: Source, request: Request, begun: float) -> list[tuple[str, str]]:
    given = {**{name: value for name, value in request.given.items() if value not in (None, (), False)}, **source.options}
    return [
        ("stores", ", ".join(source.paths)),
        *((name, ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)) for name, value in given.items()),
        ("begun", text_of(round(begun * 1000), request.zone)),
        ("took", span_text(round((time.time() - begun) * 1000))),
    ]


def _write_page(outcome: Outcome, target: str, about: Sequence[tuple[str, str]]) -> None:
    from rmq_spark.report_html import page

    try:
        Path(target).write_text(page(outcome, about), encoding="utf-8", errors="backslashreplace")
    except OSError as reason:
        raise Complaint(f"{target}: {reason.strerror}") from reason
    click.echo(f"rmq: written to {target}", err=True)
