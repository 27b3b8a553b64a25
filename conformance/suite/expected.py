"""What is expected to fail, by subject: `conformance/suite/expected/<label>.toml`, each failure with its reason.

    [[failures]]
    cases = ["pop.*", "timer.at-a-time"]
    reason = "POP is not there yet"
    see = "docs/differences.md#limits-and-administration"

`cases` are ids or patterns as file names are matched.  Every case that fits must fail: one that passes is as much a surprise as
one that fails unexpectedly.  A subject from Docker is the same server as the one from jars, and shares its file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from conformance.suite.results import FAILED, CaseResult

DIRECTORY: Final = Path(__file__).with_name("expected")
ROOT: Final = Path(__file__).parents[2]
"""Where the paths in `see` begin."""
REFERENCE: Final = "java-"
"""How the labels of the reference begin; its version follows."""
_SAME_AS: Final = {"docker-": REFERENCE, "compose-": REFERENCE}
_TABLE: Final = "failures"
_KEYS: Final = {"cases", "reason", "see"}


class BadExpectations(Exception):
    """A file of expectations cannot be used; one line."""


class Expectation(NamedTuple):
    """One entry of a file."""

    cases: tuple[str, ...]
    reason: str
    see: str


def label_for(label: str) -> str:
    """The name of the file that holds for a subject."""
    for prefix, stands_for in _SAME_AS.items():
        if label.startswith(prefix):
            return stands_for + label.removeprefix(prefix)
    return label


def is_label(label: str, directory: Path = DIRECTORY) -> bool:
    """Whether there is such a subject: one with a file, or a version of the reference, of which no failure is expected."""
    stands_for = label_for(label)
    return stands_for.startswith(REFERENCE) or (directory / f"{stands_for}.toml").exists()


def load(label: str, directory: Path = DIRECTORY) -> list[Expectation]:
    """The expectations of a subject; none when it has no file.  Raises `BadExpectations`."""
    path = directory / f"{label_for(label)}.toml"
    if not path.exists():
        return []
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadExpectations(f"{path}: {error}") from None
    entries = read.pop(_TABLE, [])
    if read or not isinstance(entries, list):
        raise BadExpectations(f"{path}: holds {', '.join(read) or _TABLE}; a list [[{_TABLE}]] is wanted")
    return [_entry(path, entry) for entry in entries]


def _entry(path: Path, entry: Mapping[str, Any]) -> Expectation:
    cases, reason, see = entry.get("cases"), entry.get("reason"), entry.get("see", "")
    named = isinstance(cases, list) and cases and all(isinstance(case, str) for case in cases)
    if not named or not isinstance(reason, str) or not reason or not isinstance(see, str) or set(entry) - _KEYS:
        raise BadExpectations(f"{path}: an entry wants cases, reason and may have see: {dict(entry)}")
    assert isinstance(cases, list)
    return Expectation(tuple(cases), reason, see)


def apply(cases: Iterable[CaseResult], expectations: Iterable[Expectation]) -> None:
    """Write into each case what is expected of it."""
    known = list(expectations)
    for case in cases:
        for expectation in known:
            if any(fnmatchcase(case.id, pattern) for pattern in expectation.cases):
                case.expected, case.reason, case.see = FAILED, expectation.reason, expectation.see
                break


def unused(expectations: Iterable[Expectation], ids: Iterable[str]) -> list[str]:
    """Patterns that fit no case."""
    known = list(ids)
    patterns = [pattern for expectation in expectations for pattern in expectation.cases]
    return [pattern for pattern in patterns if not any(fnmatchcase(id, pattern) for id in known)]


def anchors(document: str) -> set[str]:
    """The anchors that a Markdown document's headings and `<a id="...">` marks make, as GitHub does."""
    made = set(re.findall(r'<a (?:id|name)="([^"]+)"', document))
    for heading in re.findall(r"^#+ +(.*)$", document, re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.lower().strip())
        made.add(words.replace(" ", "-"))
    return made


def broken_links(expectations: Iterable[Expectation], root: Path = ROOT) -> list[str]:
    """The `see` entries that lead nowhere."""
    broken = []
    for see in {expectation.see for expectation in expectations if expectation.see}:
        path, _, anchor = see.partition("#")
        there = root / path
        if not there.is_file() or (anchor and anchor not in anchors(there.read_text(encoding="utf-8"))):
            broken.append(see)
    return sorted(broken)
