"""All layouts as one text: offset, size, name, meaning.  Pinned in tests, so that a byte that moves shows as one changed line.

Run as `python -m rmq_wire.layout.table`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from construct import Construct, FormatField, IfThenElse, Padded, Prefixed, Renamed, SizeofError, Struct

from rmq_wire.layout import checkpoint, consume_queue, frame, index, message, message_id, registration, replication, timer

LAYOUTS: Final[tuple[tuple[str, Any], ...]] = (
    ("remoting frame", frame.FRAME),
    ("binary (ROCKETMQ) header of a frame", frame.BINARY_HEADER),
    ("one ext field of a binary header", frame.EXT_ENTRY),
    ("commit log: message unit", message.UNIT),
    ("commit log: message unit up to its body, both hosts IPv4", message.fixed(False, False)),
    ("commit log: blank at a file's end", message.BLANK),
    ("batch body: item", message.ITEM),
    ("consume queue: unit", consume_queue.UNIT),
    ("consume queue extension: unit", consume_queue.EXT_UNIT),
    ("consume queue extension: end of a file", consume_queue.EXT_END),
    ("batch consume queue: unit", consume_queue.BATCH_UNIT),
    ("index file: header", index.HEADER),
    ("index file: slot", index.SLOT),
    ("index file: entry", index.ENTRY),
    ("checkpoint", checkpoint.FILE),
    ("address and port", message.HOST_V4),
    ("offset message id", message_id.OFFSET_ID_V4),
    ("unique key", message_id.UNIQUE_KEY_V4),
    ("compressed registration: count", registration.COUNT),
    ("compressed registration: piece", registration.PIECE),
    ("replication: report", replication.REPORT),
    ("replication: transfer", replication.TRANSFER),
    ("timer log: unit", timer.LOG_UNIT),
    ("timer log: blank at a file's end", timer.LOG_BLANK),
    ("timer wheel: slot", timer.SLOT),
    ("timer checkpoint", timer.CHECK_FILE),
)
"""Every record of wire and store, under the heading that it has in the table."""

_NUMBERS: Final = {"b": "i8", "B": "u8", "h": "i16", "H": "u16", "i": "i32", "l": "i32", "L": "u32", "I": "u32", "q": "i64"}


def table() -> str:
    """The whole text.  A `?` is an offset or size that depends on the bytes before it."""
    return "\n".join(line for title, layout in LAYOUTS for line in _section(title, layout)) + "\n"


def _section(title: str, layout: Any) -> Iterator[str]:
    total = _size(layout)
    yield f"== {title} ({'variable' if total is None else total} bytes)"
    fields = layout.subcon if isinstance(layout, Padded) else layout
    if not isinstance(fields, Struct):
        raise TypeError(f"{title}: not a struct")
    at: int | None = 0
    for field in fields.subcons:
        if field.name is None:
            continue
        size = _size(field)
        place = "?" if at is None else str(at)
        yield f"{place:>5} {'?' if size is None else size:>4} {_kind(field):<10} {field.name:<28} {field.docs}".rstrip()
        at = None if at is None or size is None else at + size
    if at is not None and total is not None and at < total:
        yield f"{at:>5} {total - at:>4} {'zeros':<10}"
    yield ""


def _size(field: Any) -> int | None:
    try:
        return int(field.sizeof())
    except (SizeofError, KeyError):
        return None


def _kind(field: Construct[Any, Any]) -> str:
    while isinstance(field, Renamed):
        field = field.subcon
    match field:
        case FormatField(fmtstr=fmt):
            return _NUMBERS[fmt[1:]]
        case Prefixed(lengthfield=length):
            return f"{_kind(length)}+bytes"
        case IfThenElse(thensubcon=first, elsesubcon=second):
            kinds = {_kind(first), _kind(second)}
            return kinds.pop() if len(kinds) == 1 else "varies"
    return "bytes"


if __name__ == "__main__":
    print(table(), end="")
