"""What a broker says about itself."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import Request, Role


class GetBrokerRuntimeInfo(Request, code=RequestCode.GET_BROKER_RUNTIME_INFO, to=Role.BROKER):
    """How is the broker doing: rates, totals, latencies, disk.  The answer's body is a `KVTable` of texts."""
