"""The job diff: planted differences are found exactly, equal stores are clean, a replica that is behind is reported as such."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rmq_store.disk.disk import RealDisk
from tests.spark.kit import outcome_of
from tests.support.store_rig import START_MS, Rig, draft, small
from tests.support.stores import golden_of, spoil

pytest.importorskip("pyspark", reason="needs PySpark: the extra [spark]")
from rmq_columns import BadOption, read_store
from rmq_spark.jobs import diff as job
from rmq_spark.jobs import diff_passes

MESSAGES = 300
LOG_FILE_BYTES = 16384


class Place(NamedTuple):
    """Where a message of a store is."""

    file: Path
    at: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int


def ran(spark: Any, one: Path, other: Path, options: dict[str, str] | None = None, **more: Any) -> Any:
    return outcome_of(spark, "diff", (one, other), **{"splitBytes": "20000", **(options or {}), **more})


def figures(outcome: Any) -> dict[str, Any]:
    return {one.name: one.value for one in outcome.figures}


def rows(outcome: Any, name: str) -> list[dict[str, Any]]:
    [table] = [table for table in outcome.tables if table.name == name]
    return [dict(zip([one.name for one in table.columns], row, strict=True)) for row in table.rows]


def written(root: Path, *, messages: int = MESSAGES, wall_ms: int = START_MS, first: int = 0, skip: int = -1) -> Path:
    """A store of three queues.  first: so many other messages lie before, so that physical offsets differ."""
    settings = small(store_path_root_dir=str(root), mapped_file_size_commit_log=LOG_FILE_BYTES)
    rig = Rig(RealDisk(), settings, wall_ms)
    for number in range(first):
        rig.put(draft(number, topic="Before"))
    for number in range(messages):
        if number != skip:
            rig.put(draft(number, queue_id=number % 3))
    rig.sync()
    assert rig.store.close(rig.wall_ms)
    return root


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("one") / "broker-a" / "store")


@pytest.fixture
def replica(store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(store, tmp_path / "broker-b" / "store"))


def places(root: Path) -> Iterator[Place]:
    table = read_store(root, columns="topic,queueId,queueOffset,physicalOffset,storeSize")
    for row in table.read_all().to_pylist():
        number, at = divmod(row["physicalOffset"], LOG_FILE_BYTES)
        file = root / "commitlog" / f"{number * LOG_FILE_BYTES:020}"
        yield Place(file, at, row["storeSize"], row["topic"], row["queueId"], row["queueOffset"])


def test_equal_stores(spark: Any, tmp_path: Path) -> None:
    """Java's, of every kind of message, and its copy."""
    golden = golden_of("mix", tmp_path / "store")
    messages = read_store(golden, columns="topic", includeSystemTopics="true").read_all().num_rows
    outcome = ran(spark, golden, Path(shutil.copytree(golden, tmp_path / "copy")), exact=True)
    assert outcome.is_clean, outcome.verdict
    assert outcome.verdict == "equal"
    reported = figures(outcome)
    assert reported["messages"] == reported["otherMessages"] == messages
    assert reported["queues"] >= 20
    assert reported["samePlaces"] is True
    assert not outcome.frames["messages"].count()


def test_equal_at_other_places(spark: Any, store: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "b", wall_ms=START_MS + 5000, first=7)
    outcome = ran(spark, store, other, {"topics": "TopicA"})
    assert outcome.is_clean, outcome.verdict
    assert figures(outcome)["samePlaces"] is False
    exact = ran(spark, store, other, {"topics": "TopicA"}, exact=True)
    assert figures(exact)["differingMessages"] == MESSAGES
    assert {row["fields"] for row in rows(exact, "messages")} == {"physicalOffset, storeTimestamp"}


def test_planted_differences(spark: Any, store: Path, replica: Path) -> None:
    found = list(places(replica))
    body, tags, born, flag = found[3], found[77], found[150], found[299]
    data = body.file.read_bytes()
    spoil(body.file, body.at + data[body.at : body.at + body.size].index(b"3:"), b"4")
    data = tags.file.read_bytes()
    spoil(tags.file, tags.at + data[tags.at : tags.at + tags.size].index(b"TAGS\x01") + 5, b"X")
    spoil(born.file, born.at + 40 + 7, b"\xee")
    spoil(flag.file, flag.at + 16 + 3, b"\x07")
    outcome = ran(spark, store, replica)
    assert not outcome.is_clean
    found_rows = rows(outcome, "messages")
    shown = {(row["queueId"], row["queueOffset"]): (row["outcome"], row["fields"], row["propertyNames"]) for row in found_rows}
    assert shown == {
        (body.queue_id, body.queue_offset): ("differs", "body", None),
        (tags.queue_id, tags.queue_offset): ("differs", "properties", "TAGS"),
        (born.queue_id, born.queue_offset): ("differs", "bornTimestamp", None),
        (flag.queue_id, flag.queue_offset): ("differs", "flag", None),
    }
    assert figures(outcome)["differingMessages"] == 4
    assert "4 message(s) differ" in outcome.verdict
    ignoring = ran(spark, store, replica, ignore_property=("TAGS",))
    assert figures(ignoring)["differingMessages"] == 3


def test_messages_that_one_side_lacks(spark: Any, store: Path, replica: Path) -> None:
    found = list(places(replica))
    gone = found[100]
    spoil(gone.file, gone.at + 4, b"\0\0\0\0")
    outcome = ran(spark, store, replica)
    assert not outcome.is_clean
    [row] = rows(outcome, "messages")
    assert (row["topic"], row["queueId"], row["queueOffset"]) == (gone.topic, gone.queue_id, gone.queue_offset)
    assert (row["outcome"], row["otherPhysicalOffset"]) == ("only in the first", None)
    assert f"{gone.size} bytes of the log are no message" in outcome.notes[0]
    turned = ran(spark, replica, store)
    assert [row["outcome"] for row in rows(turned, "messages")] == ["only in the second"]


def cut(root: Path, at: Place) -> None:
    """The log ends before this message."""
    for file in sorted((root / "commitlog").iterdir()):
        if file.name > at.file.name:
            file.unlink()
    spoil(at.file, at.at, bytes(LOG_FILE_BYTES - at.at))


def test_a_replica_that_is_behind(spark: Any, store: Path, replica: Path) -> None:
    found = list(places(replica))
    cut(replica, found[200])
    outcome = ran(spark, store, replica, exact=True)
    assert not outcome.is_clean
    assert outcome.verdict == "what both hold is equal; the second is behind by 100 message(s) at the end of 3 queue(s)"
    assert not rows(outcome, "messages")
    assert figures(outcome)["behind"] == 100
    found_ends = rows(outcome, "ranges")
    ends = {(row["queueId"], row["side"], row["outcome"]): (row["firstOffset"], row["endOffset"]) for row in found_ends}
    assert ends == {
        (0, "second", "behind"): (67, 100),
        (1, "second", "behind"): (67, 100),
        (2, "second", "behind"): (66, 100),
    }
    assert ran(spark, store, replica, common=True).is_clean
    spoil(found[50].file, found[50].at + 47, b"\xee")
    both = ran(spark, store, replica, common=True)
    assert not both.is_clean
    assert [(row["queueId"], row["queueOffset"]) for row in rows(both, "messages")] == [(2, 16)]


def test_more_ends_than_one_pass_compares(spark: Any, store: Path, replica: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of three queues differs in the block in which the other side ends: none of them is left out."""
    found = list(places(replica))
    cut(replica, found[200])
    changed = [next(place for place in reversed(found[:200]) if place.queue_id == queue) for queue in range(3)]
    for place in changed:
        spoil(place.file, place.at + 47, b"\xee")
    monkeypatch.setattr(diff_passes, "BORDERS_MAX", 1)
    outcome = ran(spark, store, replica, common=True)
    assert not outcome.is_clean
    reported = {(row["queueId"], row["queueOffset"], row["outcome"]) for row in rows(outcome, "messages")}
    assert reported == {(place.queue_id, place.queue_offset, "differs") for place in changed}
    ends = {(row["queueId"], row["outcome"], row["firstOffset"]) for row in rows(outcome, "ranges")}
    assert ends == {(0, "behind", 67), (1, "behind", 67), (2, "behind", 66)}
    assert figures(outcome)["differentBlocks"] == 3


def test_an_end_that_is_lost(spark: Any, store: Path, replica: Path) -> None:
    """The last message of a queue lacks, though the log has later ones of others."""
    last = [place for place in places(replica) if place.queue_id == 0][-1]
    spoil(last.file, last.at + 4, b"\0\0\0\0")
    outcome = ran(spark, store, replica, exact=True, common=True)
    assert not outcome.is_clean
    [row] = rows(outcome, "ranges")
    assert (row["queueId"], row["side"], row["outcome"], row["firstOffset"], row["count"]) == (0, "second", "lost", 99, 1)


def test_a_store_that_begins_later(spark: Any, store: Path, replica: Path) -> None:
    first = sorted((replica / "commitlog").iterdir())[0]
    lost = sum(place.file == first for place in places(replica))
    first.unlink()
    outcome = ran(spark, store, replica, exact=True)
    reported = f"the second begins later: {lost} message(s) at the beginning of 3 queue(s) are not there any more"
    assert outcome.verdict == f"what both hold is equal; {reported}"
    assert not outcome.is_clean
    assert ran(spark, replica, store, exact=True, common=True).is_clean


def test_a_queue_that_is_not_there(spark: Any, store: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "b", first=3)
    outcome = ran(spark, store, other)
    assert not outcome.is_clean
    [row] = rows(outcome, "ranges")
    assert (row["topic"], row["side"], row["outcome"], row["count"]) == ("Before", "first", "no queue", 3)


def test_another_order_is_another_store(spark: Any, store: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "b", skip=30)
    found = job.diff(spark, str(store), other=str(other), splitBytes=20000).collect()
    assert {(row.queueId, row.outcome) for row in found} == {(0, "differs")}
    assert {row.queueOffset for row in found} == set(range(10, 99))


def test_few_blocks(spark: Any, store: Path, replica: Path) -> None:
    for place in list(places(replica))[:3]:
        spoil(place.file, place.at + 47, b"\xee")
    outcome = ran(spark, store, replica, max_blocks=1)
    assert figures(outcome)["differentBlocks"] == 3
    assert figures(outcome)["differingMessages"] == 1
    assert "2 more blocks" in outcome.verdict


def test_refused(spark: Any, store: Path, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="two stores"):
        job.diff(spark, str(store))
    with pytest.raises(BadOption, match="startingTimestamp"):
        job.diff(spark, [str(store)] * 2, startingTimestamp=START_MS)
    shutil.copytree(store, tmp_path / "brokers" / "a")
    shutil.copytree(store, tmp_path / "brokers" / "b")
    with pytest.raises(BadOption, match="same names"):
        job.diff(spark, str(store), other=str(tmp_path / "brokers"))
