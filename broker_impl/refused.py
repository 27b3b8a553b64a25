"""The codes that we know and do not answer, each with the reason.

The asker gets REQUEST_CODE_NOT_SUPPORTED (3), as from a server that has never heard of the code; stock clients take that
as a plain no. The router refuses to start when a code is neither answered nor listed here, so nothing is left out by
oversight; `rmq codes` prints the same reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rmq_wire.codes import RequestCode as Code

_BROKER: dict[str, tuple[Code, ...]] = {
    "lite topics are not implemented": (
        Code.POP_LITE_MESSAGE,
        Code.LITE_SUBSCRIPTION_CTL,
        Code.GET_BROKER_LITE_INFO,
        Code.GET_PARENT_TOPIC_INFO,
        Code.GET_LITE_TOPIC_INFO,
        Code.GET_LITE_CLIENT_INFO,
        Code.GET_LITE_GROUP_INFO,
        Code.TRIGGER_LITE_DISPATCH,
    ),
    "static topics are not implemented": (Code.UPDATE_AND_CREATE_STATIC_TOPIC,),
    "there is no replication and no controller": (
        Code.NOTIFY_MIN_BROKER_ID_CHANGE,
        Code.EXCHANGE_BROKER_HA_INFO,
        Code.GET_BROKER_HA_STATUS,
        Code.RESET_MASTER_FLUSH_OFFSET,
        Code.GET_BROKER_EPOCH_CACHE,
        Code.NOTIFY_BROKER_ROLE_CHANGED,
    ),
    "authentication and authorization are not implemented": (
        Code.AUTH_CREATE_USER,
        Code.AUTH_UPDATE_USER,
        Code.AUTH_DELETE_USER,
        Code.AUTH_GET_USER,
        Code.AUTH_LIST_USER,
        Code.AUTH_CREATE_ACL,
        Code.AUTH_UPDATE_ACL,
        Code.AUTH_DELETE_ACL,
        Code.AUTH_GET_ACL,
        Code.AUTH_LIST_ACL,
    ),
    "there is no RocksDB store": (Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, Code.EXPORT_ROCKSDB_CONFIG_TO_JSON),
}


def _by_code(reasons: Mapping[str, tuple[Code, ...]]) -> Iterator[tuple[int, str]]:
    for reason, codes in reasons.items():
        for code in codes:
            yield int(code), reason


BROKER: Mapping[int, str] = dict(_by_code(_BROKER))
"""Code -> why a broker of ours does not answer it."""
NAME_SERVER: Mapping[int, str] = {}
"""The name server answers all 23 codes of the reference."""
FAST_PORT: frozenset[int] = frozenset(
    {
        Code.PULL_MESSAGE,
        Code.LITE_PULL_MESSAGE,
        Code.PEEK_MESSAGE,
        Code.POP_MESSAGE,
        Code.NOTIFICATION,
        Code.POLLING_INFO,
        Code.POP_LITE_MESSAGE,
    }
)
"""What the port listenPort − 2 does not take: `BrokerController.registerProcessor` leaves consuming to the main port."""
