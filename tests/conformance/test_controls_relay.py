"""The relay's parts: a message is written as it was read, units change where they should, and nothing else does."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from conformance.controls import frames
from conformance.controls.frames import Message
from conformance.controls.proxy import Mutate, Seen, Step, answering, proxied, unchanged
from conformance.controls.shadow import Shadow, shadowed
from conformance.frames import split
from conformance.subjects.base import Target
from conformance.suite.link import Answer, Frame, Link, NoAnswer
from rmq_wire.codes import RequestCode
from rmq_wire.command import Command, decode_header
from rmq_wire.encoding import Form, encode_request
from tests.support.fake_remoting import answer, serve, target_at

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NARROWED = {code & 0xFFFF for code in RequestCode if code > 0x7FFF}
"""What the binary form leaves of the codes of POP: read as those."""


@given(
    st.integers(0, 30_000).filter(lambda code: code not in NARROWED),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from(Form),
    st.dictionaries(TEXTS.filter(bool), TEXTS),
    st.binary(max_size=50),
    st.booleans(),
)
def test_a_message_says_the_same_when_it_is_written_again(
    code: int, opaque: int, form: Form, ext: dict[str, str], body: bytes, oneway: bool
) -> None:
    frame = encode_request(code, None, body, opaque=opaque, form=form, ext=ext, oneway=oneway)
    before, command = _decoded(frame), _decoded(Message.read(frame).encode())
    assert (command.code, command.opaque, command.is_oneway, bytes(command.body)) == (code, opaque, oneway, body)
    assert command.ext_map() == before.ext_map()
    assert before.ext_map() == {name: value for name, value in ext.items() if value or form == Form.JSON}


def _decoded(frame: bytes) -> Command:
    form, header, body = split(frame)
    command = decode_header(header, form, body)
    assert isinstance(command, Command)
    return command


@given(st.binary(max_size=60))
def test_garbage_is_no_message(data: bytes) -> None:
    frame = struct.pack(">i", 4 + len(data)) + bytes(4) + data
    try:
        assert isinstance(Message.read(frame), Message)
    except (ValueError, TypeError):
        pass


def test_properties_change_the_size() -> None:
    unit = bytearray(
        struct.pack(">iiiii", 91 + 2 + 3, -626843481, 0, 0, 0) + bytes(64) + struct.pack(">i", 0) + b"\x01t\0\x03a\x01b"
    )
    struct.pack_into(">i", unit, 0, len(unit))
    assert frames.properties_text(unit) == b"a\x01b"
    changed = frames.with_properties(unit, b"longer\x01text")
    assert frames.properties_text(changed) == b"longer\x01text"
    assert frames.units_of(bytes(changed)) == [changed]
    with pytest.raises(ValueError, match="no message units"):
        frames.units_of(bytes(changed[:-1]))


async def _asked(mutate: Mutate, ext: dict[str, str] | None = None) -> Answer:
    """The answer to a request that goes through the relay to a server which sends bodies back."""
    evidence: list[Frame] = []
    async with trio.open_nursery() as nursery:
        target = target_at(await serve(nursery, lambda asked: answer(asked, body=bytes(asked.body))))
        async with proxied(target, mutate) as relayed:
            assert relayed.broker != target.broker
            found = await Link(relayed.broker, nursery, evidence, number=0).ask_raw(7, ext, b"body")
            nursery.cancel_scope.cancel()
    return found


async def test_the_relay_passes_what_nobody_changes() -> None:
    assert (await _asked(unchanged)).body == b"body"


async def test_the_relay_changes_answers() -> None:
    def flip(seen: Seen) -> None:
        if seen.answer is not None:
            assert seen.request.ext == {"a": "b"}
            seen.answer.body = b"another"

    assert (await _asked(flip, {"a": "b"})).body == b"another"


async def test_the_relay_answers_by_itself() -> None:
    def here(seen: Seen) -> list[Step] | None:
        return [answering(seen.request.answer(5, ext={"x": "y"}))] if seen.answer is None else None

    found = await _asked(here)
    assert (found.code, found.ext) == (5, {"x": "y"})


async def test_the_relay_hangs_up() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await _asked(lambda seen: [Step(b"", close=True)])
    assert caught.group_contains(NoAnswer, match="the connection ended")


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """A store with a log and two queues."""
    for name in ("commitlog/00000000000000000000", "consumequeue/old/0/00000000000000000000"):
        file = tmp_path / "live" / name
        file.parent.mkdir(parents=True)
        file.write_bytes(b"as it was")
    return tmp_path / "live"


def test_a_shadow_follows_and_never_writes_to_the_store(live: Path, tmp_path: Path) -> None:
    def spoil(shadow: Shadow) -> None:
        for file in (*shadow.files("commitlog"), *shadow.new_queues()):
            shadow.change(file, lambda data: data[::-1])

    shadow = Shadow(live, tmp_path / "shadow", spoil, slots=1)
    new = live / "consumequeue" / "new" / "0" / "00000000000000000000"
    new.parent.mkdir(parents=True)
    new.write_bytes(b"new")
    target = shadowed(Target("ours", "ours", None, "", "", "", "", live), shadow)
    seen = target.store
    assert seen == tmp_path / "shadow"
    assert (seen / "commitlog" / "00000000000000000000").read_bytes() == b"saw ti sa"
    assert (seen / "consumequeue" / "new" / "0" / "00000000000000000000").read_bytes() == b"wen"
    assert not (seen / "consumequeue" / "old").exists()
    assert (live / "commitlog" / "00000000000000000000").read_bytes() == b"as it was"
    assert new.read_bytes() == b"new"
