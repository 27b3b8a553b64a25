"""The grid's rows about replicas and controllers: 905 to 908, 1007, 1008.

A master by itself is asked only what leaves it a master: no address of another, no other role.
"""

from __future__ import annotations

from conformance.case import Need
from conformance.grid import (
    Asked,
    grid,
)
from conformance.grid_expect import (
    NEVER_MIND,
    REFUSED,
    UNREAD,
    Expect,
    has,
)
from conformance.grid_goods import plain
from conformance.trial import Trial
from rmq_wire.headers.replication import (
    ExchangeHAInfo,
    GetBrokerEpochCache,
    GetBrokerHAStatus,
    NotifyBrokerRoleChanged,
    NotifyMinBrokerIdChange,
    ResetMasterFlushOffset,
)

SINCE = (5,)


async def itself(t: Trial) -> Asked:
    """The broker itself is the one with the smallest id, as it is."""
    return NotifyMinBrokerIdChange(min_broker_id=0, broker_name=t.target.broker_name, min_broker_addr=t.target.broker)


grid(
    NotifyMinBrokerIdChange,
    itself,
    "AdminBrokerProcessor.notifyMinBrokerIdChange",
    missing={"minBrokerId": REFUSED},
    mistyped={"minBrokerId": REFUSED},
    none=NEVER_MIND,
    since=SINCE,
    alone=True,
    needs=(Need.OWN,),
)
grid(
    ExchangeHAInfo,
    plain(ExchangeHAInfo),
    "AdminBrokerProcessor.updateBrokerHaInfo",
    ok=Expect(ext={"masterHaAddress": str, "masterFlushOffset": int}),
    none=NEVER_MIND,
    since=SINCE,
)
grid(
    GetBrokerHAStatus,
    plain(GetBrokerHAStatus),
    "AdminBrokerProcessor.getBrokerHaStatus",
    ok=Expect(body=has("master", "masterCommitLogMaxOffset", "inSyncSlaveNums")),
    none=NEVER_MIND,
    since=SINCE,
)
grid(
    ResetMasterFlushOffset,
    plain(lambda: ResetMasterFlushOffset(master_flush_offset=0)),
    "AdminBrokerProcessor.resetMasterFlushOffset",
    missing={"masterFlushOffset": UNREAD},
    mistyped={"masterFlushOffset": UNREAD},
    none=NEVER_MIND,
    since=SINCE,
    alone=True,
    needs=(Need.OWN,),
)
grid(
    GetBrokerEpochCache,
    plain(GetBrokerEpochCache),
    "AdminBrokerProcessor.getBrokerEpochCache",
    ok=REFUSED,
    none=NEVER_MIND,
    since=SINCE,
)
grid(
    NotifyBrokerRoleChanged,
    plain(NotifyBrokerRoleChanged),
    "AdminBrokerProcessor.notifyBrokerRoleChanged",
    none=NEVER_MIND,
    since=SINCE,
    alone=True,
    needs=(Need.OWN,),
)
