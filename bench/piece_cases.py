"""The largest that can be asked of a server, code by code (`bench.pieces` measures, tests count).

Every code gets its real question about the largest rows there are, a header that is as large as one may be, and bodies of the
largest frame that no reader wants.  What a code makes more of than its header says stands in `bench.piece_inputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from bench.piece_inputs import BROKER, NAMESRV, REFUSED
from bench.piece_pops import POPS, POPS_ANSWERED
from bench.piece_worlds import World
from broker_impl.engine.answers import Row
from broker_impl.engine.body_limits import BODY_BYTES_MAX
from rmq_wire.command import encode_request

HEADER_BYTES: Final = (1 << 20) - 4096


class Case(NamedTuple):
    """`data(world)`: the bytes to send.  `hangs_up`: what is measured is the end of the connection after them.

    `answered`: the code of the last answer, where a case is worth nothing with another one.
    """

    server: str
    code: int
    what: str
    data: Callable[[World], bytes]
    hangs_up: bool = False
    answered: int | None = None


def cases(world: World) -> Iterator[Case]:
    """Every code's, what takes away what others ask for last."""
    own = NAMESRV if world.server == "namesrv" else {**BROKER, **POPS}
    rows = sorted(world.engine._rows.items())
    removing = [(code, row) for code, row in rows if code in _REMOVING]
    for these in ([(code, row) for code, row in rows if code not in _REMOVING], removing):
        for code, row in these:
            yield from _generic(world.server, code, row)
        for code, _row in these:
            for what, data in own.get(code, {}).items():
                gone = what.endswith("goes away")
                answered = None if gone else {**REFUSED, **POPS_ANSWERED}.get((code, what), 0)
                yield Case(world.server, code, what, data, hangs_up=gone, answered=answered)


_REMOVING: Final = frozenset((102, 104, 205, 207, 215, 216, 306, 316, 353))
"""Codes whose real question takes away what others ask for."""


# What every code gets

_TEXTS: Final = {
    "topic": "wide",
    "namespace": "NS",
    "brokerName": "broker-0000000",
    "clusterName": "C",
    "cluster": "C",
    "brokerAddr": "10.0.0.1:0",
    "consumerGroup": "G",
    "group": "G",
    "producerGroup": "P",
}


def _fields(row: Row, text: Callable[[str], str]) -> dict[str, str]:
    values = {int: "0", bool: "false"}
    return {field.wire: values.get(field.kind) or text(field.wire) for field in row.request.fields()}


def _asked(code: int, row: Row, world: World, body: bytes = b"", **more: str) -> bytes:
    ext = {**_fields(row, lambda name: _TEXTS.get(name, "x")), **more}
    if world.server == "broker" and ext.get("topic") == "wide":
        ext["topic"] = "shared"
    return encode_request(code, None, body, opaque=1, ext=ext, version=513)


def _generic(server: str, code: int, row: Row) -> Iterator[Case]:
    texts = [field for field in row.request.fields() if field.kind is str]
    yield Case(server, code, "the real question", lambda world: _asked(code, row, world))
    if texts:
        share = HEADER_BYTES // len(texts)
        for what, letter in (("of letters", "a"), ("of escapes", "\x01"), ("of separators", ";")):
            size = share // (6 if letter == "\x01" else 1)
            yield Case(
                server, code, f"a header of 1 MiB {what}", lambda world, letter=letter, size=size: _huge(code, row, letter, size)
            )  # type: ignore[misc]
    if code in BODY_BYTES_MAX:
        most = BODY_BYTES_MAX[code]
        yield Case(server, code, "a body at its limit: rows", lambda world: _asked(code, row, world, _at_its_limit(code)))
        for what, piece in _JUNK.items():
            junk = piece * (most // len(piece))
            yield Case(server, code, f"a body at its limit: {what}", lambda world, junk=junk: _asked(code, row, world, junk))  # type: ignore[misc]
    for what, piece in _JUNK.items():
        yield Case(
            server, code, f"a body of 16 MiB: {what}", lambda world, piece=piece: _asked(code, row, world, _filled(world, piece))
        )  # type: ignore[misc]


_JUNK: Final = {"zeros": b"\0", "open brackets": b"[", "objects": b'[{"a":{}},', "odd keys": b"{1:2,", "text": b'"a=b\\n'}


_SMALLEST: Final = {
    18: (b'{"topicConfigList":[', b'{"topicName":"a"}', b"]}"),
    34: (b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[', b'{"topic":"a"}', b"]}]}"),
    41: (b'{"consumerGroup":"G","mqSet":[', b'{"topic":"a","queueId":1}', b"]}"),
    42: (b'{"consumerGroup":"G","mqSet":[', b'{"topic":"a","queueId":1}', b"]}"),
    217: (b'{"queueDatas":[', b'{"brokerName":"broker-0000001"}', b"]}"),
    225: (b'{"groupConfigList":[', b'{"groupName":"a"}', b"]}"),
}
"""Bodies of as many rows as there is room for: beginning, row, end."""


def _filled(world: World, piece: bytes) -> bytes:
    return piece * (world.frame_bytes // len(piece))


def _at_its_limit(code: int) -> bytes:
    begin, row, end = _SMALLEST[code]
    return begin + b",".join([row] * ((BODY_BYTES_MAX[code] - len(begin + end)) // (len(row) + 1))) + end


def _huge(code: int, row: Row, letter: str, size: int) -> bytes:
    return encode_request(code, None, b"", opaque=1, ext=_fields(row, lambda _: letter * size), version=513)
