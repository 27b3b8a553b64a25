"""Tables and texts as Markdown, for the pages that are made from declarations and results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import dropwhile
from typing import Final

_MARK: Final = re.compile(r"[*<\[\]]|(?<!\w)_|_(?!\w)")


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Its lines.  A head that begins with a colon is above numbers."""
    lines = [[head.removeprefix(":") for head in heads], ["---:" if head.startswith(":") else "---" for head in heads]]
    lines += ([_cell(str(cell)) for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def with_table(page: str, made: str) -> str:
    """A page with this table in the place of its own one of the same heads.  Raises `ValueError` when it has none."""
    heads = made.partition("\n")[0]
    before, found, after = page.partition(f"\n{heads}\n")
    if not found:
        raise ValueError(f"no table {heads}")
    rest = after.splitlines(keepends=True)
    return f"{before}\n{made}\n" + "".join(dropwhile(lambda line: line.startswith("|"), rest))


def escaped(text: str) -> str:
    """Of Markdown's marks, those that would be read as such outside of code."""
    parts = text.split("`")
    parts[::2] = [_MARK.sub(r"\\\g<0>", part) for part in parts[::2]]
    return "`".join(parts)
