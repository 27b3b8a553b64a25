"""Topics and ranges of queues read by the consume queues: the same rows as a scan gives, of a small part of the log's bytes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rmq_columns import Malformed, SeamMismatch, parse_options, plan_splits, read_split, read_store
from rmq_columns.decode.dtypes import QUEUE_UNIT
from rmq_columns.files.counted import Asked, counting
from rmq_columns.read import pruning
from rmq_columns.read.pruned import GAP_BYTES, Expected
from tests.support import rare_topic
from tests.support.rare_topic import (
    BETWEEN,
    FILE_BYTES,
    GROUPS,
    IN_GROUP,
    LARGE,
    QUEUES,
    SHARE,
    SMALL,
    Stored,
    gaps_read_through,
)
from tests.support.stores import golden_of


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    stored = Stored(tmp_path_factory.mktemp("pruned") / "broker-a")
    stored.write()
    return stored


@pytest.fixture
def stored(made: Stored, tmp_path: Path) -> Stored:
    """One to be damaged."""
    shutil.copytree(made.root, tmp_path / "broker-a")
    other = Stored.__new__(Stored)
    other.__dict__.update(made.__dict__, root=tmp_path / "broker-a")
    return other


def empty(root: Path) -> Stored:
    """One to be filled by the test."""
    stored = Stored.__new__(Stored)
    stored.__dict__.update(root=root, log=bytearray(), units={}, places=[], stored_ms=1_000_000)
    return stored


class Read:
    """What came, what was asked for, why it was scanned."""

    def __init__(self, root: Path, **options: Any) -> None:
        given = {"path": str(root), "topics": "Rare", "pruning": "auto", "columns": "topic,queueId,queueOffset,body", **options}
        with counting(Asked()) as self.asked:
            splits = plan_splits(parse_options(given))
            batches = [batch for split in splits for batch in read_split(split)]
        self.rows: list[dict[str, Any]] = pa.Table.from_batches(batches).to_pylist() if batches else []
        self.why = {split.scanned_since for split in splits}
        self.pruned = [split for split in splits if split.pruned is not None]

    def places(self) -> list[tuple[int, int]]:
        return [(row["queueId"], row["queueOffset"]) for row in self.rows]


def test_a_topic_of_one_percent(made: Stored) -> None:
    scanned = Read(made.root, pruning="off")
    pruned = Read(made.root)
    assert pruned.rows == scanned.rows
    assert len(pruned.rows) == GROUPS * IN_GROUP
    assert (pruned.why, scanned.why) == ({""}, {""})
    assert pruned.pruned
    share = sum(len(row["body"]) for row in pruned.rows) / len(made.log)
    assert 0.005 < share < 0.011
    size = made.units["Rare", 0][0][1]
    asked = sum(pruned.asked.bytes.values())
    assert asked - gaps_read_through(made.places, size) <= SHARE * len(made.log)
    assert sum(pruned.asked.requests.values()) < 4 * GROUPS
    assert scanned.asked.bytes["commitlog"] >= len(made.log)


def test_gaps_are_read_through() -> None:
    places = np.array([0, 1000, 1100 + GAP_BYTES, 1200 + 3 * GAP_BYTES])
    sizes = np.full(4, 100)
    expected = Expected(places, sizes, sizes, sizes)
    far = (1200 + 3 * GAP_BYTES, 1300 + 3 * GAP_BYTES)
    assert list(expected.ranges()) == [(0, 1100), (1100 + GAP_BYTES, 1200 + GAP_BYTES), far]
    assert list(expected.ranges(GAP_BYTES + 1)) == [(0, 1200 + GAP_BYTES), far]
    assert list(Expected.none().ranges()) == []


def test_a_range_of_offsets_reads_only_its_files(made: Stored) -> None:
    chosen = {"startingOffsets": {"Rare": {"0": 10, "1": 12}}, "endingOffsets": {"Rare": {"0": 13, "1": 12}}}
    pruned = Read(made.root, **chosen)
    assert pruned.places() == [(0, 10), (0, 11), (0, 12)]
    assert pruned.rows == Read(made.root, pruning="off", **chosen).rows
    assert sum(pruned.asked.bytes.values()) < 0.01 * len(made.log)


@pytest.mark.parametrize(
    "options",
    [
        {"queueIds": "1"},
        {"startingTimestamp": "1000500", "endingTimestamp": "1000800"},
        {"startingPhysicalOffset": str(FILE_BYTES + 5), "endingPhysicalOffset": str(3 * FILE_BYTES)},
        {"splitBytes": "1m"},
        {"mode": "DROPMALFORMED", "blockBytes": "4k"},
        {"topics": "Rare,Rare2", "queueIds": "0"},
    ],
)
def test_the_same_rows_as_a_scan(made: Stored, options: dict[str, str]) -> None:
    assert Read(made.root, **options).rows == Read(made.root, pruning="off", **options).rows


def test_what_the_checkpoint_does_not_cover_is_scanned(stored: Stored) -> None:
    """As after a loss of power: the queues may lack their ends."""
    behind = stored.units["Rare", 0][100]
    stored_ms = int.from_bytes(stored.log[behind[0] + 56 : behind[0] + 64], "big")
    stored.checkpoint(stored_ms, behind[0])
    raw = stored.queue_file().read_bytes()
    stored.queue_file().write_bytes(raw[: 101 * 20].ljust(len(raw), b"\0"))
    pruned = Read(stored.root)
    assert pruned.rows == Read(stored.root, pruning="off").rows
    assert pruned.pruned
    assert pruned.asked.bytes["commitlog"] > len(stored.log) - behind[0]


def test_after_an_unclean_stop_the_last_file_is_scanned(stored: Stored) -> None:
    (stored.root / "abort").write_text("1")
    stored.checkpoint(stored.stored_ms + 5000, stored.units["Rare", 1][-1][0])
    pruned = Read(stored.root)
    assert pruned.rows == Read(stored.root, pruning="off").rows
    assert FILE_BYTES / 2 < pruned.asked.bytes["commitlog"] < 2.2 * FILE_BYTES


def short(stored: Stored) -> None:
    raw = stored.queue_file().read_bytes()
    stored.queue_file().write_bytes(raw[:2000])


def without_its_first_file(stored: Stored) -> None:
    in_small_files(stored)
    stored.queue_file(1).unlink()


def later(stored: Stored) -> None:
    stored.queue_file(1).rename(stored.queue_file(1).with_name(f"{20_000:020}"))


def beyond(stored: Stored) -> None:
    raw = bytearray(stored.queue_file().read_bytes())
    raw[255 * 20 + 2] = 1
    stored.queue_file().write_bytes(raw)


def half_a_unit(stored: Stored) -> None:
    for queue in range(QUEUES):
        stored.queue_file(queue).write_bytes(stored.queue_file(queue).read_bytes()[:2010])


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda stored: shutil.rmtree(stored.root / "consumequeue"), "queue 0 of Rare has no files"),
        (lambda stored: shutil.rmtree(stored.queue_file(1).parent), "queue 1 of Rare has no files"),
        (lambda stored: (stored.root / "config" / "topics.json").unlink(), "no topics.json says how many queues there are"),
        (lambda stored: (stored.root / "config" / "topics.json").write_text("{"), "not the JSON of a broker"),
        (lambda stored: (stored.root / "checkpoint").unlink(), "no checkpoint says how far its queues were written"),
        (lambda stored: (stored.root / "checkpoint").write_bytes(b"\0" * 20), "its checkpoint is not whole"),
        (lambda stored: stored.checkpoint(0, 0), "its checkpoint does not say how far"),
        (short, "have different sizes: some are not whole"),
        (half_a_unit, "have different sizes: some are not whole"),
        (without_its_first_file, "begins behind the log's first message"),
        (later, "the last unit of queue 1 of Rare leads to"),
        (beyond, "the last unit of queue 0 of Rare leads to"),
    ],
)
def test_queues_that_cannot_be_believed(stored: Stored, damage: Callable[[Stored], Any], why: str) -> None:
    damage(stored)
    pruned = Read(stored.root)
    assert not pruned.pruned
    assert [text for text in pruned.why if why in text], pruned.why
    assert pruned.rows == Read(stored.root, pruning="off").rows
    assert len(pruned.rows) == GROUPS * IN_GROUP


WRONG = [bytes(20), b"\xff" * 20, bytes(8) + b"\x7f\xff\xff\xff" + bytes(8), bytes(8) + b"\0\0\4\0" + bytes(8)]
"""Never written; negative; a filler; one that leads to the log's beginning."""
FEW = 64
"""Units of a queue's file, of which a queue then has four that are full and one that is empty."""


def in_small_files(stored: Stored) -> None:
    for queue in range(QUEUES):
        raw = stored.queue_file(queue).read_bytes()
        stored.queue_file(queue).unlink()
        for start in range(0, GROUPS * IN_GROUP // QUEUES + FEW, FEW):
            stored.queue_file(queue).with_name(f"{start * 20:020}").write_bytes(raw[start * 20 : (start + FEW) * 20])


@pytest.mark.parametrize("number", [1, 50, 130, 254])
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("options", [{}, {"startingTimestamp": "1000500"}, {"splitBytes": "1m"}])
def test_a_unit_that_is_none(
    stored: Stored, monkeypatch: pytest.MonkeyPatch, number: int, wrong: bytes, options: dict[str, str]
) -> None:
    """Whoever plans sees it and has all scanned; of larger queues the task that meets it ends the query.  Nothing is left out."""
    in_small_files(stored)
    sound = Read(stored.root, **options)
    assert sound.pruned
    assert sound.rows == Read(stored.root, pruning="off", **options).rows
    file = stored.queue_file().with_name(f"{number // FEW * FEW * 20:020}")
    raw, at = bytearray(file.read_bytes()), number % FEW * 20
    raw[at : at + 20] = wrong
    file.write_bytes(raw)
    read = Read(stored.root, **options)
    assert read.rows == Read(stored.root, pruning="off", **options).rows
    assert [why for why in read.why if "no unit, or one that leads back in the log" in why]
    monkeypatch.setattr(pruning, "CHECKED_BYTES_MAX", 0)
    with pytest.raises(SeamMismatch, match=r"byte \d+: a queue unit is none, or leads back in the log: read with pruning=off"):
        Read(stored.root, **options)


def test_a_unit_that_leads_to_another_message(stored: Stored) -> None:
    hot = np.array([stored.units["Hot", 0][3]], QUEUE_UNIT).tobytes()
    raw = bytearray(stored.queue_file().read_bytes())
    between = next(at for at, one in enumerate(stored.units["Rare", 0]) if one[0] > stored.units["Hot", 0][3][0])
    raw[between * 20 - 20 : between * 20] = hot
    stored.queue_file().write_bytes(raw)
    with pytest.raises(SeamMismatch, match=r"no unit of its queue leads|where none begins|other sizes or offsets"):
        Read(stored.root)


def test_a_unit_that_leads_into_a_message(stored: Stored) -> None:
    raw = bytearray(stored.queue_file().read_bytes())
    place = int.from_bytes(raw[2000:2008], "big") + 8
    raw[2000:2008] = place.to_bytes(8, "big")
    stored.queue_file().write_bytes(raw)
    with pytest.raises((SeamMismatch, Malformed)):
        Read(stored.root)


def test_a_unit_too_few(stored: Stored) -> None:
    """Those behind it count wrong: the last one shows it."""
    raw = stored.queue_file().read_bytes()
    stored.queue_file().write_bytes((raw[: 50 * 20] + raw[51 * 20 :]).ljust(len(raw), b"\0"))
    read = Read(stored.root)
    assert [why for why in read.why if "where its message is not" in why]
    assert read.rows == Read(stored.root, pruning="off").rows


def test_a_message_to_which_no_unit_leads(tmp_path: Path) -> None:
    """As of a topic that was deleted and made again: met between others, it is not left out silently."""
    stored = empty(tmp_path)
    for number in range(6):
        place = stored.put("Rare", number % QUEUES, SMALL)
        if number == 2:
            strange = place
            stored.units["Rare", 0].pop()
    for number in range(BETWEEN * 4):
        stored.put("Hot", number % QUEUES, LARGE)
    stored.write()
    assert len(Read(tmp_path, pruning="off").rows) == 6
    with pytest.raises(
        SeamMismatch, match=f"to the message at {strange} of the log no unit of its queue leads: read with pruning=off"
    ):
        Read(tmp_path)


def test_who_shows_damage_scans(made: Stored) -> None:
    read = Read(made.root, mode="PERMISSIVE")
    assert read.why == {"mode=PERMISSIVE shows what lies between the messages, too"}
    assert [why for why in Read(made.root, topics="Hot").why if why.endswith("% of the log")]


@pytest.mark.parametrize("seed", range(12))
def test_random_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Of many small messages and files, the gaps that are read through as small: the same rows, whatever is chosen."""
    random = Random(seed)
    monkeypatch.setattr(rare_topic, "FILE_BYTES", 1 << 15)
    monkeypatch.setattr(rare_topic, "UNITS", random.choice([16, 600]))
    monkeypatch.setattr(Expected.ranges, "__defaults__", (random.choice([1, 500, 4000]),))
    monkeypatch.setattr(pruning, "CHECKED_BYTES_MAX", random.choice([0, 1 << 20]))
    monkeypatch.setattr(pruning, "SHARE_MAX", 1.0)
    stored = empty(tmp_path)
    stored.put("Rare", 0, b"")
    stored.put("Rare", 1, b"")
    for _ in range(500):
        stored.put(random.choices(["Rare", "Hot", "Warm"], [1, 10, 3])[0], random.randrange(QUEUES), bytes(random.randrange(400)))
    stored.write()
    low, high = sorted(random.randrange(60) for _ in range(2))
    for options in (
        {"splitBytes": str(random.choice([500, 40_000]))},
        {"topics": "Rare,Warm", "queueIds": "1"},
        {"topics": "Warm", "startingOffsets": {"Warm": {0: low}}, "endingOffsets": {"Warm": {0: high, 1: high}}},
        {"startingTimestamp": str(1_000_000 + low * 5), "startingPhysicalOffset": str(random.randrange(1 << 17))},
    ):
        read = Read(tmp_path, **options)
        assert read.rows == Read(tmp_path, pruning="off", **options).rows
        assert read.pruned or not read.rows, read.why


def test_golden_stores_of_java(tmp_path: Path) -> None:
    """Whatever they have: the same rows, and where they were scanned, why."""
    store = golden_of("mix", tmp_path / "broker-a")
    topics = set(read_store(store, columns="topic", includeSystemTopics=True).read_all()["topic"].to_pylist())
    for topic in topics:
        read = Read(store, topics=topic)
        assert read.rows == Read(store, topics=topic, pruning="off").rows
        assert read.pruned or all(read.why), topic
