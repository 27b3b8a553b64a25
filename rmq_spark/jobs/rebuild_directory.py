"""The directory in which files of queues are put whole, on any file system: who is at work there, and whether all are there.

A file is put where it stays, and `rebuilt-queues.json` says last of all that they are all there.  Until then it also says of
which queues they are, and whether nothing was there before them: then a start after one that failed leaves the files that are
there alone.  (All files of queues have one size, so what is in one of an earlier run nobody could tell.)
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any

from rmq_columns.errors import CannotRead
from rmq_columns.export.destination import Destination, destination
from rmq_columns.export.sinks import PART
from rmq_columns.rebuild.place import MARK, TAKEN_OVER
from rmq_wire.store_names import BATCH_QUEUES, EXTENSIONS, QUEUES


def begin(to: str, run: str, roots: Collection[str]) -> None:
    """This start is the one at work.  roots: of the stores, within the directory.  Raises `CannotRead`, `CannotWrite`."""
    there = destination(to)
    marked = _marked(there, to)
    if not marked and (strange := next(there.walk(), None)) is not None:
        raise CannotRead(to, -1, f"is not empty, and nothing that an earlier run made: {strange[0]}")
    made = sorted({*marked.get("made", ()), *_tops(roots)})
    stays = () if marked.get("complete") else ("print", "wasEmpty")
    kept = {name: marked[name] for name in stays if name in marked}
    _mark(there, {"complete": False, "made": made, "run": run, **kept})
    there.remove([name for name in _files(there, made) if name.endswith(PART)])  # so no task of an earlier start names them


def resumed(to: str, run: str, own: str) -> bool:
    """Whether an earlier start began to write the same files, and no others: those that are there stay.

    own: `pieces.print_of` them.
    """
    there = destination(to)
    marked = checked(there, to, run)
    if marked.get("print") == own:
        return bool(marked.get("wasEmpty"))
    was_empty = next(_files(there, marked["made"]), None) is None
    _mark(there, {**marked, "print": own, "wasEmpty": was_empty})
    return False


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
    there.remove(sorted(found.keys() - set(written)))
    checked(there, to, run)
    made = sorted({name.partition("/")[0] for name in written})
    _mark(there, {"complete": True, "made": made, "run": run})


def _tops(roots: Collection[str]) -> set[str]:
    return {root.partition("/")[0] for root in roots if root} or {QUEUES, BATCH_QUEUES, EXTENSIONS}


def _files(there: Destination, tops: Iterable[str]) -> Iterator[str]:
    return (name for top in tops for name, _ in there.walk(top))


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


def _mark(there: Destination, marked: dict[str, Any]) -> None:
    there.put(MARK, (json.dumps(marked, indent=1) + "\n").encode())
