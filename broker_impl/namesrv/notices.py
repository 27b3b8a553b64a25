"""What the name server sends to brokers unasked: that the smallest broker id under their name changed (code 905, one-way).

Brokers are notified at the address that they registered, on a connection of the name server's making, for they do not expect
requests on their own.  Here is who is to be notified of what; who has sockets takes it from here.  Only with
`notifyMinBrokerIdChanged=true`, as in Java (`RouteInfoManager.notifyMinBrokerIdChanged`).
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from broker_impl.namesrv.registrations import MinIdChanged
from rmq_net.log import Log
from rmq_wire.command import encode_request
from rmq_wire.headers.replication import NotifyMinBrokerIdChange

NOTICES_MAX: Final = 1_024
"""That wait to be sent.  Brokers that cannot be reached must not fill the memory; each news makes the older ones worthless."""


class Notice(NamedTuple):
    """A frame for the broker at `addr`, which is whatever a registration said."""

    addr: str
    frame: bytes


class Notices:
    """A queue of notices.  `on_due` is called when there is something to take."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.on_due: Callable[[], None] = lambda: None
        self._waiting: deque[Notice] = deque(maxlen=NOTICES_MAX)
        self._opaque = itertools.count(1)

    def min_id_changed(self, change: MinIdChanged) -> None:
        """Notify everybody in `change.notified`.  Java leaves `brokerName` out, too."""
        request = NotifyMinBrokerIdChange(
            min_broker_id=change.min_broker_id,
            min_broker_addr=change.min_broker_addr,
            offline_broker_addr=change.offline_addr,
            ha_broker_addr=change.ha_addr,
        )
        self._log.info(
            "smallest broker id is %d at %s now, gone: %s; notified: %s",
            change.min_broker_id,
            change.min_broker_addr,
            change.offline_addr or "nobody",
            change.notified,
        )
        for addr in change.notified:
            frame = encode_request(request.code, request, opaque=next(self._opaque), oneway=True)
            self._waiting.append(Notice(addr, frame))
        self.on_due()

    def take(self) -> dict[str, list[bytes]]:
        """Everything that waits: by address its frames, in order."""
        taken: dict[str, list[bytes]] = {}
        for notice in self._waiting:
            taken.setdefault(notice.addr, []).append(notice.frame)
        self._waiting.clear()
        return taken
