"""The version that a table carries: by which a name server, a slave or a paging client sees that it has changed."""

from __future__ import annotations

from rmq_wire.bodies.body import Body
from rmq_wire.declare import I64


class DataVersion(Body, eq=True):
    """`org.apache.rocketmq.remoting.protocol.DataVersion`: equal when all three are equal.  `timestamp` is wall milliseconds."""

    counter: I64 = 0
    state_version: I64 = 0
    timestamp: I64 = 0

    def advance(self, wall_ms: int, state_version: int = 0) -> None:
        """Java's `nextVersion`: the table was changed now.  `state_version` is the controller's epoch, 0 without one."""
        self.timestamp = wall_ms
        self.state_version = state_version
        self.counter += 1

    def copy(self) -> DataVersion:
        """A version that later changes of this one do not touch."""
        return DataVersion(counter=self.counter, state_version=self.state_version, timestamp=self.timestamp)

    def assign(self, other: DataVersion) -> None:
        """Take over the values of `other`."""
        self.counter, self.state_version, self.timestamp = other.counter, other.state_version, other.timestamp
