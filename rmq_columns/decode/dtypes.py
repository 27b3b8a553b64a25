"""numpy types of the fixed layouts, derived from their one declaration.

The map is written out, since the two libraries disagree: construct's 32-bit code is `>l`, which numpy takes for 8 bytes, and
numpy's `S` drops zeros at the end of a run of bytes, so runs are `V`.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from rmq_wire.layout import consume_queue, index
from rmq_wire.layout.flat import Flat

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Records = npt.NDArray[np.void]
"""Of a structured type: one field of the layout, one name."""

_NUMBERS: Final = {"b": ">i1", "B": ">u1", "h": ">i2", "H": ">u2", "i": ">i4", "l": ">i4", "I": ">u4", "L": ">u4", "q": ">i8"}
_CODE: Final = re.compile(r"(\d+)s|([a-zA-Z])")


def dtype_of(layout: Flat) -> np.dtype[Any]:
    """The structured type of a flat layout: same names, same offsets, same size.  Raises TypeError for an unknown code."""
    kinds = []
    for run, code in _CODE.findall(layout.packed.format[1:]):
        if not run and code not in _NUMBERS:
            raise TypeError(f"no numpy type for {code!r}")
        kinds.append(f"V{run}" if run else _NUMBERS[code])
    made: np.dtype[Any] = np.dtype(list(zip(layout.names, kinds, strict=True)))
    offsets = {name: made.fields[name][1] for name in layout.names} if made.fields else {}
    if made.itemsize != layout.size or offsets != layout.at:
        raise TypeError(f"derived {made}, declared {layout.at}")
    return made


QUEUE_UNIT: Final = dtype_of(consume_queue.UNIT_FLAT)
BATCH_UNIT: Final = dtype_of(consume_queue.BATCH_UNIT_FLAT)
INDEX_HEADER: Final = dtype_of(index.HEADER_FLAT)
INDEX_SLOT: Final = dtype_of(index.SLOT_FLAT)
INDEX_ENTRY: Final = dtype_of(index.ENTRY_FLAT)


def gather(buffer: Bytes, positions: Ints, dtype: np.dtype[Any]) -> Records:
    """One record from each position, alignment free.  The caller has checked that each fits; numpy raises IndexError if not."""
    size = dtype.itemsize
    if len(buffer) < size:
        return np.empty(len(positions) and _too_short(buffer, size), dtype)
    windows: npt.NDArray[np.void] = np.ndarray((len(buffer) - size + 1,), f"V{size}", buffer, strides=(1,))
    return windows[positions].view(dtype)


def _too_short(buffer: Bytes, size: int) -> int:
    raise IndexError(f"{len(buffer)} bytes hold no record of {size}")


def records(buffer: Bytes | bytes | bytearray | memoryview, dtype: np.dtype[Any]) -> Records:
    """All whole records of a buffer, one after another, without a copy."""
    size = buffer.nbytes if isinstance(buffer, np.ndarray | memoryview) else len(buffer)
    count = size // dtype.itemsize
    return np.frombuffer(buffer, dtype, count) if count else np.empty(0, dtype)
