"""More of stock `rocketmq-example`: quickstart, broadcast, batch, filter, simple, tracemessage, operation, rpc, benchmark.

As in `test_examples`: none is changed, each runs until it has printed what is expected of it, and the outcome is the same on both
brokers.  Five mains of rpc and simple have 127.0.0.1:9876 in their text: a relay stands there.  Left out is that of access lists
(`simple.AclClient`).  What `benchmark.timer` sends is due in two minutes; nobody waits for it.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conformance.captures.recorder import Recorder
from conformance.subjects.ports import release_port, reserve_exactly
from tests.java.mains import QUEUES, SECONDS, STARTS_MAX, Main, create_topic
from tests.support import remoting
from tests.support.clients import JavaDriver
from tests.support.java import REFERENCE, java
from tests.support.process import until
from tests.support.subject import SUBJECTS, Subject, start_subject

pytestmark = pytest.mark.java

Begin = Callable[..., Main]
TOPICS = (
    "TopicTest",
    "TopicTest1",
    "BatchTest",
    "TagFilterTest",
    "SqlFilterTest",
    "Jodie_topic_1023",
    "OperationTopic",
    "RequestTopic",
    "Load",
    "BatchLoad",
    "HalfLoad",
    "TimerLoad",
)
RETRIES = "%RETRY%G"
"""Of `operation.Consumer`, which would look for it again after half a minute only."""
SETTINGS = {"traceTopicEnable": "true", "enablePropertyFilter": "true"}
ASSIGNED = "please_rename_unique_group_name"
"""The group of mains that assign themselves queues."""
QUERY_CONSUMER_OFFSET, GET_MAX_OFFSET, GET_CONSUMER_LIST_BY_GROUP, DELETE_SUBSCRIPTIONGROUP = 14, 30, 38, 207
TIMER_TOPIC = "rmq_sys_wheel_timer"
IN_THE_MAINS = ("127.0.0.1", 9876)
HEARD = re.compile(r"UNIQ_KEY=(\w+)")
PLACES = re.compile(r"queueId=(\d+), storeSize=\d+, queueOffset=(\d+)")
BENCHMARK_SENT = re.compile(r"Send TPS: (\d+) .*Send Failed: (\d+) \| Response Failed: (\d+)")
BATCHES_SENT = re.compile(r"Send TPS: (\d+) .*Send Failed: (\d+) \| Send Message Failed: (\d+)")
HALVES_SENT = re.compile(r"Send TPS: +(\d+) .*Send Failed: (\d+) \| Check: \d+ \| UnexpectedCheck: (\d+)")
TIMERS_SENT = re.compile(r"Send TPS: (\d+), .*Send Failed: (\d+), Response Failed: (\d+)")
BENCHMARK_HEARD = re.compile(r"Consume TPS: (\d+) .*Consume Fail: (\d+)")


@pytest.fixture(scope="module", params=SUBJECTS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """A name server and a master with a trace topic."""
    java()
    running = start_subject(request.param, tmp_path_factory.mktemp("mains"), properties=SETTINGS)
    for topic in (RETRIES, *TOPICS):
        create_topic(running, topic)
    yield running
    running.end()


@pytest.fixture
def begin(broker: Subject, tmp_path: Path) -> Iterator[Begin]:
    """Starts mains, which end with the test: `begin("simple.Producer", "SendResult", …)` waits for that text, or a condition."""
    with contextlib.ExitStack() as stack:

        def start(name: str, sign: str | Callable[[Main], bool], *arguments: str) -> Main:
            main = Main(tmp_path, name, broker.namesrv, *arguments)
            stack.callback(main.end)
            return main.begin(sign if callable(sign) else lambda main: sign in main.printed())

        yield start


def heard(main: Main) -> list[str]:
    """The unique keys of what a consumer printed, in order."""
    return HEARD.findall(main.printed())


def hears(main: Main, ids: set[str]) -> None:
    """Wait until it has heard all of these."""
    until(lambda: ids <= set(heard(main)), f"{len(ids)} messages in {main.log}", seconds=SECONDS)


def test_quickstart_and_broadcast(begin: Begin) -> None:
    """A thousand messages: each listener of a broadcasting group has all of its tags, so has a group of one."""
    listeners = [begin("broadcast.PushConsumer", "Started"), begin("quickstart.Consumer", "Started")]
    sent = begin("quickstart.Producer", "SendResult").sent(1000)
    assert {one.status for one in sent} == {"SEND_OK"}
    for listener in listeners:
        hears(listener, {one.id for one in sent})


def test_batches(broker: Subject, begin: Begin) -> None:
    """Three messages; and a hundred thousand in batches of some 12,000."""
    begin("batch.SimpleBatchProducer", "SEND_OK")
    until(lambda: _stored(broker, "BatchTest") == 3, "three messages", seconds=SECONDS)
    split = begin("batch.SplitBatchProducer", lambda _: _stored(broker, "BatchTest") >= 100_003)
    assert split.starts > 1 or _stored(broker, "BatchTest") == 100_003, "of who gave up after 3 s some are there twice"


def test_filter_by_tags(begin: Begin) -> None:
    consumer = begin("filter.TagFilterConsumer", "Started")
    sent = begin("filter.TagFilterProducer", "SendResult").sent(60)
    wanted = {one.id for number, one in enumerate(sent) if number % 3 != 1}
    hears(consumer, wanted)
    assert set(heard(consumer)) == wanted


def test_filter_by_properties(begin: Begin) -> None:
    """SQL92: tags A and B, and `a` from 0 to 3, of ten messages."""
    consumer = begin("filter.SqlFilterConsumer", "Started")
    sent = begin("filter.SqlFilterProducer", "SendResult").sent(10)
    hears(consumer, {sent[number].id for number in (0, 1, 3)})
    assert set(heard(consumer)) == {sent[number].id for number in (0, 1, 3)}


def test_simple_producers_and_every_way_to_consume(begin: Begin) -> None:
    consumers = [
        begin("simple.PushConsumer", "Started"),
        begin("simple.LitePullConsumerSubscribe", "["),
        begin("simple.PullScheduleService", "PullResult"),
    ]
    sent = begin("simple.Producer", "SendResult").sent(128)
    assert {one.status for one in sent} == {"SEND_OK"}
    for consumer in consumers[:2]:
        hears(consumer, {one.id for one in sent})
    ends: dict[str, int] = defaultdict(int)
    for one in sent:
        ends[str(one.queue)] = max(ends[str(one.queue)], one.offset + 1)

    def pulled() -> dict[str, int]:
        rows = re.findall(r"queueId=(\d+)\]\tPullResult \[pullStatus=\w+, nextBeginOffset=(\d+)", consumers[2].printed())
        return {queue: max(int(offset) for at, offset in rows if at == queue) for queue in ends if queue in dict(rows)}

    until(lambda: pulled() == ends, f"{ends} in {consumers[2].log}", seconds=SECONDS)
    assigned = begin("simple.LitePullConsumerAssign", "MessageExt")
    until(lambda: len(_queues(assigned)) == QUEUES // 2, "two of four queues", seconds=SECONDS)
    asynchronous = begin("simple.AsyncProducer", "OK")
    until(lambda: len(re.findall(r"^\d+ +OK \w+", asynchronous.printed(), re.M)) == 100, "a hundred", seconds=SECONDS)


def test_queues_that_are_assigned_with_tags(broker: Subject, begin: Begin) -> None:
    """One queue from its tenth message on, the others from their first; all of one tag.

    The stock consumer may lose its own seek: when the pull that it began at the assignment asks where to begin only after the
    seek, the seek is taken by that pull, which is called off by then, and the next one begins where the group is
    (`DefaultLitePullConsumerImpl`, `nextPullOffset`).  Then the main is begun again.
    """
    sent = begin("simple.Producer", "SendResult").sent(128)
    assert {one.queue for one in sent} == set(range(QUEUES))
    for _ in range(STARTS_MAX):
        forgotten = {"groupName": ASSIGNED, "cleanOffset": "true"}  # where another main of this group has been
        assert remoting.ask(broker.address, DELETE_SUBSCRIPTIONGROUP, forgotten).code == 0
        printed = _what_four_queues_begin_with(begin("simple.LitePullConsumerAssignWithSubExpression", "MessageExt"))
        first: dict[str, int] = {}
        for queue, offset in PLACES.findall(printed):
            first[queue] = min(int(offset), first.get(queue, int(offset)))
        if sorted(first.values()) != [0, 0, 0, 0]:  # what a lost seek comes to, and nothing else
            break
    assert sorted(first.values()) == [0, 0, 0, 10]
    assert set(re.findall(r"TAGS=(\w+)", printed)) == {"TagA"}


def _what_four_queues_begin_with(assigned: Main) -> str:
    until(lambda: len(_queues(assigned)) == QUEUES, "four queues", seconds=SECONDS)
    assigned.kill()
    printed = assigned.printed()
    assigned.log.unlink()
    return printed


def test_one_way_to_who_pulls_and_commits(broker: Subject, begin: Begin, tmp_path: Path) -> None:
    """A hundred messages without answers are all there; who pulls them in a loop of its own has its progress committed."""
    group = "please_rename_unique_group_name_5"
    with _relay_to(broker.namesrv), contextlib.ExitStack() as stack:
        consumer, producer = (Main(tmp_path, f"simple.{name}", broker.namesrv) for name in ("PullConsumer", "OnewayProducer"))
        for main in (consumer, producer):
            stack.callback(main.end)
        consumer.begin(lambda _: _is_member(broker, group))
        before = _stored(broker, "TopicTest")
        producer.begin(lambda _: _stored(broker, "TopicTest") == before + 100)
        until(lambda: not producer.running, "its end", seconds=SECONDS)
        ends = [_end(broker, "TopicTest", queue) for queue in range(QUEUES)]
        assert sum(ends) == before + 100
        read = [{"consumerGroup": group, "topic": "TopicTest", "queueId": str(queue)} for queue in range(QUEUES)]

        def progress() -> list[int]:
            answers = [remoting.ask(broker.address, QUERY_CONSUMER_OFFSET, fields) for fields in read]
            return [int(answer.ext.get("offset", -1)) for answer in answers]

        until(lambda: progress() == ends, f"progress {ends}", seconds=SECONDS)


def test_who_pops(broker: Subject, begin: Begin) -> None:
    """A group whose mode the main sets to POP before it consumes: it gets what is sent, and the broker shares the queues out."""
    with _relay_to(broker.namesrv):
        consumer = begin("simple.PopConsumer", "Started")
        sent = begin("simple.Producer", "SendResult").sent(128)
        hears(consumer, {one.id for one in sent})
        assert "POP_CK" in consumer.printed()


@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
def test_traces(broker: Subject, begin: Begin, clients: JavaDriver) -> None:
    consumer = begin("tracemessage.TracePushConsumer", "Started")
    sent = begin("tracemessage.TraceProducer", "SendResult").sent(128)
    hears(consumer, {one.id for one in sent})

    def traced() -> bool:
        printed = clients.mqadmin("queryMsgTraceById", "-n", broker.namesrv, "-i", sent[0].id).out
        rows = {line.split()[0]: line.split() for line in printed.splitlines() if line.startswith(("Pub", "Sub"))}
        return {kind: (row[1], row[-1]) for kind, row in rows.items()} == {
            "Pub": ("ProducerGroupName", "success"),
            "Sub": ("ProducerGroupName", "success"),
        }

    until(traced, "its trace", seconds=SECONDS)


def test_open_traces(begin: Begin) -> None:
    """Spans go elsewhere, messages through the broker: of a producer, and of one in transactions."""
    consumer = begin("tracemessage.OpenTracingPushConsumer", "Started")
    sent = begin("tracemessage.OpenTracingProducer", "SendResult").sent(1)
    [half] = begin("tracemessage.OpenTracingTransactionProducer", "SendResult").sent(1)
    assert {one.status for one in (*sent, half)} == {"SEND_OK"}
    hears(consumer, {one.id for one in (*sent, half)})


def test_operation(begin: Begin) -> None:
    """A consumer that fails every second call is given those again, ten seconds later."""
    consumer = begin("operation.Consumer", "Started", "-g", "G", "-t", "OperationTopic", "-s", "*", "-f", "true")
    arguments = ("-g", "P", "-t", "OperationTopic", "-a", "TagA", "-k", "k", "-c", "10")
    sent = begin("operation.Producer", "SendResult", *arguments).sent(10)
    until(lambda: len(heard(consumer)) >= 15, "ten and the first five retries", seconds=SECONDS)
    assert set(heard(consumer)) == {one.id for one in sent}


def test_request_and_reply(broker: Subject, begin: Begin) -> None:
    with _relay_to(broker.namesrv):
        replier = begin("rpc.ResponseConsumer", "Started")
        for requester in ("rpc.RequestProducer", "rpc.AsyncRequestProducer"):
            assert any(_answered(begin, requester) for _ in range(STARTS_MAX)), f"no reply to {requester}"
        assert "reply to " in replier.printed()


def test_benchmark(broker: Subject, begin: Begin) -> None:
    """Two lines of figures: messages go through, none fails."""
    consumer = begin("benchmark.Consumer", "Consumer Started", "-n", broker.namesrv, "-t", "Load", "-g", "load", "-ri", "1000")
    producer = begin("benchmark.Producer", "TPS", "-n", broker.namesrv, "-t", "Load", "-w", "1", "-s", "128", "-ri", "1000")
    rows = until(lambda: _two(BENCHMARK_SENT.findall(producer.printed())), "figures", seconds=SECONDS)
    assert all(int(sent) > 0 and (failed, unanswered) == ("0", "0") for sent, failed, unanswered in rows)
    producer.end()
    stored = _stored(broker, "Load")
    assert stored >= sum(int(sent) for sent, _, _ in rows[:1])
    until(lambda: any(int(tps) > 0 for tps, _ in BENCHMARK_HEARD.findall(consumer.printed())), "figures", seconds=SECONDS)
    assert {failed for _, failed in BENCHMARK_HEARD.findall(consumer.printed())} == {"0"}


def test_benchmark_of_batches_and_transactions(broker: Subject, begin: Begin) -> None:
    """None fails, and who ends a transaction by itself is not asked about it."""
    producers = []
    for name, topic, rows_of in (("BatchProducer", "BatchLoad", BATCHES_SENT), ("TransactionProducer", "HalfLoad", HALVES_SENT)):
        arguments = ("-n", broker.namesrv, "-t", topic, "-w", "1", "-s", "128", "-ri", "1000")
        producers.append((begin(f"benchmark.{name}", "", *arguments), topic, rows_of))
    for producer, topic, rows_of in producers:
        rows = until(lambda main=producer, row=rows_of: _two(row.findall(main.printed())), "figures", seconds=SECONDS)  # type: ignore[misc]
        assert all(int(sent) > 0 and (failed, other) == ("0", "0") for sent, failed, other in rows)
        producer.end()
        assert _stored(broker, topic) >= sum(int(sent) for sent, _, _ in rows[:1])


def test_benchmark_of_timers(broker: Subject, begin: Begin) -> None:
    """Sixty messages for three seconds in two minutes' time wait in the timer's topic."""
    begin("benchmark.timer.TimerConsumer", "Start receiving", "-n", broker.namesrv, "-t", "TimerLoad")
    before = _end(broker, TIMER_TOPIC, 0)
    arguments = ("-tc", "1", "-ms", "128", "-st", "3", "-mt", "20", "-sd", "1000")
    producer = begin("benchmark.timer.TimerProducer", "TPS", "-n", broker.namesrv, "-t", "TimerLoad", *arguments)
    until(lambda: _end(broker, TIMER_TOPIC, 0) >= before + 60, "sixty timers", seconds=SECONDS)
    rows = until(lambda: TIMERS_SENT.findall(producer.printed()), "figures", seconds=SECONDS)
    assert {(failed, unanswered) for _, failed, unanswered in rows} == {("0", "0")}
    assert _stored(broker, "TimerLoad") == 0


def _two(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return rows if len(rows) >= 2 else []


def _answered(begin: Begin, name: str) -> bool:
    """It waits 3 s for its reply, and on a busy machine in vain: then it is asked again."""
    asking = begin(name, "request to <RequestTopic>")
    return "replyMessage: " in asking.printed() and "reply message contents" not in asking.printed().partition("Exception")[2]


def _queues(main: Main) -> set[str]:
    return {queue for queue, _ in PLACES.findall(main.printed())}


def _stored(broker: Subject, topic: str) -> int:
    """Messages in all queues of a topic."""
    return sum(_end(broker, topic, queue) for queue in range(QUEUES))


def _end(broker: Subject, topic: str, queue: int) -> int:
    answer = remoting.ask(broker.address, GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue)})
    return int(answer.ext["offset"])


def _is_member(broker: Subject, group: str) -> bool:
    """Somebody consumes for the group."""
    return remoting.ask(broker.address, GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group}).code == 0


@contextlib.contextmanager
def _relay_to(address: str) -> Iterator[None]:
    """Whoever connects to 127.0.0.1:9876 meanwhile, reaches this address.  Waits for other runs; skips where a server listens."""
    port = IN_THE_MAINS[1]
    until(lambda: reserve_exactly(port), f"the end of another run's tests at port {port}", seconds=SECONDS)
    try:
        try:
            relay = Recorder(IN_THE_MAINS, remoting.split_address(address))
        except OSError:
            pytest.skip("somebody else listens at 127.0.0.1:9876, which stands in these mains")
        with relay:
            yield
    finally:
        release_port(port)
