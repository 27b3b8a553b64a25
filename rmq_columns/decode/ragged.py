"""Runs of bytes of many lengths as Arrow arrays, copied in one go.

Arrow believes the offsets that it is given (a wrong one is a crash, not an error), so every run is checked here first.  No loop:
the whole block becomes an array of payload, gap, payload, gap …, and `take` picks the payloads.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmq_columns.decode.dtypes import Bytes, Ints

_OFFSET_MAX: Final = np.iinfo(np.int32).max


def ragged(buffer: Bytes, starts: Ints, sizes: Ints) -> Any:
    """Runs of bytes as a binary array, copied.  Raises ValueError unless they ascend and lie within the buffer."""
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * count, np.int64)
    offsets[0::2], offsets[1::2] = starts, starts + sizes
    if offsets[0] < 0 or offsets[-1] > min(len(buffer), _OFFSET_MAX) or (offsets[1:] < offsets[:-1]).any():
        raise ValueError("runs that do not ascend within their buffer")
    narrow = pa.py_buffer(offsets.astype(np.int32))
    whole = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, narrow, pa.py_buffer(buffer)])
    return picked(whole, np.arange(0, 2 * count - 1, 2))


def picked(array: Any, places: Ints) -> Any:
    """The elements at these places, each of which the caller knows to be there: Arrow does not look again."""
    return pc.take(array, pa.array(places), boundscheck=False)


def data_of(array: Any) -> tuple[Bytes, npt.NDArray[np.int32]]:
    """Bytes and offsets of an array that `ragged` made; offsets: one more than elements, from 0."""
    count = len(array)
    if not count:
        return np.empty(0, np.uint8), np.zeros(1, np.int32)
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, count + 1)
    size = int(ends[-1])
    return (np.frombuffer(data, np.uint8, size) if size else np.empty(0, np.uint8)), ends


def as_text(found: Any) -> Any:
    """Binary as UTF-8; what is none becomes U+FFFD, as Java reads it."""
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if one is None else one.decode("utf-8", "replace") for one in found.to_pylist()], pa.string())
