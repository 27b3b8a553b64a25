"""Marks in units by which checks know them: what a repair filled in."""

from __future__ import annotations

from typing import Final

FILLER_TOPIC: Final = "RMQ_INSPECT_REPAIR_FILLER"
"""Of the units of a repair; short ones have a beginning of it."""
