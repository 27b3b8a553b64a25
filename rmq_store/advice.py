"""Commands that errors offer, as they can be pasted into a shell."""

from __future__ import annotations

import shlex


def repair_command(store: str, *options: str) -> str:
    """`rmq inspect repair` of this directory."""
    return f"rmq inspect repair {shlex.quote(store)} {' '.join(options)}"
