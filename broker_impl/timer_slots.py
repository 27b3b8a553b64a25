"""Which slot of the timer's wheel a message may take now: what the intake asks.  (Java: `TimerMessageStore.isReject`)"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from broker_impl.config import BrokerConfig
from broker_impl.env import Env
from broker_impl.intake import NotTaken, PutStatus
from rmq_store.timer.settings import TimerSettings
from rmq_wire.implied import timers

_CHANCES: Final = 1_000
UNLIMITED: Final = (1 << 31) - 1
"""As a limit: a slot's count is a Java int."""


class Slotted(Protocol):
    """What is asked of the timer here."""

    settings: TimerSettings

    def count(self, slot_ms: int) -> int:
        """Messages in one slot."""


class SlotRule:
    """Of one broker; its timer's slots have so many messages at the most (`timerCongestNumEachSlot`)."""

    def __init__(self, env: Env, config: BrokerConfig, timer: Slotted) -> None:
        self._env = env
        self._config = config
        self._timer = timer

    def __call__(self, values: Mapping[str, str], now_ms: int) -> int | None:
        precision_ms, max_delay_s = self._timer.settings.timer_precision_ms, self._config.timer_max_delay_sec
        try:
            return self._checked(timers.slot_time(values, now_ms, precision_ms=precision_ms, max_delay_s=max_delay_s))
        except timers.IllegalTime as why:
            raise NotTaken(PutStatus.WHEEL_TIMER_MSG_ILLEGAL, why) from None

    def of_time(self, deliver_ms: int, now_ms: int) -> int | None:
        """The same of a message with TIMER_DELIVER_MS and no other time."""
        precision_ms, max_delay_s = self._timer.settings.timer_precision_ms, self._config.timer_max_delay_sec
        try:
            slot_ms = timers.slot_at(deliver_ms, now_ms, precision_ms=precision_ms, max_delay_s=max_delay_s)
            return slot_ms if self._config.timer_congest_num_each_slot >= UNLIMITED else self._checked(slot_ms)
        except timers.IllegalTime as why:
            raise NotTaken(PutStatus.WHEEL_TIMER_MSG_ILLEGAL, why) from None

    def _checked(self, slot_ms: int | None) -> int | None:
        """It has room."""
        limit = self._config.timer_congest_num_each_slot
        if slot_ms is not None and limit < UNLIMITED:
            count = self._timer.count(slot_ms)
            if count > limit and timers.is_rejected(count, limit, self._env.rng.randrange(_CHANCES)):
                raise NotTaken(PutStatus.WHEEL_TIMER_FLOW_CONTROL, f"{count} messages in slot {slot_ms}")
        return slot_ms
