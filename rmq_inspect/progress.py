"""How long work says how far it is: a function that is handed in and called often, so it must be cheap."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""(what is being done, done so far, of so many), in bytes or pieces; so many may grow while a live store does."""


def quiet(_what: str, _done: int, _of: int) -> None:
    """Reports to nobody."""
