"""Ids: made as the reference makes them, and read back; anything else is refused."""

from __future__ import annotations

import datetime
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire.errors import BadHeader
from rmq_wire.message_id import (
    UniqueKeyMaker,
    host_address,
    month_span,
    offset_message_id,
    pack_host,
    parse_offset_message_id,
    parse_unique_key,
)
from tests.support.given import GOLDEN, I64

PORTS = st.integers(0, 65535)


def test_ids_of_java() -> None:
    assert offset_message_id(pack_host("127.0.0.1", 10911), 1 << 33) == GOLDEN["units"]["id_v4"]
    assert offset_message_id(pack_host("2001:db8::2", 10911), 1 << 33) == GOLDEN["units"]["id_v6"]
    assert offset_message_id(pack_host("127.0.0.1", 10911), 400) == "7F00000100002A9F0000000000000190"


@given(st.ip_addresses(), PORTS, I64)
def test_ids_survive(ip: object, port: int, offset: int) -> None:
    host = pack_host(str(ip), port)
    assert len(host) in (8, 20)
    text = offset_message_id(host, offset)
    for spelling in (text, text.lower()):
        read = parse_offset_message_id(spelling)
        assert (read.host, read.physical_offset) == (host, offset)
    assert parse_offset_message_id(text).address == host_address(host)
    assert host_address(host)[1] == port


def test_an_ipv4_address_in_ipv6_clothes_is_ipv4() -> None:
    assert pack_host("::ffff:10.1.2.3", 1) == pack_host("10.1.2.3", 1)
    assert len(pack_host("fe80::1%eth0", 1)) == 20


@pytest.mark.parametrize("text", ["", "7F", "x" * 32, "7F" * 17, " F" * 16, "7F 0" * 8, "７F" * 16, "7F" * 28 + "7"])
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(BadHeader):
        parse_offset_message_id(text)
    with pytest.raises(BadHeader):
        parse_unique_key(text)


@given(st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), st.integers(0, 2**22), st.integers(0, 2**32))
def test_unique_keys_say_who_and_when(ip: bytes, pid: int, number: int) -> None:
    maker = UniqueKeyMaker(ip=ip, pid=pid, process_number=number, zone=datetime.UTC)
    begin = int(datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC).timestamp() * 1000)
    text = maker.make(begin + 12345)
    read = parse_unique_key(text)
    assert text == text.upper()
    assert len(text) == 2 * (len(ip) + 12)
    assert (read.ip, read.pid, read.process_number & 0xFFFFFFFF) == (ip, pid & 0xFFFF, number & 0xFFFFFFFF)
    assert (read.span_ms, read.serial) == (12345, 0)
    assert parse_unique_key(maker.make(begin + 12345)).serial == 1


def test_unique_keys_over_time() -> None:
    maker = UniqueKeyMaker(ip=bytes(4), pid=1, process_number=1, zone=datetime.UTC, count=0xFFFF)
    december = int(datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC).timestamp() * 1000)
    assert parse_unique_key(maker.make(december - 1)).serial == 0xFFFF
    last = parse_unique_key(maker.make(december - 1))
    assert (last.serial, last.span_ms) == (0, 30 * 86_400_000 - 1)
    assert parse_unique_key(maker.make(december)).span_ms == 0
    assert parse_unique_key(maker.make(december - 1000)).span_ms == 0  # a clock that went back


def test_months_begin_at_local_midnight() -> None:
    shanghai = zoneinfo.ZoneInfo("Asia/Shanghai")
    moment = int(datetime.datetime(2026, 11, 30, 23, 0, tzinfo=datetime.UTC).timestamp() * 1000)
    begin, end = month_span(moment, shanghai)
    assert datetime.datetime.fromtimestamp(begin / 1000, shanghai).isoformat() == "2026-12-01T00:00:00+08:00"
    assert datetime.datetime.fromtimestamp(end / 1000, shanghai).isoformat() == "2027-01-01T00:00:00+08:00"
