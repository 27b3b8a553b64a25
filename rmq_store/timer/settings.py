"""What the timer is given, under the names of `MessageStoreConfig` 5.5.0."""

from __future__ import annotations

from msgspec import Struct

from rmq_store.settings import MEBIBYTE
from rmq_wire.implied.timers import PRECISION_MS, ROLL_WINDOW_SLOTS, WHEEL_SLOTS


class TimerSettings(Struct, frozen=True, kw_only=True):
    """Sizes and times of one store's timer."""

    store_path_root_dir: str
    mapped_file_size_timer_log: int = 100 * MEBIBYTE
    timer_precision_ms: int = PRECISION_MS
    timer_roll_window_slot: int = ROLL_WINDOW_SLOTS
    append_topic_for_timer_delete_key: bool = False
    wheel_slots: int = WHEEL_SLOTS
    """Ours, for tests: Java has 7 days of slots of a second; the file has twice as many."""
