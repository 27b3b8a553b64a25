"""The frame: length, form and header length, header, body; how it may arrive, and what no server should be impressed by.

Every case uses a connection of its own; where a server may hang up, a second one that was there before must not notice.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import trio

from conformance.suite.kit import INFO, MUST, SHOULD, Code, Form, Link, ResponseCode, Trial, case
from conformance.suite.means.raw import frame as framed
from conformance.suite.means.raw import i32, prefix
from rmq_wire.encoding import ONE_WAY, RESPONSE, encode_request
from rmq_wire.headers.positions import GetMaxOffset

FRAME_BYTES_MAX = 16_777_216
"""`com.rocketmq.remoting.frameMaxLength`, the length field included."""
QUIET_S = 0.7
"""How long "nothing comes" is watched."""
STRANGE_CODE = 29_999
"""A code that nobody has declared."""

RESTS = "RemotingCommand.decode, NettyDecoder"


def _question(opaque: int, *, form: Form = Form.JSON, oneway: bool = False) -> bytes:
    """A request that every server answers, with code 3."""
    return encode_request(STRANGE_CODE, None, b"", opaque=opaque, form=form, oneway=oneway)


async def _answers(t: Trial, link: Link, opaque: int = 77) -> None:
    answer = await link.ask_frame(_question(opaque), opaque)
    t.answer("a request on the same connection", answer, code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)


def _servers(t: Trial) -> dict[str, Link]:
    """Both servers; of 4.x the broker alone, since its name server does not answer a code that it does not know."""
    return t.by_version({"": {"broker": t.broker, "name server": t.names}, "4": {"broker": t.broker}})


async def _witnessed(t: Trial, attempt: Callable[[Link], Awaitable[None]]) -> None:
    """Do something on one connection while another one, open before, is served before and after it."""
    witness = t.connect()
    await _answers(t, witness, 1)
    await attempt(t.connect())
    await _answers(t, witness, 2)


@case("frame.unknown-code", MUST, rests_on="NettyRemotingAbstract.processRequestCommand")
async def unknown_code(t: Trial) -> None:
    """A request code that nobody handles is answered with code 3.

    The remark is ` request type N not supported`, with the blank in front; the answer carries the request's opaque.
    """
    for where, link in _servers(t).items():
        answer = await link.ask_frame(_question(4_711), 4_711)
        t.answer(
            where, answer, code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {STRANGE_CODE} not supported"
        )
        t.equal(f"{where}: opaque", answer.command.opaque, 4_711)


@case("frame.response-marks", MUST, rests_on="RemotingCommand.createResponseCommand")
async def response_marks(t: Trial) -> None:
    """A response has the response bit, no other, and states language and version."""
    for where, link in _servers(t).items():
        command = (await link.ask_frame(_question(5), 5)).command
        t.equal(f"{where}: flag", command.flag, RESPONSE)
        t.equal(f"{where}: language", command.language_name, "JAVA" if t.target.kind in ("jars", "docker") else str)
        t.check(f"{where}: version", command.version > 0, expected="> 0", seen=command.version)


@case("frame.opaque-limits", MUST, rests_on="RemotingCommand.opaque")
async def opaque_limits(t: Trial) -> None:
    """Any 32-bit opaque comes back as it was."""
    for opaque in (0, -1, 2**31 - 1, -(2**31)):
        for form in Form:
            answer = await t.broker.ask_frame(_question(opaque, form=form), opaque)
            t.equal(f"opaque of the answer, {form.name}", answer.command.opaque, opaque)


@case("frame.split-at-every-byte", MUST, rests_on=RESTS)
async def split_at_every_byte(t: Trial) -> None:
    """A frame that arrives byte by byte is read."""
    link = t.connect()
    frame = _question(9)
    for byte in frame[:-1]:
        await link.send(bytes([byte]))
    answer = await link.ask_frame(frame[-1:], 9)
    t.answer("the answer", answer, code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)


@case("frame.glued", MUST, rests_on=RESTS)
async def glued(t: Trial) -> None:
    """Many frames in one segment are all answered.

    The order of the answers is free: a server may work on requests of one connection side by side.
    """
    link = t.connect()
    await link.send(b"".join(_question(opaque) for opaque in range(1, 51)))
    seen = set()
    for _ in range(50):
        command = await link.stray(seconds=10)
        if command is None:
            break
        seen.add(command.opaque)
    t.equal("opaques of the answers", seen, set(range(1, 51)))


@case("frame.split-over-two", MUST, rests_on=RESTS)
async def split_over_two(t: Trial) -> None:
    """The end of one frame and the start of the next in one segment are both read."""
    link = t.connect()
    first, second = _question(1), _question(2)
    await link.send(first[:30])
    await trio.sleep(0.02)
    await link.send(first[30:] + second[:5])
    await trio.sleep(0.02)
    await link.send(second[5:])
    seen = {command.opaque for _ in range(2) if (command := await link.stray(seconds=10))}
    t.equal("opaques of the answers", seen, {1, 2})


@case("frame.one-way", MUST, rests_on="NettyRemotingAbstract.processRequestCommand")
async def one_way(t: Trial) -> None:
    """A one-way request is not answered."""
    for where, link in _servers(t).items():
        await link.send(_question(1, oneway=True))
        await link.send(_question(2))
        first = await link.stray(seconds=10)
        t.equal(f"{where}: the first answer is to request", first and first.opaque, 2)
        t.equal(f"{where}: another answer", await link.stray(seconds=QUIET_S), None)


@case("frame.one-way-bit-of-others", SHOULD, rests_on="RemotingCommand.isOnewayRPC")
async def other_flags(t: Trial) -> None:
    """Other bits of the flag change nothing."""
    link = t.connect()
    frame = _question(3).replace(b'"flag":0', b'"flag":4')
    answer = await link.ask_frame(frame, 3)
    t.answer("flag 4", answer, code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)


@case("frame.unasked-response", MUST, rests_on="NettyRemotingAbstract.processResponseCommand")
async def unasked_response(t: Trial) -> None:
    """A response that answers nothing is dropped."""
    link = t.connect()
    await link.send(_question(123).replace(b'"flag":0', b'"flag":1'))
    await _answers(t, link)
    t.equal("another answer", await link.stray(seconds=QUIET_S), None)


@case("frame.one-way-response", SHOULD, rests_on="RemotingCommand.getType")
async def one_way_response(t: Trial) -> None:
    """Response and one-way bit together: dropped."""
    link = t.connect()
    await link.send(_question(124).replace(b'"flag":0', b'"flag":%d' % (RESPONSE | ONE_WAY)))
    await _answers(t, link)


@case("frame.form-of-answer", SHOULD, rests_on="RocketMQSerializable, RemotingCommand.serializeTypeConfigInThisServer")
async def form_of_answer(t: Trial) -> None:
    """A request in the binary form gets an answer that its sender can read.

    Either form is lawful, since every decoder tells them apart per frame.  Noted which one it was.
    """
    link = t.connect(form=Form.ROCKETMQ)
    answer = await link.ask_frame(_question(6, form=Form.ROCKETMQ), 6)
    t.answer("the answer", answer, code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    t.note("form of the answer", answer.command.form.name)


@case("frame.both-forms-on-one-connection", MUST, codes=Code.GET_MAX_OFFSET, rests_on=RESTS)
async def both_forms(t: Trial) -> None:
    """The form is chosen per frame."""
    topic = await t.topic()
    link = t.connect()
    for form in (Form.JSON, Form.ROCKETMQ, Form.JSON, Form.ROCKETMQ):
        link.form = form
        answer = await link.ask(GetMaxOffset(topic=topic, queue_id=0))
        t.answer(f"max offset, asked in {form.name}", answer, code=0, ext={"offset": "0"})


def _closes(name: str, title: str, data: bytes) -> None:
    @case(f"frame.closes.{name}", MUST, title=f"{title}: the connection is closed, others go on", rests_on="NettyDecoder.decode")
    async def closes(t: Trial) -> None:
        async def attempt(link: Link) -> None:
            await link.send(data)
            t.check("the server closes the connection", await link.ends(seconds=10))

        await _witnessed(t, attempt)


_closes("length-above-limit", "A length above 16 MiB", prefix(FRAME_BYTES_MAX - 3, 10) + bytes(64))
_closes("length-negative", "A negative length", prefix(-1, 10) + bytes(64))
_closes("length-minimum", "The smallest 32-bit length", prefix(-(2**31), 10) + bytes(64))
_closes("header-longer-than-frame", "A header longer than its frame", prefix(20, 200) + bytes(300))
_closes("header-no-json", "A JSON header that is none", framed(b"this is no json!"))
_closes("header-truncated-json", "A JSON header that breaks off", framed(b'{"code":1'))
_closes("unknown-form", "A header of a form that nobody has", framed(bytes(20), form=7))
_closes("http", "A browser", b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n")


@case("frame.length-too-small", SHOULD, rests_on="NettyDecoder.decode")
async def length_too_small(t: Trial) -> None:
    """A length below 4 is refused and hurts nobody else."""

    async def attempt(link: Link) -> None:
        for length in (0, 1, 3):
            await link.send(i32(length) + bytes(60))
        t.note("closed within 2 s", await link.ends(seconds=2))

    await _witnessed(t, attempt)


@case("frame.half-then-close", MUST, rests_on=RESTS)
async def half_then_close(t: Trial) -> None:
    """Half a frame and the end of the connection hurt nobody."""

    async def attempt(link: Link) -> None:
        await link.send(_question(1)[:40])
        await link.close()

    await _witnessed(t, attempt)


@case("frame.half-then-silence", MUST, rests_on=RESTS)
async def half_then_silence(t: Trial) -> None:
    """Half a frame and silence: others are served."""

    async def attempt(link: Link) -> None:
        await link.send(_question(1)[:40])
        await _answers(t, t.connect(), 3)

    await _witnessed(t, attempt)


@case("frame.largest", MUST, rests_on="NettyDecoder.FRAME_MAX_LENGTH")
async def largest(t: Trial) -> None:
    """A frame of exactly 16 MiB is read, one byte more is not.

    Sent under a code that nobody handles, so that only the frame is judged.
    """
    head = len(_question(1))
    link = t.connect()
    frame = encode_request(STRANGE_CODE, None, bytes(FRAME_BYTES_MAX - head), opaque=1)
    t.equal("bytes of the frame", len(frame), FRAME_BYTES_MAX)
    t.answer("16 MiB", await link.ask_frame(frame, 1, seconds=20), code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    await link.send((len(frame) - 4 + 1).to_bytes(4, "big") + frame[4 : 1 << 20])
    t.check("one byte more: closed", await link.ends(seconds=10))


@case("frame.body-of-a-bodiless-request", SHOULD, codes=Code.GET_MAX_OFFSET, rests_on=RESTS)
async def superfluous_body(t: Trial) -> None:
    """A body where none belongs changes nothing."""
    topic = await t.topic()
    answer = await t.broker.ask(GetMaxOffset(topic=topic, queue_id=0), b"superfluous")
    t.answer("max offset", answer, code=0, ext={"offset": "0"})


@case("frame.many-connections", SHOULD, rests_on="NettyRemotingServer")
async def many_connections(t: Trial) -> None:
    """A hundred connections at once are all served."""
    links = [t.connect() for _ in range(100)]
    async with trio.open_nursery() as nursery:
        for number, link in enumerate(links):
            nursery.start_soon(_answers, t, link, number + 1)


@case("frame.answers-after-pause", SHOULD, rests_on=RESTS)
async def trickle(t: Trial) -> None:
    """Bytes that trickle in for two seconds still make a request."""
    link = t.connect()
    frame = _question(8)
    step = len(frame) // 8
    for at in range(0, step * 7, step):
        await link.send(frame[at : at + step])
        await trio.sleep(0.25)
    t.answer("the answer", await link.ask_frame(frame[step * 7 :], 8), code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)


@case("frame.version-names", INFO, rests_on="MQVersion")
async def version_names(t: Trial) -> None:
    """What the server says of its version."""
    for where, link in _servers(t).items():
        command = (await link.ask_frame(_question(1), 1)).command
        t.note(where, f"version {command.version}, language {command.language_name}, form {command.form.name}")
        t.check(f"{where} answers", re.fullmatch(r"-?\d+", str(command.version)) is not None)
