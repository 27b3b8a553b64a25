"""The grid is complete, and its cells catch servers that answer otherwise.

The server here is a function on a loopback socket: what it answers to which request is the planted defect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import trio

from conformance.subjects.base import Target
from conformance.suite.case import CASES, Level, load
from conformance.suite.grid.expect import (
    KINDS,
    SILENCE_S,
    UNREAD,
    Expect,
    accident,
    by_handler,
    described,
    drop,
    four,
    has,
    holds,
    newest,
)
from conformance.suite.grid.goods import plain
from conformance.suite.grid.grid import (
    NO_JSON,
    ROWS,
    Cell,
    Probe,
    Row,
    cells,
    run_probes,
)
from conformance.suite.trial import CaseFailed, Trial
from rmq_wire.codes import RequestCode
from rmq_wire.command import Command, Unreadable
from rmq_wire.conversation import Conversation
from rmq_wire.declare import REQUESTS, Role
from rmq_wire.encoding import Form, encode_response
from rmq_wire.headers.clients import GetConsumerListByGroup
from rmq_wire.headers.offsets import UpdateConsumerOffset
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.pull import PullMessage
from rmq_wire.headers.stats import GetConsumeStatsInBroker

NO_ROW: Mapping[int, str] = {}
"""Codes that a broker or name server answers without a row in the grid, each with the reason."""
UNTOUCHED: Mapping[str, str] = {
    "register-broker": "a name is what it is for",
    "put-kv-config": "a name is what it is for",
    "register-topic-in-namesrv": "a name is what it is for",
    "batch-ack-message": "names are passed over",
    "lite-subscription-ctl": "names are judged elsewhere",
    "heart-beat": "names are made by it",
}
"""Rows about topics or groups that have no cell with an unknown name."""
Said = tuple[int, str | None, dict[str, str], bytes]
"""Code, remark, ext fields and body of an answer."""
GONE: Said = (-1, None, {}, b"")
"""Closes the connection instead."""


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    load()


# Complete


def test_every_code_that_a_server_answers_has_a_row() -> None:
    answered = {code for role, code in REQUESTS if role in (Role.BROKER, Role.NAME_SERVER)}
    assert answered - set(ROWS) == set(NO_ROW), sorted(RequestCode(code).name for code in answered - set(ROWS) - set(NO_ROW))
    assert set(ROWS) <= answered


def test_every_row_has_a_good_cell() -> None:
    assert [row.name for row in ROWS.values() if f"grid.{row.name}.good" not in CASES] == []


@pytest.mark.parametrize("kind", KINDS[3:])
def test_every_row_has_cells_of_each_kind_or_says_why_not(kind: str) -> None:
    without = [
        row.name for row in ROWS.values() if not any(name.startswith(kind) for name in row.cells) and not row.none.get(kind)
    ]
    assert without == []


def test_no_row_gives_a_reason_for_cells_that_it_has() -> None:
    both = [(row.name, kind) for row in ROWS.values() for kind in row.none if any(name.startswith(kind) for name in row.cells)]
    assert both == []


def test_every_required_field_is_left_out_once_and_every_number_mistyped_once_unless_a_reason_is_given() -> None:
    for row in ROWS.values():
        labels = {probe.label for _, _, _, probes, _ in cells(row) for probe in probes}
        for field in row.own_fields:
            dropped = {
                table: newest(found).drop for table in ("missing", "mistyped") if (found := getattr(row, table).get(field.wire))
            }
            if field.required and not dropped.get("missing"):
                assert f"without {field.wire}" in labels, row.name
            if field.kind is not str and not dropped.get("mistyped"):
                assert any(label.startswith(f"{field.wire}=") for label in labels), row.name


def test_probes_of_a_row_have_names_of_their_own() -> None:
    for row in ROWS.values():
        for name, _, _, probes, _ in cells(row):
            labels = [probe.label for probe in probes]
            assert len(set(labels)) == len(labels), (row.name, name)


def test_requests_that_name_something_are_asked_about_something_unknown() -> None:
    naming = re.compile("topic|group|client|namespace|cluster|broker_?name", re.I)
    for row in ROWS.values():
        named = [field.wire for field in row.own_fields if field.required and naming.search(field.wire)]
        if named and not any(name.startswith("unknown") for name in row.cells):
            assert row.name in UNTOUCHED, (row.name, named)


def test_quirks_are_of_the_level_of_quirks() -> None:
    for row in ROWS.values():
        for name, level, _, probes, options in cells(row):
            if options.get("remarks"):
                continue
            quirks = {bool(newest(probe.expect).quirk) for probe in probes}
            assert len(quirks) == 1 or name not in ("missing-field", "mistyped-field")
            if quirks == {True}:
                assert level is Level.QUIRK, (row.name, name)


# Java's rule


def probes_of(row: Row, cell: str) -> dict[str, Probe]:
    return {probe.label: probe for name, _, _, probes, _ in cells(row) for probe in probes if name == cell}


def expected(row: Row, cell: str) -> dict[str, Any]:
    return {label: newest(probe.expect).code for label, probe in probes_of(row, cell).items()}


def test_what_is_missing_and_required_is_refused_unless_java_keeps_zero() -> None:
    max_offset = Row(request=GetMaxOffset, good=plain(lambda: GetMaxOffset(topic="t", queue_id=0)), rests_on="")
    assert expected(max_offset, "missing-field") == {"without topic": 1, "without queueId": 1}
    in_broker = Row(request=GetConsumeStatsInBroker, good=plain(lambda: GetConsumeStatsInBroker(is_order=True)), rests_on="")
    assert expected(in_broker, "missing-field") == {"without isOrder": 0}


def test_an_optional_number_that_is_none_is_refused_by_a_quick_decoder_only() -> None:
    pull = Row(
        request=PullMessage,
        good=plain(lambda: UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=0)),
        rests_on="",
    )
    assert expected(pull, "mistyped-field")["maxMsgBytes=x"] == 1
    assert expected(pull, "mistyped-field")["queueOffset=9223372036854775808"] == 1
    max_offset = Row(request=GetMaxOffset, good=plain(lambda: GetMaxOffset(topic="t", queue_id=0)), rests_on="")
    assert expected(max_offset, "mistyped-field") == {"queueId=x": 1, "queueId=2147483648": 1, "committed=yes": 0}


def test_a_row_may_say_otherwise_and_leave_out_with_a_reason() -> None:
    row = Row(
        request=UpdateConsumerOffset,
        good=plain(lambda: GetMaxOffset(topic="t", queue_id=0)),
        rests_on="",
        missing={"topic": Expect(code=17), "queueId": UNREAD, "commitOffset": drop("would hurt")},
    )
    assert expected(row, "missing-field") == {"without consumerGroup": 1, "without topic": 17}
    assert expected(row, "missing-field-quirk") == {"without queueId": 0}


def test_expectations_by_version() -> None:
    table = four(Expect(code=17, remark="no"), code=0, remark=...)
    assert (table[""].code, table["4"].code, table["4"].remark) == (17, 0, ...)
    assert by_handler(26).quirk
    assert accident("why").code == 0


# Servers that answer otherwise


def target(address: str, version: tuple[int, ...] = (5, 5, 0)) -> Target:
    return Target(label="planted", kind="address", version=version, namesrv=address, broker=address, broker_name="b", cluster="c")


async def judged(
    row: Row, cell: str, answering: Callable[[Command], Said | None], *, version: tuple[int, ...] = (5, 5, 0)
) -> tuple[str, Trial]:
    """What the cell says of such a server, "" when it passes, and the trial."""
    wanted, remarks = next((probes, options.get("remarks", False)) for name, _, _, probes, options in cells(row) if name == cell)
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, partial(serve, answering), [listener])
        port = listener.socket.getsockname()[1]
        trial = Trial(target(f"127.0.0.1:{port}", version), nursery, mark="x")
        said = ""
        try:
            await run_probes(trial, row, wanted, remarks=remarks)
        except CaseFailed as failure:
            said = str(failure)
        nursery.cancel_scope.cancel()
    return said, trial


async def serve(answering: Callable[[Command], Said | None], stream: trio.SocketStream) -> None:
    conversation = Conversation()
    while data := await stream.receive_some():
        for command in conversation.feed(data):
            assert not isinstance(command, Unreadable)
            if (said := answering(command)) is not None:
                code, remark, ext, body = said
                if code == GONE[0]:
                    return
                frame = encode_response(code, command.opaque, form=command.form, remark=remark, ext=ext, body=body)
                await stream.send_all(frame if isinstance(frame, bytes) else b"".join(frame))


ROW = Row(
    request=GetMaxOffset,
    good=plain(lambda: GetMaxOffset(topic="t", queue_id=0)),
    rests_on="",
    ok=Expect(ext={"offset": "2"}, body=b""),
    cells={
        "unknown-topic": Cell(change={"topic": "no"}, expect=Expect(code=17, remark=re.compile("not exist"))),
        "limit-silent": Cell(change={"queueId": "9"}, expect=Expect(silent=True)),
        "limit-new": Cell(change={"queueId": "8"}, expect=Expect(code=29, remark="new"), since=(5, 5)),
    },
)


def java(command: Command) -> Said | None:
    """A sound server for `ROW`."""
    ext = command.ext_map()
    if ext.get("queueId") == "9":
        return None
    if ext.get("queueId") == "8":
        return 29, "new", {}, b""
    if "topic" not in ext or ext.get("queueId") != "0":
        return 1, "the custom field is null", {}, b""
    return (17, "topic no does not exist, not exist", {}, b"") if ext["topic"] == "no" else (0, None, {"offset": "2"}, b"")


def but(when: Callable[[dict[str, str]], bool], said: Said | None) -> Callable[[Command], Said | None]:
    """The sound server with one defect."""
    return lambda command: said if when(command.ext_map()) else java(command)


@pytest.mark.parametrize("cell", [name for name, *_ in cells(ROW)])
async def test_a_sound_server_passes(cell: str) -> None:
    said, trial = await judged(ROW, cell, java)
    assert said == ""
    assert all(check.holds for check in trial.checks)
    assert trial.checks


ZERO: Said = (0, None, {"offset": "0"}, b"")
DEFECTS: Mapping[str, tuple[str, Callable[[dict[str, str]], bool], Said | None, str]] = {
    "wrong code": ("good", lambda ext: True, (1, "no", {}, b""), "good: code"),
    "field dropped": ("good", lambda ext: True, (0, None, {}, b""), "good: ext field offset"),
    "wrong value": ("good", lambda ext: True, (0, None, {"offset": "3"}, b""), "good: ext field offset"),
    "a body too many": ("good", lambda ext: True, (0, None, {"offset": "2"}, b"x"), "good: body"),
    "unknown fields refused": ("good", lambda ext: "conformanceUnknownField" in ext, (1, "what", {}, b""), "unknown ext field"),
    "missing field accepted": ("missing-field", lambda ext: "queueId" not in ext, ZERO, "without queueId"),
    "letters accepted": ("mistyped-field", lambda ext: ext["queueId"] == "x", ZERO, "queueId=x"),
    "overflow accepted": ("mistyped-field", lambda ext: ext["queueId"] == str(2**31), ZERO, "queueId=2147"),
    "no truth refused": ("mistyped-field", lambda ext: ext.get("committed") == "yes", (1, "no", {}, b""), "committed=yes"),
    "unknown topic answered": ("unknown-topic", lambda ext: True, ZERO, "unknown topic: code"),
    "no reason given": ("remarks", lambda ext: ext["topic"] == "no", (17, "no", {}, b""), "unknown topic: remark"),
    "no answer where one comes": ("limit-new", lambda ext: True, GONE, "limit new: an answer"),
    "an answer where none comes": ("limit-silent", lambda ext: True, (0, None, {}, b""), "no answer"),
}


@pytest.mark.parametrize("defect", DEFECTS)
async def test_a_planted_defect_is_caught(defect: str) -> None:
    cell, when, said, named = DEFECTS[defect]
    verdict, trial = await judged(ROW, cell, but(when, said))
    assert named in verdict
    assert not trial.checks[-1].holds or any(not check.holds for check in trial.checks)


async def test_a_server_that_reads_json_headers_only_is_caught() -> None:
    verdict, _ = await judged(ROW, "good", lambda command: java(command) if command.form is Form.JSON else (1, "no", {}, b""))
    assert "as a binary frame: code" in verdict


async def test_a_cell_goes_on_after_a_field_and_names_all_that_do_not_hold() -> None:
    verdict, _ = await judged(ROW, "missing-field", lambda command: ZERO)
    assert "without topic" in verdict
    assert "without queueId" in verdict


async def test_probes_newer_than_the_server_are_left_out() -> None:
    old = but(lambda ext: ext.get("queueId") == "8", (0, None, {}, b""))
    assert "limit new" in (await judged(ROW, "remarks", old))[0]
    assert (await judged(ROW, "remarks", old, version=(5, 3, 3)))[0] == ""


async def test_a_request_that_can_be_asked_once_is_made_anew_for_each_probe() -> None:
    made: list[str] = []

    async def good(t: Trial) -> GetConsumerListByGroup:
        made.append(t.name("g"))
        return GetConsumerListByGroup(consumer_group=made[-1])

    for each, count in ((True, 3), (False, 1)):
        made.clear()
        row = Row(request=GetConsumerListByGroup, good=good, rests_on="", each=each)
        assert (await judged(row, "good", lambda command: (0, None, {}, b"")))[0] == ""
        assert len(made) == count


async def test_bodies_that_are_no_json_are_sent_where_a_body_is_asked_for() -> None:
    seen: list[bytes] = []

    def keep(command: Command) -> Said:
        seen.append(bytes(command.body))
        return 1, None, {}, b""

    row = Row(
        request=GetConsumerListByGroup,
        good=plain(lambda: (GetConsumerListByGroup(consumer_group="g"), b"{}")),
        rests_on="",
        body=True,
    )
    await judged(row, "missing-field", keep)
    await judged(row, "mistyped-field", keep)
    assert seen == [b"{}", b"", NO_JSON]


# Words


def test_what_rows_say_about_bodies() -> None:
    assert has("a", "b")(b'{"a":1,"b":null}')
    assert not has("a", "b")(b'{"a":1}')
    assert not has("a")(b"[]")
    assert holds(a__b=1)(b'{"a":{"b":1}}')
    assert not holds(a__b=1)(b'{"a":1}')
    assert holds(names=lambda found: found == ["x"])(b'{"names":["x"]}')


def test_an_expectation_in_words() -> None:
    assert described(Expect(code=17)) == "17 TOPIC_NOT_EXIST"
    assert described(Expect(ext={"offset": "1"})) == "0 SUCCESS, with offset"
    assert described(Expect(silent=True)) == "no answer"
    assert described(Expect(code=1, remark=re.compile("no")), remarks=True) == "remark 'no'"
    assert "accident" in described(accident("accident"))


def test_silence_is_waited_for_shortly() -> None:
    assert SILENCE_S <= 1
