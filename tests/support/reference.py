"""The real Apache RocketMQ as subprocesses on loopback: the harness's own (`conformance.subjects.jars`).

What Java lacks here skips the test, as `tests.support.java` has it.  Usable without pytest:

    with JavaNameServer(directory / "ns") as names, JavaBroker(directory / "broker", names.address) as broker: ...
"""

from __future__ import annotations

from conformance.subjects import jars
from conformance.subjects.java import DISK
from conformance.subjects.own import registered
from conformance.subjects.properties import ENDS_AT_ONCE, PATIENT, QUIET, SMALL_STORE
from tests.support.java import classpath

__all__ = ["DISK", "ENDS_AT_ONCE", "PATIENT", "QUIET", "SMALL_STORE", "JavaBroker", "JavaNameServer", "registered"]


class JavaNameServer(jars.JavaNameServer):
    """`org.apache.rocketmq.namesrv.NamesrvStartup`."""

    def classpath(self) -> str:
        return classpath(self.version)


class JavaBroker(jars.JavaBroker):
    """`org.apache.rocketmq.broker.BrokerStartup`."""

    def classpath(self) -> str:
        return classpath(self.version)
