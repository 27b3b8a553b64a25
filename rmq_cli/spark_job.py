"""The subcommand of one job: options that every job has, and one for each parameter that its module declares."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import Any, Final

import click

from rmq_spark.arguments import Parameter, arguments_of, value_of
from rmq_spark.jobs import JOBS, Job
from rmq_spark.needs import need
from rmq_spark.zone import session_zone

PLACES: Final = "paths_of_stores"
"""The argument's name, which no parameter has."""
PATHS: Final = "PATHS"
"""The same, as it is shown."""


class Taken(click.ParamType[Any]):
    """A value as the job's function takes it, too: complaints are one line, that names the option."""

    def __init__(self, one: Parameter) -> None:
        self.one, self.name = one, one.shown()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name = PATHS if isinstance(param, click.Argument) else option_of(self.one.name)
        [made] = value_of(replace(self.one, is_many=True), value, name, UTC)
        return value if self.one.kind == "time" else made  # whose zone is known when all words are


class Own(click.Option):
    """Of one job only."""


class JobCommand(click.Command):
    """Shows what is its own before what every job has."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = {True: list[tuple[str, str]](), False: list[tuple[str, str]]()}
        for one in self.get_params(ctx):
            if isinstance(one, click.Option) and (line := one.get_help_record(ctx)) is not None:
                lines[isinstance(one, Own)].append(line)
        for is_own, title in ((True, f"Options of {self.name}"), (False, "Options of every job")):
            if lines[is_own]:
                with formatter.section(title):
                    formatter.write_dl(lines[is_own])


def option_of(name: str) -> str:
    """`--max-lag` of `max_lag`."""
    return "--" + name.replace("_", "-")


def option(one: Parameter, made: type[click.Option] = click.Option) -> click.Option:
    """Of a parameter."""
    names = [option_of(one.name), one.name]
    if one.kind is bool:
        return made(names, is_flag=True, default=bool(one.default), help=one.help)
    words: dict[str, Any] = {"help": one.help, "required": one.is_required, "multiple": one.is_many, "metavar": one.shown()}
    if one.default is not None:
        words |= {"default": one.default, "show_default": True}
    return made(names, type=Taken(one), **words)


COMMON: Final = (
    Parameter("topic", str, "Only this topic.  May be repeated.", metavar="NAME", is_many=True),
    Parameter("since", "time", "Stored at or after: now, -90m, '2026-01-31 12:00', or milliseconds."),
    Parameter("until", "time", "Stored at or before."),
    Parameter(
        "option",
        str,
        "Of the format rocketmq_store (docs/columns.md): mode, brokerName, splitBytes ...  May be repeated.",
        metavar="NAME=VALUE",
        is_many=True,
    ),
    Parameter("json", bool, "The outcome as one JSON object instead of the summary."),
    Parameter("html", "path", "Also write a page with plots (no network).", metavar="FILE"),
    Parameter("out", "path", "Also write all that was found: a directory in DIR for each table.", metavar="DIR"),
    Parameter("format", str, "Of --out.", "parquet", choices=("parquet", "json")),
    Parameter("overwrite", bool, "--out may replace what is there."),
    Parameter("master", str, "Of Spark: local[2], spark://HOST:7077.  All cores of this machine by default.", metavar="URL"),
    Parameter("conf", str, "A setting of Spark.  May be repeated.", metavar="KEY=VALUE", is_many=True),
)
"""What every job has; no job's own parameter has such a name."""


def command_of(name: str) -> click.Command:
    """Raises `MissingPackage` where the job's module cannot even be loaded without what the extra brings."""
    try:
        job = JOBS[name]
    except ModuleNotFoundError:
        need()
        raise
    stores = Parameter("stores", "path", "")
    places = click.Argument([PLACES], nargs=-1, required=True, type=Taken(stores), metavar=f"{PATHS}...")

    def run(**words: Any) -> None:
        from rmq_cli.spark_run import Request, run_job, settings_of

        paths = words.pop(PLACES)
        zone = session_zone(settings_of(words["conf"]))
        given, _ = job.arguments({one.name: words[one.name] for one in job.parameters}, zone)
        common, _ = arguments_of(COMMON, {one.name: words.get(one.name) for one in COMMON}, zone)
        raise SystemExit(run_job(job, Request(paths, given, common, zone)))

    everywhere = [one for one in COMMON if one.name not in job.left_out]
    options = [*(option(one, Own) for one in job.parameters), *map(option, everywhere)]
    return JobCommand(name, params=[places, *options], callback=run, help=_help(job), short_help=job.line)


def _help(job: Job) -> str:
    examples = "".join(f"rmq spark {job.name} {one}\n" for one in job.examples)
    return (
        f"{job.line}\n\n\b\n{examples}\nPATHS are stores, directories of several brokers, commit logs or URIs (s3://bucket/store).\n\n"
        f"Exit status: 0 clean; 1 {job.found}; 2 could not look.  More: docs/spark-jobs.md."
    )
