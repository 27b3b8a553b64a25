"""The compressed body of a broker's registration (103), once it is inflated: pieces, each with its length before it.

Which piece means what depends on counts among them (`rmq_wire.bodies.registration`).  Source: `RegisterBrokerBody`.
"""

from __future__ import annotations

from typing import Final

from construct import GreedyBytes, Int32sb, Prefixed, Struct

from rmq_wire.layout.flat import flat

COUNT: Final = Struct("count" / Int32sb * "pieces of a kind that follow")
PIECE: Final = Struct("piece" / Prefixed(COUNT.count.subcon, GreedyBytes) * "JSON or text, UTF-8; 4-byte length before it")

COUNT_FLAT: Final = flat(COUNT)
