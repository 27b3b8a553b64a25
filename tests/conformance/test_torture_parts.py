"""Scripts are read strictly, torments do to an answer what they say, the judge sees what happened and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.torture import judge as judging
from conformance.torture import report, torments
from conformance.torture.cluster import Answer
from conformance.torture.events import Events
from conformance.torture.script import (
    SCRIPTS,
    Check,
    Expect,
    Script,
    ScriptError,
    Step,
    Torment,
    applies,
    find,
    find_all,
    load,
    names,
)
from conformance.torture.torments import End, Move, Put, StopReading, Wait
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.command import Command
from rmq_wire.conversation import Conversation
from rmq_wire.encoding import Form
from rmq_wire.errors import BadFrame
from rmq_wire.headers.offsets import QueryConsumerOffsetResponse

SEND = RequestCode.SEND_MESSAGE_V2
SMALLEST = """
name = "x"
title = "t"
rests-on = ["C"]
[[step]]
do = "drop"
[[expect]]
what = "w"
check = "kept"
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "script.toml"
    path.write_text(text, encoding="utf-8")
    return path


# Scripts


def test_each_script_of_the_package_is_sound() -> None:
    scripts = find_all()
    assert len(scripts) >= 25
    for script in scripts:
        assert load(SCRIPTS / f"{script.name}.toml") == script
        assert script.title
        assert script.rests_on


def test_every_torment_and_every_check_is_in_some_script() -> None:
    scripts = find_all()
    assert {step.do for script in scripts for step in script.step} == set(get_args(Torment))
    assert {expect.check for script in scripts for expect in script.expect} == set(get_args(Check))


def test_every_torment_is_explained_and_every_check_is_judged() -> None:
    assert all(torments.explain(torment).endswith(".") for torment in get_args(Torment))
    assert set(judging._CHECKS) == set(get_args(Check))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("drop", "dorp"), "dorp"),
        (("kept", "keptt"), "keptt"),
        (('do = "drop"', 'do = "drop"\nnht = [1]'), "nht"),
        (('do = "drop"', 'do = "drop"\non = "SEND"'), "SEND"),
        (('do = "drop"', 'do = "drop"\nwhere = "broker-z"'), "broker-z"),
        (('do = "drop"', 'do = "route"'), "names brokers"),
        (('do = "drop"', 'do = "route"\nbrokers = ["c"]'), "'c'"),
        (('do = "drop"', 'do = "answer-code"'), "ResponseCode"),
        (('check = "kept"', 'check = "kept"\nstep = 2'), "no step 2"),
        (('check = "kept"', 'check = "kept"\nsince = "five"'), "five"),
        (("[[step]]", "[server]\nbrokers = 3\n[[step]]"), "3 brokers"),
        (("[[step]]", "[[step"), "line"),
        (('title = "t"', ""), "title"),
    ],
)
def test_a_script_with_a_mistake_is_refused_in_one_line(tmp_path: Path, change: tuple[str, str], complaint: str) -> None:
    path = write(tmp_path, SMALLEST.replace(*change, 1))
    with pytest.raises(ScriptError, match=complaint) as refused:
        load(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_script_is_found_by_name_or_file(tmp_path: Path) -> None:
    assert find(str(write(tmp_path, SMALLEST))).name == "x"
    assert find(names()[0]).name == names()[0]
    with pytest.raises(ScriptError, match="no script 'nonsense'"):
        find("nonsense")


def test_expectations_by_version() -> None:
    new, old = Expect(what="", check="kept", since="5.0.0"), Expect(what="", check="kept", before="5.0.0")
    assert applies(new, (5, 5, 0))
    assert not applies(new, (4, 9, 8))
    assert not applies(old, (5, 0, 0))
    assert applies(old, (4, 9, 8))


# Torments


answers = st.builds(
    Answer,
    code=st.sampled_from([0, 1, 19]),
    opaque=st.integers(0, 2**31 - 1),
    form=st.sampled_from([Form.JSON, Form.ROCKETMQ]),
    remark=st.none() | st.text(min_size=1, max_size=8),
    ext=st.none() | st.fixed_dictionaries({"offset": st.integers(0, 2**40).map(str)}),
    body=st.binary(max_size=64),
)


def read(moves: list[Move]) -> list[Command]:
    """The commands in what is sent, cut where the torment cuts."""
    conversation, found = Conversation(), []
    for move in moves:
        if isinstance(move, Put):
            size = move.chunk_bytes or len(move.data)
            for at in range(0, len(move.data), max(size, 1)):
                found += [one.kept() for one in conversation.feed(move.data[at : at + size]) if isinstance(one, Command)]
    return found


def said(command: Command) -> tuple[int, int, str | None, str | None, bytes]:
    return command.code, command.opaque, command.remark, command.ext_map().get("offset"), bytes(command.body)


def meant(answer: Answer) -> tuple[int, int, str | None, str | None, bytes]:
    return answer.code, answer.opaque, answer.remark, (answer.ext or {}).get("offset"), answer.body


@given(answers, st.sampled_from(["split", "delay", "glue", "reorder", "route", "stop-reading", "binary"]))
def test_these_torments_keep_the_answer(answer: Answer, do: Torment) -> None:
    [command] = read(torments.moves(Step(do=do, chunk_bytes=1), answer))
    assert said(command) == meant(answer)


@given(answers)
def test_doubled_and_unknown(answer: Answer) -> None:
    doubled = read(torments.moves(Step(do="double", count=3), answer))
    assert [said(one) for one in doubled] == [meant(answer)] * 3
    *unknown_peers, last = read(torments.moves(Step(do="unknown-opaque", count=2), answer))
    assert said(last) == meant(answer)
    assert {one.opaque for one in unknown_peers} == {torments.STRANGE_OPAQUE, -1}


@given(answers)
def test_null_extra_and_numeric_fields_mean_the_same_to_a_lenient_reader(answer: Answer) -> None:
    [null] = read(torments.moves(Step(do="null-fields"), answer))
    assert said(null) == (answer.code, answer.opaque, None, (answer.ext or {}).get("offset"), answer.body)
    [more] = read(torments.moves(Step(do="extra-fields"), answer))
    assert said(more) == meant(answer)
    assert more.ext_map()["fromTheFuture"] == "1"
    [numbers] = read(torments.moves(Step(do="numbers"), answer))
    assert said(numbers) == meant(answer)
    if answer.ext:
        assert numbers.header(QueryConsumerOffsetResponse).offset == int(answer.ext["offset"])
        assert f'"offset":{answer.ext["offset"]}'.encode() in bytes(numbers.raw_ext)


def test_what_is_no_answer_any_more() -> None:
    answer = Answer(code=0, opaque=7, form=Form.JSON, body=b"0123456789")
    whole = torments.encode(answer)
    assert torments.moves(Step(do="half"), answer) == [Put(whole[: len(whole) // 2]), End()]
    assert torments.moves(Step(do="close"), answer) == [End()]
    assert torments.moves(Step(do="reset"), answer) == [End(reset=True)]
    assert torments.moves(Step(do="drop"), answer) == []
    assert torments.moves(Step(do="delay", ms=9), answer) == [Wait(9), Put(whole)]
    assert torments.moves(Step(do="stop-reading", ms=9), answer)[0] == StopReading(9)
    assert [bytes(one.body) for one in read(torments.moves(Step(do="cut-body"), answer))] == [b"01234"]
    [flipped] = read(torments.moves(Step(do="flip-body"), answer))
    assert sum(a != b for a, b in zip(bytes(flipped.body), answer.body, strict=True)) == 1
    with pytest.raises(BadFrame):
        read(torments.moves(Step(do="oversized"), answer))
    with pytest.raises(BadFrame):
        read(torments.moves(Step(do="garbage"), answer))


def test_another_code() -> None:
    answer = Answer(code=0, opaque=7, form=Form.JSON, ext={"offset": "3"}, body=b"b")
    [bare] = read(torments.moves(Step(do="answer-code", code="GO_AWAY"), answer))
    assert (bare.code, bare.ext_map(), bytes(bare.body)) == (ResponseCode.GO_AWAY, {}, b"")
    [whole] = read(torments.moves(Step(do="answer-code", code="11", whole=True), answer))
    assert (whole.code, whole.ext_map(), bytes(whole.body)) == (11, {"offset": "3"}, b"b")


def test_bare_keys() -> None:
    plain = {"brokerDatas": [{"brokerAddrs": {"0": "a:1"}}]}
    answer = Answer(code=0, opaque=7, form=Form.JSON, body=msgspec.json.encode(plain), plain_body=plain)
    [command] = read(torments.moves(Step(do="bare-keys"), answer))
    assert bytes(command.body) == b'{"brokerDatas":[{"brokerAddrs":{0:"a:1"}}]}'


# The judge


class Story:
    """Events with a clock of the test's own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = Events(lambda: self.now)

    def at(self, ms: int, kind: Any, where: str = "broker-a", **parts: Any) -> Story:
        self.now = ms / 1e3
        self.events.add(kind, where, **parts)
        return self

    def app(self, ms: int, event: str, **parts: Any) -> Story:
        return self.at(ms, "app", "client", app={"event": event, **parts})


def outcome(story: Story, *, quirks: bool = False, reports: bool = True, **expect: Any) -> tuple[bool | None, str]:
    """What becomes of one expectation, and of the whole."""
    step = Step(do="drop", on="SEND_MESSAGE_V2")
    script = Script(name="s", title="t", rests_on=["C"], step=[step], expect=[Expect(what="w", **expect)])
    verdict = judging.judge(script, story.events, client="c", behaves_like=(5, 5, 0), quirks=quirks, reports=reports)
    return verdict.expectations[0].passed, verdict.outcome


def tormented(message: str = "m-0") -> Story:
    return Story().at(5, "torment", step=1, connection=2, code=int(SEND), message=message, queue=0)


def test_retried_wants_the_same_message_in_time_and_elsewhere() -> None:
    again: dict[str, Any] = {"code": int(SEND), "message": "m-0", "queue": 1, "connection": 3}
    story = tormented().at(9, "request", "broker-b", **again).app(10, "done")
    assert outcome(story, check="retried", other="broker") == (True, "passed")
    assert outcome(story, check="retried", other="same-broker") == (False, "failed")
    assert outcome(story, check="retried", within_ms=3) == (False, "failed")
    assert outcome(story, check="retried", min=5) == (False, "failed")
    other = tormented().at(9, "request", code=int(SEND), message="m-1").app(10, "done")
    assert outcome(other, check="retried") == (False, "failed")


def test_a_report_must_be_true() -> None:
    place: dict[str, Any] = {"message": "m-0", "queue": 0, "offset": 4}
    story = tormented().at(6, "stored", **place).app(7, "sent", broker="broker-a", **place).app(8, "done")
    assert outcome(story, check="reported", min=1) == (True, "passed")
    untrue = tormented().at(6, "stored", **place).app(7, "sent", broker="broker-b", **place).app(8, "done")
    assert outcome(untrue, check="reported", min=1) == (False, "failed")
    assert outcome(story, check="reported", outcome="failed", min=1) == (False, "failed")


def test_what_only_the_program_knows_is_left_open_without_it() -> None:
    assert outcome(tormented(), reports=False, check="reported", min=1) == (None, "passed")
    assert outcome(tormented(), reports=False, check="delivered", min=1) == (None, "passed")


def test_delivered_counts_and_orders() -> None:
    story = tormented()
    for number, offset in enumerate((0, 2, 1)):
        story.app(10, "received", message=f"m-{number}", queue=0, offset=offset)
    story.app(11, "done")
    assert outcome(story, check="delivered", min=1, max=1) == (True, "passed")
    assert outcome(story, check="delivered", min=1, max=1, ordered=True) == (False, "failed")
    story.app(12, "received", message="m-1", queue=0, offset=2)
    assert outcome(story, check="delivered", min=1, max=1) == (False, "failed")


def test_a_connection_that_the_client_closes_or_keeps() -> None:
    closed = tormented().at(8, "closed-by-client", connection=2).app(9, "done")
    assert outcome(closed, check="closed-by-client") == (True, "passed")
    assert outcome(closed, check="kept") == (False, "failed")
    late = tormented().app(8, "done").at(9, "closed-by-client", connection=2)
    assert outcome(late, check="closed-by-client") == (False, "failed")
    used = tormented().at(8, "request", connection=2, code=34).app(9, "done")
    assert outcome(used, check="kept") == (True, "passed")


def test_a_client_that_never_asks_or_crashes_fails() -> None:
    assert outcome(Story().app(1, "done"), check="requests") == (True, "failed")
    assert outcome(tormented().app(9, "crashed"), check="requests") == (True, "failed")
    assert outcome(tormented().app(9, "done").app(9, "ended", status=1), check="requests") == (True, "failed")


def test_oddities_count_only_for_who_owes_them() -> None:
    story = tormented().app(9, "done")
    assert outcome(story, check="kept", level="QUIRK") == (False, "passed")
    assert outcome(story, check="kept", level="QUIRK", quirks=True) == (False, "failed")


def test_verdicts_survive_their_file_and_make_a_page() -> None:
    script = find("half-answer")
    story = tormented().app(9, "done")
    verdict = judging.judge(script, story.events, client="c | d", behaves_like=(5, 5, 0), quirks=True, reports=True)
    assert report.decode(report.encode([verdict])) == [verdict]
    page = report.document([verdict])
    assert "## half-answer" in page
    assert "**no**" in page
    with pytest.raises(ValueError):
        report.decode(b"[{}]")
