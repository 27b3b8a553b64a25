"""Versions of the reference, and what is expected of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

Version = tuple[int, ...]
"""Of the reference: (5, 5, 0)."""
T = TypeVar("T")


def version_of(text: str) -> Version | None:
    """The first dotted or underscored number in a text: `apache/rocketmq:5.5.0`, `V5_3_3`, `java-4.9.7`; None without one."""
    found = re.search(r"(\d+)[._](\d+)[._](\d+)", text)
    return tuple(int(part) for part in found.groups()) if found else None


def dotted(version: Version) -> str:
    """(5, 5, 0) as `5.5.0`."""
    return ".".join(map(str, version))


def by_version(version: Version | None, expected: Mapping[str, T]) -> T:
    """What is expected of this version, from a table such as {"": 1, "4": 0, "5.3.3": 2}: the longest key that fits.

    A key fits when it is a prefix of the version in whole numbers ("5.3" fits 5.3.3, not 5.30); "" fits all and stands for the
    newest reference, which is also what a server of unknown version is held to.
    """
    words = [str(number) for number in version or ()]
    fitting = [key for key in expected if not key or words[: key.count(".") + 1] == key.split(".")]
    return expected[max(fitting, key=len)]
