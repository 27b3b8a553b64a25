"""What RocketMQ's published jars say about themselves: codes, header fields, configuration defaults, who answers what.

`python -m conformance.truth` extracts it (`extract.py`) into one JSON file per version beside this module; the files are
committed, so that tests and tools need no Java.  `load` reads one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
VERSIONS: Final = ("5.5.0", "5.3.3", "4.9.8")
"""The reference, the one before, and the newest 4.x client (whose store and server classes are 4.9.7's)."""
BODIES: Final = "bodies"
"""How the reference's own classes read JSON bodies that are spelled otherwise than Java spells them."""
REFUSED: Final = "!"
"""What became of a body that Java refuses: in `BODIES`, and there alone."""


def load(name: str = "5.5.0") -> dict[str, Any]:
    """The extracted truth of one of `VERSIONS`, or `BODIES`."""
    with open(HERE / f"{name}.json", encoding="utf-8") as file:
        truth: dict[str, Any] = json.load(file)
    return truth
