"""A running `rmq dev` among peers that mean no good: over real sockets, in both shells, with one who behaves all the while.

What depends on time is tested on the engine (tests/broker/test_attacks_frames.py), where time is the test's.  Here a peer is
closed at once or answered; where the server has to be seen standing still, its progress is counted in answers to the witness.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmq_wire.command import Form, encode_request
from rmq_wire.headers.positions import GetMaxOffset
from tests.support.bad_frames import HEAD, binary, entry, json_frame, json_header, prefix
from tests.support.requests import pull, send
from tests.support.rmq import DEV, Server, limited
from tests.support.talk import Talk, split

TOPIC = "Witness"
SHELLS = {"epoll": (), "streams": ("--plain-streams",)}
shells = pytest.mark.parametrize("shell", SHELLS.values(), ids=SHELLS.keys())
FRAME_BYTES_MAX = 16_777_216
DESCRIPTORS = 400


class Witness:
    """Connected before the attack, served during it, and in possession of all its messages after it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.talk = Talk(server.ready["broker"])
        self.sent: list[bytes] = []
        self.attest()

    def attest(self) -> None:
        body = b"%d" % len(self.sent)
        answer = self.talk.send(TOPIC, body)
        assert answer.code == 0, answer.remark
        self.sent.append(body)

    def swear(self) -> None:
        """Everything is there, also for a connection that is made now."""
        self.attest()
        assert self.talk.read(TOPIC) == self.sent
        with Talk(self.server.ready["broker"]) as late:
            assert late.read(TOPIC) == self.sent


@contextlib.contextmanager
def besieged(tmp_path: Path, shell: tuple[str, ...] = (), *options: str, program: list[str] | None = None) -> Iterator[Witness]:
    """A server and its witness; at the end it stops cleanly, and nothing of ours has failed."""
    with Server(tmp_path, *DEV, "--store", str(tmp_path / "store"), *shell, *options, program=program) as server:
        witness = Witness(server)
        yield witness
        witness.swear()
        assert server.stop() == 0
        log = server.log.read_text(errors="replace")
        assert "Traceback" not in log, log
        assert all(line.isprintable() for line in log.splitlines())
        assert not (tmp_path / "store" / "abort").exists()


BAD_FRAMES = [
    (prefix(3, 0), "a frame length of 3"),
    (prefix(-1, 0), "a frame length of"),
    (prefix(FRAME_BYTES_MAX - 3, 100), "a frame length of"),
    (prefix(2**31 - 1, 100), "a frame length of"),
    (prefix(100, 97), "a header of 97 bytes in a frame of 100"),
    (prefix(100, 50, form=2), "a header of type 2"),
    (prefix(100, 50, form=-1 & 0xFF), "a header of type 255"),
    (json_frame(b"{}"), None),
    (json_frame(b'{"opaque":'), "a readable opaque"),
    (json_frame(b"\xff" * 100), "a readable opaque"),
    (binary(entry(b"topic", b"T", value_size=-1)), "binary header"),
    (binary(remark_size=2**31 - 1), "binary header"),
    (json_frame(HEAD.pack(30, 0, 513, 7, 0), form=1), "binary header"),
    (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "a frame length of"),
    (b"\x16\x03\x01\x00\xf0\x01" + bytes(240), "a frame length of"),
    (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", "a frame length of"),
]


@shells
def test_frames_that_are_none_close_their_connection_and_are_logged_with_their_peer(
    tmp_path: Path, shell: tuple[str, ...]
) -> None:
    with besieged(tmp_path, shell) as witness:
        for data, why in BAD_FRAMES:
            with Talk(witness.server.ready["broker"]) as unknown:
                unknown.raw(data)
                if why is None:
                    assert unknown.answer(0).code == 3
                    continue
                assert unknown.closed_by_server(), data[:30]
                assert witness.server.wait_logged(f"{unknown.name} closed", why)
            witness.attest()


@shells
def test_what_can_be_answered_is_answered(tmp_path: Path, shell: tuple[str, ...]) -> None:
    with (
        besieged(tmp_path, shell, "--set", "maxMessageSize=100000") as witness,
        Talk(witness.server.ready["broker"]) as unknown,
    ):
        answers = {
            "broken JSON": (json_frame(b'{"code":30,"opaque":7,"extFields":{,}}'), 1, None),
            "deep": (json_frame(b'{"code":30,"opaque":7,"remark":' + b"[" * 100_000 + b"}"), 1, None),
            "large": (json_frame(json_header(remark="x" * (1 << 20))), 1, None),
            "missing": (json_frame(json_header(extFields={})), 1, "the custom field <topic>, <queueId> is null"),
            "mistyped": (
                json_frame(json_header(extFields={"topic": TOPIC, "queueId": "x"})),
                1,
                "queueId is not a 32-bit integer",
            ),
            "unknown": (json_frame(json_header(code=9_999)), 3, " request type 9999 not supported"),
            "negative": (json_frame(json_header(code=-5)), 3, " request type -5 not supported"),
            "unsupported": (json_frame(json_header(code=200_070)), 3, " request type 200070 not supported"),
        }
        for name, (frame, code, remark) in answers.items():
            unknown.raw(frame)
            answer = unknown.answer(7)
            assert answer.code == code, name
            assert remark is None or remark in (answer.remark or ""), (name, answer.remark)
        for form in Form:
            assert unknown.ask(send("T"), bytes(100_001), form=form).code == 13
            assert unknown.ask(pull("Unknown"), form=form).code == 17
            assert unknown.ask(send("New", default_topic="None"), b"x", form=form).code == 17
        witness.attest()


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4_096 / (1 << 20)


@shells
def test_a_client_that_never_reads_stops_being_read(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """It asks for gigabytes; what the server keeps for it has an end, and the witness is served as before."""
    with besieged(tmp_path, shell) as witness:
        for _ in range(32):
            assert witness.talk.send("Heavy", bytes(60_000)).code == 0
        before = resident_mib(witness.server.pid)
        with Talk(witness.server.ready["broker"]) as deaf:
            deaf.sock.setblocking(False)
            flood = b"".join(deaf.frame(pull("Heavy")) for _ in range(20_000))
            sent = refused = 0
            while sent < len(flood) and refused < 50:
                try:
                    sent += deaf.sock.send(flood[sent:])
                except BlockingIOError:
                    refused += 1
                witness.attest()
            assert sent < len(flood), "it was read to the end"
            assert resident_mib(witness.server.pid) - before < 64
        witness.attest()


@shells
def test_two_thousand_idle_connections(tmp_path: Path, shell: tuple[str, ...]) -> None:
    with besieged(tmp_path, shell) as witness:
        before = resident_mib(witness.server.pid)
        idle = [Talk(witness.server.ready["broker"]) for _ in range(2_000)]
        for _ in range(100):
            witness.attest()
        asked = GetMaxOffset(topic=TOPIC, queue_id=0)
        for talk in (idle[0], idle[999], idle[-1]):
            assert talk.ask(asked).ext_map() == {"offset": str(len(witness.sent))}
        assert (resident_mib(witness.server.pid) - before) * 1_024 / len(idle) < 64, "KiB for an idle connection"
        for talk in idle:
            talk.close()


@shells
def test_a_thousand_half_frames(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """Each announces 16 MiB; what is kept follows what came."""
    with besieged(tmp_path, shell) as witness:
        before = resident_mib(witness.server.pid)
        slow = [Talk(witness.server.ready["broker"]) for _ in range(1_000)]
        for round_ in range(5):
            for talk in slow:
                talk.raw(prefix(FRAME_BYTES_MAX - 4, 500) if not round_ else b"{")
            for _ in range(20):
                witness.attest()
        assert resident_mib(witness.server.pid) - before < 100
        for talk in slow:
            talk.close()


@shells
def test_resets_at_every_moment(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """Connections that end by RST: at once, within a frame, with a request unanswered, with an answer unread."""
    with besieged(tmp_path, shell) as witness:
        chance = random.Random(7)
        whole = encode_request(11, pull(TOPIC), opaque=1)
        for number in range(400):
            with Talk(witness.server.ready["broker"]) as victim:
                victim.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if number % 4 == 1:
                    victim.raw((whole * 3)[: chance.randrange(len(whole) * 3)])
                elif number % 4 == 2:
                    victim.raw(whole)
                elif number % 4 == 3:
                    victim.raw(whole + victim.frame(pull(TOPIC)) + whole[:20])
                    victim.sock.recv(1)
            if number % 20 == 0:
                witness.attest()


@shells
def test_a_request_in_single_bytes_and_many_in_one_write(tmp_path: Path, shell: tuple[str, ...]) -> None:
    with besieged(tmp_path, shell) as witness, Talk(witness.server.ready["broker"]) as unknown:
        asked = GetMaxOffset(topic=TOPIC, queue_id=0)
        frame = unknown.frame(asked)
        for at in range(len(frame)):
            unknown.raw(frame[at : at + 1])
        assert unknown.answer(unknown.opaque).code == 0
        first = unknown.opaque + 1
        unknown.raw(b"".join(unknown.frame(asked) for _ in range(5_000)))
        witness.attest()
        assert all(unknown.answer(opaque).code == 0 for opaque in range(first, unknown.opaque + 1))


@shells
def test_more_connections_than_descriptors(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """Connections above the limit are closed; the store keeps enough to make files; who comes later is served again."""
    arguments = [*DEV, "--store", str(tmp_path / "store"), *shell]
    with besieged(tmp_path, program=limited(DESCRIPTORS, *arguments)) as witness:
        address = split(witness.server.ready["broker"])
        crowd = [socket.create_connection(address, timeout=60) for _ in range(DESCRIPTORS * 2)]
        asked = GetMaxOffset(topic=TOPIC, queue_id=0)
        served = []
        for sock in crowd:
            try:
                sock.sendall(encode_request(asked.code, asked, opaque=1))
                if sock.recv(1):
                    served.append(sock)
            except ConnectionError:
                continue
        assert 50 <= len(served) <= DESCRIPTORS - 100
        assert witness.server.wait_logged("refused", "connections are open")
        for number in range(20):
            assert witness.talk.send(f"New{number}", b"x").code == 0
        for sock in crowd:
            sock.close()
        for _ in range(50):
            witness.attest()
        with Talk(witness.server.ready["broker"]) as late:
            assert late.ask(asked).code == 0
    assert len(list((tmp_path / "store" / "consumequeue").iterdir())) == 21


def test_the_name_server_among_the_same_peers(tmp_path: Path) -> None:
    with besieged(tmp_path) as witness:
        names = witness.server.ready["namesrv"]
        with Talk(names) as calm:
            route = json_frame(json_header(code=105, extFields={"topic": "TBW102"}))
            for data, why in BAD_FRAMES:
                with Talk(names) as unknown:
                    unknown.raw(data)
                    if why is not None:
                        assert unknown.closed_by_server()
                        assert witness.server.wait_logged(f"{unknown.name} closed", why)
                calm.raw(route)
                answer = calm.answer(7)
                assert answer.code == 0
                assert "broker-a" in json.dumps(bytes(answer.body).decode())
