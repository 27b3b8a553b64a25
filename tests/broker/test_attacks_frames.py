"""Attacks by frames, headers and silence.  The number in each name is the attack's in the project's list (docs/attacks.md)."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_impl.engine.limits import Limits
from rmq_wire.command import ONE_WAY, RESPONSE, Form, encode_request, encode_response
from rmq_wire.headers.clients import UnregisterClient
from rmq_wire.headers.configuration import UpdateBrokerConfig
from rmq_wire.headers.offsets import QueryConsumerOffset
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.topics import DeleteTopic
from tests.broker.siege import FORMS, Siege, siege
from tests.support.bad_frames import FRAME_BYTES_MAX, HEAD, WITNESS, binary, entry, json_frame, json_header, prefix
from tests.support.driver import Client
from tests.support.requests import SUSPEND, pull, send


@contextlib.contextmanager
def sieged_topic(tmp_path: Path, **options: Any) -> Iterator[Siege]:
    """With a topic T."""
    with siege(tmp_path, **options) as broker:
        broker.topic("T")
        yield broker


# 1: lengths that cannot be


@pytest.mark.parametrize(
    ("data", "why"),
    [
        *[(prefix(length, 0), f"frame length of {length % 2**32}") for length in (0, 1, 2, 3, -1, -(2**31))],
        (prefix(FRAME_BYTES_MAX - 3, 100), f"frame length of {FRAME_BYTES_MAX - 3}"),
        (prefix(2**31 - 1, 100), f"frame length of {2**31 - 1}"),
        (prefix(100, 97), "header of 97 bytes in a frame of 100"),
        (prefix(4, 0xFFFFFF), "header of 16777215 bytes in a frame of 4"),
        (prefix(100, 50, form=2), "header of type 2"),
        (prefix(100, 50, form=255), "header of type 255"),
        (prefix(4, 0), "without a readable opaque"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "frame length of"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100), "frame length of"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["whole", "byte-by-byte"])
def test_attack_01_impossible_prefix(tmp_path: Path, data: bytes, why: str, at_once: bool) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        unknown = broker.connect()
        for piece in [data] if at_once else [data[at : at + 1] for at in range(len(data))]:
            unknown.raw(piece)
            assert unknown.peer.conversation.bytes_pending <= len(data)
        broker.closed_with(unknown, why)
        assert not unknown.answers


def test_attack_01_the_length_is_judged_before_the_rest_comes(tmp_path: Path) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        broker.closed_with(broker.attack(struct.pack(">i", FRAME_BYTES_MAX)), "frame length")


def test_attack_01_good_requests_before_the_bad_frame_are_answered(tmp_path: Path) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        unknown = broker.attack(json_frame(json_header()) + prefix(-1, 0) + json_frame(json_header(8)))
        assert list(unknown.answers) == [7]
        broker.closed_with(unknown, "frame length of")


# 2: half a frame, and time


def test_attack_02_a_thousand_peers_announce_16_mib_and_send_a_byte_a_second(tmp_path: Path) -> None:
    """Memory follows what came; nobody stays longer than 10 s without a frame."""
    with siege(tmp_path) as broker, broker.unharmed():
        announced = prefix(FRAME_BYTES_MAX - 4, 200)
        unknown_peers = [broker.connect() for _ in range(1_000)]
        broker.driver.run(*[(unknown, announced) for unknown in unknown_peers])
        for _ in range(10):
            broker.driver.run(*[(unknown, b"{") for unknown in unknown_peers if not unknown.closed])
            assert sum(unknown.peer.conversation.bytes_pending for unknown in unknown_peers) <= 1_000 * 32
            broker.driver.advance(1_000)
            broker.keep_faith()
        assert all(unknown.closed for unknown in unknown_peers)
        assert broker.lines.about("no complete frame within 10000 ms")


@pytest.mark.parametrize("sent", [b"", b"\0", bytes(3), prefix(400, 100), prefix(400, 100) + b"{", prefix(400, 100) + b"xyz"])
def test_attack_02_half_a_frame_and_silence(tmp_path: Path, sent: bytes) -> None:
    """No byte, some, or the 11 that stall a proxy's detection."""
    with siege(tmp_path) as broker, broker.unharmed():
        unknown = broker.attack(sent)
        broker.driver.advance(9_999)
        assert not unknown.closed
        broker.driver.advance(1)
        broker.closed_with(unknown, "no complete frame within 10000 ms", f"{len(sent)} bytes came")


def test_attack_02_a_slow_frame_after_a_good_one(tmp_path: Path) -> None:
    """Below 1 KiB/s over 30 s a started frame ends its connection; above, it does not."""
    with sieged_topic(tmp_path) as broker, broker.unharmed("messages", "log", "directories"):
        slow, steady = broker.connect(), broker.connect()
        body = bytes(100_000)
        frames = {client: client.frame(send("T"), body) for client in (slow, steady)}
        for client in (slow, steady):
            client.ask(GetMaxOffset(topic="T", queue_id=0))
        for second in range(62):
            slow.raw(frames[slow][second : second + 1])
            steady.raw(frames[steady][second * 1_700 : (second + 1) * 1_700])
            broker.driver.advance(1_000)
        broker.closed_with(slow, "of a started frame")
        assert not steady.closed
        assert [answer.code for answer in steady.answers.values()] == [0]


# 3: who never reads


def test_attack_03_a_peer_that_pulls_and_never_reads(tmp_path: Path) -> None:
    limits = Limits(output_bytes_max=200_000)
    with siege(tmp_path, limits=limits) as broker:
        broker.topic("T", queues=1)
        for n in range(64):
            assert broker.witness.ask(send("T"), bytes([n]) * 1_000).code == 0
        with broker.unharmed():
            deaf = broker.connect()
            deaf.reads = False
            flood = b"".join(deaf.frame(pull("T")) for _ in range(2_000))
            fed = feed_as_a_shell_does(broker, deaf, flood)
            assert fed < len(flood), "it is read no more"
            most_in_one_answer = 40_000
            assert limits.output_bytes_max < deaf.peer.unsent_bytes <= limits.output_bytes_max + most_in_one_answer
            broker.keep_faith()
            broker.driver.advance(60_000 + 10_000)
            broker.closed_with(deaf, "took none of")


def test_attack_03_who_reads_slowly_is_not_blamed_for_the_half_frame_that_we_do_not_read(tmp_path: Path) -> None:
    """While answers pile up the peer is not read: what it had begun to send cannot progress."""
    with sieged_topic(tmp_path, limits=Limits(output_bytes_max=10_000)) as broker:
        broker.witness.ask(send("T"), bytes(100_000))
        with broker.unharmed():
            slow = broker.connect()
            slow.reads = False
            slow.raw(slow.frame(pull("T")) + slow.frame(pull("T"))[:20])
            unsent = slow.peer.unsent_bytes
            for _ in range(90):
                taken = unsent // 100
                slow.peer.unsent_bytes -= taken
                slow.peer.sent_bytes += taken
                broker.driver.advance(1_000)
            assert not slow.closed


def test_attack_03_a_peer_that_waits_for_messages_and_never_reads(tmp_path: Path) -> None:
    """Held pulls are the way round the cap: each message wakes all of them."""
    limits = Limits(output_bytes_max=200_000)
    with sieged_topic(tmp_path, limits=limits) as broker, broker.unharmed("messages", "log", "directories"):
        deaf = broker.connect()
        deaf.reads = False
        for _ in range(500):
            deaf.send(pull("T", flags=SUSPEND | 4))
        assert deaf.peer.unsent_bytes == 0, "all of them wait"
        assert broker.witness.ask(send("T"), bytes(100_000)).code == 0
        assert deaf.peer.unsent_bytes <= limits.output_bytes_max + 100_000 + 500 * 300


# 4: floods


def feed_as_a_shell_does(broker: Siege, client: Client, data: bytes) -> int:
    """Hand over what one receive brings, as long as the peer is read.  How much of it was taken."""
    at = 0
    idle = 0
    while at < len(data) and idle < 3 and not client.closed:
        if client.peer.congested:
            idle += not broker.node.engine._backlogs or client.peer.unsent_bytes > client.peer.output_bytes_max
            broker.driver.turn()
            continue
        idle = 0
        size = broker.node.engine.receive_bytes_max
        broker.driver.turn((client, data[at : at + size]))
        at += size
    return min(at, len(data))


def test_attack_04_a_crowd_that_pulls_at_once_leaves_time_for_others(tmp_path: Path) -> None:
    """All active peers share a turn: 300 with 40 full pulls each take many; who asks meanwhile is answered in the same."""
    with sieged_topic(tmp_path) as broker:
        for _ in range(32):
            assert broker.witness.ask(send("T"), bytes(1_000)).code == 0
        with broker.unharmed():
            driver, limits = broker.driver, broker.node.engine.limits
            crowd = [broker.connect() for _ in range(300)]
            calm = broker.connect()
            arrived = [(client, b"".join(client.frame(pull("T")) for _ in range(40))) for client in crowd]
            served = turns = 0
            while served < 300 * 40:
                driver.turn(*arrived, (calm, calm.frame(GetMaxOffset(topic="T", queue_id=0))))
                arrived = []
                turns += 1
                assert len(calm.answers) == turns, "an answer in the turn of its question"
                done = sum(len(client.answers) for client in crowd)
                assert 0 < done - served <= limits.turn_requests_max
                one_answer = 40_000
                assert (done - served) * 32 * 1_000 <= limits.turn_output_bytes_max + 300 * one_answer
                served = done
            assert all(len(client.answers) == 40 for client in crowd)


@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_attack_04_a_hundred_thousand_requests_in_one_write(tmp_path: Path, count: int) -> None:
    """They are served a few at a time; who asks meanwhile is answered in the very next turn."""
    with siege(tmp_path) as broker, broker.unharmed():
        flooder, calm = broker.connect(), broker.connect()
        asked = GetMaxOffset(topic=WITNESS, queue_id=0)
        flood = b"".join(encode_request(asked.code, asked, opaque=n, form=Form.ROCKETMQ) for n in range(count))
        engine, driver = broker.node.engine, broker.driver
        at = served = 0
        while len(flooder.answers) < count:
            arrived = []
            if not flooder.peer.congested and at < len(flood):
                arrived.append((flooder, flood[at : at + engine.receive_bytes_max]))
                at += engine.receive_bytes_max
            arrived.append((calm, calm.frame(asked)))
            driver.turn(*arrived)
            assert len(calm.answers) == 1
            calm.answers.clear()
            assert len(flooder.answers) - served <= engine.limits.requests_max
            served = len(flooder.answers)


def test_attack_04_ten_thousand_connections(tmp_path: Path) -> None:
    limits = Limits(peers_max=9_000)
    with siege(tmp_path, limits=limits) as broker, broker.unharmed():
        engine = broker.node.engine
        there = len(engine.peers)
        opened = [engine.opened(("127.0.0.9", port), ("127.0.0.1", 10911), "main") for port in range(1, 10_001)]
        assert sum(peer is not None for peer in opened) == 9_000 - there
        assert broker.lines.about("127.0.0.9:", "refused", "9000 connections are open")
        broker.keep_faith()
        for peer in opened:
            if peer is not None:
                engine.closed(peer, "gone")
        broker.connect()


# 5: binary headers


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(binary(remark_size=-1), id="remark-negative"),
        pytest.param(binary(remark_size=2**31 - 1), id="remark-past-the-end"),
        pytest.param(binary(remark=b"abc", remark_size=2), id="remark-short"),
        pytest.param(binary(ext_size=-1), id="ext-negative"),
        pytest.param(binary(ext_size=2**31 - 1), id="ext-past-the-end"),
        pytest.param(binary(entry(b"topic", b"T"), ext_size=1), id="ext-short"),
        pytest.param(binary(entry(b"topic", b"T", name_size=-1)), id="name-65535"),
        pytest.param(binary(entry(b"k" * 32_768, b"T")), id="name-32768-which-Java-reads-as-negative"),
        pytest.param(binary(entry(b"topic", b"T", name_size=500)), id="name-past-the-end"),
        pytest.param(binary(entry(b"topic", b"T", value_size=-1)), id="value-negative"),
        pytest.param(binary(entry(b"topic", b"T", value_size=2)), id="value-past-the-end"),
        pytest.param(binary(entry(b"topic", b"T"), tail=b"x"), id="trailing-byte"),
        pytest.param(binary(entry(b"topic", b"T"), b"\0"), id="half-an-entry"),
        pytest.param(json_frame(HEAD.pack(30, 0, 513, 7, 0), form=1), id="no-lengths"),
        pytest.param(json_frame(b"\0", form=1), id="one-byte"),
    ],
)
def test_attack_05_binary_header_lengths(tmp_path: Path, data: bytes) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        unknown = broker.attack(data)
        broker.closed_with(unknown, "binary header")
        assert not unknown.answers


# 9: answers that nobody asked for


def forged(opaque: int, form: Form) -> bytes:
    frame = encode_response(0, opaque, form=form, remark="forged")
    assert isinstance(frame, bytes)
    return frame


def test_attack_09_answers_that_nobody_asked_for(tmp_path: Path) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        unknown = broker.connect()
        unknown.ask(GetMaxOffset(topic=WITNESS, queue_id=0))
        for opaque in (0, 1, -1, 2**31 - 1):
            for form in FORMS:
                unknown.raw(forged(opaque, form))
        assert not unknown.closed
        assert broker.node.engine._client_requests.unasked == 8
        # A response that is marked one-way is a response all the same, and nothing is run for it.
        unknown.raw(json_frame(json_header(code=215, flag=RESPONSE | ONE_WAY, extFields={"topic": WITNESS})))
        assert not unknown.answers


# 10: without an answer


def test_attack_10_admin_requests_marked_one_way_pass_the_same_checks(tmp_path: Path) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        unknown = broker.connect()
        unknown.send_oneway(UpdateBrokerConfig(), b"brokerConfigPath=/tmp/x\nmaxMessageSize=1")
        unknown.send_oneway(UpdateBrokerConfig(), b"storePathRootDir=/tmp/x\nmaxMessageSize=1")
        unknown.send_oneway(UpdateBrokerConfig(), b"maxMessageSize=1\\nlistenPort=1")
        unknown.send_oneway(DeleteTopic(topic="SCHEDULE_TOPIC_XXXX"))
        unknown.send_oneway(DeleteTopic(topic="../config"))
        unknown.send_oneway(UnregisterClient(client_id="x", producer_group="nobody"))
        unknown.raw(encode_request(9_999, None, opaque=7, oneway=True))
        unknown.raw(json_frame(b'{"code":30,"opaque":7,"flag":2,"extFields":[}}'))
        assert not unknown.answers
        assert not unknown.closed


def test_attack_10_a_one_way_query_is_served_and_not_answered(tmp_path: Path) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        unknown = broker.connect()
        unknown.send_oneway(QueryConsumerOffset(consumer_group="g", topic=WITNESS, queue_id=0))
        unknown.send_oneway(pull(WITNESS))
        unknown.send_oneway(pull(WITNESS, offset=1, flags=SUSPEND | 4))
        broker.driver.advance(20_000)
        assert not unknown.answers
        assert unknown.peer.sent_bytes == 0
