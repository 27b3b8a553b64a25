"""The router refuses to exist when a code is forgotten or claimed twice; small helpers beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rmq_wire.headers.all  # noqa: F401  (fills the registry)
from broker_impl import refused
from broker_impl.engine.answers import Answer, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.peer import pack_address
from broker_impl.engine.router import Capability, Router, answers
from rmq_net.log import plain_text
from rmq_wire.codes import RequestCode
from rmq_wire.declare import REQUESTS, Role
from rmq_wire.headers.naming import GetRouteInfo
from rmq_wire.headers.positions import GetMaxOffset, GetMinOffset


class Positions(Capability):
    @answers(GetMaxOffset, GetMinOffset, stages=True)
    def both(self, call: Call, asked: GetMaxOffset | GetMinOffset) -> Answer:
        return Reply()


class Others(Capability):
    @answers(GetMinOffset)
    def again(self, call: Call, asked: GetMinOffset) -> Answer:
        return Reply()


class Misplaced(Capability):
    @answers(GetRouteInfo)
    def route(self, call: Call, asked: GetRouteInfo) -> Answer:
        return Reply()


def test_marked_methods_become_rows() -> None:
    rows = Router(Role.BROKER, [Positions()], complete=False).rows
    assert {code: (row.request, row.stages) for code, row in rows.items()} == {
        RequestCode.GET_MAX_OFFSET: (GetMaxOffset, True),
        RequestCode.GET_MIN_OFFSET: (GetMinOffset, True),
    }


def test_a_code_answered_twice_is_refused_at_start() -> None:
    with pytest.raises(TypeError, match=r"code 31 \(GetMinOffset\) is answered twice, also by Others.again"):
        Router(Role.BROKER, [Positions(), Others()], complete=False)


def test_a_code_answered_and_refused_is_refused_at_start() -> None:
    with pytest.raises(TypeError, match=r"code 31 .* is refused, and answered by Positions.both"):
        Router(Role.BROKER, [Positions()], {31: "never"}, complete=False)


def test_a_code_of_another_role_is_refused_at_start() -> None:
    with pytest.raises(TypeError, match=r"Misplaced.route answers GetRouteInfo, which is not for BROKER"):
        Router(Role.BROKER, [Misplaced()], complete=False)


def test_silent_codes_are_named_all_at_once() -> None:
    with pytest.raises(TypeError) as raised:
        Router(Role.BROKER, [Positions()], refused.BROKER)
    assert "code 10 (SendMessage) is neither answered nor refused" in str(raised.value)
    assert "code 11 (PullMessage)" in str(raised.value)
    assert "GetMaxOffset" not in str(raised.value)


def test_a_refused_code_is_one_that_a_broker_of_the_reference_answers() -> None:
    assert {code for code in refused.BROKER if (Role.BROKER, code) not in REQUESTS} == set()
    assert all(refused.BROKER.values())


def test_the_fast_port_takes_the_reference_s_codes() -> None:
    rows = Router(Role.BROKER, [Positions()], complete=False).without(frozenset({RequestCode.GET_MIN_OFFSET}))
    assert list(rows) == [RequestCode.GET_MAX_OFFSET]


@given(st.text())
def test_foreign_text_becomes_one_printable_line(text: str) -> None:
    safe = plain_text(text, limit=20)
    assert safe.isprintable()
    safe.encode()
    if text.isprintable() and len(text) <= 20:
        assert safe == text


@pytest.mark.parametrize("text", ["a\nb", "\x1b[31mred", "\u202egnp.exe", "\ud800", "\x00", "\u2028"])
def test_control_and_direction_marks_are_escaped(text: str) -> None:
    assert plain_text(text).isascii()


def test_addresses_are_packed_as_units_store_them() -> None:
    assert pack_address(("127.0.0.1", 10911)) == bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
    assert pack_address(("::1", 1)) == bytes(15) + b"\x01" + bytes(3) + b"\x01"
    assert pack_address(("fe80::1%eth0", 1))[:2] == b"\xfe\x80"
    assert pack_address(("nowhere", 1)) == bytes(7) + b"\x01"
