"""The grid's rows about replicas and controllers: 905 to 908, 1007, 1008.

A master by itself is asked only what leaves it a master: no address of another, no other role.
"""

from __future__ import annotations

from functools import partial

from conformance.suite.grid.expect import NEVER_MIND, REFUSED, UNREAD, Expect, has
from conformance.suite.grid.goods import plain
from conformance.suite.grid.grid import Asked, grid
from conformance.suite.kit import Need, Trial
from rmq_wire.headers.replication import (
    ExchangeHAInfo,
    GetBrokerEpochCache,
    GetBrokerHAStatus,
    NotifyBrokerRoleChanged,
    NotifyMinBrokerIdChange,
    ResetMasterFlushOffset,
)


async def itself(t: Trial) -> Asked:
    """The broker itself is the one with the smallest id, as it is."""
    return NotifyMinBrokerIdChange(min_broker_id=0, broker_name=t.target.broker_name, min_broker_addr=t.target.broker)


row = partial(grid, none=NEVER_MIND, since=(5,))

row(
    NotifyMinBrokerIdChange,
    itself,
    "AdminBrokerProcessor.notifyMinBrokerIdChange",
    missing={"minBrokerId": REFUSED},
    mistyped={"minBrokerId": REFUSED},
    alone=True,
    needs=(Need.OWN,),
)
row(
    ExchangeHAInfo,
    plain(ExchangeHAInfo),
    "AdminBrokerProcessor.updateBrokerHaInfo",
    ok=Expect(ext={"masterHaAddress": str, "masterFlushOffset": int}),
)
row(
    GetBrokerHAStatus,
    plain(GetBrokerHAStatus),
    "AdminBrokerProcessor.getBrokerHaStatus",
    ok=Expect(body=has("master", "masterCommitLogMaxOffset", "inSyncSlaveNums")),
)
row(
    ResetMasterFlushOffset,
    plain(lambda: ResetMasterFlushOffset(master_flush_offset=0)),
    "AdminBrokerProcessor.resetMasterFlushOffset",
    missing={"masterFlushOffset": UNREAD},
    mistyped={"masterFlushOffset": UNREAD},
    alone=True,
    needs=(Need.OWN,),
)
row(GetBrokerEpochCache, plain(GetBrokerEpochCache), "AdminBrokerProcessor.getBrokerEpochCache", ok=REFUSED)
row(
    NotifyBrokerRoleChanged,
    plain(NotifyBrokerRoleChanged),
    "AdminBrokerProcessor.notifyBrokerRoleChanged",
    alone=True,
    needs=(Need.OWN,),
)
