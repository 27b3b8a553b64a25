"""Change a declaration, and everything that reads or writes by it follows: tried on a copy of the package in a fresh process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

UNITS = """
from rmq_wire.layout.message import UNIT
from rmq_wire.message import pack_unit, read_unit, unit_size
for topic in (b"T", b"t" * 200):
    values = dict(queue_id=1, flag=2, queue_offset=3, physical_offset=4, sys_flag=0, born_timestamp=5, born_host=bytes(8),
        store_timestamp=6, store_host=bytes(8), reconsume_times=7, prepared_transaction_offset=8)
    unit = pack_unit(**values, body=b"body", topic=topic, properties=b"a\\1b\\2")
    judged, read = UNIT.parse(unit), read_unit(unit)
    assert len(unit) == unit_size(sys_flag=0, body_size=4, topic_size=len(topic), properties_size=4) == judged.total_size
    for name in (*values, "body", "topic", "properties", "magic"):
        assert judged[name] == getattr(read, name), name
    assert (bytes(read.body), read.topic, read.properties) == (b"body", topic, b"a\\1b\\2")
print(len(unit))
"""
ITEMS = """
from rmq_wire.batch import Item, pack_items, read_items
from rmq_wire.layout.message import ITEMS
items = [Item(1, b"one", b"p"), Item(2, b"", b"")]
body = pack_items(items)
assert [(one.flag, one.body, one.properties) for one in ITEMS.parse(body)["items"]] == items
assert [(one.flag, bytes(one.body), one.properties) for one in read_items(body)] == items
print(len(body))
"""
HEADERS = """
from rmq_wire.command import Form, decode_header, encode_request
from rmq_wire.layout.frame import BINARY_HEADER, FRAME
frame = encode_request(10, opaque=7, form=Form.ROCKETMQ, ext={"n": "short", "name": "value"})
header = FRAME.parse(frame).header
judged = BINARY_HEADER.parse(header)
assert (judged.code, judged.opaque) == (10, 7)
assert [(one.name, one.value) for one in judged.ext] == [(b"n", b"short"), (b"name", b"value")]
command = decode_header(header, Form.ROCKETMQ)
assert (command.code, command.opaque, command.ext_map()) == (10, 7, {"n": "short", "name": "value"})
print(len(frame))
"""
IDS = """
from rmq_wire.layout.message_id import OFFSET_ID_V4, UNIQUE_KEY_V4
from rmq_wire.message_id import UniqueKeyMaker, offset_message_id, pack_host, parse_offset_message_id, parse_unique_key
host = pack_host("1.2.3.4", 10911)
text = offset_message_id(host, 99)
assert tuple(parse_offset_message_id(text)) == (host, 99) and OFFSET_ID_V4.parse(bytes.fromhex(text)).host == host
key = UniqueKeyMaker(ip=bytes(4), pid=1, process_number=2, zone=None).make(0)
judged = UNIQUE_KEY_V4.parse(bytes.fromhex(key))
assert tuple(parse_unique_key(key)) == tuple(judged[name] for name in ("ip", "pid", "process_number", "span_ms", "serial"))
print(len(text) + len(key))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("changed")
    shutil.copytree(ROOT / "rmq_wire", place / "rmq_wire", ignore=shutil.ignore_patterns("__pycache__"))
    return place


@cache
def usual(place: Path, script: str) -> int:
    """What it prints before anything is changed."""
    return run(place, script)


def run(place: Path, script: str) -> int:
    done = subprocess.run([sys.executable, "-c", script], cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize(
    ("module", "before", "after", "script", "grows"),
    [
        ("message", "PROPERTIES: Final = Prefixed(Int16sb", "PROPERTIES: Final = Prefixed(Int64sb", UNITS, 6),
        ("message", "TOPIC_V1: Final = Prefixed(Int8sb", "TOPIC_V1: Final = Prefixed(Int32sb", UNITS, 0),
        ("message", "TOPIC_V2: Final = Prefixed(Int16sb", "TOPIC_V2: Final = Prefixed(Int32sb", UNITS, 2),
        ("message", "BODY: Final = Prefixed(Int32sb", "BODY: Final = Prefixed(Int64sb", UNITS, 4),
        ("message", '"body_crc" / Int32sb', '"body_crc" / Int64sb', UNITS, 4),
        ("message", "PROPERTIES: Final = Prefixed(Int16sb", "PROPERTIES: Final = Prefixed(Int32sb", ITEMS, 2 * 2),
        ("message", "BODY: Final = Prefixed(Int32sb", "BODY: Final = Prefixed(Int64sb", ITEMS, 2 * 4),
        ("frame", '"name" / Prefixed(Int16sb', '"name" / Prefixed(Int32sb', HEADERS, 2 * 2),
        ("frame", '"value" / Prefixed(Int32sb', '"value" / Prefixed(Int16sb', HEADERS, 2 * -2),
        ("frame", "REMARK: Final = Prefixed(Int32sb", "REMARK: Final = Prefixed(Int16sb", HEADERS, -2),
        ("frame", "/ Prefixed(Int32sb, FocusedSeq", "/ Prefixed(Int16sb, FocusedSeq", HEADERS, -2),
        ("message", 'Bytes(4) * "address", "port" / Int32sb', 'Bytes(4) * "address", "port" / Int64sb', IDS, 2 * 4),
        ("message_id", '"physical_offset" / Int64sb', '"physical_offset" / Int32sb', IDS, 2 * -4),
        ("message_id", '"span_ms" / Int32ub', '"span_ms" / Int64sb', IDS, 2 * 4),
    ],
)
def test_a_changed_declaration_is_followed(package: Path, module: str, before: str, after: str, script: str, grows: int) -> None:
    path = package / "rmq_wire" / "layout" / f"{module}.py"
    source = path.read_text(encoding="utf-8")
    assert before in source
    before_it = usual(package, script)
    path.write_text(source.replace(before, after), encoding="utf-8")
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
    try:
        assert run(package, script) == before_it + grows
    finally:
        path.write_text(source, encoding="utf-8")
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
