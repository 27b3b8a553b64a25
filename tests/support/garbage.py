"""Tests look for garbage seldom: most of what they make is gone by itself, and the looking is a tenth of their CPU."""

from __future__ import annotations

import gc

YOUNG = 50_000
"""Objects after which it looks, where Python does after 700."""


def collect_seldom() -> None:
    """To be called when all modules are there: those stay, and are not looked at again."""
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
