"""Makes the golden captures in `conformance/golden/captures`: whole sessions of stock clients with the real 5.5.0 servers.

    python -m tests.java.golden_captures [NAME...]
    python -m tests.java.golden_captures --decode-again    the same frames, taken apart as it is done now

Each session has servers of its own, so that a replay to fresh servers finds what the recording found.  Clients come through
`conformance.captures.session`; what they did stands in the file.  Sessions avoid what only chance decides: a topic is made before
its consumer starts, one message is retried at a time.
"""

from __future__ import annotations

import datetime
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from conformance.captures.file import read, write
from conformance.captures.session import Recording
from tests.java.flows import producer, push
from tests.java.golden import GOLDEN, Names
from tests.support.clients import JavaDriver
from tests.support.java import OLD_CLIENT, REFERENCE
from tests.support.process import until
from tests.support.subject import Subject, start_subject

CAPTURES: Final = GOLDEN / "captures"
TOPIC: Final = "captured"
DIRECT: Final = "direct"
"""Name of clients that look at the server past the relay."""


class Place(NamedTuple):
    """Where a session plays."""

    clients: JavaDriver
    relayed: Subject
    """As clients that are recorded see it."""
    direct: Subject
    """The same past the relay."""
    fresh: Names

    def make_topic(self, topic: str = TOPIC) -> None:
        """Recorded: mqadmin makes a topic with two queues; then it is waited, unrecorded, until the name server knows it."""
        self.mqadmin(f"updateTopic -b {self.relayed.address} -t {topic} -r 2 -w 2")
        look = ["topicRoute", "-t", topic, "-n", self.direct.namesrv]
        until(lambda: "brokerDatas" in self.clients.mqadmin(*look).out, "the route")

    def mqadmin(self, line: str) -> None:
        """One recorded command."""
        self.clients.mqadmin(*line.split(), "-n", self.relayed.namesrv)


def send(on: Place) -> None:
    """A producer: every form of sending; where the queue begins and ends; a query by key."""
    on.make_topic()
    with producer(on.clients, on.relayed, on.fresh) as p:
        at = {"producer": p, "topic": TOPIC, "broker": on.relayed.broker_name, "queue": 1}
        call = on.clients.call
        call("send", producer=p, topic=TOPIC, body="sync", tags="TagA", keys="k1 k2", flag=3, **{"p.colour": "grün"})
        call("send", form="async", producer=p, topic=TOPIC, body="async", tags="TagB")
        call("send", form="batch", count=3, body="batch", tags="TagA,TagB", keys="b", **at)
        call("send", form="queue", size=6_000, **at)
        call("send", producer=p, topic=TOPIC, body="delayed", delay=1)
        for question in ("max_offset", "min_offset", "earliest_store_time"):
            call(question, **at)
        call("search_offset", timestamp=1, **at)
        call("send", form="oneway", body="oneway", producer=p, topic=TOPIC)  # last: what follows at once may overtake it
        look = ["queryMsgByKey", "-t", TOPIC, "-k", "k2", "-n", on.direct.namesrv]
        until(lambda: on.clients.mqadmin(*look).out.count("\n") > 1, "the index")
        call("query_message", producer=p, topic=TOPIC, key="k2")


def consume(on: Place) -> None:
    """A push consumer gets messages one by one and sends the first back, which comes again after its delay."""
    on.make_topic()
    with (
        push(on.clients, on.relayed, on.fresh, TOPIC, failures=1, delay_level=1) as c,
        producer(on.clients, on.relayed, on.fresh) as p,
    ):
        on.clients.call("send", producer=p, topic=TOPIC, body="again", tags="TagA")
        again = lambda: any(m["reconsume_times"] for m in on.clients.messages(c))  # noqa: E731
        on.clients.wait(again, "the retry")
        for count in (2, 3):
            on.clients.call("send", producer=p, topic=TOPIC, body=f"later{count}", tags="TagA", keys="key")
            on.clients.wait_messages(c, count + 1)


def in_order(on: Place) -> None:
    """A consumer that reads in order: queues are locked, messages of one key come from one queue."""
    on.make_topic()
    with producer(on.clients, on.relayed, on.fresh) as p:
        on.clients.call("send", producer=p, topic=TOPIC, form="selector", count=4, spread=1, body="m", tags="TagA")
        with push(on.clients, on.relayed, on.fresh, TOPIC, orderly=True) as c:
            on.clients.wait_messages(c, 4)


def transact(on: Place) -> None:
    """A transaction is committed, another one rolled back; a consumer gets the first."""
    on.make_topic()
    with producer(on.clients, on.relayed, on.fresh, transactions=True) as p:
        for outcome in ("COMMIT_MESSAGE", "ROLLBACK_MESSAGE"):
            on.clients.call("send", form="transaction", outcome=outcome, producer=p, topic=TOPIC, body=outcome, keys="tx")
        with push(on.clients, on.relayed, on.fresh, TOPIC) as c:
            on.clients.wait_messages(c, 1)


ADMIN: Final = (
    "clusterList",
    "topicList",
    "topicList -c",
    "topicRoute -t {topic}",
    "topicStatus -t {topic}",
    "topicClusterList -t {topic}",
    "updateSubGroup -b {broker} -g GID-made",
    "consumerProgress -g {group}",
    "consumerConnection -g {group}",
    "producerConnection -g {producers} -t {topic}",
    "brokerStatus -b {broker}",
    "getBrokerConfig -b {broker}",
    "updateBrokerConfig -b {broker} -k maxDelayTime -v 50",
    "getNamesrvConfig",
    "queryMsgByOffset -t {topic} -b {name} -i 0 -o 0",
    "updateKvConfig -s ns -k key -v value",
    "deleteKvConfig -s ns -k key",
    "wipeWritePerm -b {name}",
    "addWritePerm -b {name}",
    "deleteTopic -c DefaultCluster -t {topic}",
)


def administer(on: Place) -> None:
    """mqadmin commands, with a consumer and a producer to look at."""
    on.make_topic()
    with producer(on.clients, on.relayed, on.fresh) as p, push(on.clients, on.relayed, on.fresh, TOPIC) as c:
        at = {"producer": p, "topic": TOPIC, "broker": on.relayed.broker_name, "queue": 0}
        on.clients.call("send", form="queue", body="m", keys="key", **at)
        on.clients.wait_messages(c, 1)
        names = {"broker": on.relayed.address, "name": on.relayed.broker_name, "topic": TOPIC}
        for line in ADMIN:
            on.mqadmin(line.format(**names, group=f"group-{c}", producers=f"group-{p}"))


class Session(NamedTuple):
    """One capture."""

    flow: Callable[[Place], None]
    version: str = REFERENCE
    form: str = "JSON"


SESSIONS: Final = {
    "producer-5.5.0": Session(send),
    "producer-5.5.0-rocketmq": Session(send, form="ROCKETMQ"),
    "producer-4.9.8": Session(send, OLD_CLIENT),
    "push-consumer-5.5.0": Session(consume),
    "push-consumer-4.9.8": Session(consume, OLD_CLIENT),
    "orderly-consumer-5.5.0": Session(in_order),
    "transactions-5.5.0": Session(transact),
    "mqadmin-5.5.0": Session(administer),
}


def make(name: str, subject: str = "java") -> None:
    """Record one session against servers of its own."""
    session = SESSIONS[name]
    with tempfile.TemporaryDirectory() as scratch:
        running = start_subject(subject, Path(scratch) / "servers")
        try:
            with Recording(running.namesrv) as recording:
                relayed = replace(running, namesrv=recording.address, address=recording.relay_of(running.address))
                with JavaDriver(Path(scratch) / "clients", session.version, form=session.form) as clients:
                    clients.call("rebalance_interval", ms=1000)
                    session.flow(Place(clients, relayed, running, Names()))
                command = f"python -m tests.java.golden_captures {name}"
                what = (session.flow.__doc__ or "").strip()
                about = f"A {session.version} client, {session.form} headers, {datetime.date.today()}. {what}"
                label = f"Apache RocketMQ {REFERENCE} (jars)" if subject == "java" else subject
                capture = recording.capture(command, label, about)
        finally:
            running.end()
    CAPTURES.mkdir(parents=True, exist_ok=True)
    write(CAPTURES / f"{name}.jsonl", capture)


def decode_again() -> None:
    """Write each file anew from its frames."""
    for path in sorted(CAPTURES.glob("*.jsonl")):
        write(path, read(path))


if __name__ == "__main__":
    if sys.argv[1:] == ["--decode-again"]:
        decode_again()
        sys.exit()
    for wanted in sys.argv[1:] or SESSIONS:
        make(wanted)
        print(wanted)
