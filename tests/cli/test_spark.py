"""`rmq spark` without PySpark: what is printed and written of an outcome, options, exit statuses, complaints."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from rmq_cli import spark_run
from rmq_cli.main import SUBCOMMANDS
from rmq_cli.spark import command
from rmq_columns.errors import BadOption, Malformed
from rmq_columns.read.options import NAMES
from rmq_spark import needs
from rmq_spark.arguments import OURS
from rmq_spark.outcome import Column, Figure, Outcome, Plot, Table, Unit
from tests.cli.spark_stub import Job, look, stand_in

Run = Callable[..., Outcome]


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    return stand_in(monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    return tmp_path / "store"


FULL = Outcome(
    "skew",
    "2 queues are hot",
    False,
    [
        Figure("messages", "messages", 12345),
        Figure("bodyBytes", "of bodies", 3 << 20, Unit.BYTES),
        Figure("giniIndex", "Gini", 0.25, Unit.RATIO),
        Figure("first", "first stored", None, Unit.TIME),
    ],
    [
        Table(
            "queues",
            "Hot queues",
            (Column("topic"), Column("queueId", Unit.COUNT), Column("lag", Unit.MS)),
            [("<b>&Orders\x1b[31m", 3, 1500), ("Payments", 12345, -20)],
            40,
            is_finding=True,
        )
    ],
    [
        Plot("Hot", bars=[("a<i>", 3.0), ("b", 1.0)]),
        Plot("Over time", series={"p50": [(0, 1), (1, 2)], "p<99>": [(0, 5), (1, 9)]}),
    ],
    ["a note of </script>"],
)


# What is printed


def test_the_summary_and_its_status(job: Job, store: Path) -> None:
    job.outcome = FULL
    seen = look("skew", store)
    assert (seen.status, seen.err) == (1, "")
    lines = seen.out.splitlines()
    assert lines[0] == "skew: 2 queues are hot"
    assert [line.split() for line in lines[2:6]] == [
        ["messages", "12,345"],
        ["of", "bodies", "3.0", "MiB"],
        ["Gini", "0.25"],
        ["first", "stored", "-"],
    ]
    assert len({len(line) for line in lines[2:6]}) == 1, "values end at the same place"
    assert "Hot queues, 2 of 40 shown" in lines
    assert "  <b>&Orders\\x1b[31m        3   1.5 s" in lines
    assert "  Payments             12,345  -20 ms" in lines
    assert lines[-1] == "note: a note of </script>"
    job.outcome = Outcome("skew", "clean", True)
    assert look("skew", store) == (0, "skew: clean\n", "")


@pytest.mark.parametrize("columns", [80, 100, 130])
def test_no_line_is_too_long(columns: int) -> None:
    from rmq_columns.shown import cells
    from rmq_spark.report_text import lines

    texts = (Column("topic"), Column("where"), Column("firstStored", Unit.TIME), Column("bytes", Unit.BYTES))
    rows = [("Orders" * 30, "文" * 90, 1_763_000_000_000, 5), ("a", "b", 1_763_000_000_000, 1 << 40)]
    many = tuple(Column(f"column{number}", Unit.COUNT) for number in range(20))
    outcome = Outcome("skew", "x " * 200, False, [Figure("f", "l" * 90, "v" * 300, Unit.TEXT)], notes=["n" * 300])
    outcome.tables = [Table("a", "t " * 100, texts, [*rows], 2), Table("b", "wide", many, [tuple(range(10**9, 10**9 + 20))], 1)]
    shown = list(lines(outcome, columns))
    assert max(map(cells, shown)) <= columns
    assert any("2025-11-13 " in line and "Orders" in line and "1.0 TiB" not in line for line in shown), "times are whole"
    assert any(line.startswith("- column0 ") for line in shown), "what fits no line is a sheet"


def test_there_are_few_sheets() -> None:
    from rmq_spark.report_text import SHEETS_MAX, lines

    columns = tuple(Column(f"column{number}", Unit.COUNT) for number in range(20))
    outcome = Outcome("skew", "wide", False, tables=[Table("b", "Wide", columns, [(number,) * 20 for number in range(50)], 262)])
    shown = list(lines(outcome, 100))
    assert sum(line.startswith("- column0 ") for line in shown) == SHEETS_MAX
    assert f"Wide, {SHEETS_MAX} of 262 shown" in shown


def test_json(job: Job, store: Path) -> None:
    job.outcome = FULL
    seen = look("skew", store, "--json")
    assert seen.status == 1
    [line] = seen.out.splitlines()
    reported = json.loads(line)
    assert reported["figures"] == {"messages": 12345, "bodyBytes": 3 << 20, "giniIndex": 0.25, "first": None}
    assert reported["tables"]["queues"]["total"] == 40
    assert reported["tables"]["queues"]["rows"][0] == {"topic": "<b>&Orders\x1b[31m", "queueId": 3, "lag": 1500}
    assert (reported["clean"], reported["job"], reported["notes"]) == (False, "skew", ["a note of </script>"])


def test_the_page_is_one_file_without_script(job: Job, store: Path, tmp_path: Path) -> None:
    job.outcome = FULL
    seen = look("skew", store, "--html", tmp_path / "report.html", "--topic", "<u>")
    assert seen.err == f"rmq: written to {tmp_path / 'report.html'}\n"
    page = (tmp_path / "report.html").read_text()
    for text in ("<script", "http:", "https:", "<b>", "<i>", "<u>", "\x1b", "src=", "@import", "url("):
        assert text not in page
    for text in ("2 queues are hot", "&lt;b&gt;&amp;Orders\\x1b[31m", "p&lt;99&gt;", "and 38 more", "scheme:dark", "3.0 MiB"):
        assert text in page
    assert page.count("<svg") == page.count("</svg>") == 2
    assert page.count("<polyline") == 2
    assert "class='verdict dirty'" in page


def test_a_page_of_nothing(job: Job, store: Path, tmp_path: Path) -> None:
    job.outcome = Outcome("skew", "clean", True, plots=[Plot("Empty"), Plot("NaN", series={"a": [(0, float("nan"))]})])
    assert look("skew", store, "--html", tmp_path / "report.html").status == 0
    page = (tmp_path / "report.html").read_text()
    assert "class='verdict clean'" in page
    assert page.count("<p class=soft>none</p>") == 2


# Options


def test_what_a_job_is_given(job: Job, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(store.parent)
    words = ["--max-ratio", "2.5", "--names", "a", "--names", "b", "--kind", "key", "--strict", "--ledger", "sent.jsonl"]
    asked = ["--topic", "T1", "--topic", "T,2", "--since", "1700000000000", "--until", "1700000000999"]
    more = ["--option", "MODE=permissive", "--option", "brokerName=b=c", "--now", "1700000000123", "--wait", "1.5m"]
    assert look("skew", "store", "s3://bucket/store", *words, *asked, *more).status == 0
    assert job.asked["paths"] == (str(store), "s3://bucket/store")
    assert job.asked["options"] == {
        "mode": "permissive",
        "brokerName": "b=c",
        "topics": '["T1", "T,2"]',
        "startingTimestamp": "1700000000000",
        "endingTimestamp": "1700000001000",
    }
    assert job.asked["given"] == {
        "max_ratio": 2.5,
        "names": ("a", "b"),
        "kind": "key",
        "strict": True,
        "ledger": str(store.parent / "sent.jsonl"),
        "now": 1700000000123,
        "wait": 90_000,
        "columns": None,
    }
    look("skew", store)
    assert job.asked["options"] == {}
    assert job.asked["given"] == {
        "max_ratio": 4.0,
        "names": (),
        "kind": None,
        "strict": False,
        "ledger": None,
        "now": None,
        "wait": 3000,
        "columns": None,
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--option", "mood=x"], "no option mood; did you mean mode?"),
        (["--option", "table=index"], "no option table; "),
        (["--option", "mode"], "--option mode: give NAME=VALUE"),
        (["--option", "mode=x"], "mode: 'x': not one of FAILFAST, PERMISSIVE, DROPMALFORMED"),
        (["--option", "splitBytes=0"], "splitBytes: '0': below 1"),
        (["--option", "mode=FAILFAST", "--option", "MODE=PERMISSIVE"], "mode: given twice"),
        (["--topic", "a", "--option", "topics=b"], "--topic and --option topics say the same thing: leave one of them out"),
        (["--conf", "spark.x"], "--conf spark.x: give NAME=VALUE"),
        (["--since", "then"], "--since: 'then' is no time: give now, -90m, "),
        (["--wait", "90"], "--wait: '90' is no duration: give 500ms, 90s, "),
        (["--max-ratio", "hot"], "--max-ratio: 'hot' is no number"),
        (["--max-ratio", "0.5"], "--max-ratio: 0.5 is below 1"),
        (["--kind", "queues"], "--kind: 'queues' is none of queue, key"),
        (["--option", "columns=topic"], "--option columns: say --columns"),
        (["--option", "broker_name=x"], "no option broker_name; did you mean brokerName?"),
        (["nowhere"], "nowhere: no such file or directory"),
        ([""], "PATHS: empty"),
        (["--html", "{store}/x.html"], "x.html: lies in a store, into which nothing is written"),
        (["--out", "{store}/commitlog"], "commitlog: lies in a store, into which nothing is written"),
        (["--out", "{store}/.."], ": is not empty; name another, or say --overwrite"),
        (["--html", "{store}/../no/x.html"], "x.html: no directory "),
    ],
)
def test_bad_options_are_a_line(job: Job, store: Path, words: list[str], said: str) -> None:
    seen = look("skew", store, *(word.format(store=store) for word in words))
    assert (seen.status, seen.out) == (2, "")
    [line] = seen.err.splitlines()
    assert line.startswith("rmq: ")
    assert said in line
    assert not job.asked, "nothing was started"


def test_every_option_of_the_format_is_known_or_ours() -> None:
    assert set(NAMES) > OURS
    assert set(spark_run.NAMES.values()) < set(NAMES)


# What goes wrong


def test_errors_of_a_store_are_a_line(job: Job, store: Path) -> None:
    for error, said in (
        (Malformed("/s/commitlog/0", 17, "no message"), "rmq: /s/commitlog/0, byte 17: no message"),
        (BadOption("ledger: no column topic"), "rmq: ledger: no column topic"),
        (needs.MissingPackage("needs numpy"), "rmq: needs numpy"),
    ):
        job.error = error
        assert look("skew", store) == (2, "", said + "\n")


def test_what_is_no_answer_is_never_status_1(job: Job, store: Path) -> None:
    job.error = PermissionError(13, "Permission denied", "/s/commitlog")
    assert look("skew", store) == (2, "", "rmq: Permission denied: /s/commitlog\n")
    job.error = KeyError("planted")
    done = CliRunner().invoke(command, ["skew", str(store)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "KeyError: 'planted'" in done.stderr
    assert done.stderr.endswith("rmq: this is a defect of rmq; the lines above say where\n")


def test_interrupted(job: Job, store: Path) -> None:
    job.error = KeyboardInterrupt()
    assert look("skew", store) == (130, "", "rmq: interrupted\n")


# Without PySpark


def test_rmq_names_it() -> None:
    assert "spark" in SUBCOMMANDS
    assert list(SUBCOMMANDS).index("spark") < list(SUBCOMMANDS).index("version")


def test_sigint_is_python_s_own_after_a_run(job: Job, store: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    look("skew", store)
    assert signal.getsignal(signal.SIGINT) is before
