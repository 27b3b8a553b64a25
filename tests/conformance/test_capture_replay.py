"""A recorded session says the same to a server that is as good, and every planted difference is found at its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from conformance.captures.file import Capture
from conformance.captures.recorder import Frame, Mark
from conformance.captures.replay import CannotReplay, Report, replay
from conformance.captures.session import Recording
from conformance.frames import split
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command
from rmq_wire.encoding import Form, encode_request
from rmq_wire.message import pack_unit
from rmq_wire.message_id import offset_message_id, pack_host
from tests.support.capture_server import ScriptedServer, reply
from tests.support.talk import Talk

Twist = Callable[[Command, list[bytes]], Sequence[bytes]]
"""Spoils the answers to one question."""
ASKED_TOGETHER = (50, 51)
NOW_MS = 1_795_000_000_000
IN_VAIN_S, HANGS_S = 2.0, 120.0
"""For an answer that does not come, and for one that does."""


class Good:
    """A broker and name server in few lines; what depends on a server's life depends on `seed`."""

    def __init__(self, seed: int, twist: Twist = lambda _command, answers: answers) -> None:
        self.seed = seed
        self.twist = twist
        self.address = ""
        self.count = 0
        self.kept: list[bytes] = []

    def __call__(self, command: Command) -> Sequence[bytes]:
        return self.twist(command, self.answers(command))

    def host(self) -> bytes:
        ip, _, port = self.address.rpartition(":")
        return pack_host(ip, int(port))

    def answers(self, command: Command) -> list[bytes]:
        match command.code:
            case Code.GET_ROUTEINFO_BY_TOPIC:
                route = {
                    "brokerDatas": [{"brokerAddrs": {"0": self.address}, "brokerName": f"broker-{self.seed}", "cluster": "C"}],
                    "queueDatas": [],
                }
                return [reply(command, body=json.dumps(route, separators=(",", ":")).encode())]
            case Code.SEND_MESSAGE_V2:
                return [self.store(command)]
            case Code.PULL_MESSAGE:
                ext = {
                    "nextBeginOffset": str(self.count),
                    "minOffset": "0",
                    "maxOffset": str(self.count),
                    "suggestWhichBrokerId": "0",
                }
                return [reply(command, remark="FOUND", ext=ext, body=b"".join(self.kept))]
            case Code.GET_ALL_TOPIC_CONFIG:
                version = {"counter": self.seed, "stateVersion": 0, "timestamp": NOW_MS + self.seed}
                body = {"dataVersion": version, "topicConfigTable": {"t": {"perm": 6}}}
                return [reply(command, body=json.dumps(body).encode())]
            case Code.VIEW_MESSAGE_BY_ID:
                known = int(command.ext_map()["offset"]) in range(self.seed, self.seed + 1000 * self.count, 1000)
                return [reply(command, 0 if known else ResponseCode.SYSTEM_ERROR, remark=None if known else "no message")]
            case _:
                return [] if command.is_oneway else [reply(command, ResponseCode.SYSTEM_ERROR, remark=f"took {self.seed}ms")]

    def store(self, command: Command) -> bytes:
        number, self.count = self.count, self.count + 1
        offset = self.seed + 1000 * number
        unit = pack_unit(
            1,
            0,
            number,
            offset,
            0,
            NOW_MS,
            pack_host("127.0.0.1", 1),
            NOW_MS + self.seed,
            self.host(),
            0,
            0,
            bytes(command.body),
            b"t",
            b"KEYS\x01k\x02",
        )
        self.kept.append(unit)
        ext = {"msgId": offset_message_id(self.host(), offset), "queueId": "1", "queueOffset": str(number)}
        return reply(command, ext=ext)


def ask(code: int, opaque: int, ext: dict[str, str] | None = None, body: bytes = b"", form: Form = Form.JSON) -> bytes:
    return encode_request(code, None, body, opaque=opaque, form=form, ext=ext)


SEND = {"a": "g", "b": "t", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "0", "h": "0"}
PULL = {"consumerGroup": "g", "topic": "t", "queueId": "1", "queueOffset": "0", "maxMsgNums": "32"}


def play(namesrv: str) -> None:
    """What the client does: it finds the broker by the route, sends, pulls, looks the second message up by its offset."""
    with Talk(namesrv) as names:
        names.raw(ask(Code.GET_ROUTEINFO_BY_TOPIC, 1, {"topic": "t"}))
        [route] = names.hear()
        [data] = json.loads(bytes(route.body))["brokerDatas"]
    with Talk(data["brokerAddrs"]["0"]) as broker:
        for opaque, form in ((10, Form.JSON), (11, Form.ROCKETMQ)):
            broker.raw(ask(Code.SEND_MESSAGE_V2, opaque, SEND, b"hello", form))
            [sent] = broker.hear()
        offset = int(sent.ext_map()["msgId"][16:], 16)
        for question in (
            ask(Code.PULL_MESSAGE, 20, PULL),
            ask(Code.GET_ALL_TOPIC_CONFIG, 30),
            ask(Code.VIEW_MESSAGE_BY_ID, 31, {"offset": str(offset)}),
            ask(Code.GET_MAX_OFFSET, 32, {"topic": "t", "queueId": "1"}),
        ):
            broker.raw(question)
            broker.hear()
        broker.raw(*(ask(Code.QUERY_CONSUMER_OFFSET, opaque, PULL) for opaque in ASKED_TOGETHER))
        broker.hear(2)


def recorded(seed: int = 7) -> Capture:
    good = Good(seed)
    with ScriptedServer(good, broker=f"broker-{seed}", cluster="C") as server:
        good.address = server.address
        with Recording(server.address) as recording:
            play(recording.address)
            return recording.capture("play", "scripted")


@pytest.fixture(scope="module")
def capture() -> Capture:
    return recorded()


def replayed(capture: Capture, twist: Twist = lambda _command, answers: answers, seed: int = 4242, **options: Any) -> Report:
    good = Good(seed, twist)
    with ScriptedServer(good, broker=f"broker-{seed}", cluster="C") as server:
        good.address = server.address
        return replay(capture, server.address, pause_ms_max=0, **{"answer_s": 5.0, **options})


def test_the_capture_holds_everything_in_order(capture: Capture) -> None:
    marks = [event.what for event in capture.events if isinstance(event, Mark)]
    assert marks.count("open") == 2
    assert marks.count("close") >= 2
    frames = [event for event in capture.events if isinstance(event, Frame)]
    assert [frame.to_server for frame in frames[:4]] == [True, False, True, False]
    assert len(frames) == 18
    assert [event.at_ms for event in capture.events] == sorted(event.at_ms for event in capture.events)
    assert [(server.role, server.name) for server in capture.servers] == [("name server", ""), ("broker", "broker-7")]


def test_what_the_server_said_is_kept_and_clients_read_the_relay(capture: Capture) -> None:
    route = next(event for event in capture.events if isinstance(event, Frame) and not event.to_server)
    assert capture.servers[1].address.encode() in split(route.data)[2]
    opened = [event for event in capture.events if isinstance(event, Mark) and event.what == "open"]
    assert [mark.server for mark in opened] == [server.reached_at for server in capture.servers]


@pytest.mark.parametrize("in_turn", [False, True])
def test_another_good_server_makes_no_difference(capture: Capture, in_turn: bool) -> None:
    report = replayed(capture, in_turn=in_turn)
    assert (report.requests, report.compared, report.differences) == (9, 9, ())


@pytest.mark.parametrize(("unknown", "paths"), [(2, []), (1000, ["code", "remark", "body"])])
def test_a_topic_that_is_reported_late_is_awaited(capture: Capture, unknown: int, paths: list[str]) -> None:
    """Brokers report topics to the name servers on their own time; a topic that never comes is a difference."""
    left = iter(range(unknown))

    def late(command: Command, answers: list[bytes]) -> Sequence[bytes]:
        return answers if next(left, None) is None else [reply(command, ResponseCode.TOPIC_NOT_EXIST, remark="No route")]

    report = replayed(capture, altered(Code.GET_ROUTEINFO_BY_TOPIC, late), answer_s=IN_VAIN_S if paths else HANGS_S)
    assert report.compared == 9
    assert [difference.finding.path for difference in report.differences] == paths


def test_requests_that_are_tied_to_nothing_go_out_byte_for_byte(capture: Capture) -> None:
    good = Good(7)
    with ScriptedServer(good, broker="broker-7", cluster="C") as server:
        good.address = server.address
        replay(capture, server.address, pause_ms_max=0, in_turn=True)
        said = [event.data for event in capture.events if isinstance(event, Frame) and event.to_server]
        heard = b"".join(server.heard)
    assert all(data in heard for data in said)


def altered(code: int, change: Callable[[Command, list[bytes]], Sequence[bytes]]) -> Twist:
    return lambda command, answers: change(command, answers) if command.code == code else answers


def again(command: Command, data: bytes, *, drop: str = "", put: dict[str, str] | None = None, **other: Any) -> bytes:
    """The answer once more with a change."""
    from rmq_wire.conversation import Conversation

    [said] = Conversation().feed(data)
    assert isinstance(said, Command)
    ext = {name: value for name, value in {**said.ext_map(), **(put or {})}.items() if name != drop}
    parts: dict[str, Any] = {"code": said.code, "remark": said.remark, "body": bytes(said.body), **other}
    return reply(command, parts["code"], remark=parts["remark"], ext=ext or None, body=parts["body"])


PLANTED = {
    "another code": (Code.SEND_MESSAGE_V2, lambda c, a: [again(c, a[0], code=1)], "code"),
    "a dropped field": (Code.SEND_MESSAGE_V2, lambda c, a: [again(c, a[0], drop="queueId")], "ext.queueId"),
    "a field more": (Code.SEND_MESSAGE_V2, lambda c, a: [again(c, a[0], put={"extra": "1"})], "ext.extra"),
    "another value": (Code.SEND_MESSAGE_V2, lambda c, a: [again(c, a[0], put={"queueId": "2"})], "ext.queueId"),
    "no message id": (Code.SEND_MESSAGE_V2, lambda c, a: [again(c, a[0], put={"msgId": "x" * 32})], "ext.msgId"),
    "one id for two": (Code.SEND_MESSAGE_V2, lambda c, a: [again(c, a[0], put={"msgId": "A" * 32})], "ext.msgId"),
    "an offset left out": (Code.PULL_MESSAGE, lambda c, a: [again(c, a[0], put={"nextBeginOffset": "3"})], "ext.nextBeginOffset"),
    "a changed remark": (Code.PULL_MESSAGE, lambda c, a: [again(c, a[0], remark="found")], "remark"),
    "no remark": (Code.PULL_MESSAGE, lambda c, a: [again(c, a[0], remark=None)], "remark"),
    "no body": (Code.PULL_MESSAGE, lambda c, a: [again(c, a[0], body=b"")], "body"),
    "another body": (Code.PULL_MESSAGE, lambda c, a: [a[0].replace(b"hello", b"hallo", 1)], "body[0].body"),
    "another property": (Code.PULL_MESSAGE, lambda c, a: [a[0].replace(b"S\x01k", b"S\x01x", 1)], "body[0].properties.KEYS"),
    "a body that is none": (Code.PULL_MESSAGE, lambda c, a: [a[0][:-1] + b"\x00"], None),
    "another member": (
        Code.GET_ALL_TOPIC_CONFIG,
        lambda c, a: [a[0].replace(b'"perm": 6', b'"perm": 4')],
        "body.topicConfigTable.t.perm",
    ),
    "a missing member": (
        Code.GET_ALL_TOPIC_CONFIG,
        lambda c, a: [a[0].replace(b'"stateVersion": 0,', b" " * 18)],
        "body.dataVersion.stateVersion",
    ),
    "no time": (
        Code.GET_ALL_TOPIC_CONFIG,
        lambda c, a: [a[0].replace(str(NOW_MS + 4242).encode(), b"           17")],
        "body.dataVersion.timestamp",
    ),
    "another address": (Code.GET_ROUTEINFO_BY_TOPIC, lambda c, a: [a[0].replace(b"127.0.0.1", b"127.0.0.9")], None),
    "no answer": (Code.GET_ALL_TOPIC_CONFIG, lambda c, a: [], "answer"),
    "an answer twice": (Code.GET_ALL_TOPIC_CONFIG, lambda c, a: [a[0], a[0]], "unasked"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_difference_is_found(capture: Capture, name: str) -> None:
    code, change, path = PLANTED[name]
    report = replayed(capture, altered(code, change), answer_s=IN_VAIN_S if path == "answer" else HANGS_S)
    assert report.differences
    assert path == "unasked" or Code(code).name in {difference.asked for difference in report.differences}
    assert report.requests == 9
    if path is not None:
        assert path in {difference.finding.path for difference in report.differences}


def test_answers_in_another_order_are_found(capture: Capture) -> None:
    held: list[bytes] = []

    def swap(command: Command, answers: list[bytes]) -> Sequence[bytes]:
        held.extend(answers)
        return [] if len(held) < 2 else [held[1], held[0]]

    report = replayed(capture, altered(Code.QUERY_CONSUMER_OFFSET, swap))
    [difference] = report.differences
    assert (difference.finding.path, difference.asked) == ("order", "QUERY_CONSUMER_OFFSET")
    assert difference.opaque in ASKED_TOGETHER


def test_messages_in_another_order_are_found(capture: Capture) -> None:
    def turned(command: Command, answers: list[bytes]) -> Sequence[bytes]:
        _, _, body = split(answers[0])
        half = len(body) // 2
        return [again(command, answers[0], body=body[half:] + body[:half])]

    report = replayed(capture, altered(Code.PULL_MESSAGE, turned))
    assert "body[0].queueOffset" in {difference.finding.path for difference in report.differences}


def test_what_a_server_asks_unasked_is_found(capture: Capture) -> None:
    question = ask(Code.GET_CONSUMER_RUNNING_INFO, 9, {"consumerGroup": "g", "clientId": "c"})
    report = replayed(capture, altered(Code.GET_ALL_TOPIC_CONFIG, lambda _c, answers: [*answers, question]))
    [difference] = report.differences
    assert (difference.finding.path, difference.finding.found) == ("unasked", "GET_CONSUMER_RUNNING_INFO")


def test_a_server_that_dies_is_a_difference_not_an_error(capture: Capture) -> None:
    report = replayed(capture, altered(Code.PULL_MESSAGE, lambda _c, _a: [b"\xff\xff\xff\xff nonsense"]))
    assert report.differences[0].finding.path == "answer"
    assert "no frame" in report.differences[0].finding.why


def test_what_cannot_be_replayed_is_reported(capture: Capture) -> None:
    with pytest.raises(CannotReplay, match="cannot be reached"):
        replay(capture, "127.0.0.1:1")
    with pytest.raises(CannotReplay, match="which servers"):
        replay(capture._replace(servers=()), "127.0.0.1:1")
    lost = (*capture.events, Mark(0, 1.0, "lost"))
    with pytest.raises(CannotReplay, match="not kept"):
        replay(capture._replace(events=lost), "127.0.0.1:1")
    with ScriptedServer(lambda _command: []) as server:
        two = (*capture.servers, capture.servers[1]._replace(name="second", address="127.0.0.1:2", reached_at="127.0.0.1:2"))
        with pytest.raises(CannotReplay, match="second"):
            replay(capture._replace(servers=two), server.address)
