"""Replication between master and slave (`DefaultHAService`): no frames of the remoting protocol, just these.

Sources: `DefaultHAConnection`, `DefaultHAClient` of the reference.
"""

from __future__ import annotations

from typing import Final

from construct import Bytes, Int32sb, Int64sb, Struct, this

REPORT: Final = Struct("max_physical_offset" / Int64sb * "slave to master: how far its commit log goes")

TRANSFER_HEAD: Final = Struct(
    "physical_offset" / Int64sb * "where the bytes that follow begin in the commit log",
    "size" / Int32sb * "of the bytes that follow; 0: a sign of life",
)
TRANSFER: Final = Struct(
    *TRANSFER_HEAD.subcons,
    "log" / Bytes(this.size) * "commit log, from one file only",
)
