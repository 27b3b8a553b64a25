"""Damage of checkpoint, configuration and timer; what does not belong into a store."""

from __future__ import annotations

import os

from tests.support.damaged_store import LOG_FILE_BYTES, Subject
from tests.support.plants import CHECKPOINT, WHOLE_FILE, Plants, Where

PLANTS = Plants()


@PLANTS.add
def checkpoint_in_the_future(s: Subject) -> Where:
    s.set_field(s.path("checkpoint"), CHECKPOINT, 0, "logics_msg_timestamp", 9_999_999_999_999)
    return Where("checkpoint-future", "checkpoint", 8)


@PLANTS.add
def checkpoint_negative(s: Subject) -> Where:
    s.set_field(s.path("checkpoint"), CHECKPOINT, 0, "physic_msg_timestamp", -5)
    return Where("checkpoint-wrong", "checkpoint", 0)


@PLANTS.add
def checkpoint_short(s: Subject) -> Where:
    os.truncate(s.path("checkpoint"), 100)
    return Where("checkpoint-size", "checkpoint", WHOLE_FILE)


@PLANTS.add
def config_broken(s: Subject) -> Where:
    s.path("config/consumerOffset.json").write_text('{"offsetTable": {')
    return Where("config-broken", "config/consumerOffset.json", WHOLE_FILE)


@PLANTS.add
def config_broken_with_backup(s: Subject) -> Where:
    s.path("config/topics.json").write_text("[" * 100_000)
    return Where("config-backup", "config/topics.json", WHOLE_FILE)


@PLANTS.add
def a_stray_file(s: Subject) -> Where:
    s.path("commitlog/core.1234").write_bytes(b"x")
    return Where("stray", "commitlog/core.1234", WHOLE_FILE)


@PLANTS.add
def a_link(s: Subject) -> Where:
    last = s.log_files[-1]
    (last.parent / f"{int(last.name) + LOG_FILE_BYTES:020}").symlink_to(last)
    return Where("stray", f"commitlog/{int(last.name) + LOG_FILE_BYTES:020}", WHOLE_FILE)


@PLANTS.add
def a_pipe(s: Subject) -> Where:
    os.mkfifo(s.path("consumequeue/TopicA/0/pipe"))
    return Where("stray", "consumequeue/TopicA/0/pipe", WHOLE_FILE)


@PLANTS.add
def a_position_behind_the_queues_end(s: Subject) -> Where:
    s.path("config/consumerOffset.json").write_text('{"offsetTable":{"TopicA@G":{0:5,1:70000}, "Gone@G":{0:9}}}')
    return Where("position-ahead", "config/consumerOffset.json", WHOLE_FILE)


@PLANTS.add
def a_position_of_a_broadcasting_group_behind_the_queues_end(s: Subject) -> Where:
    s.path("config/consumerOffset.json").write_text('{"offsetTable":{"TopicA@G@broadcast":{1:70000}}}')
    return Where("position-ahead", "config/consumerOffset.json", WHOLE_FILE)


@PLANTS.add
def a_timer_wheel_of_a_wrong_size(s: Subject) -> Where:
    s.path("timerwheel").write_bytes(bytes(100))
    return Where("timer-size", "timerwheel", WHOLE_FILE)
