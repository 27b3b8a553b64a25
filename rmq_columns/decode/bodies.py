"""Columns of bodies that producers compressed, as they were before."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rmq_columns.decode.dtypes import Mask
from rmq_wire import sys_flag
from rmq_wire.packed_body import StillPacked, compression_of, unpack

BATCH_BYTES_MAX: Final = 256 << 20
"""Of all bodies of a batch; above it the caller makes smaller batches."""


def decompressed(stored: Any, flags: npt.NDArray[np.int32]) -> tuple[Any, Mask]:
    """Bodies unpacked where they are said to be packed, and which of them could not be (those stay as they were stored).

    Raises OverflowError when several of them are too large together.
    """
    packed = np.flatnonzero(flags & sys_flag.COMPRESSED)
    bad = np.zeros(len(stored), np.bool_)
    if not len(packed):
        return stored, bad
    bodies: list[bytes] = stored.to_pylist()
    room = BATCH_BYTES_MAX - sum(map(len, bodies))
    for row in packed.tolist():
        try:
            bodies[row] = unpack(bodies[row], compression_of(int(flags[row])) or "")
        except StillPacked:
            bad[row] = True
            continue
        room -= len(bodies[row])
        if room < 0 and len(bodies) > 1:
            raise OverflowError(f"bodies of more than {BATCH_BYTES_MAX} bytes in one batch")
    return pa.array(bodies, pa.binary()), bad
