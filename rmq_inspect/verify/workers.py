"""The same work on many items, in processes of their own: one a core, ended at once when nobody wants the answers any more.

What is the same for all items goes to each process once.  Answers come in whatever order; at most two items per process are under
way, so that a long list costs no memory.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

from rmq_inspect.errors import CannotLook

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_shared: tuple[Any, ...] = ()
"""In a worker: what is the same for all tasks; sent once, not with each."""


def _begin(more: tuple[Any, ...]) -> None:
    global _shared
    _shared = more
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # by this; the handler that was forked with us would only unwind


def _do(work: Callable[..., Answer], item: Any) -> Answer:
    return work(item, *_shared)


def each(
    work: Callable[..., Answer], items: Sequence[Item], more: tuple[Any, ...], workers: int
) -> Iterator[tuple[Item, Answer]]:
    """(item, work(item, *more)) in whatever order; in processes when there are more workers than one."""
    if workers <= 1:
        for item in items:
            yield item, work(item, *more)
        return
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, initializer=_begin, initargs=(more,))
    is_done = False
    try:
        waiting: dict[Future[Answer], Item] = {}
        rest = iter(items)
        while True:
            for item in islice(rest, 2 * workers - len(waiting)):
                waiting[pool.submit(_do, work, item)] = item
            if not waiting:
                is_done = True
                return
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield waiting.pop(future), future.result()
    except BrokenProcessPool as reason:
        raise CannotLook("a process that checked files was ended from outside (memory?): try --workers 1") from reason
    finally:
        if not is_done:  # interrupted: nobody wants to wait for the files that are being read
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
