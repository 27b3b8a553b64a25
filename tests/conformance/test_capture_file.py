"""A capture survives its file: whatever frames were recorded, the same are read; broken files are reported in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.captures.decoding import decode_all
from conformance.captures.file import MARKS, BadCapture, Capture, Server, lines_of, read, write
from conformance.captures.recorder import Frame, Mark
from conformance.captures.timeline import Shown, as_json, code_named, lines
from conformance.frames import Cutter, split
from rmq_wire.codes import RequestCode
from rmq_wire.encoding import Form, encode_request, encode_response, frame_prefix
from tests.support.golden import FRAME_FILES, GOLDEN, exchanges

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
EXT = st.none() | st.dictionaries(TEXTS.filter(bool), TEXTS.filter(bool), max_size=5)
CODES = st.sampled_from([int(code) for code in RequestCode if code < 0x8000]) | st.integers(-(2**15), 2**15 - 1)
BODIES = (
    st.binary(max_size=80)
    | TEXTS.map(str.encode)
    | st.dictionaries(TEXTS, TEXTS, max_size=3).map(lambda d: json.dumps(d).encode())
)


@st.composite
def sound_frames(draw: st.DrawFn) -> bytes:
    """A request or an answer as the protocol has it."""
    form, opaque, ext, body = draw(st.sampled_from(Form)), draw(st.integers(-(2**31), 2**31 - 1)), draw(EXT), draw(BODIES)
    if draw(st.booleans()):
        return encode_request(draw(CODES), None, body, opaque=opaque, form=form, ext=ext, oneway=draw(st.booleans()))
    made = encode_response(draw(CODES), opaque, form=form, remark=draw(st.none() | TEXTS), ext=ext, body=body)
    return made if isinstance(made, bytes) else b"".join(made)


ODD_FRAMES = st.builds(
    lambda header, body, form: frame_prefix(len(header), len(body), form) + header + body,
    st.binary(max_size=60) | st.sampled_from([b"{}", b'{"opaque":1,"code":"x"}', b'{"remark":"\\ud800"}', b"[1"]),
    BODIES,
    st.sampled_from(Form),
)
"""Cut right, and perhaps nothing else."""
EVENTS = st.lists(
    st.builds(
        Frame, st.integers(0, 3), st.booleans(), sound_frames() | ODD_FRAMES, st.floats(0, 1e6).map(lambda ms: round(ms, 3))
    )
    | st.builds(
        Mark, st.integers(0, 3), st.floats(0, 1e6), st.sampled_from(["close", "lost"]), st.booleans(), st.just(""), st.just("")
    )
    | st.builds(Mark, st.integers(0, 3), st.floats(0, 1e6), st.just("open"), st.just(False), TEXTS, TEXTS),
    max_size=8,
)
SERVERS = st.lists(
    st.builds(Server, st.sampled_from(["name server", "broker"]), TEXTS, TEXTS, TEXTS, TEXTS, st.integers(0, 3)), max_size=3
)


@settings(deadline=None)
@given(EVENTS, SERVERS, TEXTS)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, events: list[Frame | Mark], servers: list[Server], text: str
) -> None:
    capture = Capture(text, text, text, 1_700_000_000_000, tuple(servers), tuple(events))
    path = tmp_path_factory.mktemp("capture") / "c.jsonl"
    write(path, capture)
    assert read(path) == capture


@settings(deadline=None)
@given(EVENTS)
def test_whatever_was_recorded_is_shown(events: list[Frame | Mark]) -> None:
    capture = Capture("", "", "", 1, (), tuple(events))
    assert all("\n" not in line and line.isprintable() for line in lines(capture, Shown()))
    shown = list(as_json(capture, Shown()))
    assert [line["event"] for line in shown] == list(range(len(events)))


@settings(deadline=None)
@given(st.lists(sound_frames(), max_size=5), st.integers(1, 9))
def test_frames_are_cut_wherever_the_stream_is(frames: list[bytes], step: int) -> None:
    cutter, stream = Cutter(), b"".join(frames)
    found = [frame for at in range(0, len(stream), step) for frame in cutter.feed(stream[at : at + step])]
    assert found == frames
    assert not cutter.lost
    for frame in frames:
        form, header, body = split(frame)
        assert frame_prefix(len(header), len(body), form) + header + body == frame


@pytest.mark.parametrize("stem", FRAME_FILES)
def test_golden_frames_are_captures_too(stem: str, tmp_path: Path) -> None:
    capture = read(GOLDEN / f"{stem}.bin")
    assert [event.data for event in capture.events if isinstance(event, Frame)] == [e.data for e in exchanges(stem)]
    write(tmp_path / "c.jsonl", capture)
    assert read(tmp_path / "c.jsonl").events == capture.events
    for one in decode_all(capture.events):
        assert one is not None
        assert one.problem is None
        assert one.body is None or one.body.problem is None


def test_every_field_has_its_name_and_type() -> None:
    capture = read(GOLDEN / "producer-5.5.0-json.bin")
    sends = [line for line in map(json.loads, lines_of(capture)) if line.get("name") == "SEND_MESSAGE_V2"]
    assert {"producerGroup", "topic", "queueId", "bornTimestamp", "properties"} <= sends[0]["fields"].keys()
    assert isinstance(sends[0]["fields"]["queueId"], int)
    assert isinstance(sends[0]["fields"]["batch"], bool)
    assert "UNIQ_KEY" in sends[0]["fields"]["properties"]
    assert any(line["body"]["kind"] == "message" for line in sends)


def test_stored_messages_are_taken_apart() -> None:
    said = decode_all(read(GOLDEN / "consumer-5.5.0-json.bin").events)
    units = [unit for one in said if one and one.body and one.body.kind == "messages" for unit in one.body.value]
    assert units
    assert all(unit["bodyCRCOk"] and unit["topic"] and "UNIQ_KEY" in unit["properties"] for unit in units)


def test_only_what_is_wanted_is_shown() -> None:
    capture = read(GOLDEN / "producer-5.5.0-json.bin")
    shown = list(as_json(capture, Shown(codes=frozenset({"SEND_MESSAGE_V2"}))))
    assert {line["name"] if line["what"] != "answer" else line["asked"] for line in shown} == {"SEND_MESSAGE_V2"}
    [number] = {line["connection"] for line in as_json(capture, Shown(connections=frozenset({shown[0]["connection"]})))}
    assert number == shown[0]["connection"]
    assert [line["event"] for line in as_json(capture, Shown(events=frozenset({2, 5})))] == [2, 5]


def test_codes_go_by_name_and_number() -> None:
    assert (code_named("105"), code_named("heart-beat"), code_named("SEND_MESSAGE")) == ("105", "HEART_BEAT", "SEND_MESSAGE")
    assert code_named("nonsense") is None


GOOD = [json.loads(line) for line in lines_of(Capture("", "", "", 1, (), (Frame(0, True, encode_request(105, opaque=1)),)))]


@pytest.mark.parametrize(
    ("number", "member", "value", "why"),
    [
        (0, "type", "nonsense", "first line"),
        (0, "format", 99, "format 99"),
        (0, "servers", [{"no": 1}], "line 1"),
        (1, "raw", "!", "line 2"),
        (1, "raw", "AAAA", "one whole frame"),
        (1, "to", "nobody", "line 2"),
        (1, "type", "nonsense", "nonsense"),
        (1, "connection", None, "line 2"),
    ],
)
def test_a_broken_file_is_reported(tmp_path: Path, number: int, member: str, value: object, why: str) -> None:
    broken = [dict(line) for line in GOOD]
    broken[number][member] = value
    path = tmp_path / "c.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in broken))
    with pytest.raises(BadCapture, match=why):
        read(path)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{}\n", b"not json\n", b"[1]\n"])
def test_what_is_no_capture_is_reported(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(content)
    with pytest.raises(BadCapture, match=r"c\.jsonl"):
        read(path)
    with pytest.raises(BadCapture, match="No such file"):
        read(tmp_path / "absent.jsonl")


def test_marks_are_all_that_a_file_knows() -> None:
    assert set(MARKS) == {"open", "close", "lost"}
