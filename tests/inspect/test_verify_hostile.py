"""Hostile and random files: findings, no traceback, bounded memory and time, nothing opened but plain files of the store."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmq_columns.checks.findings import KEPT_MAX, KEPT_PER_FILE_MAX, Findings
from rmq_inspect.decode.directory import list_store
from rmq_inspect.verify.html import page
from rmq_inspect.verify.report import Report, as_json, lines
from rmq_inspect.verify.verify import verify
from rmq_wire.layout import index
from rmq_wire.layout.flat import flat
from rmq_wire.message import pack_unit
from tests.support.damaged_store import Subject, add_config, fill
from tests.support.given import damaged

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))


def looked(root: Path) -> Report:
    """Check, and write all forms of the report: none may fail."""
    report = verify(list_store(root))
    assert list(lines(report))
    assert as_json(report)["clean"] is report.is_clean
    assert page(report).startswith("<!DOCTYPE html>")
    assert len(report.findings.kept) <= KEPT_MAX
    return report


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    fill(root, 120)
    add_config(root)
    return root


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_damage_to_any_file_is_looked(sound: Path, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "store"
        shutil.copytree(sound, root)
        paths = sorted(path for path in root.rglob("*") if path.is_file())
        for path in data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=3)):
            raw = path.read_bytes()
            size = len(raw)
            made = data.draw(st.one_of(damaged(raw), st.binary(max_size=200), st.just(b""), st.just(raw[: size // 3])))
            path.write_bytes(made.ljust(size, b"\0")[:size] if data.draw(st.booleans()) else made)
        looked(root)


def store_with(root: Path, log: bytes, **files: bytes) -> Path:
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{0:020}").write_bytes(log)
    for name, raw in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
    return root


def unit(
    at: int, body: bytes = b"b", *, topic: bytes = b"T", queue_id: int = 0, offset: int = 0, properties: bytes = b""
) -> bytes:
    return pack_unit(queue_id, 0, offset, at, 0, 0, HOST, 0, HOST, 0, 0, body, topic, properties)


@pytest.mark.parametrize(
    "topic", [b"", b"../../etc/passwd", b"a/b", b"\xff\xfe\x00", b"<script>", b"\x1b[31m", b"%" * 127, "grün".encode()]
)
def test_topics_that_no_broker_accepts(tmp_path: Path, topic: bytes) -> None:
    log = unit(0, topic=topic, properties=b"TAGS\x01\xff\x02KEYS\x01\xff\xfe a\x02UNIQ_KEY\x01\x00\x02")
    report = looked(store_with(tmp_path, log.ljust(4096, b"\0"), checkpoint=bytes(4096)))
    assert "queue-missing" in report.findings.codes()


@pytest.mark.parametrize("offset", [-1, -(2**63), 2**63 - 1, 2**62])
@pytest.mark.parametrize("queue_id", [-1, -(2**31), 2**31 - 1, 0])
def test_queue_offsets_out_of_any_range(tmp_path: Path, offset: int, queue_id: int) -> None:
    log = unit(0, offset=offset, queue_id=queue_id)
    log += unit(len(log), offset=offset, queue_id=queue_id)
    queue = np.zeros(200, np.uint8).tobytes()
    looked(
        store_with(
            tmp_path, log.ljust(4096, b"\0"), **{f"consumequeue__T__0__{0:020}": queue, f"consumequeue__T__0__{400:020}": queue}
        )
    )


def test_a_log_of_forged_heads_takes_bounded_time(tmp_path: Path) -> None:
    """A magic word and the right own offset every 40 bytes, and nothing behind them."""
    log = bytearray(1 << 20)
    head = unit(0)[:40]
    for at in range(0, len(log) - 200, 40):
        log[at : at + 40] = (60_000).to_bytes(4, "big") + head[4:28] + at.to_bytes(8, "big") + head[36:40]
    started = time.process_time()
    report = looked(store_with(tmp_path, bytes(log)))
    assert time.process_time() - started < 60
    assert not report.is_clean


def test_units_of_a_thousand_queues_and_no_queue_files(tmp_path: Path) -> None:
    log = b""
    for number in range(2000):
        log += unit(len(log), topic=b"T%d" % number, queue_id=number)
    report = looked(store_with(tmp_path, log.ljust(1 << 18, b"\0")))
    assert len(report.findings.kept) <= KEPT_MAX


def test_dense_damage_is_counted_not_listed(tmp_path: Path) -> None:
    log = bytearray()
    places = []
    while len(log) < 400_000:
        places.append(len(log))
        log += unit(len(log), b"body", offset=len(places) - 1)
    for place in places:
        log[place + 91] ^= 1 if len(log) > place + 91 else 0
    report = looked(store_with(tmp_path, bytes(log).ljust(1 << 19, b"\0")))
    [hidden] = [times for code, _, times in report.findings.hidden() if code == "log-body-crc"]
    shown = [one for one in report.listed() if one.code == "log-body-crc"]
    assert len(shown) == KEPT_PER_FILE_MAX
    assert sum(one.times for one in shown) + hidden == len(places)


@pytest.mark.parametrize("count", [-1, 1, 2, 2**31 - 1])
@pytest.mark.parametrize("fill_byte", [0, 1, 0x7F, 0xFF])
def test_index_files_of_nonsense(tmp_path: Path, count: int, fill_byte: int) -> None:
    layout = flat(index.HEADER)
    head = layout.packed.pack(1, 2, 0, 3, 2**31 - 1, count)
    raw = head + bytes([fill_byte]) * 8000
    looked(
        store_with(
            tmp_path, unit(0).ljust(4096, b"\0"), **{f"index__{20260101000000000}": raw, f"index__{20260101000000001}": b"x"}
        )
    )


@pytest.mark.parametrize(
    "text", [b"[" * 500_000, b'{"a":' * 200_000, b"{" + b'"a":1,' * 20_000, b"\xff\xfe", b"1" * 100_000, b"null"]
)
def test_json_bombs(tmp_path: Path, text: bytes) -> None:
    started = time.process_time()
    report = looked(store_with(tmp_path, unit(0).ljust(4096, b"\0"), config__topics__json=text, **{"config__topics.json": text}))
    assert "config-broken" in report.findings.codes()
    assert time.process_time() - started < 20


def test_a_configuration_of_wrong_shapes(tmp_path: Path) -> None:
    for text in (b'{"topicConfigTable": 5}', b'{"topicConfigTable": []}', b"{}", b'{"topicConfigTable": {"T": null}}'):
        looked(store_with(tmp_path / str(len(text)), unit(0).ljust(4096, b"\0"), **{"config__topics.json": text}))


def test_links_pipes_and_directories_in_the_place_of_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(unit(0).ljust(4096, b"\0"))
    root = store_with(tmp_path / "store", unit(0).ljust(4096, b"\0"))
    for name in ("checkpoint", "lock", "timerwheel"):
        os.mkfifo(root / name)
    (root / "config").symlink_to("/etc")
    (root / "index").symlink_to(root)
    (root / "commitlog" / f"{4096:020}").symlink_to(secret)
    (root / "commitlog" / f"{8192:020}").mkdir()
    report = looked(root)
    assert report.messages == 1
    assert {one.file for one in report.listed() if one.code == "stray"} >= {
        "checkpoint",
        "lock",
        "timerwheel",
        "config",
        "index",
        f"commitlog/{4096:020}",
        f"commitlog/{8192:020}/",
    }


def test_a_file_that_vanishes_between_listing_and_reading(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path / "store")
    subject = Subject(tmp_path / "store")
    store = list_store(subject.root)
    subject.log_files[1].unlink()
    subject.queue_file().unlink()
    subject.index_files[0].unlink()
    subject.path("checkpoint").unlink()
    subject.path("config/topics.json").unlink()
    report = verify(store)
    assert "file-unreadable" in report.findings.codes()
    assert list(lines(report))


def test_a_huge_sparse_log_costs_neither_time_nor_memory(tmp_path: Path) -> None:
    """100 GB, nearly all of it holes: what was preallocated, or lost."""
    root = store_with(tmp_path, unit(0))
    os.truncate(root / "commitlog" / f"{0:020}", 100 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    report = looked(root)
    assert report.messages == 1
    assert time.process_time() - started < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


def test_a_collection_is_bounded_and_counts_right() -> None:
    one = Findings()
    for number in range(5 * KEPT_PER_FILE_MAX):
        one.add("stray", "a", number, "", 2)
    both = Findings()
    both.merge(one)
    both.merge(one)
    assert len(one.kept) == KEPT_PER_FILE_MAX
    assert one.total == 10 * KEPT_PER_FILE_MAX
    assert both.total == 2 * one.total
    assert [times for *_, times in one.hidden()] == [8 * KEPT_PER_FILE_MAX]
    one.drop("stray", "a")
    assert one.total == 0
