"""The small files: lock and abort, checkpoint, configuration, timer; and what lies in the store that does not belong there.

Sources: `StoreCheckpoint`, `ConfigManager`, `DefaultMessageStore.load`, `TimerWheel` of the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from rmq_columns.checks import condition
from rmq_columns.checks.condition import Condition as Condition
from rmq_columns.checks.files import usual_size
from rmq_columns.checks.findings import NOWHERE, Findings
from rmq_inspect.decode.directory import StoreDirectory, StoreFile
from rmq_inspect.decode.files import checkpoint_of, config_value
from rmq_inspect.errors import CannotLook
from rmq_wire.layout import checkpoint, timer
from rmq_wire.names import SCHEDULE_TOPIC

TIMER_WHEEL_SLOTS: Final = 2 * 7 * 86_400
"""`TimerMessageStore`: two windows of seven days in seconds."""
TIMER_WHEEL_BYTES: Final = TIMER_WHEEL_SLOTS * timer.SLOT.sizeof()
CLOCK_SLACK_MS: Final = 10_000
"""A live broker goes on writing while the log is read."""
_CHECKPOINT: Final = checkpoint.FIELDS_FLAT
_TIMES: Final = ("physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp")
_OFFSETS: Final = ("master_flushed_offset", "confirm_phy_offset", "logics_physical_offset")
DELAY_FILE: Final = "delayOffset.json"
POSITION_FILES: Final = ("consumerOffset.json", DELAY_FILE)


def condition_of(store: StoreDirectory) -> Condition:
    """How the store was left."""
    return condition.condition_of(store.lock.path if store.lock is not None else None, store.abort is not None)


def check_strays(store: StoreDirectory, findings: Findings) -> None:
    """Links, pipes, unknown names."""
    for name, why in store.strays:
        findings.add("stray", name, NOWHERE, why)
    if store.stray_count > len(store.strays):
        findings.add("stray", ".", NOWHERE, "and more", store.stray_count - len(store.strays))


def read_checkpoint(store: StoreDirectory, findings: Findings) -> dict[str, int]:
    """Its fields by name; none when there is no checkpoint that can be read."""
    file = store.checkpoint
    if file is None:
        return {}
    try:
        fields = checkpoint_of(file)
    except CannotLook as reason:
        findings.add("file-unreadable", file.name, NOWHERE, str(reason))
        return {}
    if file.size != checkpoint.FILE_SIZE:
        findings.add("checkpoint-size", file.name, NOWHERE, f"{file.size} bytes")
    return fields


def check_checkpoint(
    file: StoreFile, fields: dict[str, int], last_timestamp: int, log_end: int, live: bool, findings: Findings
) -> None:
    """last_timestamp: store time of the log's last message, -1 when it has none."""
    slack = CLOCK_SLACK_MS if live else 0
    for name in (*_TIMES, *_OFFSETS):
        value = fields[name]
        if value < (-1 if name == "confirm_phy_offset" else 0):
            findings.add("checkpoint-wrong", file.name, _CHECKPOINT.at[name], f"{name} is {value}")
        elif name in _TIMES and last_timestamp >= 0 and value > last_timestamp + slack:
            text = f"{name} is {value}, the log's last message was stored at {last_timestamp}"
            findings.add("checkpoint-future", file.name, _CHECKPOINT.at[name], text)
        elif name in _OFFSETS and name != "master_flushed_offset" and value > log_end and not live:
            findings.add("checkpoint-future", file.name, _CHECKPOINT.at[name], f"{name} is {value}, the log ends at {log_end}")


def checkpoint_times(fields: dict[str, int]) -> list[int]:
    """When messages were stored, by the checkpoint; ms, ascending."""
    return sorted({fields[name] for name in _TIMES if fields.get(name, 0) > 0})


def checkpoint_notes(
    fields: dict[str, int], bounds: tuple[int, int], seen: set[int], begins: Callable[[int], bool], log: tuple[int, int]
) -> Iterator[str]:
    """What is odd and harmless: values between those of the log's ends that belong to no message.  Recovery begins before them.

    bounds: store times of the log's first and last message; seen: checkpoint times that messages have; begins: whether a unit or
    blank begins at a place; log: where it begins and ends.
    """
    for name in _TIMES:
        value = fields.get(name, 0)
        if 0 < bounds[0] <= value <= bounds[1] and value not in seen:
            yield f"checkpoint: {name} is {value}, at which no message of the log was stored"
    for name in _OFFSETS[1:]:  # how far the master has flushed is of another machine
        value = fields.get(name, 0)
        if log[0] <= value < log[1] and value > 0 and not begins(value):
            yield f"checkpoint: {name} is {value}, where no message of the log begins"


def check_config(store: StoreDirectory, findings: Findings) -> dict[str, Any]:
    """Every configuration file; the values of those that can be read, by name."""
    read: dict[str, Any] = {}
    why: dict[str, str] = {}
    for name, file in store.config.items():
        try:
            value = config_value(file)
            if isinstance(value, dict):
                read[name] = value
            else:
                why[name] = "not an object"
        except CannotLook as reason:
            why[name] = str(reason).removeprefix(f"{file.name}: ")
    for name, text in why.items():
        if name.endswith((".bak", ".tmp")):
            if name.removesuffix(".bak") not in read and name.removesuffix(".bak") not in why:
                findings.add("config-broken", store.config[name].name, NOWHERE, f"{text}; the file itself is missing")
        elif f"{name}.bak" in read:
            findings.add("config-backup", store.config[name].name, NOWHERE, text)
        else:
            findings.add("config-broken", store.config[name].name, NOWHERE, text)
    return read


def check_positions(config: dict[str, Any], ends: dict[tuple[str, int], int], findings: Findings) -> None:
    """ends: one past the last offset of each queue that there is."""
    for name in POSITION_FILES:
        table = config.get(name, {}).get("offsetTable")
        for place, offsets in table.items() if isinstance(table, dict) else ():
            if name == DELAY_FILE:
                # its queue n holds delay level n + 1, which is the key in the file
                topic, offsets = SCHEDULE_TOPIC, {str(int(place) - 1): offsets} if place.isdecimal() and len(place) < 6 else {}
            else:
                topic = place.partition("@")[0]
            for queue_id, offset in offsets.items() if isinstance(offsets, dict) else ():
                end = ends.get((topic, int(queue_id))) if queue_id.isdecimal() and len(queue_id) < 10 else None
                if end is not None and isinstance(offset, int) and offset > end:
                    text = f"{place} queue {queue_id}: {offset}, the queue ends with {end}"
                    findings.add("position-ahead", f"config/{name}", NOWHERE, text)


def timer_note(store: StoreDirectory) -> str | None:
    """That timer files are there, and how far they were looked at."""
    files = (store.timer_wheel, store.timer_check, *store.timer_log[:1])
    there = [file.name.removesuffix("/" + file.parts[-1]) if file in store.timer_log else file.name for file in files if file]
    return f"not checked: what is in the timer's files ({', '.join(there)})" if there else None


def check_timer(store: StoreDirectory, findings: Findings) -> None:
    """Sizes only: what is in the wheel is explained by `rmq inspect show`."""
    wheel = store.timer_wheel
    if wheel is not None and wheel.size not in (0, TIMER_WHEEL_BYTES):
        findings.add("timer-size", wheel.name, NOWHERE, f"{wheel.size} bytes instead of {TIMER_WHEEL_BYTES}")
    for file in odd_sizes(store.timer_log):
        findings.add("timer-size", file.name, NOWHERE, f"{file.size} bytes, unlike the others")


def odd_sizes(files: list[StoreFile]) -> list[StoreFile]:
    """Those whose size is not that of most."""
    size = usual_size(files)
    return [file for file in files if file.size != size]
