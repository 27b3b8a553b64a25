"""Each invariant that fences a store is a row of docs/durability.md, and a test says its name; and no other row is there."""

from __future__ import annotations

import re

from tests.tidy.trees import ROOT, product

RAISED = re.compile(r'InvariantBroken\(\s*"([^"]+)"')
ROW = re.compile(r"^\| [^|]+ \| ([a-z][^|]+) \|$", re.MULTILINE)


def test_every_invariant_is_documented_and_provoked() -> None:
    raised = {text for module in product() for text in RAISED.findall((ROOT / module.place).read_text(encoding="utf-8"))}
    page = (ROOT / "docs" / "durability.md").read_text(encoding="utf-8")
    section = page.partition("\n## Invariants\n")[2].partition("\n## ")[0]
    assert set(ROW.findall(section)) - {"the invariant"} == raised
    rooms = (ROOT / "tests" / room for room in ("store", "broker"))
    tests = "".join(path.read_text(encoding="utf-8") for room in rooms for path in room.glob("test_*.py"))
    assert [text for text in sorted(raised) if text not in tests] == []
