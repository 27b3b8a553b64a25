"""Texts that an unknown peer might send wherever a text goes."""

from __future__ import annotations

import pytest

HOSTILE = {
    "newline": "a\nINFO forged line",
    "return": "a\rforged",
    "escape": "\x1b[31mred\x1b[2J",
    "bell": "\x07",
    "bidi": "\u202egnp.exe",
    "separator": "a\u2028b\u0085c",
    "markup": "[red]a[/red]",
    "html": "<script>alert(1)</script>",
    "formula": "=cmd|' /C calc'!A0",
    "format": "%s%n{0}{x.__class__}%(name)s",
    "surrogate": "\ud800",
    "long": "x" * 50_000,
}
hostile = pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
