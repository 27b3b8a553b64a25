"""What brokers are told every 30 s: all that a client's groups subscribe to, or (version 2) only that nothing of it has changed.

A broker that speaks version 2 gets a short heartbeat as long as it has this very fingerprint of ours, over this very connection:
one that was started again knows nothing, and hears all at once.  What it says has changed (another member subscribes otherwise)
makes the next one whole.
Source: `MQClientInstance.sendHeartbeatToBrokerV2`, `HeartbeatData.computeHeartbeatFingerprint`.
"""

from __future__ import annotations

from typing import NamedTuple

from rmq_wire.bodies.heartbeat import HeartbeatData
from rmq_wire.command import Command
from rmq_wire.headers.clients import HeartbeatResponse
from rmq_wire.java import string_hash


def fingerprint(data: HeartbeatData) -> int:
    """Of what is said in it, whoever says it and when it was first said; never 0, which is version 1."""
    plain = HeartbeatData.read(data.encode())
    plain.client_id, plain.heartbeat_fingerprint, plain.without_sub = "", 0, False
    for consumer in plain.consumer_data_set:
        for subscription in consumer.subscription_data_set:
            subscription.sub_version = 0
    return string_hash(plain.encode().decode()) or 1


class Round(NamedTuple):
    """One heartbeat to all brokers.  `short`: None in version 1."""

    whole: bytes
    short: bytes | None
    fingerprint: int


class Heartbeats:
    """Which broker has heard what."""

    def __init__(self, version_2: bool) -> None:
        self._version_2 = version_2
        self._heard: dict[str, tuple[int, object]] = {}
        """Address -> fingerprint, and over which connection."""

    def forget(self) -> None:
        """The queues are shared out anew: say all once more."""
        self._heard.clear()

    def round(self, data: HeartbeatData) -> Round:
        """What is to be said now."""
        if not self._version_2:
            return Round(data.encode(), None, 0)
        mark = data.heartbeat_fingerprint = fingerprint(data)
        whole = data.encode()
        for consumer in data.consumer_data_set:
            consumer.subscription_data_set = []
        data.without_sub = True
        return Round(whole, data.encode(), mark)

    def body(self, said: Round, address: str, connection: object | None) -> bytes:
        """For this broker."""
        known = connection is not None and self._heard.get(address) == (said.fingerprint, connection)
        return said.short if known and said.short is not None else said.whole

    def answered(self, said: Round, address: str, connection: object | None, answer: Command) -> None:
        """It has heard it over this connection."""
        if said.short is None:
            return
        told = HeartbeatResponse.decode(answer.ext_map())
        if told.is_support_heart_beat_v2 and not told.is_sub_change and connection is not None:
            self._heard[address] = (said.fingerprint, connection)
        else:
            self._heard.pop(address, None)
