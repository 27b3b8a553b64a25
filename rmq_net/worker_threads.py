"""Threads for what blocks in the kernel: one for each name, fed by a queue, heard through a wake-up.

`sync` flushes files, `read` reads cold bytes.  A thread runs `job.run` and nothing else; the loop picks up results with
`take_done` and calls `job.done` itself, so no state is ever shared.  A thread starts with its first job.
"""

from __future__ import annotations

import errno
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from rmq_net.service import Job

JOIN_S_MAX = 10.0
"""A stop waits so long for a disk that does not answer; the threads are daemons."""


class WorkerThreads:
    """`wake()` is called from a thread whenever a result is ready; it must be safe there."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._waking = threading.Lock()
        self._stopped = False
        self._queues: dict[str, SimpleQueue[Job | None]] = {}
        self._threads: list[threading.Thread] = []
        self._done: deque[tuple[Job, object, BaseException | None]] = deque()
        self.running = 0
        """Jobs handed over whose result has not been taken."""

    def start(self, job: Job) -> None:
        """Queue a job on its thread.  Where the system has no more threads it ends with an OSError, and has not begun."""
        self.running += 1
        queue = self._queues.get(job.thread)
        if queue is None:
            queue = SimpleQueue()
            thread = threading.Thread(target=self._work, args=(queue,), name=f"rmq-{job.thread}", daemon=True)
            try:
                thread.start()
            except RuntimeError as no:
                self._done.append((job, None, OSError(errno.ENFILE, f"no thread for it: {no}")))  # ENFILE: it may be tried again
                self._wake()
                return
            self._queues[job.thread] = queue
            self._threads.append(thread)
        queue.put(job)

    def finish(self) -> bool:
        """On the loop: call `done` of every job that has ended.  True when there was one."""
        ended = False
        while self._done:
            job, result, error = self._done.popleft()
            self.running -= 1
            ended = True
            job.done(result, error)
        return ended

    def stop(self) -> None:
        """End the threads after what is queued; waits for them, but not for ever.

        Nobody is woken once this returns: whoever is stuck in the kernel finds its descriptor closed then, or another's.
        """
        for queue in self._queues.values():
            queue.put(None)
        for thread in self._threads:
            thread.join(JOIN_S_MAX)
        with self._waking:
            self._stopped = True
        self._queues.clear()
        self._threads.clear()

    def _work(self, queue: SimpleQueue[Job | None]) -> None:
        while (job := queue.get()) is not None:
            try:
                outcome: tuple[Job, object, BaseException | None] = (job, job.run(), None)
            except BaseException as error:
                outcome = (job, None, error)
            self._done.append(outcome)
            with self._waking:
                if not self._stopped:
                    self._wake()
