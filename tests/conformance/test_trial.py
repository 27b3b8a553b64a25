"""What a case gets: checks that are kept, expectations by version, and a connection that hides nothing."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from conformance.suite.case import Case, Level, Need, case, enter
from conformance.suite.link import Answer, Link, NoAnswer
from conformance.suite.trial import CaseFailed, CaseSkipped, Check, Trial, fits
from conformance.version import by_version
from rmq_wire.command import Command
from rmq_wire.encoding import Form, encode_request
from rmq_wire.errors import BadBody
from tests.support.fake_remoting import HangUp, Script, agreeable, answer, serve, target_at
from tests.support.planted import ASKED, passes, planted

IDLE_S = 0.05
"""Real time in which nothing happens, after which the clock jumps."""


@asynccontextmanager
async def trial_at(script: Script = agreeable, version: tuple[int, ...] | None = (5, 5, 0)) -> AsyncIterator[Trial]:
    async with trio.open_nursery() as nursery:
        yield Trial(target_at(await serve(nursery, script), version=version), nursery, mark="m1")
        nursery.cancel_scope.cancel()


def alone(body: Callable[[Trial], Awaitable[Any]], script: Script = agreeable) -> Any:
    """Run a piece of a case; its result or what it raised."""

    async def main() -> Any:
        async with trial_at(script) as trial:
            try:
                return await body(trial)
            except Exception as error:
                return error

    return trio.run(main, clock=MockClock(autojump_threshold=IDLE_S))


@pytest.mark.parametrize(
    ("seen", "expected", "holds"),
    [
        (1, 1, True),
        (1, 2, False),
        ("1", 1, False),
        (None, None, True),
        ("", None, False),
        ("the group", re.compile("group"), True),
        (None, re.compile(""), False),
        (17, re.compile("^17$"), True),
        (b"bytes", re.compile(b"yt"), True),
        ("x", re.compile("y"), False),
        ("-12", int, True),
        ("12 ", int, False),
        (None, int, False),
        (3, int, True),
        ("3.5", int, False),
        ("text", str, True),
        (4, str, False),
        (0, frozenset({0, 1}), True),
        (2, frozenset({0, 1}), False),
        ("abc", frozenset({re.compile("b"), "q"}), True),
        ({1, 2}, {2, 1}, True),
        (1, {1, 2}, False),
        (7, lambda value: value > 5, True),
        (3, lambda value: value > 5, False),
    ],
)
def test_fits(seen: Any, expected: Any, holds: bool) -> None:
    assert fits(seen, expected) is holds


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ((5, 5, 0), "new"),
        ((5, 3, 3), "exact"),
        ((5, 30, 3), "new"),
        ((5, 3, 30), "5.3"),
        ((4, 9, 7), "old"),
        (None, "new"),
        ((40, 1, 0), "new"),
    ],
)
def test_by_version_takes_the_longest_key_that_fits(version: tuple[int, ...] | None, found: str) -> None:
    assert by_version(version, {"": "new", "4": "old", "5.3": "5.3", "5.3.3": "exact"}) == found


def test_checks_are_kept_and_the_first_that_does_not_hold_ends_the_case() -> None:
    async def body(trial: Trial) -> list[Check]:
        trial.equal("one", 1, 1)
        trial.check("two", True, expected="x" * 5_000)
        with pytest.raises(CaseFailed, match="three"):
            trial.equal("three", "seen", re.compile("wanted"))
        with pytest.raises(CaseFailed):
            trial.fail("four", expected="a", seen="b")
        with pytest.raises(CaseSkipped, match="why"):
            trial.skip("why")
        return trial.checks

    one, two, three, four = alone(body)
    assert one == Check("one", True, "1", "1")
    assert len(two.expected) < 2_100
    assert three == Check("three", False, "/wanted/", "seen")
    assert not four.holds


@pytest.mark.parametrize(
    ("judged", "failing"),
    [
        ({"code": 17}, ""),
        ({"code": frozenset({1, 17}), "remark": re.compile("no topic"), "ext": {"a": int}, "body": b"B", "absent": ["c"]}, ""),
        ({"code": 0}, "it: code"),
        ({"code": 17, "remark": None}, "it: remark"),
        ({"code": 17, "ext": {"a": "2"}}, "it: ext field a"),
        ({"code": 17, "ext": {"z": "2"}}, "it: ext field z"),
        ({"code": 17, "absent": ["a"]}, "it: no ext field a"),
        ({"code": 17, "body": b""}, "it: body"),
    ],
)
def test_an_answer_is_judged_field_by_field(judged: dict[str, Any], failing: str) -> None:
    async def body(trial: Trial) -> str:
        command = Command(17, 1, 3, remark="no topic t", body=b"B")
        command.map_ext = type(command.ext_map())({"a": "1"})
        try:
            trial.answer("it", Answer(command, 0.1), **judged)
        except CaseFailed as failed:
            return str(failed)
        return ""

    assert alone(body) == failing


def test_a_member_that_is_not_there_is_the_servers_failure() -> None:
    command = Command(0, 1, 3, body=b'{"table": {0: [{"a": 1}]}}')
    command.map_ext = type(command.ext_map())({"a": "1"})
    reported = Answer(command, 0.1)
    assert (reported.ext["a"], reported.ext.get("b"), "b" in reported.ext) == ("1", None, False)
    assert reported.json() == {"table": {"0": [{"a": 1}]}}
    for take in (lambda: reported.ext["b"], lambda: reported.json()["rows"], lambda: reported.json()["table"]["0"][0]["b"]):
        with pytest.raises(BadBody, match="it has no"):
            take()


def test_until_asks_again_and_gives_up_in_time() -> None:
    async def body(trial: Trial) -> tuple[Any, float]:
        asked = 0

        async def third() -> int | None:
            nonlocal asked
            asked += 1
            return asked if asked == 3 else None

        async def never() -> None:
            return None

        assert await trial.until("third", third) == 3
        began = trio.current_time()
        with pytest.raises(CaseFailed, match="never"):
            await trial.until("never", never, seconds=2)
        return [check.holds for check in trial.checks], trio.current_time() - began

    holds, took_s = alone(body)
    assert holds == [True, False]
    assert 2 <= took_s < 3


def test_names_differ_and_carry_the_mark() -> None:
    async def body(trial: Trial) -> list[str]:
        return [trial.name(), trial.name(), trial.name("g")]

    names = alone(body)
    assert len(set(names)) == 3
    assert all(name.startswith("CONF_m1_") for name in names)


# The connection


@pytest.mark.parametrize("form", list(Form))
def test_an_answer_finds_its_request_in_any_order(form: Form) -> None:
    held: list[bytes] = []

    def reversed_pairs(asked: Command) -> bytes:
        held.insert(0, answer(asked, asked.code))
        return b"".join(held) if len(held) == 2 else b""

    async def body(trial: Trial) -> list[int]:
        link = trial.connect(form=form)
        codes: list[int] = []

        async def ask(code: int) -> None:
            codes.append((await link.ask_raw(code)).code - code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, 28)
            nursery.start_soon(ask, 21)
        return codes

    assert alone(body, reversed_pairs) == [0, 0]


def test_what_nobody_waits_for_is_a_stray_and_requests_are_kept_apart() -> None:
    def doubled(asked: Command) -> bytes:
        if asked.code != ASKED:
            return b""  # it is the answer to ours
        return answer(asked) + answer(asked, 5) + encode_request(40, None, b"notice", opaque=900)

    async def body(trial: Trial) -> None:
        link = trial.broker
        assert (await link.ask_raw(ASKED)).code == 0
        stray = await link.stray(seconds=5)
        assert isinstance(stray, Command)
        assert stray.code == 5
        assert await link.request(39, seconds=1) is None
        notice = await link.request(40)
        assert notice is not None
        assert bytes(notice.body) == b"notice"
        await link.reply(notice, body=b"heard")
        assert [frame.to_server for frame in trial.evidence] == [True, False, False, False, True]

    assert alone(body, doubled) is None


@pytest.mark.parametrize(("chunk"), [0, 1, 7])
def test_bytes_may_go_in_pieces(chunk: int) -> None:
    async def body(trial: Trial) -> int:
        frame = encode_request(ASKED, None, b"body", opaque=77)
        await trial.broker.send(frame, chunk=chunk)
        stray = await trial.broker.stray(seconds=5)
        assert isinstance(stray, Command)
        assert trial.evidence[0].data == frame
        return stray.opaque

    assert alone(body) == 77


def test_all_who_wait_hear_of_a_closed_connection() -> None:
    def hang_up(asked: Command) -> bytes:
        raise HangUp

    async def body(trial: Trial) -> None:
        with pytest.raises(NoAnswer, match="the connection ended"):
            await trial.broker.ask_raw(ASKED)
        assert await trial.broker.ends()
        assert await trial.broker.request(40) is None
        await trial.broker.send(b"into nothing")
        assert trial.evidence[1].note == "the server closed the connection"

    assert alone(body, hang_up) is None


def test_silence_is_no_answer_in_time() -> None:
    async def body(trial: Trial) -> None:
        began = trio.current_time()
        with pytest.raises(NoAnswer, match="nothing came within 4 s"):
            await trial.broker.ask_raw(ASKED, seconds=4)
        assert trio.current_time() - began >= 4
        assert not await trial.broker.ends(seconds=1)

    assert alone(body, lambda asked: b"") is None


def test_nobody_there() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            link = Link("127.0.0.1:1", nursery, [], number=0)
            with pytest.raises(NoAnswer, match=r"no connection to 127\.0\.0\.1:1"):
                await link.open()

    trio.run(main)


def test_a_large_frame_is_kept_in_part() -> None:
    async def body(trial: Trial) -> None:
        await trial.broker.ask_raw(ASKED, body=b"x" * 100_000)
        frame = trial.evidence[0]
        assert frame.size > 100_000 > len(frame.data) > 10_000

    assert alone(body) is None


# What may be declared


@pytest.mark.parametrize("id", ["one", "Upper.case", "a..b", "a.b_c", "a.b-", ""])
def test_an_id_is_spelled_rightly(id: str) -> None:
    with pytest.raises(ValueError, match="case id"):
        enter(planted(id, passes))


def test_a_case_that_stops_the_broker_is_alone() -> None:
    with pytest.raises(ValueError, match="must be alone"):
        enter(planted("store.stops", passes, needs=frozenset({Need.RESTART})))


def test_an_id_is_declared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cases: dict[str, Case] = {}
    monkeypatch.setattr("conformance.suite.case.CASES", cases)
    enter(planted("pull.one", passes, Level.SHOULD))
    with pytest.raises(ValueError, match=r"pull\.one is declared in planted and in planted"):
        enter(planted("pull.one", passes))
    assert list(cases) == ["pull.one"]


def test_a_case_is_described_by_its_docstring(monkeypatch: pytest.MonkeyPatch) -> None:
    cases: dict[str, Case] = {}
    monkeypatch.setattr("conformance.suite.case.CASES", cases)
    asked: dict[str, Any] = {"rests_on": "Nobody.knows", "codes": ASKED, "needs": Need.OWN}

    @case("pull.one", Level.MUST, **asked)
    async def one(t: Trial) -> None:
        """One holds.

        Because of `one`;
        and of two.
        """

    @case("pull.two", Level.MUST, title="Two holds", **asked)
    async def two(t: Trial) -> None:
        """It is made in a loop."""

    reported = [(one.title, one.about, one.codes, one.needs) for one in cases.values()]
    assert reported == [
        ("One holds", "Because of `one`;\nand of two.", (ASKED,), {Need.OWN}),
        ("Two holds", "It is made in a loop.", (ASKED,), {Need.OWN}),
    ]
    with pytest.raises(ValueError, match="the docstring's first line"):
        case("pull.three", Level.MUST, **asked)(lambda t: passes(t))
