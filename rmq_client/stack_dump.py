"""Where every thread and every task of the process is: what `mqadmin consumerStatus -s` shows, as `jstack` does for Java.

An async listener that hangs is in no thread's stack, so trio's tasks are listed too.  Call it in trio.
Source: `UtilAll.jstack`.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Final

import trio

TASKS_MAX: Final = 500
"""A dump is made on the loop, and a thousand messages that wait for listeners are as many tasks: some hundred say enough."""


def stack_dump() -> str:
    """A paragraph for each thread and task, innermost call first."""
    names = {thread.ident: thread for thread in threading.enumerate()}
    paragraphs = []
    for ident, frame in sys._current_frames().items():  # the one way to see other threads
        thread = names.get(ident)
        name = thread.name if thread is not None else "?"
        state = " daemon" if thread is not None and thread.daemon else ""
        stack = [(one, one.f_lineno) for one in _outwards(frame)]
        paragraphs.append(_paragraph(f"{name:<40}TID: {ident} THREAD{state}", stack))
    count = 0
    for task in _tasks():
        count += 1
        if count <= TASKS_MAX:
            stack = list(task.iter_await_frames())[::-1]
            paragraphs.append(_paragraph(f"{task.name:<40}TID: {id(task):x} TASK", stack))
    if count > TASKS_MAX:
        paragraphs.append(f"and {count - TASKS_MAX} tasks more\n")
    return "\n".join(paragraphs)


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _tasks() -> Iterator[trio.lowlevel.Task]:
    root = trio.lowlevel.current_root_task()
    waiting = [] if root is None else [root]
    while waiting:
        task = waiting.pop()
        yield task
        for nursery in task.child_nurseries:
            waiting.extend(nursery.child_tasks)


def _paragraph(title: str, stack: Iterable[tuple[FrameType, int]]) -> str:
    lines = [f"{title}\n"]
    for one in traceback.StackSummary.extract(iter(stack), lookup_lines=False):
        lines.append(f"    {one.name} ({one.filename}:{one.lineno})\n")
    return "".join(lines)
