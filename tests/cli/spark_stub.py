"""`rmq spark skew` without PySpark: a job in its place that notes what it was asked and gives what it was asked to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from rmq_cli import spark_run
from rmq_cli.spark import command
from rmq_columns.files.counted import Asked
from rmq_spark import jobs
from rmq_spark.arguments import Parameter
from rmq_spark.outcome import Outcome


class Seen(NamedTuple):
    status: int
    out: str
    err: str


class Job:
    """Stands for the job `skew`, which is asked without any Spark."""

    parameters: tuple[Parameter, ...] = (
        Parameter("max_ratio", float, "Hottest queue by the mean one.", "4.0", least=1),
        Parameter("names", str, "Some.", metavar="NAME", is_many=True),
        Parameter("kind", str, "Which.", choices=("queue", "key")),
        Parameter("now", "time", "That moment."),
        Parameter("wait", "duration", "So long.", "3s"),
        Parameter("strict", bool, "A flag."),
        Parameter("ledger", "path", "A file."),
        Parameter("columns", "names", "Some."),
    )

    def __init__(self) -> None:
        self.outcome = Outcome("skew", "clean", True)
        self.asked: dict[str, Any] = {}
        self.error: BaseException | None = None

    def declared(self, name: str) -> jobs.Job:
        """In the place of the job."""
        return jobs.Job(name, "A line.", self.parameters, ("/data/store --strict",), "a queue is hot", self.run, self.run)

    def run(self, _spark: Any, source: jobs.Source, given: dict[str, Any], _progress: Any) -> Outcome:
        self.asked = {"paths": source.paths, "options": source.options, "given": given}
        if self.error is not None:
            raise self.error
        return self.outcome


def stand_in(monkeypatch: pytest.MonkeyPatch) -> Job:
    """For the time of a test."""
    job = Job()

    @contextlib.contextmanager
    def session(*_: object) -> Iterator[None]:
        yield None

    monkeypatch.setattr(jobs.Jobs, "__getitem__", lambda _jobs, name: job.declared(name))
    monkeypatch.setattr(spark_run, "session", session)
    monkeypatch.setattr(spark_run, "asked", lambda _spark: contextlib.nullcontext(Asked()))
    monkeypatch.setattr(spark_run, "topics_of_logs", lambda _spark, _source, _paths, asked: frozenset(asked))
    monkeypatch.setattr(spark_run, "need", lambda: None)
    monkeypatch.setattr(spark_run, "check_java", lambda: None)
    return job


def look(*arguments: object) -> Seen:
    """`rmq spark …` within this process; what it does not turn into a line is raised."""
    done = CliRunner().invoke(command, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert "Traceback" not in done.stderr
    return Seen(done.exit_code, done.stdout, done.stderr)
