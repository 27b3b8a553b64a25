"""The layouts of `rmq_wire` for people and programs: the same one text that is pinned in tests, cut into its fields."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any, Final

from rmq_wire.layout.table import table

MEANING_COLUMNS_MIN: Final = 24
_TITLE: Final = re.compile(r"== (.+) \((\w+) bytes\)")
_FIELD: Final = re.compile(r" *(\?|\d+) +(\?|\d+) (\S+) *(\S+)? *(.*)")


def sections() -> list[dict[str, Any]]:
    """`layout`, `bytes` (None: variable) and `fields`, each with byte, size (None: depends), type, name, meaning."""
    found: list[dict[str, Any]] = []
    for line in table().splitlines():
        if title := _TITLE.fullmatch(line):
            found.append({"layout": title[1], "bytes": _number(title[2]), "fields": []})
        elif field := _FIELD.fullmatch(line):
            byte, size, kind, name, meaning = field.groups()
            row = {"byte": _number(byte), "size": _number(size), "type": kind, "name": name or kind, "meaning": meaning}
            found[-1]["fields"].append(row)
    return found


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def text(chosen: Sequence[dict[str, Any]], width: int) -> str:
    """These sections as a table of so many columns; long meanings go on below themselves."""
    lines: list[str] = []
    for section in chosen:
        size = section["bytes"]
        lines.append(f"== {section['layout']} ({'variable' if size is None else size} bytes)")
        for field in section["fields"]:
            byte, room = _shown(field["byte"]), _shown(field["size"])
            lead = f"{byte:>5} {room:>4} {field['type']:<10} {field['name']:<28} "
            meaning = textwrap.wrap(field["meaning"], max(width - len(lead), MEANING_COLUMNS_MIN)) or [""]
            lines += [(lead + meaning[0]).rstrip(), *(" " * len(lead) + more for more in meaning[1:])]
        lines.append("")
    return "\n".join(lines)


def _shown(number: int | None) -> str:
    return "?" if number is None else str(number)
