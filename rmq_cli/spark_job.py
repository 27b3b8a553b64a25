"""The subcommand of one job: options that every job has, and those that its module declares.

A parameter of the job's own with the name of a common option takes its place.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, Final

import click

from rmq_spark.jobs import JOBS, Parameter, module_of
from rmq_spark.needs import need

PLACES: Final = "paths_of_stores"
"""The argument's name, which no parameter has."""


class Time(click.ParamType[int]):
    """ms since 1970 of a time as `rmq inspect` takes them."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from rmq_inspect.times import parse

        return value if isinstance(value, int) else parse(value, time.time_ns() // 1_000_000)


class Place(click.ParamType[str]):
    """A path, made absolute: tasks have another working directory; or a URI."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        return text if "://" in text else os.path.abspath(text)


COMMON: Final = (
    click.Option(["--master"], metavar="URL", help="Of Spark: local[2], spark://HOST:7077; else all cores of this machine."),
    click.Option(["--conf"], multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be given several times."),
    click.Option(["--topic"], multiple=True, metavar="NAME", help="Only this topic; may be given several times."),
    click.Option(["--from"], type=Time(), metavar="TIME", help="Stored at or after: now, -90m, '2026-01-31 12:00', ms."),
    click.Option(["--to"], type=Time(), metavar="TIME", help="Stored before."),
    click.Option(
        ["--option"], multiple=True, metavar="NAME=VALUE",
        help="Of the format rocketmq_store (docs/columns.md): mode, brokerName, includeSystemTopics ...; may be repeated.",
    ),
    click.Option(["--json"], is_flag=True, help="The outcome as one JSON object instead of the summary."),
    click.Option(["--html"], type=Place(), metavar="FILE", help="Also write a page with plots (no network)."),
    click.Option(["--out"], type=Place(), metavar="DIR", help="Also write what was found: a directory in it for each table."),
    click.Option(["--format"], type=click.Choice(["parquet", "json"]), default="parquet", show_default=True, help="Of --out."),
    click.Option(["--overwrite"], is_flag=True, help="--out may replace what is there."),
)  # fmt: skip


def command_of(job: str) -> click.Command:
    """Raises `MissingPackage` where the job's module cannot even be loaded without what the extra brings."""
    try:
        module = module_of(job)
    except ModuleNotFoundError:
        need()
        raise
    own = {one.name: one for one in module.PARAMETERS}
    taken = {_option_name(name) for name in own}
    options = [_option(one) for one in own.values()] + [one for one in COMMON if one.opts[0] not in taken]
    places = click.Argument([PLACES], nargs=-1, required=True, type=Place(), metavar="PATHS...")

    def run(**words: Any) -> None:
        from rmq_cli.spark_run import Request, run_job

        given = {name: words.pop(_identifier(name)) for name in own}
        common = {one.name: words.pop(one.name, () if one.multiple else None) for one in COMMON if one.name is not None}
        raise SystemExit(run_job(job, module, Request(words.pop(PLACES), given, common)))

    return click.Command(job, params=[places, *options], callback=run, help=_help(job), short_help=JOBS[job])


def _option_name(name: str) -> str:
    return "--" + name.replace("_", "-")


def _identifier(name: str) -> str:
    return name.replace("-", "_")


def _option(one: Parameter) -> click.Option:
    names = [_option_name(one.name), _identifier(one.name)]
    words: dict[str, Any] = {"help": one.help, "required": one.is_required, "metavar": one.metavar}
    if one.kind is bool:
        return click.Option(names, is_flag=True, default=bool(one.default), help=one.help)
    kinds: Mapping[Any, Any] = {"path": Place(), "time": Time()}
    words["type"] = click.Choice(one.choices) if one.choices else kinds.get(one.kind, one.kind)
    if one.is_many:
        words["multiple"] = True
    if one.default is not None:
        words |= {"default": one.default, "show_default": True}
    return click.Option(names, **words)


def _help(job: str) -> str:
    return f"{JOBS[job]}\n\nExit status: 0 clean, 1 something was found, 2 could not look.  More: docs/spark-jobs.md, {job}."
