"""Counting what is under way, for who must wait until nothing is."""

from __future__ import annotations

from dataclasses import dataclass, field

import trio


@dataclass(slots=True)
class Working:
    """A block counts for as long as it lasts; `count` blocks do now."""

    count: int = 0
    idle: trio.Event = field(default_factory=trio.Event)

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1
        if not self.count:
            self.idle.set()

    async def until_idle(self) -> None:
        """Nobody is at work any more."""
        while self.count:
            self.idle = trio.Event()
            await self.idle.wait()
