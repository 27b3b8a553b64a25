"""What a job is given for what was written: types, lists, names; without Spark.  And the names of all parameters."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from rmq_cli import spark_run
from rmq_cli.spark_job import COMMON, command_of, option_of
from rmq_columns import BadOption
from rmq_columns.read.options import NAMES, parse_options
from rmq_columns.times_and_sizes import zone_of
from rmq_spark.arguments import Parameter, arguments_of
from rmq_spark.jobs import JOBS, Source
from rmq_spark.reasons import reason_of
from rmq_spark.session import silent
from rmq_spark.zone import session_zone
from tests.support.spark_words import needed

PARAMETERS = (
    Parameter("max_lag", int, "So many.", least=0),
    Parameter("share", float, "So much.", "0.5"),
    Parameter("wait", "duration", "So long.", "3s"),
    Parameter("buffer", "size", "So large.", "64MiB"),
    Parameter("now", "time", "Then."),
    Parameter("ledger", "path", "Where.", is_many=True),
    Parameter("ignore", str, "What.", metavar="NAME", is_many=True),
    Parameter("by", "names", "Which.", "topic,date"),
    Parameter("sort", str, "How.", "physicalOffset", choices=("physicalOffset", "queue")),
    Parameter("strict", bool, "Whether."),
)
DEFAULTS = {
    "max_lag": None,
    "share": 0.5,
    "wait": 3000,
    "buffer": 64 << 20,
    "now": None,
    "ledger": (),
    "ignore": (),
    "by": ("topic", "date"),
    "sort": "physicalOffset",
    "strict": False,
}


def given(**options: Any) -> dict[str, Any]:
    """What is other than by default."""
    values, rest = arguments_of(PARAMETERS, options)
    assert not rest
    assert values.keys() == DEFAULTS.keys()
    return {name: value for name, value in values.items() if value != DEFAULTS[name]}


def test_defaults() -> None:
    assert given() == {}
    assert given(max_lag=None, wait=None, ledger=None, strict=None, ignore=()) == {}


@pytest.mark.parametrize(
    ("name", "value", "made"),
    [
        ("max_lag", "7", 7),
        ("max_lag", 7.0, 7),
        ("share", "2", 2.0),
        ("wait", "1.5m", 90_000),
        ("wait", 250, 250),
        ("wait", timedelta(hours=1), 3_600_000),
        ("buffer", "1GB", 1 << 30),
        ("buffer", "1g", 1 << 30),
        ("buffer", 4096, 4096),
        ("now", datetime(2026, 1, 31, tzinfo=UTC), 1_769_817_600_000),
        ("now", "2026-01-31T00:00:00Z", 1_769_817_600_000),
        ("ledger", Path("/a"), ("/a",)),
        ("ledger", "file:///a%20b", ("/a b",)),
        ("ledger", ["/a", "s3://b/c"], ("/a", "s3://b/c")),
        ("by", "queueId", ("queueId",)),
        ("by", ["topic", "queueId"], ("topic", "queueId")),
        ("sort", "QUEUE", "queue"),
        ("strict", True, True),
        ("strict", "true", True),
    ],
)
def test_values(name: str, value: Any, made: Any) -> None:
    assert given(**{name: value}) == {name: made}
    assert given(**given(**{name: value})) == {name: made}, "what was read once may be read again"


@pytest.mark.parametrize("value", [datetime(2026, 1, 31, 12), "2026-01-31 12:00", "2026-01-31T12:00"])
def test_a_time_without_zone_is_of_the_session(value: Any) -> None:
    zone = zone_of("Asia/Shanghai")
    values, rest = arguments_of(PARAMETERS, {"now": value, "startingTimestamp": value}, zone)
    assert (values["now"], rest) == (1_769_832_000_000, {"startingTimestamp": "1769832000000"})
    with_zone = {"startingTimestamp": "2026-01-31T12:00:00Z", "endingTimestamp": 1_769_832_000_000}
    assert arguments_of(PARAMETERS, with_zone, zone)[1] == {name: str(given) for name, given in with_zone.items()}


def test_the_zone_of_a_session_that_will_be_made() -> None:
    assert session_zone({"spark.sql.session.timeZone": "Asia/Shanghai"}) == zone_of("Asia/Shanghai")
    code = "from rmq_spark.zone import *; assert str(session_zone()) == 'UTC'; session_zone({SESSION_ZONE: 'Mars'})"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stderr.splitlines()[-1].endswith(
        "BadOption: spark.sql.session.timeZone: 'Mars' is no time zone: give Europe/Berlin, UTC or +08:00"
    )


def test_a_text_is_one_element_and_not_its_letters() -> None:
    assert given(ignore="CLUSTER") == {"ignore": ("CLUSTER",)}
    assert given(ignore=["CLUSTER", "WAIT"]) == {"ignore": ("CLUSTER", "WAIT")}
    assert given(ledger="sent") == {"ledger": (str(Path.cwd() / "sent"),)}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_lag": "x"}, "max_lag: 'x' is no whole number"),
        ({"max_lag": 1.5}, "max_lag: '1.5' is no whole number"),
        ({"max_lag": True}, "max_lag: 'True' is no whole number"),
        ({"max_lag": -1}, "max_lag: -1 is below 0"),
        ({"share": "nan"}, "share: 'nan' is no number"),
        ({"wait": "90"}, "wait: '90' is no duration"),
        ({"buffer": "much"}, "buffer: 'much' is no size"),
        ({"now": "then"}, "now: 'then' is no time"),
        ({"by": ","}, "by: names no one"),
        ({"sort": "time"}, "sort: 'time' is none of physicalOffset, queue"),
        ({"strict": "maybe"}, "strict: 'maybe' is none of"),
        ({"ledger": "file://elsewhere/a"}, "ledger: .*another machine"),
        ({"max_lga": 1}, r"no option max_lga; did you mean max_lag\?"),
        ({"max-lag": 1}, r"did you mean max_lag\?"),
        ({"topic": "a"}, r"no option topic; did you mean topics\?"),
        ({"zzz": 1}, "no option zzz; there are max_lag, share, "),
        ({"table": "index"}, "no option table"),
        ({"mode": "FAILFAST", "MODE": "PERMISSIVE"}, "mode: given twice"),
    ],
)
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOption, match=said) as refused:
        given(**options)
    assert reason_of(refused.value) == str(refused.value)
    listed = str(refused.value).partition("there are ")[2].split(", ")
    assert len(listed) == len(set(listed))


def test_what_has_to_be_given() -> None:
    needed = (Parameter("to", "path", "Where to write.", is_required=True),)
    with pytest.raises(BadOption, match="to: is missing; where to write"):
        arguments_of(needed, {})
    assert arguments_of(needed, {"to": "/a"}) == ({"to": "/a"}, {})
    with pytest.raises(BadOption, match="to: empty"):  # as of a variable that is not set
        arguments_of(needed, {"to": ""})


def test_the_rest_is_the_format_s_as_texts() -> None:
    asked = {
        "topics": ["a,b", "c"],
        "SPLITBYTES": 1000,
        "includeSystemTopics": True,
        "mode": None,
        "queueIds": {2, 1},
        "storePathCommitLog": [Path("/a"), Path("/b")],
        "startingTimestamp": datetime(2026, 1, 31, tzinfo=UTC),
    }
    _, rest = arguments_of(PARAMETERS, asked)
    assert rest == {
        "topics": '["a,b", "c"]',
        "splitBytes": "1000",
        "includeSystemTopics": "True",
        "queueIds": '["1", "2"]',
        "storePathCommitLog": '["/a", "/b"]',
        "startingTimestamp": "2026-01-31T00:00:00+00:00",
    }
    options = parse_options({**rest, "path": "x"})
    assert (options.topics, options.queue_ids) == (frozenset(("a,b", "c")), frozenset((1, 2)))
    assert options.split_bytes == 1000
    assert (options.include_system_topics, options.starting_ms) == (True, 1_769_817_600_000)


# The parameters that there are

EVERY = [(job, one) for job in JOBS for one in JOBS[job].parameters]


def test_a_parameter_is_declared_well() -> None:
    """Of its name an option of the command is made; its default is one that it takes."""
    for job, one in [*EVERY, *(("every job", one) for one in COMMON)]:
        assert re.fullmatch("[a-z]+(_[a-z]+)*", one.name), (job, one)
        assert one.default is None or isinstance(one.default, str | int), (job, one)
        assert arguments_of([one], {one.name: one.default or "1"} if one.is_required else {})[0].keys() == {one.name}, (job, one)


def test_a_name_means_one_thing() -> None:
    """In every job; and none is that of an option which every job has, or of another one of the format."""
    meant: dict[str, set[tuple[Any, ...]]] = {}
    for _, one in EVERY:
        meant.setdefault(one.name, set()).add((one.kind, one.is_many, one.choices, one.metavar))
    assert all(len(kinds) == 1 for kinds in meant.values())
    assert not meant.keys() & {one.name for one in COMMON}
    assert meant.keys() & NAMES.keys() == {"columns"}, "which export hands on"


@pytest.mark.parametrize("job", JOBS)
def test_the_help_of_a_job(job: str) -> None:
    """All parameters with their defaults, examples that the job takes, and nothing wider than a terminal."""
    command, declared = command_of(job), JOBS[job]
    with command.make_context(job, ["somewhere", *needed(declared)]) as context:
        context.terminal_width = context.max_content_width = 80
        shown = command.get_help(context)
    assert max(map(len, shown.splitlines())) <= 80
    words = " ".join(shown.split())
    for one in declared.parameters:
        assert option_of(one.name) in words
        if one.default is not None:
            assert f"[default: {one.default}]" in words
    for line in declared.examples:
        assert f"rmq spark {job} {line}" in shown
    assert f"1 {declared.found};" in words


@pytest.mark.parametrize("job", JOBS)
def test_what_a_job_leaves_out_it_refuses_as_an_option_of_the_format_too(job: str, tmp_path: Path) -> None:
    """An option that changes nothing would be believed."""
    pytest.importorskip("pyspark", reason="needs PySpark: the extra [spark]")
    declared = JOBS[job]
    names = {one.name for one in command_of(job).params}
    assert names & {one.name for one in COMMON} == {one.name for one in COMMON} - set(declared.left_out)
    (tmp_path / "commitlog").mkdir()
    must = {one.name: str(tmp_path / "x") for one in declared.parameters if one.is_required}
    given, _ = declared.arguments(must)
    for name in declared.left_out:
        with pytest.raises(BadOption, match=r"[Tt]imestamp|topics"):
            declared.run(MagicMock(), Source((str(tmp_path),), {spark_run.NAMES[name]: "1"}), given, silent)


@pytest.mark.parametrize("job", JOBS)
def test_the_function_of_a_job_takes_the_same_and_complains_before_it_reads(job: str) -> None:
    with pytest.raises(BadOption, match=r"no option max_lgg; (did you mean|there are)"):
        JOBS[job].function(MagicMock(), "/nowhere", max_lgg=1)
