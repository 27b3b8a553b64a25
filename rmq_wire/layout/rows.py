"""AND and OR of rows of bytes, place by place: in one step for all of them, as a number as long as the row."""

from __future__ import annotations

Row = bytes | bytearray


def both(left: Row, right: Row) -> bytes:
    """AND of two rows of equal length."""
    return (int.from_bytes(left, "big") & int.from_bytes(right, "big")).to_bytes(len(left), "big")


def either(left: Row, right: Row) -> bytes:
    """OR of two rows of equal length."""
    return (int.from_bytes(left, "big") | int.from_bytes(right, "big")).to_bytes(len(left), "big")
