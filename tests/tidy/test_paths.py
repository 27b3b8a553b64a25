"""Every path of this repository that a page names is there: whoever follows it finds the file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.tidy.trees import ROOMS, ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
PATH = re.compile(rf"(?<![\w./%-])(?:{'|'.join(ROOMS)})/[\w./*-]*\w/?")


def missing(text: str) -> Iterator[str]:
    """Paths that begin with a room's name and lead nowhere; `*` stands for any name."""
    for path in PATH.findall(text):
        if not any(ROOT.glob(path.rstrip("/"))):
            yield path


def test_paths_lead_somewhere() -> None:
    assert [(page.name, path) for page in PAGES for path in missing(page.read_text(encoding="utf-8"))] == []


def test_they_are_seen() -> None:
    text = (
        "see `rmq_store/nowhere.py`, rmq_store/store.py and `rmq_wire/layout/`, [x](conformance/no/such.toml). tests/*/test_x.py"
    )
    assert list(missing(text)) == ["rmq_store/nowhere.py", "conformance/no/such.toml", "tests/*/test_x.py"]
