"""`rmq inspect verify` where a topic had more than one life, or a message more than one queue: nothing is wrong there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmq_inspect.decode.directory import list_store
from rmq_inspect.verify.verify import verify
from tests.support.damaged_store import fill, settings_at
from tests.support.store_rig import START_MS, draft, open_store


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 5), (5, 1), (5, 5), (12, 2), (2, 30)])
def test_lives_of_a_topic_of_any_length(tmp_path: Path, before: int, after: int) -> None:
    """Queue files hold ten units, so lives differ by files too."""
    rig = fill(tmp_path, 20, clean=False)
    for number in range(before):
        rig.put(draft(1000 + number, "Again", 0))
    rig.store.delete_topics(["Again"])
    for number in range(after):
        rig.put(draft(2000 + number, "Again", 0))
    rig.put(draft(3000))
    assert rig.store.close(rig.wall_ms)
    report = verify(list_store(tmp_path))
    assert report.listed() == []
    assert f"{before} message(s) are from before their topic was deleted and made again" in report.notes


def test_a_queue_that_only_a_former_life_used(tmp_path: Path) -> None:
    rig = fill(tmp_path, 20, clean=False)
    for number in range(9):
        rig.put(draft(1000 + number, "Again", number % 3))
    rig.store.delete_topics(["Again"])
    rig.put(draft(2000, "Again", 0))
    assert rig.store.close(rig.wall_ms)
    report = verify(list_store(tmp_path))
    assert report.listed() == []
    assert "9 message(s) are from before their topic was deleted and made again" in report.notes
    shutil.rmtree(tmp_path / "consumequeue" / "TopicA" / "0")
    assert verify(list_store(tmp_path)).findings.codes() == {"queue-missing"}


def test_lives_of_a_batch_topic(tmp_path: Path) -> None:
    settings = settings_at(tmp_path)

    def is_batch(topic: str) -> bool:
        return topic == "Packed"

    store = open_store(settings, has_batch_queues=is_batch)
    for number in range(10):
        store.stage(draft(number, "Packed"), START_MS + number)
        store.commit()
        store.dispatch(START_MS + number)
        if number == 6:
            store.delete_topics(["Packed"])
    assert store.close(START_MS + 100)
    report = verify(list_store(tmp_path))
    assert report.listed() == []
    assert "7 message(s) are from before their topic was deleted and made again" in report.notes


def test_light_queues_of_copies_and_lost_ones(tmp_path: Path) -> None:
    """A message sent back keeps the properties that name light queues, and is in none; a light queue that is gone is reported."""
    settings = settings_at(tmp_path, enable_lmq=True, enable_multi_dispatch=True)
    store = open_store(settings)
    lit = b"UNIQ_KEY\x01%d\x02INNER_MULTI_DISPATCH\x01%%LMQ%%a,%%LMQ%%b\x02"
    for number in range(4):
        for topic, more in (("Lit", b""), ("%RETRY%g", b"INNER_MULTI_QUEUE_OFFSET\x01%d,%d\x02" % (number, number))):
            one = draft(number, topic)
            one.properties, one.tags_code, one.keys = lit % number + more, 0, [str(number)]
            store.stage(one, START_MS + number)
            store.commit()
            store.dispatch(START_MS + number)
    assert store.close(START_MS + 100)
    report = verify(list_store(tmp_path))
    assert report.listed() == []
    assert report.notes == []
    shutil.rmtree(tmp_path / "consumequeue" / "%LMQ%a")
    report = verify(list_store(tmp_path))
    assert report.listed() == []
    assert report.notes == ["4 message(s) name light queues (%LMQ%) that are not there: removed, or lost"]
