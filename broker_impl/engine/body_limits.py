"""How large a body of each request may be: it is decoded in one call of C, or handled at once, so nobody is served meanwhile.

docs/limits.md has the milliseconds of each at its limit.  Real bodies are a fraction of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rmq_wire.codes import RequestCode

SMALL_BYTES_MAX: Final = 64 << 10
"""Of every request that has no row below: one configuration, one version, one row."""
BODY_BYTES_MAX: Final[Mapping[int, int]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: 2 << 20,
    RequestCode.HEART_BEAT: 1 << 20,
    RequestCode.LOCK_BATCH_MQ: 2 << 20,
    RequestCode.UNLOCK_BATCH_MQ: 2 << 20,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: 3 << 19,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: 256 << 10,
}
"""Of requests with lists, by code."""


HEAVY_BYTES: Final[Mapping[int, int]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: SMALL_BYTES_MAX,
    RequestCode.HEART_BEAT: SMALL_BYTES_MAX,
    RequestCode.LOCK_BATCH_MQ: SMALL_BYTES_MAX,
    RequestCode.UNLOCK_BATCH_MQ: SMALL_BYTES_MAX,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: SMALL_BYTES_MAX,
    RequestCode.DELETE_TOPIC_IN_BROKER: 0,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: 0,
    RequestCode.UNREGISTER_BROKER: 0,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: 0,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: 0,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: 0,
}
"""Requests that may take tens of milliseconds, with bodies from this length on: few are served in one turn, whoever sent them."""
NEVER_HEAVY: Final = 1 << 31


def body_bytes_max(code: int) -> int:
    """The limit of one request."""
    return BODY_BYTES_MAX.get(code, SMALL_BYTES_MAX)
