"""Bugs to plant into delayed messages."""

from __future__ import annotations

import pytest

from broker_impl.state.delay_offsets import DelayOffsets


def progress_is_not_clamped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DelayOffsets, "clamp", lambda *_: None)
    patch.setattr("broker_impl.capabilities.schedule.min", max, raising=False)
