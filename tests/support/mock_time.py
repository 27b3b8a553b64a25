"""Time on trio's mock clock."""

from __future__ import annotations

import trio


async def pass_time(seconds: float) -> None:
    """On the mock clock, which jumps as soon as nobody has anything to do."""
    with trio.move_on_after(seconds):
        await trio.Event().wait()
