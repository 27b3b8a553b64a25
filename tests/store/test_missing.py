"""What is taken away after a clean stop is reported at the start, and made again from the log, or refused; nothing is skipped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rmq_store.errors import StoreDamaged
from rmq_store.read.asked import UnitFilter
from rmq_store.recovery import inventory
from rmq_wire.implied.tags import tags_code
from tests.store.restart_kit import FILE, filled
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, Rig, draft, number_of, units_of

QUEUE_FILE = 200
"""Bytes: ten entries."""
Damage = Callable[[MemoryDisk], None]


def queue_path(queue_id: int, number: int = 0) -> str:
    return f"{ROOT}/consumequeue/TopicA/{queue_id}/{number * QUEUE_FILE:020d}"


def without(*paths: str) -> Damage:
    def damage(disk: MemoryDisk) -> None:
        for path in paths:
            disk.unlink(path)

    return damage


def all_of(queue_id: int, *, directory: bool) -> Damage:
    def damage(disk: MemoryDisk) -> None:
        for path in list(disk.contents()):
            if f"/consumequeue/TopicA/{queue_id}/" in path:
                disk.unlink(path)
        if directory:
            disk.remove_directory(f"{ROOT}/consumequeue/TopicA/{queue_id}")

    return damage


def overwritten(path: str, at: int, data: bytes) -> Damage:
    def damage(disk: MemoryDisk) -> None:
        disk.open(path).write_at(at, data)

    return damage


def clear(queue_id: int) -> Damage:
    """The last file's entries from the third on, as if they had never been."""

    def damage(disk: MemoryDisk) -> None:
        path = [path for path in disk.contents() if f"/TopicA/{queue_id}/" in path and "/consumequeue/" in path][-1]
        disk.open(path).write_at(40, bytes(QUEUE_FILE - 40))

    return damage


QUEUES: dict[str, tuple[Damage, str]] = {
    "first file": (without(queue_path(1)), "TopicA/1 "),
    "two first files": (without(queue_path(1), queue_path(1, 1)), "TopicA/1 "),
    "a file between": (without(queue_path(2, 3)), "/2/00000000000000000600 is missing"),
    "the last file": (without(queue_path(2, 7)), "TopicA/2 ends at 70"),
    "all files": (all_of(3, directory=False), "all files of "),
    "garbage": (overwritten(queue_path(0, 7), 20, b"\x5a" * 60), "make no sense"),
    "garbage in an older file": (overwritten(queue_path(0, 2), 100, b"\x5a" * 30), "entries make no sense from byte 120 on"),
    "zeros in an older file": (overwritten(queue_path(1, 3), 0, bytes(40)), "entries make no sense from byte 0 on"),
    "zeros in the last file": (overwritten(queue_path(0, 7), 40, bytes(20)), "TopicA/0 "),
    "an end that is gone": (clear(1), "TopicA/1 ends at"),
    "a queue with its directory": (all_of(3, directory=True), "all files of TopicA queue 3 are missing"),
}
UNSEEN_WITHOUT_A_NOTE = ("the last file", "a queue with its directory", "an end that is gone")


def whole(rig: Rig, count: int) -> None:
    """Every message in its place, and the next one behind them."""
    for queue_id in range(4):
        assert rig.numbers("TopicA", queue_id) == list(range(queue_id, count, 4))
        [placed] = rig.put(draft(count + queue_id, queue_id=queue_id))
        assert placed.queue_offset == len(range(queue_id, count, 4)), "an offset that was given before"


@pytest.mark.parametrize("noted", [True, False], ids=["ours", "as Java leaves it"])
def test_a_queue_that_is_not_whole_is_reported_and_made_again(noted: bool) -> None:
    for name, (damage, reported) in QUEUES.items():
        if not noted and name in UNSEEN_WITHOUT_A_NOTE:
            continue
        disk, rig = filled()
        assert rig.store.close(rig.wall_ms)
        if not noted:
            disk.unlink(f"{ROOT}/{inventory.NAME}")
        damage(disk)
        rig.open()
        said = rig.store.report.sentences()
        assert any(reported in sentence for sentence in said), (name, said)
        assert "queues were rebuilt from the first log file on" in said, name
        whole(rig, 300)
        rig.reopen()
        assert rig.store.report.sentences() == [], name


@pytest.mark.parametrize("holes", [7, 8, 9, 12])
def test_of_many_reasons_to_make_queues_again_the_first_eight_are_told(holes: int) -> None:
    disk, rig = filled()
    assert rig.store.close(rig.wall_ms)
    places = [(queue_id, number) for queue_id in range(4) for number in (1, 3, 5)][:holes]
    without(*(queue_path(*place) for place in places))(disk)
    rig.open()
    said = rig.store.report.sentences()
    assert [line for line in said if line.endswith(" is missing")] == [f"{queue_path(*place)} is missing" for place in places[:8]]
    assert said.count("and more") == (holes > 8)


@pytest.mark.parametrize("noted", [True, False])
def test_a_log_file_between_others_is_refused_with_the_command_and_nothing_is_touched(noted: bool) -> None:
    disk, rig = filled()
    assert rig.store.close(rig.wall_ms)
    if not noted:
        disk.unlink(f"{ROOT}/{inventory.NAME}")
    path = f"{ROOT}/commitlog/{FILE:020d}"
    kept = disk.contents()[path]
    disk.unlink(path)
    before = disk.contents()
    for _ in range(2):
        with pytest.raises(StoreDamaged, match=f"{path} is missing.*rmq inspect repair {ROOT} --to"):
            rig.open()
        assert disk.contents() == before
    disk.create(path, FILE).write_at(0, kept)
    rig.open()
    assert rig.store.report.sentences() == []
    whole(rig, 300)


def test_first_log_files_and_tables_that_are_gone_are_reported() -> None:
    disk, rig = filled()
    disk.make_directories(f"{ROOT}/config")
    for name in ("consumerOffset.json", "topics.json", "topics.json.bak", "empty.json"):
        disk.create(f"{ROOT}/config/{name}", 0).write_at(0, b"" if name == "empty.json" else b"{}")
    assert rig.store.close(rig.wall_ms)
    for name in ("consumerOffset.json", "topics.json"):
        disk.unlink(f"{ROOT}/config/{name}")
    disk.unlink(f"{ROOT}/commitlog/{0:020d}")
    rig.open()
    [log, table] = rig.store.report.sentences()
    assert f"log files before {FILE} are gone" in log
    assert f"{ROOT}/config/consumerOffset.json is gone" in table
    rig.reopen()
    assert rig.store.report.sentences() == []


def test_nothing_is_reported_of_what_the_broker_removed_itself() -> None:
    """A deleted topic."""
    _, rig = filled()
    rig.put(draft(0, "Gone"), draft(1, "Gone", 7))
    rig.store.delete_topics(["Gone"])
    for _ in range(2):
        rig.reopen()
        assert rig.store.report.sentences() == []


def test_a_file_that_retention_was_about_to_remove_is_nothing_to_report() -> None:
    """A stop may come between the decision and the deed: the file is there again."""
    _, rig = filled()
    queue = rig.store._queues.get("TopicA", 0)
    queue.segments.starts.remove(0)
    assert rig.store.close(rig.wall_ms)
    rig.open()
    assert rig.store.report.sentences() == []
    whole(rig, 300)


def test_a_note_that_is_not_this_stop_s_is_not_believed() -> None:
    """Another broker ran meanwhile, and removed a topic; or the note is no note."""
    disk, rig = filled()
    assert rig.store.close(rig.wall_ms)
    old = disk.contents()[f"{ROOT}/{inventory.NAME}"]
    rig.open()
    rig.wall_ms += 1_000
    rig.put(draft(300, queue_id=0))
    assert rig.store.close(rig.wall_ms)
    for text in (old, b"", b"{", b'{"queues": 3}', b"\xff" * 40, b"[]"):
        disk.open(f"{ROOT}/{inventory.NAME}").set_length(0)
        disk.open(f"{ROOT}/{inventory.NAME}").write_at(0, text)
        rig.open()
        assert rig.store.report.sentences() == []
        assert rig.store.close(rig.wall_ms)


def test_a_stop_that_is_not_clean_leaves_no_note_to_be_believed() -> None:
    disk, rig = filled()
    rig.reopen()
    rig.put(draft(300, queue_id=0))
    rig.disk = disk.crash("all")
    rig.open()
    assert not any("missing" in sentence for sentence in rig.store.report.sentences())
    whole(rig, 301)


@pytest.mark.parametrize("known", [True, False])
def test_a_pull_passes_over_a_log_file_that_is_gone_and_over_nothing_else(known: bool) -> None:
    """Whether it was there at the start or not, and with a filter or without."""
    disk, rig = filled()
    segments = rig.store._log.segments
    disk.unlink(segments.path(FILE))
    segments.files.forget(segments.path(FILE))
    rig.store._reader.forget_file(FILE)
    if not known:
        segments.starts.remove(FILE)
    places = [rig.store.queue_unit("TopicA", 0, offset)[0] for offset in range(75)]
    there = [4 * offset for offset, physical in enumerate(places) if not FILE <= physical < 2 * FILE]
    assert 40 < len(there) < 60
    for count in (1, 4, 32):
        for tag in (None, 0, 1, 2):
            accepts = None if tag is None else frozenset([tags_code(f"Tag{tag}")])
            found, offset = [], 0
            while offset < 75:
                read = rig.store.read_queue("TopicA", 0, offset, count, 1 << 20, accepts)
                found += [number_of(unit.body) for unit in units_of(read.chunks)]
                assert read.next_offset > offset
                offset = read.next_offset
            assert found == [number for number in there if tag in (None, number % 3)], (count, tag)


class Everything(UnitFilter):
    """A filter that reads each message and refuses none."""

    rows_max = 1_000

    def __call__(self, unit: memoryview, /) -> bool:
        return len(unit) > 0


@pytest.mark.parametrize("matches", [None, Everything()], ids=["unread", "read"])
@pytest.mark.parametrize("tag", [None, 1])
def test_the_order_of_answers_of_a_queue_that_lacks_a_file(tag: int | None, matches: Everything | None) -> None:
    """First what is wrong with the offset, then what lies before the file, then the file, then what the log lacks."""
    disk, rig = filled()
    accepts = None if tag is None else frozenset([tags_code(f"Tag{tag}")])
    wanted = [offset for offset in range(75) if tag in (None, 4 * offset % 3)]

    def answer(offset: int) -> tuple[str, int, list[int]]:
        read = rig.store.read_queue("TopicA", 0, offset, 32, 1 << 20, accepts, matches)
        return read.status.name, read.next_offset, [number_of(unit.body) // 4 for unit in units_of(read.chunks)]

    def found(first: int, last: int) -> tuple[str, int, list[int]]:
        return "FOUND", last, [offset for offset in wanted if first <= offset < last]

    first_gone, behind = 10, 20
    queue = rig.store._queues.find("TopicA", 0)
    assert queue is not None
    disk.unlink(queue_path(0, 1))
    queue.segments.files.forget(queue_path(0, 1))
    assert answer(75) == ("OFFSET_OVERFLOW_ONE", 75, [])
    assert answer(-1) == ("OFFSET_TOO_SMALL", 0, [])
    assert answer(4) == found(4, first_gone)
    for offset in (first_gone, 13, behind - 1):
        assert answer(offset) == ("OFFSET_FOUND_NULL", behind, [])
    assert answer(behind) == found(behind, 30)

    log = rig.store._log.segments
    in_log = 1 + max(offset for offset in range(behind, 75) if rig.store.queue_unit("TopicA", 0, offset)[0] < FILE)
    assert behind < in_log < 40
    disk.unlink(log.path(0))
    log.files.forget(log.path(0))
    rig.store._reader.forget_file(0)
    assert answer(4) == ("MESSAGE_WAS_REMOVING", first_gone, [])
    for offset in (first_gone, 13, behind - 1):
        assert answer(offset) == ("OFFSET_FOUND_NULL", behind, [])
    assert answer(in_log) == found(in_log, 40)


@pytest.mark.parametrize("number", [0, 1])
def test_a_log_file_that_was_emptied_is_refused_with_the_command_and_nothing_is_touched(number: int) -> None:
    disk, rig = filled()
    assert rig.store.close(rig.wall_ms)
    path = f"{ROOT}/commitlog/{number * FILE:020d}"
    kept = disk.contents()[path]
    overwritten(path, 0, bytes(FILE))(disk)
    before = disk.contents()
    following = f"{ROOT}/commitlog/{(number + 1) * FILE:020d}"
    sentence = f"{path} does not begin with a message, the log goes on with {following}: .*rmq inspect repair {ROOT} --to"
    with pytest.raises(StoreDamaged, match=sentence):
        rig.open()
    assert disk.contents() == before
    overwritten(path, 0, kept)(disk)
    rig.open()
    assert rig.store.report.sentences() == []


def test_empty_files_behind_the_last_message_are_made_in_advance() -> None:
    disk, rig = filled()
    assert rig.store.close(rig.wall_ms)
    end = max(int(path.rpartition("/")[2]) for path in disk.contents() if "/commitlog/" in path) + FILE
    for start in (end, end + FILE):
        disk.create(f"{ROOT}/commitlog/{start:020d}", FILE)
    rig.open()
    assert rig.store.report.sentences() == []
    whole(rig, 300)
