"""Writes every page and table of the repository that is made from something else: `make pages`.

What it makes depends on the working tree alone, so `git diff --exit-code` afterwards says whether everything was current.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker_impl import config_keys, refused
from broker_impl.namesrv import config as namesrv_config
from conformance.captures.kinds import THE_SAME, UNDERSTOOD
from conformance.controls import defects, run
from conformance.controls import table as controls
from conformance.suite import results
from conformance.suite.case import load as cases
from conformance.suite.report import specification
from conformance.suite.report.markdown import escaped, table, with_table
from conformance.torture import report as torture
from rmq_cli.spark_job import option_of
from rmq_columns.checks import kinds
from rmq_spark.arguments import Parameter
from rmq_spark.jobs import JOBS
from tests.support import client_reference, effective_properties, face_methods, ledger, mqadmin, spark_traffic

ROOT: Final = Path(__file__).parents[1]
REPORTS: Final = ROOT / "conformance" / "reports"


def _controls(_: str) -> str:
    runs = [run.read(REPORTS / f"controls-{label}.json") for label in ("java-5.5.0", "ours")]
    return controls.document(list(defects.load().values()), runs)


def _torture(_: str) -> str:
    files = [REPORTS / f"torture-java-{version}.json" for version in ("5.5.0", "4.9.8")]
    return torture.document([verdict for file in files for verdict in torture.decode(file.read_bytes())])


def _captures(page: str) -> str:
    rows = ((row.kind, THE_SAME[row.kind], f"{', '.join(f'`{name}`' for name in row.names)}: {row.where}") for row in UNDERSTOOD)
    return with_table(page, table(("kind", "the same means", "where"), rows))


def _value(one: Parameter) -> str:
    return "" if one.kind is bool else f" {'|'.join(one.choices) or one.shown()}"


def _meaning(one: Parameter) -> str:
    default = f" `{one.default}` by default." if one.default is not None else ""
    return f"{'Needed.  ' if one.is_required else ''}{one.help}{default}"


def _spark_jobs(page: str) -> str:
    for job in JOBS.values():
        rows = [(f"`{option_of(one.name)}{_value(one)}`", escaped(_meaning(one))) for one in job.parameters]
        page = with_table(page, table((f"option of {job.name}", ""), [*rows, ("exit status 1", escaped(job.found))]))
    return with_table(page, table(spark_traffic.HEADS, spark_traffic.rows()))


PAGES: Final[dict[str, Callable[[str], str]]] = {
    "broker_impl/effective_properties.py": lambda _: effective_properties.source("broker", config_keys.keys().values()),
    "broker_impl/namesrv/effective_properties.py": lambda _: effective_properties.source(
        "name server", namesrv_config.keys().values()
    ),
    "conformance/suite/schema.json": lambda _: results.schema(),
    "docs/captures.md": _captures,
    "docs/client-reference.md": lambda _: client_reference.text(),
    "docs/conformance.md": lambda _: specification.document(cases()),
    "docs/controls.md": _controls,
    "docs/mqadmin.md": lambda page: with_table(page, table(("command", "our broker"), mqadmin.rows(refused.BROKER))),
    "docs/semantics.md": lambda _: ledger.text(),
    "docs/spark-jobs.md": _spark_jobs,
    "docs/torture.md": _torture,
    "docs/verify.md": lambda page: with_table(page, kinds.as_markdown().rstrip("\n")),
    "rmq_client/faces/aio_methods.py": lambda _: face_methods.source(face_methods.AIO),
    "rmq_client/faces/blocking_methods.py": lambda _: face_methods.source(face_methods.BLOCKING),
}
"""File -> what stands in it now, from what stood in it."""


def main() -> None:
    """Write them; says which were not current."""
    for name, made in PAGES.items():
        file = ROOT / name
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        after = made(before)
        if after != before:
            file.write_text(after, encoding="utf-8")
            print(f"{name}: made anew")


if __name__ == "__main__":
    main()
