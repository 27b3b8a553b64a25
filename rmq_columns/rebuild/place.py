"""The directory in which queues are made anew: who may use it, and the last step, which makes them what is found there.

Each start works in a directory of its own below `unfinished`; what an earlier run made stays until the new queues are whole, and
then they change places.  A start after one that was killed takes over what that one had written, if it is to make the same: under
another name, so that no task of the other writes there any more.  A file says what the runs made: nothing else in the directory
is ever removed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from rmq_columns.errors import CannotRead
from rmq_columns.files.filesystem import SCHEME, absolute, lies_in, local_path, translated_writing
from rmq_columns.files.syncs import make_directories, sync_directory, sync_tree
from rmq_columns.read.stores import Store, store_around
from rmq_columns.rebuild.files import FIRST, SECOND, WHOLE, Target

UNFINISHED: Final = "unfinished"
MARK: Final = "rebuilt-queues.json"
"""Lies in a directory that this made.  complete: whether all that is named in `made` is there, whole.  run: the last start."""
TAKEN_OVER: Final = "another start took this directory over"
_OF: Final = "of"
"""Says what a start was to make."""
NOTES: Final = "notes"
"""Of tasks that have done their split."""
_NEW: Final = ".new"
_OLD: Final = "old"
_GONE: Final = ".gone"
_MARK_BYTES_MAX: Final = 1 << 20


def place_of(to: str) -> str:
    """The directory, from the root on.  Raises `CannotRead` for a URI that is none."""
    if local_path(to) is None:
        raise CannotRead(
            to,
            -1,
            "not a directory: units are written at their places in files, which an object store cannot; say `shuffle`, or name a"
            " disk that all executors share",
        )
    return absolute(to)


def check_place(to: str, stores: Iterable[Store]) -> None:
    """Raises `CannotRead` unless it is new, empty, or what an earlier run made; and where it lies in a store or around one."""
    for store in stores:
        for own in filter(None, (store.root, *store.logs)) if SCHEME not in store.uri else ():
            if lies_in(to, own) or lies_in(own, to):
                raise CannotRead(to, -1, f"must lie beside {own}, not within it or around it: a store is never written to")
    with translated_writing(to):
        names = os.listdir(to) if os.path.lexists(to) else []
    if MARK not in names:
        if names:
            raise CannotRead(to, -1, "is not empty, and nothing that an earlier run made")
        if (other := store_around(to)) is not None:
            raise CannotRead(to, -1, f"lies in the store {other}: a store is never written to")
    ours = {MARK, MARK + _NEW, UNFINISHED, *_marked(to)["made"]} if names else set()
    if strange := sorted(set(names) - ours):
        raise CannotRead(to, -1, f"holds {strange[0]}, which no earlier run made: name another directory, or move it away")


def is_broken_off(error: BaseException) -> bool:
    """Not by what the log or the disk is like, which will be the same next time."""
    return isinstance(error, KeyboardInterrupt)


@contextmanager
def making(
    to: str,
    run: str,
    targets: Sequence[Target],
    own: str = "",
    is_to_go_on: Callable[[BaseException], bool] = is_broken_off,
) -> Iterator[None]:
    """While tasks write.  What is unfinished when the block ends is removed, as is what starts before this one left.

    own: of what is to be made (`notes.print_of_tasks`): what a start with the same left is gone on with.  is_to_go_on: whether
    an error leaves it for the next start.  Raises `CannotRead`.
    """
    with translated_writing(to):
        make_directories(to)
        marked = _marked(to)
        _adopt(to, run, own)
        _discard(to, keep=run)
        _mark(to, {**marked, "run": run})
        for target in targets:
            for above in (*(target.of(part).above for part in (FIRST, SECOND, WHOLE)), os.path.join(target.work, NOTES)):
                os.makedirs(above, exist_ok=True)
        with open(os.path.join(to, UNFINISHED, run, _OF), "w", encoding="ascii") as file:
            file.write(own)
    try:
        yield
    except BaseException as error:
        with suppress(OSError):  # what went wrong first is what is reported
            if not is_to_go_on(error):
                _discard(to, run)
        raise
    with translated_writing(to):
        _discard(to, run)


def finish(to: str, run: str, targets: Sequence[Target]) -> None:
    """Put what was made in the place of what an earlier run made.  Raises `CannotRead`, also when another start took over."""
    with translated_writing(to):
        marked = _marked(to)
        if marked["run"] != run:
            raise CannotRead(to, -1, TAKEN_OVER)
        found: dict[str, str] = {}
        for target in targets:
            whole = target.of(WHOLE).above
            inside = os.path.relpath(target.root, to)
            trees = {inside: whole} if inside != os.curdir else {tree: os.path.join(whole, tree) for tree in os.listdir(whole)}
            found |= trees
            sync_tree(whole)  # nothing that is not on the disk takes the place of what was there
        _mark(to, {**marked, "complete": False, "made": sorted({*marked["made"], *found})})
        old = os.path.join(to, UNFINISHED, run, _OLD)
        os.makedirs(old)
        there = [name for name in marked["made"] if os.path.lexists(os.path.join(to, name))]
        pairs = [(os.path.join(to, name), os.path.join(old, name)) for name in there]
        try:
            _rename_all(pairs + [(source, os.path.join(to, name)) for name, source in found.items()])
        except OSError:
            _mark(to, marked)
            raise
        sync_directory(to)
        _mark(to, {"complete": True, "made": sorted(found), "run": run})


def _rename_all(pairs: Sequence[tuple[str, str]]) -> None:
    """All of them, or none."""
    done: list[tuple[str, str]] = []
    try:
        for source, target in pairs:
            os.rename(source, target)
            done.append((source, target))
    except OSError:
        for source, target in reversed(done):
            with suppress(OSError):
                os.rename(target, source)
        raise


def work_of(to: str, run: str, number: int) -> str:
    """Where the queues of a store are made."""
    return os.path.join(to, UNFINISHED, run, str(number))


def _marked(to: str) -> dict[str, Any]:
    """What the mark says.  Raises `CannotRead` for one that is none."""
    path = os.path.join(to, MARK)
    try:
        with open(path, "rb") as file:
            marked = json.loads(file.read(_MARK_BYTES_MAX))
    except FileNotFoundError:
        return {"complete": False, "made": [], "run": ""}
    except ValueError:
        marked = None
    made = marked.get("made") if isinstance(marked, dict) else None
    if not isinstance(made, list) or not all(isinstance(one, str) and one == os.path.basename(one) and one for one in made):
        raise CannotRead(path, -1, "does not say what an earlier run made: name another directory")
    return {"complete": bool(marked.get("complete")), "made": made, "run": str(marked.get("run"))}


def _mark(to: str, marked: dict[str, Any]) -> None:
    path = os.path.join(to, MARK)
    with open(path + _NEW, "w", encoding="utf-8") as file:
        json.dump(marked, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + _NEW, path)
    sync_directory(to)


def _adopt(to: str, run: str, own: str) -> None:
    """Take over what a start with the same plan left, unless it had begun to put queues together."""
    above = os.path.join(to, UNFINISHED)
    if not own or os.path.islink(above) or not os.path.isdir(above):
        return
    for name in sorted(os.listdir(above)):
        path = os.path.join(above, name)
        with suppress(OSError, ValueError):
            with open(os.path.join(path, _OF), encoding="ascii") as file:
                is_same = file.read() == own
            works = [entry.path for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
            if name.endswith(_GONE) or not is_same or any(os.listdir(os.path.join(work, WHOLE)) for work in works):
                continue
            os.rename(path, os.path.join(above, run))
            for work in works:
                shutil.rmtree(os.path.join(above, run, os.path.basename(work), SECOND))
            return


def _discard(to: str, run: str | None = None, keep: str | None = None) -> None:
    """Remove what one start left, or every one but `keep`.  It loses its name first: then no task of it can write there."""
    above = os.path.join(to, UNFINISHED)
    if os.path.islink(above) or not os.path.isdir(above):
        return
    for name in os.listdir(above) if run is None else (run,):
        path = os.path.join(above, name)
        if not os.path.lexists(path) or name == keep:
            continue
        gone = path if name.endswith(_GONE) else path + _GONE
        if gone != path:
            os.rename(path, gone)
        shutil.rmtree(gone) if os.path.isdir(gone) and not os.path.islink(gone) else os.unlink(gone)
    if not os.listdir(above):
        os.rmdir(above)
