"""What the file may say of a level's progress: never more than the disk has, never outside the queue."""

from __future__ import annotations

import json

from broker_impl.env import Env
from broker_impl.state.delay_offsets import DelayOffsets

WALL = 1_700_000_000_000


class Log:
    flushed = 0


def table(log: Log, **more: int) -> DelayOffsets:
    return DelayOffsets(lambda: log.flushed, **more)


def on_file(offsets: DelayOffsets) -> dict[str, int]:
    text = offsets.encode()
    offsets.written()
    found: dict[str, int] = json.loads(text.replace(b"\n\t\t3:", b'\n\t\t"3":').replace(b"\n\t\t4:", b'\n\t\t"4":'))[
        "offsetTable"
    ]
    return found


def test_progress_is_written_when_its_copies_are_safe() -> None:
    log = Log()
    offsets = table(log)
    offsets.update(3, 5, WALL, end_offset=100)
    offsets.update(3, 9, WALL, end_offset=200)
    assert offsets.progress == {3: 9}
    assert on_file(offsets) == {}
    assert offsets.dirty
    log.flushed = 100
    assert on_file(offsets) == {"3": 5}
    assert offsets.dirty
    log.flushed = 200
    assert on_file(offsets) == {"3": 9}
    assert not offsets.dirty


def test_what_is_passed_over_waits_for_what_came_before() -> None:
    log = Log()
    offsets = table(log)
    offsets.update(3, 5, WALL, end_offset=100)
    offsets.update(3, 6, WALL)
    assert on_file(offsets) == {}
    log.flushed = 100
    assert on_file(offsets) == {"3": 6}
    offsets.update(4, 2, WALL)
    assert on_file(offsets) == {"3": 6, "4": 2}


def test_levels_do_not_wait_for_each_other() -> None:
    log = Log()
    offsets = table(log)
    offsets.update(3, 5, WALL, end_offset=300)
    offsets.update(4, 7, WALL, end_offset=100)
    log.flushed = 100
    assert on_file(offsets) == {"4": 7}


def test_a_step_that_is_none_changes_nothing() -> None:
    offsets = table(Log())
    offsets.update(3, 5, WALL)
    on_file(offsets)
    offsets.update(3, 5, WALL)
    assert not offsets.dirty


def test_the_version_moves_every_so_many_updates() -> None:
    offsets = table(Log(), version_step=3)
    for step in range(7):
        offsets.update(1, step + 1, WALL + step)
    assert (offsets.data_version.counter, offsets.data_version.timestamp) == (2, WALL + 5)


def test_java_s_file_is_read_and_written_back() -> None:
    text = (
        b'{\n\t"dataVersion":{\n\t\t"counter":1,\n\t\t"stateVersion":0,\n\t\t"timestamp":1700000000000\n\t},\n'
        b'\t"offsetTable":{\n\t\t3:12,\n\t\t4:2\n\t}\n}'
    )
    offsets = table(Log())
    offsets.load(text)
    assert offsets.progress == {3: 12, 4: 2}
    assert offsets.encode() == text


def test_progress_is_clamped_to_the_queue() -> None:
    offsets = table(Log())
    offsets.load(b'{"offsetTable":{1:50,2:3,3:7}}')
    bounds = {1: (10, 20), 2: (5, 9), 3: (0, 7), 4: (0, 9)}
    offsets.clamp(dict.fromkeys(bounds, 0), bounds.__getitem__, Env().log)
    assert offsets.progress == {1: 20, 2: 5, 3: 7}
    assert offsets.dirty
