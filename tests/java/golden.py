"""Makes the golden frames in `conformance/golden`: what stock clients and the real servers say to each other.

    python -m tests.java.golden [registration]

Each file is one kind of client in one header form, the first exchanges of every code, through `conformance.captures.recorder`.
"""

from __future__ import annotations

import contextlib
import datetime
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from conformance.captures.frames import pick, save
from conformance.captures.recorder import Frame, Recorder
from tests.java.flows import drain, producer, push
from tests.support.clients import JavaDriver, JavaError
from tests.support.java import OLD_CLIENT, OLD_SERVER, REFERENCE
from tests.support.process import until
from tests.support.subject import Subject, start_broker, start_name_server, version_of

GOLDEN = Path(__file__).resolve().parents[2] / "conformance" / "golden"
RELAYED = "127.0.0.2"
"""The address that the servers advertise; the recorder listens there."""
CLASSIC_HEADER = "-Dorg.apache.rocketmq.client.sendSmartMsg=false"
"""Producers then send code 10 with long field names instead of 310."""

Flow = Callable[["JavaDriver", "Subject", "Names", str], None]
"""What one kind of client does, on a topic of the name given."""


class Names:
    """`fresh` of the tests, for a script."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, stem: str) -> str:
        self.count += 1
        return f"{stem}-{self.count}"


class Stage(NamedTuple):
    """A name server and a broker that everybody reaches through recorders."""

    subject: Subject
    names_relay: Recorder
    broker_relay: Recorder


@contextlib.contextmanager
def stage(directory: Path, kind: str = "java", properties: Mapping[str, str] | None = None) -> Iterator[Stage]:
    """Both servers and both recorders, started."""
    old = version_of(kind).startswith("4.")
    advertised = "127.0.0.1" if old else RELAYED  # 4.x listens on every address: nothing is left to relay at
    addresses = {"brokerIP1": advertised, "brokerIP2": advertised, **(properties or {})}
    with contextlib.ExitStack() as stack:
        names = start_name_server(kind, directory / "namesrv")
        stack.callback(names.end)
        names_relay = stack.enter_context(Recorder(("127.0.0.1", 0), ("127.0.0.1", names.port)))
        address = f"127.0.0.1:{names_relay.address[1]}"
        broker = start_broker(kind, directory / "broker", address, properties=addresses, wait=False)
        stack.callback(broker.end)
        relay = stack.enter_context(Recorder((RELAYED, 0 if old else broker.port), ("127.0.0.1", broker.port)))
        broker.wait_ready()
        at = f"{advertised}:{broker.port}"
        subject = Subject(kind, address, at, broker.broker_name, "DefaultCluster", broker.store, broker)
        yield Stage(subject, names_relay, relay)


def produce(clients: JavaDriver, subject: Subject, fresh: Names, topic: str) -> None:
    """Every form of sending, and what a producer may ask."""
    with producer(clients, subject, fresh) as p:
        at: dict[str, Any] = {"producer": p, "topic": topic, "broker": subject.broker_name, "queue": 1}
        clients.call("send", producer=p, topic=topic, body="sync", tags="TagA", keys="k1 k2", flag=3, **{"p.colour": "grün"})
        clients.call("send", form="oneway", producer=p, topic=topic, body="oneway")
        clients.call("send", form="async", producer=p, topic=topic, body="async", tags="TagB")
        clients.call("send", form="batch", count=3, body="batch", tags="TagA,TagB", keys="b", **at)
        clients.call("send", form="queue", size=6_000, **at)
        clients.call("send", producer=p, topic=topic, body="delayed", delay=1)
        for question in ("max_offset", "min_offset", "earliest_store_time"):
            clients.call(question, **at)
        clients.call("search_offset", timestamp=1, **at)
        [found] = until(lambda: _query(clients, p, topic), "the index")
        clients.call("view_message", producer=p, topic=topic, id=found["offset_msg_id"])
        with contextlib.suppress(JavaError):
            clients.call("query_message", producer=p, topic=topic, key="absent")
        with contextlib.suppress(JavaError):
            clients.call("producer.create_topic", producer=p, topic="made-by-producer", queues=2)


def _query(clients: JavaDriver, p: str, topic: str) -> Any:
    with contextlib.suppress(JavaError):
        return clients.call("query_message", producer=p, topic=topic, key="k2")


def consume(clients: JavaDriver, subject: Subject, fresh: Names, topic: str) -> None:
    """Push (one retry, two members, in order, broadcasting), lite pull and legacy pull."""
    group = fresh("GID")
    with (
        producer(clients, subject, fresh) as p,
        push(clients, subject, fresh, topic, group=group, failures=1, delay_level=1) as one,
        push(clients, subject, fresh, topic, group=group) as two,
    ):
        clients.call("send", producer=p, topic=topic, count=8, body="m", tags="TagA")
        clients.wait_messages([one, two], 8)
        until(lambda: any(m["reconsume_times"] for c in (one, two) for m in clients.messages(c)), "a retry")
        with push(clients, subject, fresh, topic, orderly=True) as ordered:
            clients.wait_messages(ordered, 8)
        with push(clients, subject, fresh, topic, model="BROADCASTING", expression="TagA || TagB") as all_:
            clients.wait_messages(all_, 8)
    lite = fresh("lite")
    clients.call("lite.start", name=lite, namesrv=subject.namesrv, group=fresh("GID"), topic=topic)
    until(lambda: clients.call("lite.poll", consumer=lite, timeout_ms=500), "lite pull")
    clients.call("lite.commit", consumer=lite)
    clients.call("lite.stop", consumer=lite)
    drain(clients, subject, fresh, topic, 0)


ADMIN = (
    "clusterList",
    "topicList",
    "topicList -c",
    "updateTopic -b {broker} -t {topic}-made -r 4 -w 4",
    "topicRoute -t {topic}",
    "topicStatus -t {topic}",
    "topicClusterList -t {topic}",
    "updateSubGroup -b {broker} -g GID-made",
    "consumerProgress",
    "consumerProgress -g {group}",
    "consumerConnection -g {group}",
    "producerConnection -g {producers} -t {topic}",
    "brokerStatus -b {broker}",
    "getBrokerConfig -b {broker}",
    "updateBrokerConfig -b {broker} -k maxDelayTime -v 50",
    "getNamesrvConfig",
    "sendMessage -t {topic} -p hello -k key -c TagC",
    "queryMsgByKey -t {topic} -k key",
    "queryMsgByOffset -t {topic} -b {name} -i 0 -o 0",
    "printMsg -t {topic} -d true",
    "statsAll -t {topic}",
    "updateKvConfig -s ns -k key -v value",
    "deleteKvConfig -s ns -k key",
    "wipeWritePerm -b {name}",
    "addWritePerm -b {name}",
    "deleteTopic -c DefaultCluster -t {topic}-made",
)


def administer(clients: JavaDriver, subject: Subject, fresh: Names, topic: str) -> None:
    """mqadmin commands, with a consumer and a producer to look at."""
    with producer(clients, subject, fresh) as p, push(clients, subject, fresh, topic) as c:
        clients.call("send", producer=p, topic=topic, count=4, body="m", keys="key")
        clients.wait_messages(c, 4)
        names = {
            "broker": subject.address,
            "name": subject.broker_name,
            "topic": topic,
            "group": f"group-{c}",
            "producers": f"group-{p}",
        }
        for line in ADMIN:
            clients.mqadmin(*line.format(**names).split(), "-n", subject.namesrv)


FLOWS: dict[str, Flow] = {"producer": produce, "consumer": consume, "admin": administer}


def make_frames(*, clients: bool = True) -> None:
    """All files of frames, or only those between brokers and name servers."""
    with tempfile.TemporaryDirectory() as scratch, stage(Path(scratch)) as on:
        about = f"A {REFERENCE} broker starts and registers with a {REFERENCE} name server."
        _save(f"registration-{REFERENCE}", on.names_relay.frames(), about)
        if clients:
            for version in (REFERENCE, OLD_CLIENT):
                for form in ("JSON", "ROCKETMQ"):
                    _record(Path(scratch), on, FLOWS, version, form)
            _record(Path(scratch), on, {"producer-classic": produce}, REFERENCE, "JSON", CLASSIC_HEADER)
    with tempfile.TemporaryDirectory() as scratch, stage(Path(scratch), f"java-{OLD_SERVER}") as on:
        about = f"A {OLD_SERVER} broker starts and registers with a {OLD_SERVER} name server."
        _save(f"registration-{OLD_SERVER}", on.names_relay.frames(), about)


def record(clients: JavaDriver, on: Stage, flow: Flow, topic: str) -> list[Frame]:
    """What passes while one flow plays, without what the broker itself says to the name server."""
    at_names, at_broker = len(on.names_relay.frames()), len(on.broker_relay.frames())
    flow(clients, on.subject, Names(), topic)
    brokers_own = {frame.connection for frame in on.names_relay.frames()[:at_names]}
    asked = [frame for frame in on.names_relay.frames()[at_names:] if frame.connection not in brokers_own]
    after = 1 + max((frame.connection for frame in asked), default=0)
    return asked + [frame._replace(connection=frame.connection + after) for frame in on.broker_relay.frames()[at_broker:]]


@contextlib.contextmanager
def speaking(directory: Path, version: str, form: str, *flags: str) -> Iterator[JavaDriver]:
    """Clients of one version that speak one header form; they play the flows one after the other."""
    with JavaDriver(directory / f"{version}-{form}", version, form=form, flags=flags) as clients:
        clients.call("rebalance_interval", ms=1000)
        yield clients


def file_of(kind: str, version: str, form: str) -> str:
    """The name of a file of frames, without its suffix."""
    return f"{kind}-{version}-{form.lower()}"


def _record(scratch: Path, on: Stage, flows: Mapping[str, Flow], version: str, form: str, *flags: str) -> None:
    """One file a flow."""
    with speaking(scratch / "-".join(flows), version, form, *flags) as clients:
        for kind, flow in flows.items():
            name = file_of(kind, version, form)
            frames = record(clients, on, flow, name.replace(".", "_"))
            how = ", ".join((flow.__name__, f"{form} headers", *flags))
            _save(name, frames, f"A {version} client ({how}) and a {REFERENCE} name server and broker.")


def _save(name: str, frames: list[Frame], about: str) -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    # Without the connections of this harness, which asks whether the broker is registered yet (with blanks in its JSON).
    own = {frame.connection for frame in frames if b'"code": 106' in frame.data}
    frames = [frame for frame in frames if frame.connection not in own]
    save(GOLDEN / f"{name}.bin", pick(frames), f"{about}\n{made()}")


def made() -> str:
    return f"Made by `python -m tests.java.golden` on {datetime.date.today()}."


if __name__ == "__main__":
    make_frames(clients=sys.argv[1:] != ["registration"])
