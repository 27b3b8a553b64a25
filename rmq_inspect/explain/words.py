"""Parts of sentences about messages: places, times, offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rmq_inspect.decode.records import printable
from rmq_inspect.times import text_of

OFFSETS_SHOWN: Final = 20
"""Of one record."""


def listed(offsets: Sequence[int]) -> str:
    """The first of them, and how many more there are."""
    said = ", ".join(map(str, offsets[:OFFSETS_SHOWN]))
    return said + (f" and {len(offsets) - OFFSETS_SHOWN} more" if len(offsets) > OFFSETS_SHOWN else "")


def where(topic: str | None, queue_id: int | None) -> str:
    """A queue, as far as it is known."""
    return f"{printable(topic) if topic is not None else '(no topic)'} [{'?' if queue_id is None else queue_id}]"


def when(time_ms: int | None) -> str:
    """A wall time."""
    return "an unknown time" if time_ms is None else text_of(time_ms)
