"""Ways to messages that may not lead past one: topics that nothing names any more, clocks that were set back."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rmq_inspect.decode import queues, select
from rmq_inspect.decode.directory import list_store
from rmq_inspect.decode.log import Log
from rmq_inspect.decode.select import CLOCK_STEP_MS, LATER_MAX, Wanted, messages, topics_of
from rmq_store.disk.disk import RealDisk
from tests.support.command import look
from tests.support.store_rig import START_MS, Rig, draft, small

GONE = "Gone"


def made(root: Path, seconds: Iterable[int], *, log_file_bytes: int = 1 << 20) -> Path:
    """A store with a message stored at each of these times; those of even number are in a topic that can be deleted."""
    rig = Rig(RealDisk(), small(store_path_root_dir=str(root), mapped_file_size_commit_log=log_file_bytes))
    for number, second in enumerate(seconds):
        rig.wall_ms = START_MS + second * 1000
        rig.put(draft(number, topic="TopicA" if number % 2 else GONE))
    rig.sync()
    assert rig.store.close(rig.wall_ms)
    return root


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return made(tmp_path, range(20))


def found(root: Path, **wanted: Any) -> tuple[list[int], str]:
    """Where the messages begin, and what was said."""
    notes: list[str] = []
    units = list(messages(list_store(root), Wanted(**wanted), note=notes.append))
    return [unit.message.physical_offset for unit in units], "\n".join(notes)


# --- find without a topic


def scanned(root: Path, **wanted: Any) -> list[int]:
    return [unit.message.physical_offset for unit in messages(list_store(root), Wanted(**wanted), scan=True)]


@pytest.mark.parametrize("key", ["key4", f"7F0000010007AAAA{4:016X}"])
def test_a_key_of_a_topic_that_was_deleted(store: Path, key: str) -> None:
    whole, notes = found(store, key=key)
    assert (len(whole), "is read, too" in notes) == (1, False)
    shutil.rmtree(store / "consumequeue" / GONE)
    assert not (store / "config").exists()
    after, notes = found(store, key=key)
    assert after == whole
    assert "is read, too" in notes
    assert look("find", store, key).status == 0


def test_a_key_in_a_store_without_queues(store: Path) -> None:
    whole = [found(store, key=f"key{number}")[0] for number in (4, 5)]
    shutil.rmtree(store / "consumequeue")
    for number, before in zip((4, 5), whole, strict=True):
        after, notes = found(store, key=f"key{number}")
        assert (after, "the log itself is read" in notes) == (before, True)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("topics.json", {"topicConfigTable": {GONE: {"topicName": GONE}}}),
        ("topics.json.bak", {"topicConfigTable": {GONE: {"topicName": GONE}}}),
        ("consumerOffset.json", {"offsetTable": {f"{GONE}@group": {"0": 3}}}),
    ],
)
def test_tables_name_topics_that_have_no_queue(store: Path, name: str, table: dict[str, Any]) -> None:
    """Then the index has the key: the log is not read."""
    whole = found(store, key="key4")[0]
    shutil.rmtree(store / "consumequeue" / GONE)
    (store / "config").mkdir()
    (store / "config" / name).write_text(json.dumps(table))
    assert topics_of(list_store(store)) == [GONE, "TopicA"]
    after, notes = found(store, key="key4")
    assert (after, "is read, too" in notes) == (whole, False)


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"topicConfigTable":[1]}', '{"offsetTable":null}'])
def test_tables_that_say_nothing(store: Path, text: str) -> None:
    (store / "config").mkdir()
    for name in ("topics.json", "consumerOffset.json"):
        (store / "config" / name).write_text(text)
    assert len(found(store, key="key4")[0]) == 1


def test_what_nobody_sent_is_not_found_where_it_was_looked_for(store: Path) -> None:
    """With a topic the index is sure; without one the log is read, once."""
    assert "is read, too" not in found(store, key="nobody", topic="TopicA")[1]
    offsets, notes = found(store, key="nobody")
    assert (offsets, notes.count("is read, too")) == ([], 1)


# --- times


SET_BACK = (
    [*range(12), *range(4, 12)],
    [*range(25), *range(10, 45)],
    [*range(0, 90, 3), *range(31, 90, 2)],
    [5, 5, 5, 0, 0, 60, 1, 60, 2, 3],
)


@pytest.mark.parametrize("log_file_bytes", [1200, 1 << 20])
@pytest.mark.parametrize("seconds", SET_BACK)
def test_a_clock_that_was_set_back(tmp_path: Path, seconds: list[int], log_file_bytes: int) -> None:
    """By less than a minute: all ways give what was stored in the time asked for."""
    root = made(tmp_path, seconds, log_file_bytes=log_file_bytes)
    place = list(zip(scanned(root), seconds, strict=True))
    of_topic = place[1::2]
    for second in range(-1, max(seconds) + 2):
        for bound, kept in (("from_ms", range(second, 1000)), ("to_ms", range(-1000, second + 1))):
            time = {bound: START_MS + second * 1000}
            assert scanned(root, **time) == found(root, **time)[0] == [at for at, when in place if when in kept]
            expected = [at for at, when in of_topic if when in kept]
            assert found(root, topic="TopicA", **time)[0] == expected
            assert found(root, topic="TopicA", queue_id=0, **time)[0] == expected


def test_a_clock_that_was_set_back_by_an_hour_between_files(tmp_path: Path) -> None:
    """The heads of all files are looked at, not those that halving meets."""
    root = made(tmp_path, [*range(4000, 4020), *range(400, 460)], log_file_bytes=1200)
    heads = [file.start for file in list_store(root).commit_log]
    assert len(heads) > 12
    first = scanned(root)[0]
    assert scanned(root, from_ms=START_MS + 4_000_000)[0] == first == found(root, from_ms=START_MS + 4_000_000)[0][0]
    assert len(found(root, to_ms=START_MS + 500_000)[0]) == 60


def test_more_messages_than_count_as_later_are_no_end_while_a_file_begins_earlier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select, "LATER_MAX", 5)
    root = made(tmp_path, [0, 1, *range(100, 120), *range(2, 30)], log_file_bytes=1200)
    for way in ({}, {"topic": "TopicA"}, {"topic": "TopicA", "queue_id": 0}):
        assert len(found(root, to_ms=START_MS + 30_000, **way)[0]) == (15 if way else 30)


def test_what_comes_after_the_time_is_not_read_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log and a queue are left when so many messages one after another are later."""
    monkeypatch.setattr(select, "LATER_MAX", 5)
    root = made(tmp_path, range(200))
    looked_at: list[int] = []
    ends = select._ending

    def counted(log: Log, wanted: Wanted) -> Any:
        is_over = ends(log, wanted)

        def over(unit: Any) -> bool:
            looked_at.append(unit.at)
            return is_over(unit)

        return over

    monkeypatch.setattr(select, "_ending", counted)
    for way, most in (({}, 16), ({"topic": "TopicA"}, 10), ({"topic": "TopicA", "queue_id": 0}, 10)):
        looked_at.clear()
        found(root, to_ms=START_MS + 10_000, **way)
        assert len(looked_at) == most
    assert LATER_MAX == 1000


def test_files_whose_head_cannot_be_read_hide_nothing(tmp_path: Path) -> None:
    root = made(tmp_path, range(60), log_file_bytes=1200)
    files = list_store(root).commit_log
    with Log(files) as log:
        heads = [log.unit(file.start).message.store_timestamp for file in files[:-1]]
    for spoilt in (3, 4):
        with files[spoilt].path.open("r+b") as file:
            file.write(b"\xff" * 8)
    os.truncate(files[-1].path, 0)
    os.truncate(files[-1].path, 1200)
    with Log(files) as log:
        assert log.first_file_since(heads[2]) == files[1].start
        assert log.first_file_since(heads[4]) == files[2].start
        assert log.first_file_since(heads[5] + 1) == files[5].start
        assert log.first_file_since(0) == 0
        assert log.last_file_until(heads[4]) == files[2].start
        assert log.last_file_until(1 << 60) == files[-2].start, "nothing was written into the last one"
        assert log.last_file_until(0) == 0


def test_a_range_of_time_allows_for_as_much_as_columns_do() -> None:
    pytest.importorskip("numpy")
    from rmq_columns.read import plan

    assert plan.CLOCK_STEP_MS == CLOCK_STEP_MS


@pytest.mark.parametrize("spoilt", [range(0), range(14, 16), range(9, 17), range(28, 30), range(2), range(30), range(5, 29, 3)])
def test_a_search_by_time_is_not_led_past_a_message_by_those_that_cannot_be_read(tmp_path: Path, spoilt: range) -> None:
    """By halving; the first one looked at is the fifteenth."""
    root = made(tmp_path, range(60))
    store = list_store(root)
    files = store.queues["TopicA", 0]
    units = list(queues.units(files))
    for at in spoilt:
        with store.commit_log[0].path.open("r+b") as file:
            file.seek(units[at].physical_offset)
            file.write(bytes(88))
    readable = [at for at in range(30) if at not in spoilt]
    with Log(store.commit_log) as log:
        for second in range(61):
            wanted = [at for at in readable if 2 * at + 1 >= second]
            at = queues.first_stored_at(files, log, START_MS + second * 1000)
            assert at <= min(wanted, default=30)
            if spoilt in (range(0), range(14, 16)):
                assert at >= min(wanted, default=30) - len(spoilt)


def test_a_search_by_time_passes_entries_of_a_log_that_is_gone(tmp_path: Path) -> None:
    root = made(tmp_path, range(60), log_file_bytes=1200)
    store = list_store(root)
    for file in store.commit_log[:-1]:
        file.path.unlink()
    left = list_store(root)
    files = left.queues["TopicA", 0]
    first = next(unit.queue_offset for unit in queues.units(files) if unit.physical_offset >= left.commit_log[0].start)
    probed: list[object] = []
    with Log(left.commit_log) as log:
        assert queues.first_stored_at(files, log, START_MS, lambda unit, stored: probed.append(unit)) == first
    assert len(probed) <= 6
