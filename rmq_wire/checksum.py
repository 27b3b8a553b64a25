"""The check sum of a message body: CRC-32 without its top bit.

`crcmod` is the definition (`UtilAll.crc32` of the reference: the zlib polynomial, masked to a non-negative Java int); the
function that is called a hundred thousand times a second is zlib's, which `tests/wire` proves equal.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

POLYNOMIAL: Final = 0x104C11DB7
"""CRC-32 as in IEEE 802.3, with the leading bit that crcmod wants written."""
MASK: Final = 0x7FFFFFFF
"""`UtilAll.crc32` ands with this, so that the number is never negative in Java."""


def body_crc(body: bytes | bytearray | memoryview) -> int:
    """The bodyCRC field of a message unit.  An empty body has 0."""
    return zlib.crc32(body) & MASK


def defined_crc() -> Callable[[bytes], int]:
    """The slow function that says what `body_crc` has to return (crcmod without its C part takes 1 µs a byte)."""
    import crcmod

    crc: Callable[[bytes], int] = crcmod.mkCrcFun(POLYNOMIAL, initCrc=0, rev=True, xorOut=0xFFFFFFFF)
    return lambda body: crc(body) & MASK
