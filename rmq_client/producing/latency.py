"""Which brokers to avoid for a while, because they were slow or failed.

A latency is looked up in a table; what it says is how long the broker counts as not available.  A failure counts as ten seconds
of latency.  A broker that could not be reached stays unreachable until a send or a probe succeeds.  Pure: time is an argument.
Source: `MQFaultStrategy`, `LatencyFaultToleranceImpl`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

LATENCY_MAX_MS: Final = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
NOT_AVAILABLE_MS: Final = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
"""From the latency above on, the broker is left alone for so long."""
FAILURE_LATENCY_MS: Final = 10_000


def not_available_ms(latency_ms: int) -> int:
    """How long a broker of this latency is left alone."""
    for most, pause in zip(reversed(LATENCY_MAX_MS), reversed(NOT_AVAILABLE_MS), strict=True):
        if latency_ms >= most:
            return pause
    return 0


class _Broker:
    """What is known of one."""

    __slots__ = ("available_ms", "check_ms", "latency_ms", "reachable")

    def __init__(self) -> None:
        self.latency_ms = 0
        self.available_ms = 0
        self.check_ms = 0
        self.reachable = True


class LatencyFaults:
    """Brokers by name.  One that nothing is known of is good."""

    def __init__(self, *, detect_interval_ms: int = 2_000) -> None:
        self._brokers: dict[str, _Broker] = {}
        self._detect_interval_ms = detect_interval_ms

    def update(self, broker_name: str, latency_ms: int, now_ms: int, *, failed: bool = False, reachable: bool = True) -> None:
        """After an attempt that took so long.  A pause that is already longer is not cut short."""
        broker = self._brokers.setdefault(broker_name, _Broker())
        broker.latency_ms = latency_ms
        pause = not_available_ms(FAILURE_LATENCY_MS if failed else latency_ms)
        if pause:
            broker.available_ms = max(broker.available_ms, now_ms + pause)
        broker.reachable = reachable

    def is_available(self, broker_name: str, now_ms: int) -> bool:
        """Its pause is over."""
        broker = self._brokers.get(broker_name)
        return broker is None or now_ms >= broker.available_ms

    def is_reachable(self, broker_name: str) -> bool:
        """The last attempt or probe reached it."""
        broker = self._brokers.get(broker_name)
        return broker is None or broker.reachable

    def to_probe(self, now_ms: int, address_of: Callable[[str], str | None]) -> list[tuple[str, str]]:
        """Name and address of the brokers that are to be asked now; those without an address are forgotten."""
        due = []
        for name, broker in list(self._brokers.items()):
            if now_ms < broker.check_ms:
                continue
            broker.check_ms = now_ms + self._detect_interval_ms
            address = address_of(name)
            if address is None:
                del self._brokers[name]
            else:
                due.append((name, address))
        return due

    def answered(self, broker_name: str) -> None:
        """A probe came back."""
        if broker_name in self._brokers:
            self._brokers[broker_name].reachable = True
