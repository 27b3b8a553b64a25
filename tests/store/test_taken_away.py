"""Two faults in a row: a stop that was not clean, and somebody who takes files away, or starts with other settings, or deletes.

Nothing is lost without a word: it is made again from the log, or the start is refused before anything is touched.
"""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace

from rmq_store.errors import StoreDamaged
from rmq_store.settings import StoreSettings
from tests.support import store_rig
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import LIGHT_QUEUES_ON, ROOT, Rig, draft, lit, open_store, small, sync_settings
from tests.support.store_sim import RULES

LOG_FILE, QUEUE_FILE = 4096, 200
SMALL_FILES = {"mapped_file_size_commit_log": LOG_FILE, "max_message_size": 1200}
WITHOUT_INDEX = {"message_index_enable": False}


def filled(messages: int, topic: str = "TopicA", settings: StoreSettings | None = None) -> Rig:
    """All of it safe, and the checkpoint says so."""
    rig = Rig(settings=settings or small())
    for number in range(messages):
        rig.put(draft(number, topic))
    rig.sync_queues()
    rig.wait(2_000)
    return rig


def killed(rig: Rig, keep: str = "all") -> MemoryDisk:
    """The broker dies: what was written stays, or what was synced."""
    assert isinstance(rig.disk, MemoryDisk)
    rig.disk = disk = rig.disk.crash("all" if keep == "all" else "synced")
    return disk


def not_found(rig: Rig, numbers: list[int]) -> list[int]:
    """Whose keys nobody finds."""
    return [number for number in numbers if len(rig.store.query("TopicA", f"key{number}", 10, 0, 1 << 60).units) != 1]


def with_settings(rig: Rig, **changes: object) -> None:
    """Stop, if it runs, and start with others."""
    rig.settings = replace(rig.settings, **changes)
    rig.open()


# --- the index


def test_a_run_without_an_index_leaves_none_that_the_stop_before_it_left_incomplete() -> None:
    rig = filled(60, settings=small(max_index_num=2000))
    killed(rig)
    with_settings(rig, **WITHOUT_INDEX)
    rig.put(draft(60))
    assert rig.store.close(rig.wall_ms)
    with_settings(rig, message_index_enable=True)
    assert rig.store.report.stopped_clean
    assert not_found(rig, list(range(61))) == []


def test_a_run_without_an_index_keeps_those_of_its_files_that_are_safe() -> None:
    rig = Rig()
    for number in range(60):
        rig.put(draft(number))
        if number % 15 == 0:
            rig.wait(1_500)
    rig.wait(1_500)
    rig.sync_queues()
    rig.wait(1_500)
    before = [path for path, _ in rig.disk.live_contents(f"{ROOT}/index/")]  # type: ignore[attr-defined]
    killed(rig)
    with_settings(rig, **WITHOUT_INDEX)
    left = [path for path, _ in rig.disk.live_contents(f"{ROOT}/index/")]  # type: ignore[attr-defined]
    assert 0 < len(left) < len(before)
    assert left == before[: len(left)]
    assert left == [path for path in rig.disk.crash("synced").contents() if "/index/" in path]  # type: ignore[attr-defined]
    assert rig.store.close(rig.wall_ms)
    with_settings(rig, **WITHOUT_INDEX)
    assert left == [path for path, _ in rig.disk.live_contents(f"{ROOT}/index/")]  # type: ignore[attr-defined]
    assert rig.store.close(rig.wall_ms)
    with_settings(rig, message_index_enable=True)
    assert not_found(rig, list(range(60))) == []


def test_entries_of_messages_that_a_power_cut_took_are_not_found_after_a_run_without_an_index() -> None:
    rig = filled(20, settings=small(max_index_num=2000))
    for number in range(20, 60):
        rig.put(draft(number))
    index = rig.store._index
    assert index is not None
    index.close()  # the system wrote it back by itself
    index.files[-1].file.sync()
    rig.disk.sync_directory(index.directory)
    rig.disk.sync_directory(ROOT)
    killed(rig, "synced")
    with_settings(rig, **WITHOUT_INDEX)
    assert rig.numbers() == list(range(20))
    for number in range(100, 130):
        rig.put(draft(number, body_bytes=57))
    assert rig.store.close(rig.wall_ms)
    with_settings(rig, message_index_enable=True)
    assert not_found(rig, rig.numbers()) == []


def test_who_removes_abort_has_not_stopped_the_broker() -> None:
    rig = filled(60, settings=small(max_index_num=2000))
    disk = killed(rig)
    disk.unlink(f"{ROOT}/abort")
    rig.open()
    assert not rig.store.report.stopped_clean
    assert f"{ROOT}/abort" in disk.contents()
    assert not_found(rig, list(range(60))) == []
    assert rig.store.close(rig.wall_ms)
    rig.open()
    assert rig.store.report.clean


# --- light queues


def lit_rig() -> Rig:
    """Forty messages in a light queue, half of them safe."""
    rig = Rig(settings=small(**LIGHT_QUEUES_ON))
    for number in range(20):
        rig.put(lit(number, "%LMQ%a"))
    rig.sync_queues()
    rig.wait(2_000)
    for number in range(20, 40):
        rig.put(lit(number, "%LMQ%a"))
    return rig


@pytest.mark.parametrize("off", [{"enable_lmq": False}, {"enable_multi_dispatch": False}])
def test_light_queues_keep_their_entries_in_a_run_without_them(off: dict[str, object]) -> None:
    rig = lit_rig()
    killed(rig)
    with_settings(rig, **off)
    assert rig.store.queue_bounds("%LMQ%a", 0) == (0, 40)
    assert rig.store.close(rig.wall_ms)
    with_settings(rig, **LIGHT_QUEUES_ON)
    rig.put(lit(40, "%LMQ%a"))
    assert rig.numbers("%LMQ%a") == list(range(41))


def test_light_queues_forget_what_a_power_cut_took_of_the_log_in_a_run_without_them() -> None:
    rig = lit_rig()
    disk = rig.disk
    assert isinstance(disk, MemoryDisk)
    for path, _ in disk.live_contents("/consumequeue/%LMQ%a/"):
        disk.open(path).sync()
        disk.sync_directory(path.rpartition("/")[0])
    killed(rig, "synced")
    with_settings(rig, enable_lmq=False)
    assert rig.store.queue_bounds("%LMQ%a", 0) == (0, 20)


# --- files that are gone


def test_a_queue_file_that_is_gone_before_others_is_made_again_after_a_kill() -> None:
    rig = filled(35, "Idle", small(**SMALL_FILES))
    for number in range(100, 160):
        rig.put(draft(number))
    rig.sync_queues()
    rig.wait(2_000)
    disk = killed(rig)
    gone = f"{ROOT}/consumequeue/Idle/0/{QUEUE_FILE:020d}"
    disk.unlink(gone)
    rig.open()
    assert f"{gone} is missing" in rig.store.report.sentences()
    assert rig.numbers("Idle") == list(range(35))
    assert rig.put(draft(35, "Idle"))[0].queue_offset == 35


def test_of_queue_files_that_a_power_cut_may_take_nothing_is_said() -> None:
    rig = filled(5, "Idle", small(**SMALL_FILES))
    for number in range(5, 35):
        rig.put(draft(number, "Idle"))
    disk = killed(rig)
    disk.unlink(f"{ROOT}/consumequeue/Idle/0/{QUEUE_FILE:020d}")
    rig.open()
    assert not rig.store.report.rebuilt
    assert not [line for line in rig.store.report.sentences() if "missing" in line]
    assert rig.numbers("Idle") == list(range(35))


@pytest.mark.parametrize("damage", ["missing", "emptied"])
def test_a_log_file_that_is_gone_before_what_was_safe_is_refused_after_a_kill(damage: str) -> None:
    rig = filled(100, settings=small(**SMALL_FILES))
    rig.put(draft(100))
    disk = killed(rig)
    path = f"{ROOT}/commitlog/{2 * LOG_FILE:020d}"
    if damage == "missing":
        disk.unlink(path)
    else:
        disk.open(path).write_at(0, bytes(LOG_FILE))
    before = {
        path: data for path, data in disk.contents().items() if path.startswith((f"{ROOT}/commitlog", f"{ROOT}/consumequeue"))
    }
    for _ in range(2):
        with pytest.raises(StoreDamaged, match=f"{path} (is missing|does not begin with a message)"):
            rig.open()
        assert {path: disk.contents()[path] for path in before} == before


def test_a_log_file_that_is_gone_behind_what_was_safe_ends_the_log() -> None:
    """Nobody promised anything of it."""
    rig = filled(5, settings=small(**SMALL_FILES))
    for number in range(5, 100):
        rig.put(draft(number))
    disk = killed(rig)
    disk.unlink(f"{ROOT}/commitlog/{2 * LOG_FILE:020d}")
    rig.open()
    numbers = rig.numbers()
    assert numbers == list(range(len(numbers)))
    assert 5 < len(numbers) < 100


# --- deleted topics


def test_files_that_somebody_removed_do_not_hinder_the_deletion_of_their_topic() -> None:
    rig = Rig()
    for number in range(40):
        rig.put(draft(number, "Gone"), draft(number, "Stays"))
    disk = rig.disk
    assert isinstance(disk, MemoryDisk)
    for path, _ in disk.live_contents("/consumequeue/Gone/0/"):
        disk.unlink(path)
    assert rig.store.delete_topics(["Gone"]) == 1
    assert rig.store.refusal is None
    rig.put(draft(40, "Stays"))
    assert rig.numbers("Stays") == list(range(41))


def test_the_only_topic_stays_deleted() -> None:
    rig = filled(20, "Only")
    assert rig.store.delete_topics(["Only"]) == 1
    rig.reopen()
    assert rig.store.report.clean
    assert rig.store.topics() == {}
    rig.put(draft(20, "Other"))
    rig.reopen()
    assert rig.store.topics() == {"Other": {0: (0, 1)}}


def test_a_topic_stays_deleted_beside_one_whose_messages_went_with_old_log_files() -> None:
    rig = Rig(settings=small(**SMALL_FILES))
    for number in range(19):
        rig.put(draft(number, "Old"))
    for number in range(100, 160):
        rig.put(draft(number, "T"))
    rig.sync_queues()
    rig.wait(2_000)
    rig.store.retain_by(replace(RULES, delete_file_batch_max=1))
    rig.store.retention.delete_now()
    rig.retain(75_000)
    assert rig.store.topics()["Old"] == {0: (19, 19)}
    assert rig.store.delete_topics(["T"]) == 1
    rig.reopen()
    assert rig.store.report.clean
    assert "T" not in rig.store.topics()


def test_queues_that_are_gone_as_a_whole_are_made_again_when_nothing_says_that_they_were_deleted() -> None:
    """As after a stop of another broker, which notes nothing."""
    rig = filled(20)
    assert rig.store.close(rig.wall_ms)
    disk = rig.disk
    assert isinstance(disk, MemoryDisk)
    for path in [path for path in disk.contents() if "/consumequeue/" in path or path.endswith("/inventory")]:
        disk.unlink(path)
    for directory in ("TopicA/0", "TopicA"):
        disk.remove_directory(f"{ROOT}/consumequeue/{directory}")
    rig.open()
    assert rig.numbers() == list(range(20))


def test_a_clean_stop_ends_a_deletion_that_is_under_way() -> None:
    rig = Rig()
    for queue_id in range(4):
        rig.put(draft(queue_id, "T", queue_id), draft(queue_id, "Stays"))
    next(rig.store.deleting_topics(["T"]))
    assert rig.store.close(rig.wall_ms)
    disk = rig.disk
    assert isinstance(disk, MemoryDisk)
    assert [path for path in disk.crash("synced").contents() if "/consumequeue/T/" in path] == []
    rig.open()
    assert list(rig.store.topics()) == ["Stays"]


def test_an_index_file_that_is_gone_holds_nobodys_sync() -> None:
    """It was full and had not been synced yet."""
    rig = Rig(settings=sync_settings())
    index = rig.store._index
    assert index is not None
    number = 0
    while not (index.retiring or index.retired):
        rig.put(draft(number))
        rig.sync()
        number += 1
    while index.retiring:
        index.retire(1 << 30)
    gone = index.retired[0].path
    rig.store._files.forget(gone)
    rig.disk.unlink(gone)
    for _ in range(20):
        number += 1
        rig.put(draft(number))
        rig.wait(50)
        for _ in range(5):
            rig.sync()
    assert not index.retired
    assert rig.store.flushed_offset == rig.store.written_offset
    assert rig.store.close(rig.wall_ms)


def test_a_power_cut_in_a_deletion_brings_back_no_other_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take back any of the names that were removed: a gap between them is none that somebody has made."""
    known = {"Before": False, "Gone": False, "TopicA": False}
    monkeypatch.setattr(store_rig, "open_store", partial(open_store, has_batch_queues=known.get))
    rig = Rig(settings=small(**SMALL_FILES))
    for topic in ("Before", "Gone", "TopicA"):
        for number in range(35):
            rig.put(draft(number, topic))
    rig.sync_queues()
    rig.wait(2_000)
    rig.store.delete_topics(["Before"])
    del known["Before"]
    assert rig.store.close(rig.wall_ms)
    rig.open()
    for number in range(35, 60):
        rig.put(draft(number))
    rig.sync_queues()
    rig.wait(2_000)
    del known["Gone"]
    rig.disk = killed(rig)
    rig.disk.unlink(f"{ROOT}/consumequeue/Gone/0/{QUEUE_FILE:020d}")
    rig.open()
    assert not rig.store.report.rebuilt
    assert "Before" not in rig.store.topics()
