"""Masters and slaves: what a slave copies from its master, and what moves when roles do.

What slaves also ask but others ask too stands with its subject (`topics`, `groups`, `timers`, `pop`).
"""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import I32, I64, Header, Request, Role


class GetAllConsumerOffset(Request, code=RequestCode.GET_ALL_CONSUMER_OFFSET, to=Role.BROKER):
    """Slave to master: all offsets of all groups.  The answer's body is a `ConsumerOffsetSerializeWrapper`."""


class GetAllDelayOffset(Request, code=RequestCode.GET_ALL_DELAY_OFFSET, to=Role.BROKER):
    """Slave to master: how far each delay level is delivered.  The answer's body is the text of `delayOffset.json`."""


class NotifyMinBrokerIdChange(Request, code=RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, to=Role.BROKER):
    """Name server to broker, one-way: the smallest id that is alive under your name is now this.

    Source: `NotifyMinBrokerIdChangeRequestHeader`.
    """

    min_broker_id: I64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class ExchangeHAInfoResponse(Header):
    """The same facts of the broker that was asked.  Source: `ExchangeHAInfoResponseHeader`."""

    master_ha_address: str | None = None
    master_flush_offset: I64 | None = None
    master_address: str | None = None


class ExchangeHAInfo(Request, code=RequestCode.EXCHANGE_BROKER_HA_INFO, to=Role.BROKER, reply=ExchangeHAInfoResponse):
    """Brokers of one name report to each other where the master replicates and how far it has flushed.

    Source: `ExchangeHAInfoRequestHeader`.
    """

    master_ha_address: str | None = None
    master_flush_offset: I64 | None = None
    master_address: str | None = None


class GetBrokerHAStatus(Request, code=RequestCode.GET_BROKER_HA_STATUS, to=Role.BROKER):
    """How is replication going?  The answer's body is a `HARuntimeInfo`."""


class ResetMasterFlushOffset(Request, code=RequestCode.RESET_MASTER_FLUSH_OFFSET, to=Role.BROKER):
    """Slaves only: take this for what the master has flushed.  Source: `ResetMasterFlushOffsetHeader`."""

    master_flush_offset: I64


class GetBrokerEpochCache(Request, code=RequestCode.GET_BROKER_EPOCH_CACHE, to=Role.BROKER):
    """Under a controller: at which offsets did masters change?  The answer's body is an `EpochEntryCache`."""


class NotifyBrokerRoleChanged(Request, code=RequestCode.NOTIFY_BROKER_ROLE_CHANGED, to=Role.BROKER):
    """Controller to broker: this one is the master now.  The body is a `SyncStateSet`.

    Source: `NotifyBrokerRoleChangedRequestHeader`.
    """

    master_address: str | None = None
    master_epoch: I32 | None = None
    sync_state_set_epoch: I32 | None = None
    master_broker_id: I64 | None = None
