"""What tests draw from: numbers of Java's widths, names and texts, whole units, headers and frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from rmq_wire.encoding import Form, encode_request
from rmq_wire.layout.message import BORN_V6, MAGIC_V1, MAGIC_V2, STORE_V6

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "wire" / "golden" / "5.5.0.json").read_text(encoding="utf-8"))
"""What the classes of RocketMQ 5.5.0 made; `README.md` beside it says how."""

I16 = st.integers(-(2**15), 2**15 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NAME = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=20)
"""Of a property: anything but the separators."""
VALUE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x02"), min_size=1, max_size=40)
PAIRS = st.dictionaries(NAME, VALUE, max_size=12)


@st.composite
def units(draw: st.DrawFn) -> dict[str, Any]:
    """The fields of a message unit of either version, all but total_size and magic free."""
    flags = draw(st.integers(0, 0x7FF))
    topic = draw(st.one_of(st.binary(max_size=127), st.binary(min_size=128, max_size=300)))
    return {
        "magic": MAGIC_V2 if len(topic) > 127 else MAGIC_V1,
        "body_crc": draw(I32),
        "queue_id": draw(I32),
        "flag": draw(I32),
        "queue_offset": draw(I64),
        "physical_offset": draw(I64),
        "sys_flag": flags,
        "born_timestamp": draw(I64),
        "born_host": draw(st.binary(min_size=20, max_size=20) if flags & BORN_V6 else st.binary(min_size=8, max_size=8)),
        "store_timestamp": draw(I64),
        "store_host": draw(st.binary(min_size=20, max_size=20) if flags & STORE_V6 else st.binary(min_size=8, max_size=8)),
        "reconsume_times": draw(I32),
        "prepared_transaction_offset": draw(I64),
        "body": draw(st.binary(max_size=300)),
        "topic": topic,
        "properties": draw(st.binary(max_size=300)),
    }


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """The bytes with some of them changed, cut out, doubled or overwritten by the edges of a length."""
    raw = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(raw) - 1, 0)))
        match draw(st.sampled_from(("change", "cut", "double", "length", "shorten"))):
            case "change" if raw:
                raw[at] = draw(st.integers(0, 255))
            case "cut":
                del raw[at : at + draw(st.integers(1, 8))]
            case "double":
                raw[at:at] = raw[at : at + draw(st.integers(1, 16))]
            case "length":
                edge = draw(st.sampled_from((0, 1, -1, 127, 128, 32767, 32768, 65535, 2**31 - 1, -(2**31), 2**24, 2**24 - 1)))
                size = draw(st.sampled_from((1, 2, 4)))
                raw[at : at + size] = (edge & (1 << 8 * size) - 1).to_bytes(size, "big")
            case "shorten":
                del raw[at:]
    return bytes(raw)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """A sound request frame; sometimes the smallest there is."""
    if draw(st.integers(0, 7)) == 0:
        return b"\x00\x00\x00\x06\x00\x00\x00\x02{}"
    return encode_request(
        draw(st.integers(0, 2**15 - 1)),
        None,
        draw(st.binary(max_size=200)),
        opaque=draw(I32),
        form=draw(st.sampled_from(Form)),
        oneway=draw(st.booleans()),
        ext=draw(st.none() | st.dictionaries(TEXT.filter(bool), TEXT.filter(bool), max_size=8)),
    )


PROPERTIES = st.lists(
    st.sampled_from(
        [b"TAGS\x01a\x02", b"TAGS\x01\xff\x02", b"KEYS\x01k 1\x02", b"UNIQ_KEY\x01u\x02", b"x\x02", b"\x01y\x02", b"o\x01"]
    ),
    max_size=6,
).map(b"".join)
