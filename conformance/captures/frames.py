"""Files of bare frames: the golden frames `conformance/golden/*.bin`, each beside a text that lists them.

Frames stand one after the other, each states its own length.  Who said what stands in the text: one line a frame.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from conformance.captures.recorder import Frame
from conformance.frames import Cutter, glance

_ARROW: Final = re.compile(r" *(\d+) (\d+)(->|<-) ")
"""A line of the list: place in the file, connection, direction."""


def pick(frames: Iterable[Frame], *, per_kind: int = 2, bytes_max: int = 8_192) -> list[Frame]:
    """The first requests of each code and direction, and their answers by outcome: enough to know a format by.

    Longer frames than `bytes_max` are left out, whole exchanges with them.
    """
    seen: Counter[tuple[object, ...]] = Counter()
    asked: dict[tuple[int, bool, int], int] = {}
    chosen: list[Frame] = []
    for frame in frames:
        seems = glance(frame.data)
        if not seems.is_response:
            asked[frame.connection, frame.to_server, seems.opaque] = seems.code
            kind: tuple[object, ...] = (frame.to_server, seems.form, seems.code)
        else:
            question = asked.get((frame.connection, not frame.to_server, seems.opaque))
            kind = (frame.to_server, seems.form, question, seems.code)
        if len(frame.data) <= bytes_max and seen[kind] < per_kind:
            seen[kind] += 1
            chosen.append(frame)
    return chosen


def describe(frames: Iterable[Frame]) -> str:
    """One line per frame: place in the file, direction, form, code, number, length."""
    lines, at = [], 0
    for frame in frames:
        seems = glance(frame.data)
        arrow = f"{frame.connection}{'->' if frame.to_server else '<-'}"
        kind = "answer" if seems.is_response else "ask"
        form = ("JSON", "ROCKETMQ")[seems.form]
        lines.append(
            f"{at:>7} {arrow:<4} {form:<8} {kind:<6} code={seems.code:<6} opaque={seems.opaque:<5} bytes={len(frame.data)}"
        )
        at += len(frame.data)
    return "\n".join(lines) + "\n"


def save(path: Path, frames: Iterable[Frame], about: str) -> None:
    """Write the frames one after the other and, beside them, `about` and their list as text."""
    kept = list(frames)
    path.write_bytes(b"".join(frame.data for frame in kept))
    path.with_suffix(".txt").write_text(f"{about.rstrip()}\n\n{describe(kept)}", encoding="utf-8")


def load(path: Path) -> list[bytes]:
    """The frames of a saved file.  Raises `ValueError` when it is none."""
    cutter = Cutter()
    frames = cutter.feed(path.read_bytes())
    if cutter.lost or sum(map(len, frames)) != path.stat().st_size:
        raise ValueError(f"{path} is not a sequence of whole frames")
    return frames


def load_directed(path: Path) -> tuple[str, list[Frame]]:
    """What the text beside a file says about it, and the frames with connection and direction.

    Raises `ValueError` when the file is none or the text does not list its frames, `OSError` when one of them cannot be read.
    """
    about, _, listed = path.with_suffix(".txt").read_text(encoding="utf-8").partition("\n\n")
    arrows = [found for line in listed.splitlines() if (found := _ARROW.match(line))]
    frames = load(path)
    if len(arrows) != len(frames):
        raise ValueError(f"{path.with_suffix('.txt')} lists {len(arrows)} frames, the file has {len(frames)}")
    return about, [Frame(int(arrow[2]), arrow[3] == "->", data) for arrow, data in zip(arrows, frames, strict=True)]
