"""A whole broker after a clean stop, with files taken away: what refuses names a command, and that command mends it."""

from __future__ import annotations

import logging
import re
import shlex
from pathlib import Path

import pytest

from rmq_store.errors import StoreDamaged
from tests.support.engine import Harness
from tests.support.requests import send
from tests.support.rmq import run

LOG_BYTES = 64 * 1024
BODY = b"x" * 2_000


def filled(root: Path, count: int = 120) -> Harness:
    """Messages over four queues and several log files, stopped cleanly."""
    harness = Harness(root, mappedFileSizeCommitLog=LOG_BYTES)
    harness.topic("T", 4)
    client = harness.connect()
    for number in range(count):
        assert client.ask(send(queue_id=number % 4), b"%d:" % number + BODY).code == 0
    harness.stop()
    return harness


def numbers(harness: Harness) -> list[int]:
    return sorted(int(unit.body.split(b":")[0]) for queue_id in range(4) for unit in harness.stored("T", queue_id))


def commanded(refused: str, home: Path, **places: str) -> None:
    """Run the command that a refusal names."""
    found = re.search(r"with: rmq (.*?)(?: \(|$)", refused)
    assert found is not None, refused
    done = run(*(places.get(word, word) for word in shlex.split(found[1])), home=home)
    assert done.returncode in (0, 1), done.stderr  # 1: something was lost
    assert "Traceback" not in done.stderr


def test_without_its_table_of_topics_it_does_not_start_and_the_command_makes_it(tmp_path: Path) -> None:
    store = tmp_path / "it's my store"
    harness = filled(store)
    for path in (store / "config").glob("topics.json*"):
        path.unlink()
    with pytest.raises(StoreDamaged, match=r"topics\.json is missing, and the log has messages of T") as refused:
        harness.open()
    commanded(str(refused.value), tmp_path)
    harness.open()
    topic = harness.node.topics.get("T")
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums) == (4, 4)
    assert numbers(harness) == list(range(120))
    assert harness.connect().ask(send(queue_id=3), b"120:").code == 0
    harness.stop()


def test_a_table_without_topics_is_what_the_operator_wants(tmp_path: Path) -> None:
    harness = filled(tmp_path)
    for path in (tmp_path / "config").glob("topics.json*"):
        path.unlink()
    (tmp_path / "config" / "topics.json").write_text("{}")
    harness.open()
    assert harness.node.topics.get("T") is None
    harness.stop()


def test_after_a_kill_a_missing_table_is_only_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first message of all may be on the disk, unanswered, before the table is."""
    harness = filled(tmp_path)
    for path in (tmp_path / "config").glob("topics.json*"):
        path.unlink()
    (tmp_path / "abort").touch()
    with caplog.at_level(logging.WARNING):
        harness.open()
    assert "topics.json is missing, and the log has messages of T: they are made anew" in caplog.text
    harness.stop()


def test_without_a_log_file_between_others_the_command_saves_the_rest(tmp_path: Path) -> None:
    """What is before the gap and behind it keeps its place; nothing of it is passed over by a consumer."""
    store, saved = tmp_path / "a store", tmp_path / "saved"
    harness = filled(store)
    log = sorted((store / "commitlog").iterdir())
    assert len(log) > 3
    log[1].unlink()
    with pytest.raises(StoreDamaged, match=f"{log[1]} is missing") as refused:
        harness.open()
    commanded(str(refused.value), tmp_path, NEWDIR=str(saved))
    harness.root = saved
    harness.open()
    found = numbers(harness)
    lost = sorted(set(range(120)) - set(found))
    assert 20 < len(lost) < 40
    assert lost == list(range(lost[0], lost[-1] + 1)), "one hole, as large as a file"
    for queue_id in range(4):
        assert [(unit.queue_offset, int(unit.body.split(b":")[0])) for unit in dict.fromkeys(harness.stored("T", queue_id))] == [
            (number // 4, number) for number in range(queue_id, 120, 4) if number not in lost
        ]
    assert harness.connect().ask(send(queue_id=3), b"120:").code == 0
    assert [unit.queue_offset for unit in harness.stored("T", 3)][-1] == 30
    harness.stop()


def test_a_queue_that_is_gone_is_made_again_and_said_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    harness = filled(tmp_path)
    for path in (tmp_path / "consumequeue" / "T" / "2").iterdir():
        path.unlink()
    with caplog.at_level(logging.WARNING):
        harness.open()
    assert "all files of T queue 2 are missing" in caplog.text
    assert numbers(harness) == list(range(120))
    assert harness.connect().ask(send(queue_id=2), b"120:").code == 0
    assert [unit.queue_offset for unit in harness.stored("T", 2)] == list(range(31))
    harness.stop()
