"""A consumer's progress: in memory, and in the file that a Java consumer would go on with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rmq_client.consuming.local_offsets import LocalOffsets
from rmq_client.consuming.offset_table import OffsetTable
from rmq_client.errors import CallerError
from rmq_wire.bodies.body import DialectBody
from rmq_wire.bodies.consumer_answers import ConsumerRunningInfo, ProcessQueueInfo
from rmq_wire.bodies.offsets import ResetOffset
from rmq_wire.bodies.stats import ConsumeStats, OffsetWrapper, TopicStatsTable
from rmq_wire.fastjson import MessageQueue

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(10_000)]
A, B = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)
JAVA = """{
\t"offsetTable":{{
\t\t"brokerName":"broker-a",
\t\t"queueId":1,
\t\t"topic":"T"
\t}:7,{"queueId":0,"topic":"T","brokerName":"broker-a"}:5
\t}
}"""


def test_late_results_do_not_go_back_and_resets_do() -> None:
    table = OffsetTable()
    for offset, increase_only, expected in ((5, True, 5), (3, True, 5), (9, True, 9), (2, False, 2)):
        table.update(A, offset, increase_only=increase_only)
        assert table.get(A) == expected
    assert table.get(B) is None


def test_a_frozen_offset_is_moved_by_nobody_until_the_queue_is_gone() -> None:
    table = OffsetTable()
    table.freeze(A, 100)
    table.update(A, 500, increase_only=True)
    table.update(A, 3, increase_only=False)
    assert table.get(A) == 100
    table.remove(A)
    table.update(A, 3, increase_only=True)
    assert table.get(A) == 3


def test_queues_of_others_are_forgotten() -> None:
    table = OffsetTable()
    for queue in (A, B):
        table.update(queue, 1, increase_only=True)
    assert table.keep_only({A}) == {A: 1}
    assert table.get(B) is None


@pytest.fixture
def local(tmp_path: Path) -> LocalOffsets:
    return LocalOffsets("10.0.0.1@me", "G", tmp_path)


def test_the_file_is_where_java_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert LocalOffsets("10.0.0.1@me", "G").path == tmp_path / ".rocketmq_offsets/10.0.0.1@me/G/offsets.json"
    for client_id, group in (("../x", "G"), ("c", "a/b"), ("", "G")):
        with pytest.raises(CallerError, match="cannot be a directory"):
            LocalOffsets(client_id, group)


def test_nothing_there_is_nothing_consumed(local: LocalOffsets) -> None:
    assert local.load() == {}


def test_saved_is_loaded_and_the_one_before_is_kept(local: LocalOffsets) -> None:
    local.save({A: 5})
    local.save({B: 7})
    assert local.load() == {A: 5, B: 7}, "what is not named stays"
    local.path.unlink()
    assert local.load() == {A: 5}, "the backup"


def test_java_s_file_is_read(local: LocalOffsets) -> None:
    local.path.parent.mkdir(parents=True)
    local.path.write_text(JAVA)
    assert local.load() == {A: 5, B: 7}


@pytest.mark.parametrize("broken", [b"", b"{", b"\x00" * 100, b'{"offsetTable":5}'])
def test_a_broken_file_is_replaced_by_its_backup_and_pushes_no_good_one_out(local: LocalOffsets, broken: bytes) -> None:
    local.save({A: 5})
    local.save({A: 6})
    local.path.write_bytes(broken)
    assert local.load() == {A: 5}
    local.save({B: 1})
    assert local.load() == {A: 5, B: 1}
    local.path.unlink()
    assert local.load() == {A: 5}


def test_both_broken_is_said(local: LocalOffsets) -> None:
    local.save({A: 5})
    local.save({A: 6})
    for path in (local.path, local.path.with_name("offsets.json.bak")):
        path.write_bytes(b"{")
    with pytest.raises(CallerError, match="mend or remove"):
        local.load()
    with pytest.raises(CallerError):
        local.save({A: 7})


@pytest.mark.parametrize("backup", [None, b""])
def test_a_broken_one_alone_is_said(local: LocalOffsets, backup: bytes | None) -> None:
    """It said something: to begin anew would consume all again, or skip."""
    local.save({A: 5})
    local.path.write_bytes(b"{")
    if backup is not None:
        local.path.with_name("offsets.json.bak").write_bytes(backup)
    with pytest.raises(CallerError, match="mend or remove"):
        local.load()
    with pytest.raises(CallerError):
        local.save({A: 7})
    assert local.path.read_bytes() == b"{"


@pytest.mark.parametrize("name", ["offsets.json", "offsets.json.bak", ".."])
def test_what_cannot_be_opened_is_said(local: LocalOffsets, name: str) -> None:
    """A directory in the place of a file, a file in that of a directory."""
    local.path.parent.parent.mkdir(parents=True)
    if name == "..":
        local.path.parent.write_bytes(b"")
    else:
        local.path.with_name(name).mkdir(parents=True)
    with pytest.raises(CallerError, match="cannot be read"):
        local.load()


@pytest.mark.parametrize("dies_at", [0, 1])
def test_a_kill_between_any_two_steps_loses_nothing(local: LocalOffsets, monkeypatch: pytest.MonkeyPatch, dies_at: int) -> None:
    local.save({A: 5})
    steps = 0
    replace = os.replace

    def dying(old: Any, new: Any) -> None:
        nonlocal steps
        if steps == dies_at:
            raise KeyboardInterrupt
        steps += 1
        replace(old, new)

    monkeypatch.setattr(os, "replace", dying)
    with pytest.raises(KeyboardInterrupt):
        local.save({A: 6})
    monkeypatch.undo()
    assert local.load() == {A: 5}
    local.save({A: 7})
    assert local.load() == {A: 7}


def test_a_file_of_any_size_is_read_again(tmp_path: Path) -> None:
    many = {MessageQueue(f"topic-{number % 100}", "broker-a", number): number for number in range(12_000)}
    LocalOffsets("c", "g", tmp_path).save(many)
    assert LocalOffsets("c", "g", tmp_path).load() == many, "forgotten, all would be consumed again, or skipped"


@pytest.mark.parametrize(
    "body",
    [
        TopicStatsTable(offset_table={queue: {"maxOffset": 1} for queue in QUEUES}),
        ConsumeStats(offset_table={queue: OffsetWrapper(broker_offset=1) for queue in QUEUES}),
        ResetOffset(offset_table=dict.fromkeys(QUEUES, 1)),
        ConsumerRunningInfo(mq_table={queue: ProcessQueueInfo() for queue in QUEUES}),
    ],
    ids=lambda body: type(body).__name__,
)
def test_answers_about_ten_thousand_queues_are_read(body: DialectBody) -> None:
    text = body.encode()
    assert type(body).read(text).encode() == text
