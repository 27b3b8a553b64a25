"""Differences that are known and wanted: a TOML file beside captures, each entry with its reason.

[[difference]]
capture = "mqadmin*"          # name of the capture without .jsonl; "*" for all
asked = "GET_BROKER_CONFIG"   # name of the request code
path = "body.*"               # of the difference, with * and ? and [..]
reason = "why it is so"
"""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from conformance.captures.file import BadCapture
from conformance.captures.replay import Difference


class Allowed(NamedTuple):
    """One entry."""

    asked: str
    path: str
    reason: str
    capture: str = "*"

    def covers(self, difference: Difference) -> bool:
        """Whether this is the difference that is meant."""
        # Brackets are list places in a path, not sets of characters.
        path = self.path.replace("[", "[[]")
        return fnmatch.fnmatchcase(difference.asked, self.asked) and fnmatch.fnmatchcase(difference.finding.path, path)


class Sorted(NamedTuple):
    """Differences of one replay."""

    unexpected: list[Difference]
    expected: list[tuple[Difference, Allowed]]
    unused: list[Allowed]
    """Entries that are meant for this capture and that no difference was covered by."""


def read_allowed(path: Path) -> list[Allowed]:
    """The entries of a file.  Raises `BadCapture`."""
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as wrong:
        raise BadCapture(f"{path}: {wrong.strerror or wrong}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise BadCapture(f"{path}: {wrong}") from None
    try:
        entries = [Allowed(**entry) for entry in read.pop("difference", [])]
    except TypeError as wrong:
        raise BadCapture(f"{path}: a difference has asked, path, reason and capture: {wrong}") from None
    if read:
        raise BadCapture(f"{path}: nothing but [[difference]] may stand here: {', '.join(read)}")
    if not all(isinstance(text, str) and text for entry in entries for text in entry):
        raise BadCapture(f"{path}: asked, path, reason and capture are texts, none of them empty")
    return entries


def sort_out(differences: Iterable[Difference], allowed: Iterable[Allowed], capture: str) -> Sorted:
    """Which differences are covered.  `capture`: its name."""
    meant = [entry for entry in allowed if fnmatch.fnmatchcase(capture, entry.capture)]
    unexpected, expected = [], []
    for difference in differences:
        entry = next((entry for entry in meant if entry.covers(difference)), None)
        if entry is None:
            unexpected.append(difference)
        else:
            expected.append((difference, entry))
    used = {entry for _, entry in expected}
    return Sorted(unexpected, expected, [entry for entry in meant if entry not in used])
