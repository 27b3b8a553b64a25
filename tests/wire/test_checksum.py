"""The quick check sum is the defined one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rmq_wire.checksum import body_crc, defined_crc


@given(st.binary(max_size=64))
def test_the_quick_one_equals_the_definition(body: bytes) -> None:
    assert body_crc(body) == body_crc(memoryview(body)) == defined_crc()(body)


def test_known_values() -> None:
    assert body_crc(b"") == 0
    assert body_crc(b"hello") == 0x3610A686
    assert body_crc(b"123456789") == 0xCBF43926 & 0x7FFFFFFF
