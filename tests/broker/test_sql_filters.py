"""SQL92 subscriptions at the broker: who may pull with one and what comes, what waits, and what the file keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker_impl.engine import shares
from broker_impl.filtering import ROWS_MAX, PropertyFilter
from broker_impl.state import consumer_filters
from broker_impl.state.consumer_filters import CHARACTERS_OF_TOPIC_MAX, FILTERS_OF_TOPIC_MAX
from rmq_store.errors import Cold
from rmq_store.read.asked import UNITS_MAX
from rmq_wire.batch import Item
from rmq_wire.bloom import Bloom
from rmq_wire.bodies.heartbeat import CheckClientRequest, SubscriptionData
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.clients import CheckClientConfig, UnregisterClient
from rmq_wire.headers.configuration import UpdateBrokerConfig
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.query import QueryConsumeQueue
from rmq_wire.sql92 import selector
from rmq_wire.sql92.selector import CHARACTERS_MAX
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.requests import SUBSCRIPTION, SUSPEND, batch, beat, heartbeat, pairs, pull, said, send, units

SQL = {"expression_type": "SQL92"}
FILE = "config/consumerFilter.json"


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    harness = Harness(tmp_path, enablePropertyFilter="true")
    harness.topic("T")
    return harness


def put(harness: Harness, *numbers: int, topic: str = "T") -> None:
    client = harness.connect()
    for number in numbers:
        assert client.ask(send(topic=topic, properties=pairs(n=str(number))), b"m%d" % number).code == 0


def bodies(body: bytes) -> list[str]:
    return [bytes(unit.body).decode() for unit in units(body)]


def check(client: Client, text: str, kind: str = "SQL92") -> tuple[int, str | None]:
    asked = CheckClientRequest(
        client_id="c", group="G", subscription_data=SubscriptionData(topic="T", sub_string=text, expression_type=kind)
    )
    return said(client.ask(CheckClientConfig(), asked.encode()))[:2]


def test_by_heartbeat_and_in_the_pull(harness: Harness) -> None:
    put(harness, 1, 2, 3, 4)
    client = harness.connect()
    heartbeat(client, expression="n > 2", **SQL)
    answer = client.ask(pull(flags=0, subscription=None, sub_version=1))
    assert (answer.code, bodies(answer.body)) == (0, ["m3", "m4"])
    assert answer.ext_map()["nextBeginOffset"] == "4"
    answer = client.ask(pull(subscription="n IN ('1', '4')", **SQL))
    assert (answer.code, bodies(answer.body)) == (0, ["m1", "m4"])
    assert said(client.ask(pull(subscription="n > 9", **SQL)))[:2] == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")


def test_what_is_wrong(harness: Harness) -> None:
    """27 and 28, 23, and the quirk of expressions in the pull itself that cannot be compiled."""
    put(harness, 1, 2)
    client = harness.connect()
    missing = (27, "The broker's consumer filter data is not exist!Your expression may be wrong!")
    heartbeat(client, expression="n > = 2", **SQL)
    assert said(client.ask(pull(flags=0, subscription=None)))[:2] == missing
    assert len(harness.node.filters) == 0
    assert bodies(client.ask(pull(subscription="n > = 2", **SQL)).body) == ["m1", "m2"]
    long = "n = " + "1" * CHARACTERS_MAX
    assert said(client.ask(pull(subscription=long, **SQL)))[:2] == (23, "parse the consumer's subscription failed")
    heartbeat(client, group="H", expression="n > 1", **SQL)
    found = harness.node.filters.get("T", "H")
    assert found is not None
    found.said.client_version = 0
    stale = client.ask(pull(consumer_group="H", flags=0, subscription=None, sub_version=1))
    assert said(stale)[:2] == (28, "the consumer's consumer filter data not latest")


def test_asked_beforehand(harness: Harness) -> None:
    client = harness.connect()
    assert check(client, "a > 1 AND b = 'x'") == (0, None)
    code, remark = check(client, "a = = 2")
    assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert (remark or "").startswith(
        'org.apache.rocketmq.filter.parser.ParseException: Encountered " "=" "= "" at line 1, column 5.'
    )
    assert check(client, "a", kind="LUA")[0] == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert check(client, "x" * (1 << 20))[0] != 0
    harness.node.config.enable_property_filter = False
    assert check(client, "a > 1") == (1, "The broker does not support consumer to filter message by SQL92")


def test_a_pull_looks_at_so_many_units(tmp_path: Path) -> None:
    """The rest is for the next pull: a filter that selects nothing of a million messages holds nobody up."""
    harness = Harness(tmp_path, enablePropertyFilter="true", mappedFileSizeConsumeQueue="20000")
    harness.topic("T")
    put(harness, *[1] * (UNITS_MAX + 10), 7)
    client = harness.connect()
    answer = client.ask(pull(subscription="n = 7", **SQL))
    assert (answer.code, answer.ext_map()["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, str(UNITS_MAX))
    assert bodies(client.ask(pull(offset=UNITS_MAX, subscription="n = 7", **SQL)).body) == ["m7"]


def test_a_pull_evaluates_so_many_units(harness: Harness) -> None:
    """Of those that are all different fewer."""
    put(harness, *range(ROWS_MAX + 10))
    client = harness.connect()
    answer = client.ask(pull(subscription=f"n >= {ROWS_MAX}", **SQL))
    assert (answer.code, answer.ext_map()["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, str(ROWS_MAX))
    assert len(bodies(client.ask(pull(offset=ROWS_MAX, subscription=f"n >= {ROWS_MAX}", **SQL)).body)) == 10


def test_only_a_match_wakes(harness: Harness) -> None:
    client, other = harness.connect(), harness.connect()
    heartbeat(client, expression="n > 5", **SQL)
    asked = pull(flags=SUSPEND, subscription=None, sub_version=1)
    opaque, everything = client.send(asked), other.send(pull(flags=SUSPEND | 4))
    put(harness, 1, 2)
    assert opaque not in client.answers
    assert everything in other.answers
    put(harness, 9)
    answer = client.answers.pop(opaque)
    assert (answer.code, bodies(answer.body)) == (0, ["m9"])


def test_what_cannot_be_read_here_and_now_wakes(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pull then waits for the disk, not who looks for all that are held."""
    client = harness.connect()
    heartbeat(client, expression="n > 5", **SQL)
    opaque = client.send(pull(flags=SUSPEND, subscription=None, sub_version=1))
    real, colds = harness.node.store.read_queue, [1]

    def read(*arguments: Any) -> Any:
        if colds:
            colds.pop()
            raise Cold(lambda: None, "somewhere")
        return real(*arguments)

    monkeypatch.setattr(harness.node.store, "read_queue", read)
    put(harness, 1)
    assert client.answers[opaque].code == ResponseCode.PULL_RETRY_IMMEDIATELY


def test_a_look_that_fails_keeps_no_other_queue_waiting(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = [harness.connect() for _ in range(3)]
    heartbeat(clients[0], expression="n > 5", **SQL)
    opaques = [client.send(pull(queue_id=n, flags=SUSPEND, subscription=None, sub_version=1)) for n, client in enumerate(clients)]
    real, planted = harness.node.store.read_queue, [OSError("planted")]

    def read(*arguments: Any) -> Any:
        if planted:
            raise planted.pop()
        return real(*arguments)

    monkeypatch.setattr(harness.node.store, "read_queue", read)
    sender = harness.connect()
    harness.driver.run((sender, b"".join(sender.frame(send(queue_id=n, properties=pairs(n="9")), b"m") for n in range(3))))
    answered = [opaque in client.answers for opaque, client in zip(opaques, clients, strict=True)]
    assert sorted(answered) == [False, True, True], "who could not be looked for waits on"


def test_looking_for_those_who_wait_goes_in_slices(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are served meanwhile."""
    client, other = harness.connect(), harness.connect()
    heartbeat(client, expression="n > 5", **SQL)
    opaque = client.send(pull(flags=SUSPEND, subscription=None, sub_version=1))
    real, reads = harness.node.store.read_queue, [0]

    def read(*arguments: Any) -> Any:
        reads[-1] += 1
        return real(*arguments)

    monkeypatch.setattr(harness.node.store, "read_queue", read)
    few = [Item(0, b"m", pairs(n="1").encode())] * (2 * UNITS_MAX)
    request, body = batch(*few)
    harness.driver.turn((other, other.frame(request, body)))
    while len(reads) < 20:
        reads.append(0)
        harness.driver.turn((other, other.frame(GetMaxOffset(topic="T", queue_id=0))))
        assert other._opaque in other.answers
    assert sum(reads) > 4
    assert max(reads) <= 2, "a slice in each turn"
    assert opaque not in client.answers
    put(harness, 9)
    assert opaque in client.answers


def test_the_sweep_moves_on_past_what_does_not_match(harness: Harness) -> None:
    client = harness.connect()
    heartbeat(client, expression="n > 5", **SQL)
    opaque = client.send(pull(flags=SUSPEND, subscription=None, sub_version=1))
    put(harness, 1)
    harness.driver.advance(5_001)
    answer = client.answers.pop(opaque)
    assert (answer.code, answer.ext_map()["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "1")


def test_a_newer_subscription_counts(harness: Harness) -> None:
    put(harness, 1, 2)
    client = harness.connect()
    for version, text, expected in ((1, "n = 1", ["m1"]), (2, "n = 2", ["m2"]), (1, "n = 3", ["m2"])):
        request, body = beat(expression=text, **SQL)
        body = body.replace(b'"subVersion":1', b'"subVersion":%d' % version)
        assert client.ask(request, body).code == 0
        assert bodies(client.ask(pull(flags=0, subscription=None)).body) == expected


def test_retry_topics(tmp_path: Path) -> None:
    """filterSupportRetry: by the filter on the topic that a message came from."""
    harness = Harness(tmp_path, enablePropertyFilter="true", filterSupportRetry="true")
    harness.topic("T")
    client, retry = harness.connect(), "%RETRY%G"
    heartbeat(client, expression="n > 1", **SQL)
    for number in (1, 2):
        properties = pairs(n=str(number), RETRY_TOPIC="T")
        assert client.ask(send(topic=retry, properties=properties), b"m%d" % number).code == 0
    assert bodies(client.ask(pull(retry, subscription="n < 9", **SQL)).body) == ["m2"]
    harness.node.config.filter_support_retry = False
    assert bodies(client.ask(pull(retry, subscription="n < 9", **SQL)).body) == ["m1", "m2"]


def test_the_file(harness: Harness, tmp_path: Path) -> None:
    """A dead filter is kept a day, one that cannot be compiled is not there.  What Java writes: `test_filter_file`."""
    client = harness.connect()
    heartbeat(client, group="g", topic="t", expression="a > 1", **SQL)
    heartbeat(client, group="bad", topic="t", expression="a > > 1", **SQL)
    harness.restart()
    assert json.loads((tmp_path / FILE).read_bytes())["filterDataByTopic"]["t"]["groupFilterData"].keys() == {"g"}
    found = harness.node.filters.get("t", "g")
    assert found is not None
    assert found.dead, "nobody is there after a start"
    heartbeat(harness.connect(), group="g", topic="t", expression="a > 1", **SQL)
    assert not found.dead
    leaving = harness.connect()
    heartbeat(leaving, group="h", topic="t", expression="a > 1", **SQL)
    assert leaving.ask(UnregisterClient(client_id=f"c{leaving.peer.id}", consumer_group="h")).code == 0
    gone = harness.node.filters.get("t", "h")
    assert gone is not None
    assert gone.dead
    harness.node.filters.sweep()
    assert harness.node.filters.get("t", "h") is gone, "its group may come back"
    harness.env.advance(86_400_001)
    harness.node.filters.sweep()
    assert harness.node.filters.get("t", "h") is None
    assert harness.node.filters.get("t", "g") is not None


def test_after_a_start_everybody_is_gone_for_half_a_minute(harness: Harness) -> None:
    heartbeat(harness.connect(), expression="a > 1", **SQL)
    harness.env.advance(3_600_000)
    harness.restart()
    found = harness.node.filters.get("T", "G")
    assert found is not None
    assert found.said.dead_time == harness.env.wall_ms - 30_000
    harness.restart()
    again = harness.node.filters.get("T", "G")
    assert again is not None
    assert again.said.dead_time == found.said.dead_time
    harness.env.advance(86_400_000 - 30_000)
    harness.node.filters.sweep()
    assert harness.node.filters.get("T", "G") is None, "nobody came back for a day"


def test_who_comes_back_after_the_clock_was_turned_back_keeps_its_filter(harness: Harness) -> None:
    first = harness.connect()
    heartbeat(first, expression="a > 1", **SQL)
    harness.env.wall_ms -= 60_000
    first.close()
    gone = harness.node.filters.get("T", "G")
    assert gone is not None
    assert gone.dead
    heartbeat(harness.connect(), expression="a > 1", **SQL)
    harness.env.advance(2 * 86_400_000)
    harness.node.filters.sweep()
    assert harness.node.filters.get("T", "G") is gone


@pytest.mark.parametrize("version", [1999, 2000])
def test_who_comes_after_all_others_have_gone_brings_what_counts(harness: Harness, version: int) -> None:
    """His host's clock may be behind theirs: by the old filter he would lose what he asked for."""
    put(harness, 1, 2)
    first = harness.connect()
    heartbeat(first, expression="n = 1", sub_version=2000, **SQL)
    first.close()
    next_one = harness.connect()
    heartbeat(next_one, expression="n = 2", sub_version=version, **SQL)
    assert bodies(next_one.ask(pull(flags=0, subscription=None, sub_version=version)).body) == ["m2"]
    heartbeat(harness.connect(), expression="n = 1", sub_version=version - 1, **SQL)
    assert bodies(next_one.ask(pull(flags=0, subscription=None, sub_version=version)).body) == ["m2"], "while he is there"


def test_how_long_the_filters_of_those_who_have_gone_are_kept_can_be_changed(harness: Harness) -> None:
    client = harness.connect()
    heartbeat(client, expression="n = 1", **SQL)
    client.close()
    harness.driver.advance(60_000)
    assert len(harness.node.filters) == 1
    harness.connect().ask(UpdateBrokerConfig(), b"filterDataCleanTimeSpan=60000")
    harness.driver.advance(10_000)
    assert len(harness.node.filters) == 0


def test_the_file_is_written_every_ten_seconds(harness: Harness, tmp_path: Path) -> None:
    heartbeat(harness.connect(), expression="a > 1", **SQL)
    harness.driver.advance(10_001)
    assert b'"a > 1"' in (tmp_path / FILE).read_bytes()


def test_a_topic_that_is_not_subscribed_any_more(harness: Harness) -> None:
    client = harness.connect()
    heartbeat(client, expression="a > 1", **SQL)
    heartbeat(client, topic="Other")
    found = harness.node.filters.get("T", "G")
    assert found is not None
    assert found.dead


def test_groups_that_came_and_went_leave_nothing(harness: Harness) -> None:
    client, filters = harness.connect(), harness.node.filters
    for number in range(3):
        heartbeat(client, group=f"G{number}", expression="a > 1", **SQL)
    client.close()
    harness.env.advance(harness.node.config.filter_data_clean_time_span + 60_000)
    filters.sweep()
    assert len(filters) == 0
    assert not filters._topics_of, "one table for each name that anybody ever used"


def test_so_many_filters(harness: Harness) -> None:
    clients = [harness.connect() for _ in range(4)]
    for number in range(FILTERS_OF_TOPIC_MAX + 3):
        heartbeat(clients[number % 4], group=f"G{number}", expression="a > 1", **SQL)
    assert len(harness.node.filters) == FILTERS_OF_TOPIC_MAX
    assert harness.node.filters.get("T", f"G{FILTERS_OF_TOPIC_MAX}") is None


def test_so_much_text_of_filters(harness: Harness) -> None:
    """256 of 16 KiB each on one topic kept everybody waiting for 95 ms whenever they were written, 10,000 took 3 GB."""
    longest = "a = '" + "\x01" * 16_000 + "'"
    clients = [harness.connect() for _ in range(12)]
    for number in range(12):
        heartbeat(clients[number], group=f"G{number}", expression=longest, **SQL)
    held = CHARACTERS_OF_TOPIC_MAX // len(longest)
    assert len(harness.node.filters) == held == 8
    pieces = [len(chunk) for chunk in harness.node.filters.encode_slices()]
    assert max(pieces) < 8 * CHARACTERS_OF_TOPIC_MAX
    heartbeat(clients[0], group="G0", topic="Other", expression="a > 1", **SQL)
    heartbeat(clients[11], group="G11", expression=longest, **SQL)
    assert harness.node.filters.get("T", "G0") is None, "who is gone makes room"
    assert harness.node.filters.get("T", "G11") is not None


def test_filters_of_all_topics_have_a_limit(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_filters, "CHARACTERS_MAX", 30)
    clients = [harness.connect() for _ in range(4)]
    for number in range(4):
        heartbeat(clients[number], group=f"G{number}", topic=f"T{number}", expression="a > 12345", **SQL)
    assert len(harness.node.filters) == 3
    heartbeat(clients[0], group="G0", topic="T0", expression="a > 1234567890", sub_version=2, **SQL)
    assert harness.node.filters.get("T0", "G0") is None, "a text that is not wanted any more serves nobody"
    heartbeat(clients[3], group="G3", topic="T3", expression="a > 12345", **SQL)
    assert harness.node.filters.get("T3", "G3") is not None


def test_tags_register_nothing(harness: Harness) -> None:
    heartbeat(harness.connect(), expression="A || B")
    assert len(harness.node.filters) == 0


def test_tools_are_shown_the_filter(harness: Harness) -> None:
    """`queryCq -g`: the text is what 5.5.0 makes of the same subscription, but for its time."""
    put(harness, 1)
    client = harness.connect()

    def shown(group: str) -> str:
        asked = QueryConsumeQueue(topic="T", queue_id=0, index=0, count=1, consumer_group=group)
        return str(json.loads(bytes(client.ask(asked).body))["filterData"])

    assert shown("G") == "G@T is not online!"
    heartbeat(client)
    assert shown("G") == "null"
    heartbeat(client, group="S", expression="a > 1 AND b = 'x'", **SQL)
    positions = ",".join(map(str, Bloom(20, 32).positions("S#T")))
    assert shown("S").splitlines() == [
        "{",
        '\t"bloomFilterData":{',
        '\t\t"bitNum":112,',
        f'\t\t"bitPos":[{positions}]',
        "\t},",
        f'\t"bornTime":{harness.env.wall_ms},',
        '\t"clientVersion":1,',
        '\t"consumerGroup":"S",',
        '\t"dead":false,',
        '\t"deadTime":0,',
        """\t"expression":"a > 1 AND b = 'x'",""",
        '\t"expressionType":"SQL92",',
        '\t"topic":"T"',
        "}",
    ]


def test_a_subscription_that_changes_a_thousand_times_a_second(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one counts; who does not pull in between has none of them compiled, and nothing is written meanwhile."""
    put(harness, 1, 998, 999)
    read: list[str] = []
    compile_one = consumer_filters.property_filter

    def counted(text: str, kind: str | None) -> PropertyFilter:
        read.append(text)
        return compile_one(text, kind)

    monkeypatch.setattr(consumer_filters, "property_filter", counted)
    client, other = harness.connect(), harness.connect()
    for version in range(1, 1_000):
        request, body = beat(expression=f"n > {version}" if version % 2 else f"n = '{version}' AND", **SQL)
        assert client.ask(request, body.replace(b'"subVersion":1,', b'"subVersion":%d,' % version)).code == 0
        harness.env.advance(1)
        if version % 100 == 0:
            assert other.ask(send(queue_id=1), b"x").code == 0
    assert read == []
    assert len(harness.node.filters) == 1
    assert bodies(client.ask(pull(subscription=None, flags=0, sub_version=999, offset=0)).body) == []
    request, body = beat(expression="n > 997", **SQL)
    assert client.ask(request, body.replace(b'"subVersion":1,', b'"subVersion":1000,')).code == 0
    assert bodies(client.ask(pull(subscription=None, flags=0, sub_version=1_000)).body) == ["m998", "m999"]
    assert read == ["n > 999", "n > 997"]


def test_one_client_in_two_groups(harness: Harness) -> None:
    """Each group keeps its own filter; a heartbeat that leaves one out does not end it, as in Java."""
    put(harness, 1, 2)
    client = harness.connect()
    heartbeat(client, group="G", expression="n = 1", **SQL)
    heartbeat(client, group="H", expression="n = 2", **SQL)
    for group, expected in (("G", ["m1"]), ("H", ["m2"])):
        assert bodies(client.ask(pull(consumer_group=group, flags=0, subscription=None, sub_version=1)).body) == expected
    client.close()
    assert all(found.dead for group in "GH" if (found := harness.node.filters.get("T", group)) is not None)
    assert len(harness.node.filters) == 2


def test_selectors_are_read_a_few_in_a_turn(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest takes 30 ms: 256 of them in one turn, each another, kept everybody else waiting for seconds."""
    put(harness, 1)
    read: list[str] = []
    made = selector.Selector.__init__
    monkeypatch.setattr(selector.Selector, "__init__", lambda self, text: (read.append(text), made(self, text))[1])
    monkeypatch.setattr(shares, "SELECTORS_MAX", 100)
    greedy, checker, witness = harness.connect(), harness.connect(), harness.connect()
    texts = [f"n > {number} OR " + "m = 1" for number in range(30)]
    frames = b"".join(greedy.frame(pull(subscription=text, **SQL)) for text in texts)
    body = CheckClientRequest(
        subscription_data=SubscriptionData(topic="T", sub_string="n > 77", expression_type="SQL92")
    ).encode()
    driver = harness.driver
    driver.turn((greedy, frames), (checker, checker.frame(CheckClientConfig(), body)), (witness, witness.frame(pull())))
    assert witness.answers, "who needs none read does not wait"
    assert sum(map(len, read)) <= 2 * 100 + len(texts[0])
    driver.run()
    assert len(greedy.answers) == 30
    assert checker.answers
    assert sorted(read) == sorted([*texts, "n > 77"])


def test_who_waited_with_a_selector_has_it_read_once(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    put(harness, 1)
    read: list[str] = []
    made = selector.Selector.__init__
    monkeypatch.setattr(selector.Selector, "__init__", lambda self, text: (read.append(text), made(self, text))[1])
    client = harness.connect()
    for number in range(3):
        client.send(pull(offset=1, subscription=f"n > {number} OR n = 5", flags=SUBSCRIPTION | SUSPEND, **SQL))
    harness.driver.run()
    selector._KEPT.clear()
    put(harness, 9)
    harness.driver.run()
    assert len(client.answers) == 3
    assert len(read) == 3
