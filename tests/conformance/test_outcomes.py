"""Outcomes as they are written, read, merged and expected; evidence decoded."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.suite import expected, results
from conformance.suite.case import Level, load
from conformance.suite.evidence import decoded_frame, decoded_frames
from conformance.suite.expected import BadExpectations, Expectation, anchors, broken_links, label_for, unused
from conformance.suite.link import Frame
from conformance.suite.results import BadResults, CaseResult, CheckResult, FrameRecord
from rmq_wire.command import Command
from rmq_wire.encoding import Form, encode_request
from rmq_wire.headers.topics import DeleteTopic
from tests.conformance.runs import a_run, case
from tests.support.fake_remoting import answer


def test_what_is_written_is_read(tmp_path: Path) -> None:
    one = case("a.b", "failed", why="no", checks=[CheckResult("x", False, "1", "2")], frames=[FrameRecord(0, True, 0.1, 5)])
    runs = [a_run(one, case("a.c")), a_run(label="java-5.5.0")]
    results.write(tmp_path / "deep" / "r.json", runs)
    assert results.read(tmp_path / "deep" / "r.json").runs == runs
    lines = (tmp_path / "deep" / "r.json").read_text().splitlines()
    assert sum('"id":"a.' in line for line in lines) == 2, "a line a case"


@pytest.mark.parametrize(
    ("text", "why"),
    [("{}", "missing required"), ("nonsense", "not an outcome"), ('{"format":9,"suite_version":"","runs":[]}', "format 9")],
)
def test_what_is_no_outcome_is_refused_in_a_line(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(BadResults, match=why) as refused:
        results.read(tmp_path / "r.json")
    assert "\n" not in str(refused.value)
    with pytest.raises(BadResults, match="No such file"):
        results.read(tmp_path / "none.json")


def test_the_latest_run_of_a_label_counts() -> None:
    first, java, second = a_run(case("a.b")), a_run(label="java-5.5.0"), a_run(started="2026-01-02T00:00:00Z")
    merged = results.merge([results.Matrix(1, "", [second, java]), results.Matrix(1, "", [first])])
    assert merged == [second, java]
    assert results.rows([first, java]) == {"a.b": {"ours": first.cases[0]}}


# Evidence


def test_a_brief_run_keeps_what_surprised() -> None:
    seen = {"checks": [CheckResult("x", True), CheckResult("y", False, "1", "2")], "frames": [FrameRecord(0, True, 0.1, 5)]}
    run = a_run(case("a.fine", **seen), case("a.bad", "failed", **seen), case("a.known", "failed", expected="failed", **seen))
    run.target.config = {"listenPort": "1", "storePathRootDir": "/somewhere/store"}
    run.target.details["command broker"] = "/usr/bin/java -cp"
    kept = results.brief(run)
    assert [(len(case.checks), len(case.frames)) for case in kept.cases] == [(1, 0), (2, 1), (1, 0)]
    assert (kept.target.config, kept.target.details) == ({"listenPort": "1"}, {"commit": "abc"})
    assert len(run.cases[0].frames) == 1, "the run itself is left as it was"


@pytest.mark.parametrize("form", list(Form))
def test_a_request_is_shown_with_its_names_and_fields(form: Form) -> None:
    data = encode_request(DeleteTopic.code, DeleteTopic(topic="T"), b"body", opaque=9, form=form)
    frame = decoded_frame(Frame(0, True, 0.5, len(data), data))
    assert (frame.kind, frame.code, frame.code_name, frame.opaque) == ("request", 215, "DELETE_TOPIC_IN_BROKER", 9)
    assert (frame.form, frame.fields, frame.body, frame.body_bytes) == (form.name, {"topic": "T"}, "body", 4)


def test_an_answer_and_a_binary_body() -> None:
    data = answer(Command(opaque=9), 17, remark="no such topic", body=b"\x00\xff" * 3)
    frame = decoded_frame(Frame(1, False, 0.5, len(data), data))
    assert (frame.kind, frame.code_name, frame.remark) == ("response", "TOPIC_NOT_EXIST", "no such topic")
    assert (frame.body, frame.body_hex) == ("00ff00ff00ff", True)


def test_a_frame_that_was_kept_in_part_is_read_so_far() -> None:
    data = encode_request(310, None, ("é" * 4_000).encode(), opaque=1)
    frame = decoded_frame(Frame(0, True, 0.0, len(data), data[:600]))
    assert (frame.code, frame.body_bytes, frame.body_hex) == (310, 8_000, False)
    assert set(frame.body) == {"é"}


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\0\4", b"hello", b"\0\0\0\x09\0\0\0\x05{]}!!", b"\xff" * 40, b"\0\0\0\x0c\x07\0\0\x01{}{}{}"]
)
def test_what_is_no_frame_is_shown_as_bytes(data: bytes) -> None:
    frame = decoded_frame(Frame(0, True, 0.0, len(data), data))
    assert (frame.kind, frame.code, frame.body_bytes) == ("bytes", None, len(data))


def test_an_end_and_many_frames() -> None:
    assert decoded_frame(Frame(2, False, 1.0, 0, b"", "the server closed the connection")).kind == "end"
    frames = [Frame(0, True, float(at), 1, b"x") for at in range(100)]
    shown = decoded_frames(frames, 10)
    assert [frame.at_s for frame in shown] == [0, 1, 2, 3, 4, 5, 95, 96, 97, 98, 99]
    assert shown[5].note == "90 frames left out"


# Expectations


def write_expectations(directory: Path, text: str, label: str = "ours") -> list[Expectation]:
    (directory / f"{label}.toml").write_text(text)
    return expected.load(label, directory)


def test_expectations_are_read_and_applied(tmp_path: Path) -> None:
    entries = write_expectations(
        tmp_path, '[[failures]]\ncases = ["pop.*", "send.one"]\nreason = "not yet"\nsee = "docs/differences.md#safety"\n'
    )
    cases = [
        case("pop.x", "failed"),
        case("pop.y"),
        case("send.one", "error"),
        case("send.two", "failed"),
        case("send.three"),
    ]
    expected.apply(cases, entries)
    assert [case.as_expected for case in cases] == [True, False, False, False, True]
    assert (cases[0].reason, cases[0].see) == ("not yet", "docs/differences.md#safety")
    run = a_run(*cases)
    assert [case.id for case in run.surprises] == ["pop.y", "send.one", "send.two"]
    assert [case.id for case in run.failed_must] == ["pop.x", "send.one", "send.two"]


@pytest.mark.parametrize(("outcome", "fine"), [("skipped", True), ("not run", False), ("failed", False), ("error", False)])
def test_what_is_not_expected(outcome: str, fine: bool) -> None:
    assert case("a.b", outcome).as_expected is fine
    assert case("a.b", "skipped", expected="failed").as_expected
    assert case("a.b", "failed", "info").as_expected, "only reported"


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "[failures]\na=1",
        "other = 1",
        "[[failures]]\ncases=[]\nreason='x'",
        "[[failures]]\ncases=['a.b']",
        "[[failures]]\ncases=['a.b']\nreason='x'\nwhy='y'",
        "[[failures]]\ncases='a.b'\nreason='x'",
    ],
)
def test_bad_expectations_are_refused_in_a_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadExpectations) as refused:
        write_expectations(tmp_path, text)
    assert "\n" not in str(refused.value)


def test_docker_is_the_same_server_as_the_jars(tmp_path: Path) -> None:
    assert (label_for("docker-5.5.0"), label_for("java-5.3.3"), label_for("ours")) == ("java-5.5.0", "java-5.3.3", "ours")
    assert expected.load("nobody", tmp_path) == []


def test_links_and_patterns_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "docs.md").write_text('# One Thing, `two`\n<a id="three"></a>\n')
    assert anchors("# One Thing, `two`\n") == {"one-thing-two"}
    sees = ["docs.md#one-thing-two", "docs.md#three", "docs.md", "docs.md#four", "none.md#one", ""]
    entries = [Expectation(("a.*", "b.c"), "why", see) for see in sees]
    assert broken_links(entries, tmp_path) == ["docs.md#four", "none.md#one"]
    assert unused(entries[:1], ["a.x"]) == ["b.c"]


FILES = sorted(expected.DIRECTORY.glob("*.toml"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_the_suites_own_expectations_are_sound(path: Path) -> None:
    entries, cases = expected.load(path.stem), load()
    assert unused(entries, cases) == []
    assert broken_links(entries) == []
    if path.stem == "java-5.5.0":
        must = [CaseResult(case.id, "must", "", "", "failed") for case in cases.values() if case.level is Level.MUST]
        expected.apply(must, entries)
        assert [case.id for case in must if case.expected] == [], "the reference passes every MUST"
