"""The directory in which files of queues are put whole, on any file system: who is at work there, and whether all are there.

A file is put where it stays, and `rebuilt-queues.json` says last of all that they are all there.  What an earlier start has put
stays where it is what this one would put, byte for byte: all files of queues have one size, so that says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from functools import partial
from itertools import chain
from typing import Any

from rmq_columns.errors import CannotRead
from rmq_columns.export.destination import Destination, destination, nobody_asks
from rmq_columns.export.manifest import portions
from rmq_columns.export.sinks import PART
from rmq_columns.rebuild.place import MARK, TAKEN_OVER
from rmq_wire.store_names import BATCH_QUEUES, EXTENSIONS, QUEUES


def begin(to: str, run: str, roots: Collection[str]) -> bool:
    """This start is the one at work.  roots: of the stores, within the directory.  Returns whether files of queues are there.

    Raises `CannotRead`, `CannotWrite`.
    """
    there = destination(to)
    marked = _marked(there, to)
    strange = None if marked else next((name for name, _ in there.walk() if not _is_part_of_mark(name)), None)
    if strange is not None:
        raise CannotRead(to, -1, f"is not empty, and nothing that an earlier run made: {strange}")
    made = sorted({*marked.get("made", ()), *_tops(roots)})
    _mark(there, {"complete": False, "made": made, "run": run})
    found = [name for name, _ in there.walk() if _is_part_of_mark(name) or name.partition("/")[0] in made]
    there.remove([name for name in found if name.endswith(PART)])  # so no task of an earlier start names them
    return any(not name.endswith(PART) for name in found)


def checked(there: Destination, to: str, run: str) -> dict[str, Any]:
    """What the mark says.  Raises `CannotRead` where another start is at work."""
    marked = _marked(there, to)
    if marked.get("run") != run:
        raise CannotRead(to, -1, TAKEN_OVER)
    return marked


def end(to: str, run: str, written: Collection[str]) -> None:
    """All files are there: those that an earlier run made and this one did not go.  Raises `CannotRead`, `CannotWrite`."""
    there = destination(to)
    marked = checked(there, to, run)
    found = dict(chain.from_iterable(there.walk(name) for name in marked["made"]))
    if missing := next((name for name in written if name not in found), None):
        raise CannotRead(f"{to}/{missing}", -1, "not there, although a task wrote it")
    check = partial(checked, there, to, run)
    for some in portions(sorted(found.keys() - set(written))):
        check()  # what another start has put since is none of ours
        there.remove(some)
    made = sorted({name.partition("/")[0] for name in written})
    _mark(there, {"complete": True, "made": made, "run": run}, check)


def _tops(roots: Collection[str]) -> set[str]:
    return {root.partition("/")[0] for root in roots if root} or {QUEUES, BATCH_QUEUES, EXTENSIONS}


def _is_part_of_mark(name: str) -> bool:
    """Somebody died as he wrote the mark."""
    return name.startswith(f".{MARK}.") and name.endswith(PART)


def _marked(there: Destination, to: str) -> dict[str, Any]:
    raw = there.read(MARK)
    if raw is None:
        return {}
    try:
        marked = json.loads(raw)
    except ValueError:
        marked = None
    made = marked.get("made") if isinstance(marked, dict) else None
    if not isinstance(made, list) or not all(isinstance(one, str) and one and "/" not in one and one != ".." for one in made):
        raise CannotRead(f"{to}/{MARK}", -1, "does not say what an earlier run made: name another directory")
    return dict(marked)


def _mark(there: Destination, marked: dict[str, Any], check: Callable[[], object] = nobody_asks) -> None:
    there.put(MARK, (json.dumps(marked, indent=1) + "\n").encode(), check)
