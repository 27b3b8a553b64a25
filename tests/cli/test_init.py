"""`rmq dev --init FILE`: what is wrong in it, with its line; what is made of it; that a second start makes nothing twice."""

from __future__ import annotations

import tomllib
from bisect import bisect
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from broker_impl.config import BrokerConfig
from rmq_cli import init_apply
from rmq_cli.complaint import Complaint
from rmq_cli.init_apply import AT_ONCE
from rmq_cli.init_file import FILE_BYTES_MAX, BadInit, Lines, Placed, read_init
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.headers.groups import GetSubscriptionGroupConfig
from rmq_wire.headers.pull import PullMessage
from rmq_wire.headers.topics import GetTopicConfig
from rmq_wire.java import string_hash
from rmq_wire.message import StoredMessage
from tests.support.command import invoke
from tests.support.engine import Harness
from tests.support.requests import create_topic, pairs, props, pull, send, units
from tests.support.rmq import DEV, Server
from tests.support.talk import Talk

SHOP = """
[[topic]]
name = "orders"
queues = 8
attributes = { "message.type" = "FIFO" }

[[topic]]
name = "narrow"
readQueueNums = 4
writeQueueNums = 2
perm = "R"

[[group]]
name = "billing"
retryMaxTimes = 3
consumeBroadcastEnable = false
attributes = { "priority.factor" = "50" }

[[message]]
topic = "orders"
body = "first"
tags = "new"
keys = ["k1", "k2"]
hashKey = "order-7"
properties = { colour = "blue" }

[[message]]
topic = "orders"
body = "same"
[[message]]
topic = "orders"
body = "same"

[[message]]
topic = "made-by-sending"
body = "level"
delay = 18

[[message]]
topic = "made-by-sending"
body = "timer"
delay = "1h"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


def written(home: Path, text: str, name: str = "shop.toml") -> Path:
    path = home / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ('[[topic]]\nname = "t"\nquues = 8\n', 3, "quues is no key here, did you mean queues? Expected one of name, queues,"),
        ('[[topic]]\nname = "t"\n\nqueues = "8"\n', 4, "queues: expected int, got str"),
        ('[[topic]]\nname = "t"\nqueues = 0\n', 3, "queues: expected int >= 1"),
        ("[[topic]]\nqueues = 1\n", 1, 'name is missing: expected name = "…" at least'),
        ('[[topic]]\nname = "a"\n[[topic]]\nname = "b c"\n', 4, "name: The specified topic: b c, contains illegal characters"),
        ('[[topic]]\nname = "TBW102"\n', 2, "name: The topic[TBW102] is conflict with system topic."),
        ('[[topic]]\nname = "broker-a"\n', 2, "name: The topic[broker-a] is conflict with system topic."),
        ('[[topic]]\nname = "DefaultCluster"\n', 2, "name: The topic[DefaultCluster] is conflict with system topic."),
        ('[[topic]]\nname = "DefaultCluster_REPLY_TOPIC"\n', 2, "name: The topic[DefaultCluster_REPLY_TOPIC] is conflict"),
        (
            '[[topic]]\nname = "t"\nattributes = { "message.type" = "MIXED" }\n',
            3,
            "attributes: MIXED message type is not supported.",
        ),
        ('[[topic]]\nname = "t"\nperm = "RX"\n', 3, 'perm: expected "R", "W", "RW", or a number; seen "RX"'),
        ('[[topic]]\nname = "t"\nqueues = 1\nreadQueueNums = 1\n', 3, "queues: says readQueueNums and writeQueueNums at once"),
        ('[[topic]]\nname = "t"\n[topic.attributes]\n"message.type" = "X"\n', 3, "message.type: value is not in set: [UNSPEC"),
        ('[[topic]]\nname = "t"\nattributes = { a = "b" }\n', 3, "a is no attribute; expected one of queue.type, "),
        ('[[topic]]\nname = "t"\n[[topic]]\nname = "t"\n', 3, "topic t stands at line 1 already"),
        ('[[group]]\nname = "g"\nretryMaxTimes = -2\n', 3, "retryMaxTimes: expected int >= -1"),
        ('[[group]]\nname = "g"\nconsumeEnable = 1\n', 3, "consumeEnable: expected bool, got int"),
        ('[[message]]\ntopic = "t"\nbody = ""\n', 3, "body: expected at least one character"),
        ('[[message]]\ntopic = "t"\n', 1, 'body is missing: expected topic = "…", body = "…" at least'),
        ('[[message]]\ntopic = "t"\nbody = "b"\ndelay = 19\n', 4, "delay: expected int <= 18"),
        ('[[message]]\ntopic = "t"\nbody = "b"\ndelay = "soon"\n', 4, 'delay: expected a level (1 to 18) or a time as "10s"'),
        ('[[message]]\ntopic = "t"\nbody = "b"\nproperties = { TAGS = "a" }\n', 4, "TAGS is a name of the system's own"),
        ('[[message]]\ntopic = "t"\nbody = "b"\nproperties = { a = 1 }\n', 4, "properties: expected str, got int"),
        ('[[group]]\nname = "g"\nretryQueueNums = 1025\n', 3, "retryQueueNums: expected int <= 1024"),
        ('[[message]]\ntopic = "SCHEDULE_TOPIC_XXXX"\nbody = "b"\n', 2, "topic: Sending message to topic[SCHEDULE_TOPIC_XXXX]"),
        ('[[message]]\ntopic = "rmq_sys_wheel_timer"\nbody = "b"\n', 2, "topic: Sending message to topic["),
        ('[[message]]\ntopic = "rmq_sys_REVIVE_LOG_a"\nbody = "b"\n', 2, "topic: Sending message to topic["),
        ('[[message]]\ntopic = "t"\nbody = "b"\ndelay = "73h"\n', 4, "delay: expected 259200 s at most"),
        ('[[message]]\ntopic = "t"\nbody = "b"\ntags = "a\\u0002b"\n', 4, "tags: expected a text without"),
        ('[[message]]\ntopic = "t"\nbody = "b"\nkeys = "a\\u0001b"\n', 4, "keys: expected a text without"),
        ('[[message]]\ntopic = "t"\nbody = "b"\nkeys = ["a", "a\\u0001b"]\n', 4, "keys: expected a text without"),
        ('[[message]]\ntopic = "t"\nbody = "b"\nkeys = ["a b"]\n', 4, "keys: expected texts that"),
        ('[[message]]\ntopic = "t"\nbody = "b"\nkeys = [""]\n', 4, "keys: expected texts that"),
        ('[[message]]\ntopic = "t"\nbody = "b"\nhashKey = "a\\u0001b"\n', 4, "hashKey: expected a text without"),
        (
            f'[[message]]\ntopic = "t"\nbody = "b"\nkeys = "{"k" * 40_000}"\n',
            4,
            "keys: too long: properties have 40120 bytes, 32767",
        ),
        (
            f'[[message]]\ntopic = "t"\nbody = "b"\nproperties = {{ a = "{"k" * 70_000}" }}\n',
            4,
            "properties: too long: properties have",
        ),
        (
            f'[[message]]\ntopic = "t"\nbody = "{"b" * ((4 << 20) + 1)}"\n',
            3,
            "body: the body has 4194305 bytes, 4194304 are allowed",
        ),
        ('[[message]]\ntopic = "t"\nbody = "b"\nproperties = { INNER_NUM = "2" }\n', 4, "properties: an inner batch where"),
        (
            '[[message]]\ntopic = "t"\nbody = "b"\n[[topic]]\nname = "t"\nattributes = { "cleanup.policy" = "COMPACTION" }\n',
            1,
            "keys: Required message key is missing",
        ),
        ("a = 1\n[mesage]\nb = 2\n", 2, "mesage: expected [[topic]], [[group]] or [[message]]"),
        ('[topic]\nname = "t"\n', 1, "topic: expected [[topic]], once for each topic"),
        ("[[message]]\nbody = '''\n[[message]]\ndelay = 3\n'''\ntopic = \"t\"\ndelay = \"x\"\n", 7, "delay: expected"),
        ('[[message]]\nbody = """\n\\"""\n[[message]]\ndelay = 3\n"""""\ntopic = "t"\ndelay = "x"\n', 8, "delay: expected"),
        ('# \'\'\'\n[[message]]\nbody = "\\"\'\'\'"\ntopic = "t"\ndelay = "x"\n', 5, "delay: expected"),
        ('[[message]]\nbody = "a\u2028b"\ntopic = "t"\ndelay = "x"\n', 4, "delay: expected"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(home: Path, text: str, line: int, what: str) -> None:
    path = written(home, text)
    with pytest.raises(BadInit) as seen:
        read_init(path)
    assert any(
        row.startswith(f"{path}, line {line}: {what}") or (what in row and f", line {line}:" in row)
        for row in str(seen.value).splitlines()
    ), seen.value


def test_what_is_refused_is_up_to_the_brokers_that_are_to_take_it(home: Path) -> None:
    """Their names and settings decide, and what one of several refuses is refused."""
    topics = '[[topic]]\nname = "DefaultCluster"\n[[topic]]\nname = "b"\nattributes = { "message.type" = "MIXED" }\n'
    path = written(home, f'{topics}[[message]]\ntopic = "t"\nbody = "12345"\ndelay = "10s"\n')
    lenient = {"brokerClusterName": "other", "enableMixedMessageType": "true"}
    assert len(read_init(path, [BrokerConfig(lenient)]).topics) == 2
    all_names = {"validateSystemTopicWhenUpdateTopic": "false", "enableMixedMessageType": "true"}
    assert len(read_init(path, [BrokerConfig(all_names)]).topics) == 2
    for settings, line, what in (
        ({"brokerName": "b"}, 4, "name: The topic[b] is conflict with system topic."),
        ({"maxMessageSize": "4"}, 8, "body: the body has 5 bytes, 4 are allowed"),
        ({"timerWheelEnable": "false"}, 9, "delay: expected a level, for timerWheelEnable is false"),
    ):
        configs = [BrokerConfig(lenient | settings), BrokerConfig(lenient)]
        with pytest.raises(BadInit) as seen:
            read_init(path, configs if "brokerName" not in settings else configs[::-1])
        assert str(seen.value) == f"{path}, line {line}: {what}"


@pytest.mark.parametrize("delay", ["", "delay = 3\n", 'delay = "10s"\n'])
def test_properties_may_be_as_long_as_the_broker_stores_them(tmp_path: Path, delay: str) -> None:
    """What is taken here the broker takes, and of one byte more it says the same."""
    path = tmp_path / "init.toml"

    def sent(size: int) -> dict[str, str] | None:
        """The properties of a message with a key of so many characters; None where it is refused."""
        path.write_text(f'[[message]]\ntopic = "t"\nbody = "b"\nkeys = "{"k" * size}"\n{delay}')
        try:
            [(unique_key, row)] = read_init(path).messages
        except BadInit:
            return None
        found: dict[str, str] = row.item.pairs(unique_key)
        return found

    sizes = range(32_000, 33_000)
    longest = sent(sizes[bisect(sizes, False, key=lambda size: sent(size) is None) - 1])
    assert longest is not None
    client = Harness(tmp_path / "store").connect()
    assert client.ask(send("t", 0, pairs(**longest)), b"b").code == 0
    longer = longest | {"KEYS": longest["KEYS"] + "k"}
    assert client.ask(send("t", 0, pairs(**longer)), b"b").code == 13


def test_lines_are_found_in_one_look_at_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of many items with a long text at its top: looking at all above each item took minutes."""
    count = 5_000
    text = "[[message]]\nbody = '''\n[[message]]\n'''\n" + "[[message]]\nbody = 'b'\n" * count
    monkeypatch.setattr(tomllib, "loads", None)
    lines = Lines(text)
    looked = [lines.of_key("message", number, "body") for number in range(count + 2)]
    assert looked == [2, *(6 + 2 * number for number in range(count)), None]


def test_what_is_no_toml_no_text_no_file_or_too_large(home: Path) -> None:
    cases = {
        "no.toml": (b"[[topic]\n", "not TOML: Expected"),
        "latin.toml": (b'\n[[topic]]\nname = "\xe9"\n', "line 3: not UTF-8"),
        "large.toml": (b"#" * (FILE_BYTES_MAX + 1), "send so many messages with a producer"),
    }
    for name, (data, what) in cases.items():
        (home / name).write_bytes(data)
        with pytest.raises(BadInit, match=what):
            read_init(home / name)
    with pytest.raises(BadInit, match="cannot be read: No such file"):
        read_init(home / "none.toml")


def test_the_command_ends_with_status_2_before_it_makes_anything(home: Path) -> None:
    written(home, '[[topic]]\nname = "t"\nquues = 8\n')
    seen = invoke(*DEV, "--store", str(home / "store"), "--init", "shop.toml", home=home)
    assert seen.status == 2
    assert "shop.toml, line 3: quues is no key here" in seen.err
    assert not (home / "store").exists()
    written(home, '[[topic]]\nname = "broker-b"\nqueues = 3\n')
    seen = invoke(*DEV, "--store", str(home / "store"), "--brokers", "2", "--init", "shop.toml", home=home)
    assert (seen.status, "shop.toml, line 2: name: The topic[broker-b] is conflict" in seen.err) == (2, True)
    assert not (home / "store").exists()
    written(home, '[[message]]\ntopic = "t"\nbody = "b"\n')
    seen = invoke(*DEV, "--ephemeral", "--init", "shop.toml", "--set", "messageIndexEnable=false", home=home)
    assert (seen.status, "--init knows its messages again by the index" in seen.err) == (1, True)


def test_a_delay_may_be_as_long_as_the_broker_takes_it(home: Path) -> None:
    """The longest is taken, one that is longer is named before anything starts: by the limit that is set."""
    message = '[[message]]\ntopic = "t"\nbody = "b"\ndelay = '
    written(home, message + '"3d"\n')
    written(home, message + '"61s"\n', "longer.toml")
    start = (*DEV, "--store", str(home / "store"))
    seen = invoke(*start, "--init", "longer.toml", "--set", "timerMaxDelaySec=60", home=home)
    assert seen.status == 2
    assert "longer.toml, line 4: delay: expected 60 s at most" in seen.err
    assert not (home / "store").exists()
    with Server(home, *start, "--init", "shop.toml") as server, Talk(server.ready["broker"]) as broker:
        assert [m.body for m in all_of(broker, "rmq_sys_wheel_timer", 0)] == [b"b"]


def test_everything_is_made_once(home: Path) -> None:
    """A second start changes nothing, though a tool has changed what the file does not name; a third makes what is new in it."""
    store, path = home / "store", written(home, SHOP)
    for start in (1, 2):
        with Server(home, *DEV, "--store", str(store), "--init", str(path)) as server, Talk(server.ready["broker"]) as broker:
            orders = TopicConfig.read(broker.ask(GetTopicConfig(topic="orders")).body)
            assert (orders.read_queue_nums, orders.write_queue_nums, orders.perm) == (8, 8, 6)
            assert orders.attributes == {"message.type": "FIFO"}
            narrow = TopicConfig.read(broker.ask(GetTopicConfig(topic="narrow")).body)
            assert (narrow.read_queue_nums, narrow.write_queue_nums, narrow.perm) == (4, 2, 4)
            assert narrow.order is (start == 2)
            group = SubscriptionGroupConfig.read(broker.ask(GetSubscriptionGroupConfig(group="billing")).body)
            assert (group.retry_max_times, group.consume_broadcast_enable, group.retry_queue_nums) == (3, False, 1)
            assert group.attributes == {"priority.factor": "50"}
            found = {queue: messages for queue in range(8) if (messages := all_of(broker, "orders", queue))}
            assert sorted(m.body for messages in found.values() for m in messages) == [b"first", b"same", b"same"]
            [first] = found[abs(string_hash("order-7")) % 8]
            kept = {"TAGS": "new", "KEYS": "k1 k2", "colour": "blue", "__SHARDINGKEY": "order-7"}
            assert kept.items() <= props(first).items()
            assert [m.body for m in all_of(broker, "SCHEDULE_TOPIC_XXXX", 17)] == [b"level"]
            assert [m.body for m in all_of(broker, "rmq_sys_wheel_timer", 0)] == [b"timer"]
            change = create_topic("narrow", read_queue_nums=4, write_queue_nums=2, perm=4, order=True)
            assert broker.ask(change).code == 0
            assert server.stop() == 0
    written(home, SHOP.replace('"first"', '"changed"'))
    with Server(home, *DEV, "--store", str(store), "--init", str(path)) as server, Talk(server.ready["broker"]) as broker:
        bodies = sorted(m.body for queue in range(8) for m in all_of(broker, "orders", queue))
        assert bodies == [b"changed", b"first", b"same", b"same"]


async def test_topics_are_made_many_at_once_and_the_first_that_is_refused_is_named() -> None:
    """One after the other each was a write of the whole table, and thousands took half a minute."""
    rows = [Placed(number, f"line {number}") for number in range(3 * AT_ONCE)]
    links: Any = ["a broker", "another"]
    together: list[int] = []
    asked: list[tuple[int, int]] = []

    async def make(broker: int, link: Any, row: Placed) -> bool:
        asked.append((row.item, broker))
        together.append(row.item)
        await trio.lowlevel.checkpoint()
        assert len(together) <= AT_ONCE
        if row.item in refused:
            together.remove(row.item)
            raise Complaint(f"{row.where}: no")
        await trio.lowlevel.checkpoint()
        most.append(len(together))
        together.remove(row.item)
        return row.item % 3 == broker

    refused: set[int] = set()
    most: list[int] = []
    assert await init_apply._count(rows, links, make) == len([row for row in rows if row.item % 3 < 2])
    assert max(most) == AT_ONCE
    assert sorted(asked) == [(row.item, broker) for row in rows for broker in range(2)]
    refused = {AT_ONCE + 9, AT_ONCE + 5}
    asked.clear()
    with pytest.raises(Complaint, match=f"line {AT_ONCE + 5}: no"):
        await init_apply._count(rows, links, make)
    assert max(number for number, _ in asked) < 2 * AT_ONCE, "nothing behind it is asked for"


def test_over_two_brokers(home: Path) -> None:
    """Topics and groups are in both, each message in one of them, and none is sent again."""
    rows = "".join(f'[[message]]\ntopic = "t"\nbody = "m{number}"\n' for number in range(8))
    path = written(home, f'[[topic]]\nname = "t"\nqueues = 2\n{rows}')
    start = (*DEV, "--store", str(home / "store"), "--brokers", "2", "--init", str(path))
    for _ in range(2):
        with Server(home, *start) as server:
            bodies: list[list[bytes]] = []
            for address in server.ready["brokers"]:
                with Talk(address) as broker:
                    bodies.append([m.body for queue in range(2) for m in all_of(broker, "t", queue)])
            assert [len(one) for one in bodies] == [4, 4]
            assert sorted(bodies[0] + bodies[1]) == [b"m%d" % number for number in range(8)]
            assert server.stop() == 0


def test_what_the_broker_refuses_ends_the_start_with_the_line(home: Path) -> None:
    path = written(home, '[[message]]\ntopic = "t"\nbody = "b"\n')
    seen = invoke(*DEV, "--ephemeral", "--set", "autoCreateTopicEnable=false", "--init", str(path), home=home)
    assert (seen.status, seen.out) == (1, "")
    assert f"{path}, line 1: the broker refuses it with 17" in seen.err


def test_it_says_what_it_made(home: Path) -> None:
    path = written(home, '[[topic]]\nname = "t"\n')
    server = Server(home, *DEV[:-1], "--ephemeral", "--init", str(path))
    server.start(wait=False)
    with server:
        assert server.line().decode() == f"{path}: made now: topics 1, groups 0, messages 0; everything else was there"


@given(
    st.lists(st.sampled_from(["topic", "group", "message"]), max_size=6), st.lists(st.text("ab#=[\"' ", max_size=6), max_size=6)
)
def test_the_line_of_every_header_is_found(kinds: list[str], between: list[str]) -> None:
    """Whatever stands in comments between them."""
    lines: list[str] = []
    expected: dict[str, list[int]] = {}
    for number, kind in enumerate(kinds):
        lines += [f"# {text}" for text in between[number : number + 1]]
        lines.append(f"[[{kind}]]")
        expected.setdefault(kind, []).append(len(lines))
    found = Lines("\n".join(lines))
    for kind, at in expected.items():
        assert [found.of_key(kind, number, None) for number in range(len(at) + 1)] == [*at, None]


def all_of(broker: Talk, topic: str, queue: int) -> list[StoredMessage]:
    """Every message of a queue."""
    asked: PullMessage = pull(topic, queue)
    answer = broker.ask(asked)
    return units(answer.body) if answer.code == 0 else []
