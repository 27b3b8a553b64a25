"""Deleting what has outlived its time: log files first, then the queue and index files that only spoke of them.

One look every `clean_resource_interval`.  In an hour of `delete_when`, when the disk is short of space, or when somebody asked
for it, the oldest log files go: those past `file_reserved_time`, or any when space is very short.  Never the file that is written
to, never one that is not flushed, in queues too, `delete_file_batch_max` of them in one look.  Then minimum offsets follow.

A file that cannot be removed holds up those behind it in its row (the log, one queue, the index), and no other row.

A look is a generator that yields what has to be done in a thread (`Removal`, or a cold read) and how long to wait.  A file is
first forgotten here, so that nobody opens it anew, and unlinked then; views of it that are on their way to a socket stay valid,
and its space is free when the last of them is gone.
(Java: CleanCommitLogService, CleanConsumeQueueService, IndexService.deleteExpiredFile)
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, TypeAlias

from rmq_store.disk.disk import Disk
from rmq_store.disk.segments import NO_DESCRIPTOR, Segments
from rmq_store.disk_space import DiskSpace
from rmq_store.dispatcher import Dispatcher
from rmq_store.errors import Cold, StoreError
from rmq_store.flush import Flusher
from rmq_store.index.index import Index
from rmq_store.layouts import QUEUE_UNIT
from rmq_store.log.commit_log import CommitLog
from rmq_store.log.reader import LogReader
from rmq_store.log.writability import Writability
from rmq_store.queues.consume_queue import ConsumeQueue
from rmq_store.queues.extended_queue import ExtendedConsumeQueue
from rmq_store.queues.queues import Queues
from rmq_store.queues.search import first_kept
from rmq_wire.times import Zone, local_hour

FIRST_LOOK_MS: Final = 60_000
"""After the start (Java: addScheduleTask)."""
MANUAL_LOOKS: Final = 20
"""Looks that delete after a request to (Java: MAX_MANUAL_DELETE_FILE_TIMES)."""
HOUR_MS: Final = 3_600_000
JUMP_MS_MAX: Final = HOUR_MS
"""A wall clock that moved further than this beside the monotonic one is not believed at first sight."""
QUEUES_AT_ONCE: Final = 16
"""Queues whose minimum is corrected without a pause."""
PAUSE_MS: Final = 1


class Removal:
    """Files to unlink, oldest first, which nobody uses any more but those who still hold a view.

    Each is safely gone before the next: a gap between files, after a power cut or a failure, would be the end of the log.
    `row`: what they are the oldest files of; `queue`: whose they are, if a queue's.
    """

    def __init__(
        self, disk: Disk, paths: list[str], row: Segments | Index, held: object = None, queue: ConsumeQueue | None = None
    ) -> None:
        self._disk = disk
        self.paths = paths
        self.row = row
        self.queue = queue
        self._held = held
        self.failed: list[tuple[str, OSError]] = []
        """what could not be removed, and why: the first that failed, and those behind it"""
        self.since_ms = 0
        """when it failed"""

    def run(self) -> None:
        """In a thread. Raises OSError when a directory cannot be synced, unless it could not even be opened."""
        for number, path in enumerate(self.paths):
            if self.is_off:
                break
            try:
                self._disk.unlink(path)
            except FileNotFoundError:
                pass
            except OSError as reason:
                self.failed = [(left, reason) for left in self.paths[number:]]
                break
            try:
                self._disk.sync_directory(path.rpartition("/")[0])
            except FileNotFoundError:
                pass  # its topic was deleted meanwhile
            except OSError as reason:
                if reason.errno not in NO_DESCRIPTOR:
                    raise
                self.failed = [(left, reason) for left in self.paths[number:]]  # this one again, too: for its directory
                break
        self._held = None  # unmapping and closing take time, too

    @property
    def is_off(self) -> bool:
        """The queue was deleted: who deletes it removes these files as well, and new ones may soon have their names."""
        return self.queue is not None and self.queue.is_deleted

    def is_due(self, mono_ms: int, interval: int) -> bool:
        """Whether to try again what failed. What lacked no more than a descriptor is not left to hang."""
        return self.failed[0][1].errno in NO_DESCRIPTOR or mono_ms - self.since_ms >= interval

    def again(self) -> Removal:
        """What failed."""
        return Removal(self._disk, [path for path, _ in self.failed], self.row, queue=self.queue)


Chore: TypeAlias = Removal | Cold
Steps: TypeAlias = Generator[Chore | int, None, None]
"""What to do in a thread, or how many ms to wait."""


class Retention:
    """`begin` when `next_due` has come; run what it returns in a thread; `end` it on the loop."""

    def __init__(
        self,
        disk: Disk,
        space: DiskSpace,
        log: CommitLog,
        queues: Queues,
        index: Index | None,
        reader: LogReader,
        flusher: Flusher,
        dispatcher: Dispatcher,
        writability: Writability,
        zone: Zone,
    ) -> None:
        self._disk = disk
        self._space = space
        self._log = log
        self._queues = queues
        self._index = index
        self._reader = reader
        self._flusher = flusher
        self._dispatcher = dispatcher
        self._writability = writability
        self._zone = zone
        self._steps: Steps | None = None
        self._out = False
        self._due_ms: int | None = None
        self._next_look_ms = 0
        self._mono_ms = 0
        self._wall_ms = 0
        self._last_look: tuple[int, int] | None = None
        self._manual_looks = 0
        self.followed = log.min_offset
        """log position that the queues' minimums agree with, and their files"""
        self._follows_again = False
        """whether a queue file was left that the next look may remove"""
        self._hanging: dict[Segments | Index, Removal] = {}
        """by row, files that could not be removed; nothing more of the row is removed until they are"""
        self._error: BaseException | None = None
        """why what was to be read could not be; the look hears of it"""
        self.removed_files = 0

    # --- driving

    def delete_now(self) -> None:
        """The next looks delete expired log files at any hour (Java: executeDeleteFilesManually)."""
        self._manual_looks = MANUAL_LOOKS

    def next_due(self, mono_ms: int) -> int:
        """When `begin` has something to do, mono ms."""
        if self._due_ms is None:
            self._due_ms = mono_ms + FIRST_LOOK_MS
        return self._due_ms

    def begin(self, mono_ms: int, wall_ms: int) -> Chore | None:
        """The next thing to run in a thread; None when there is none before `next_due`. One is out at a time."""
        if self._out or mono_ms < self.next_due(mono_ms):
            return None
        interval = self._space.rules.clean_resource_interval
        if self._writability.is_over:
            self._steps, self._due_ms = None, mono_ms + interval
            return None
        self._mono_ms, self._wall_ms = mono_ms, wall_ms
        if self._steps is None:
            self._steps, self._error = self._look(), None
            self._next_look_ms = mono_ms + interval
        self._due_ms = max(self._next_look_ms, mono_ms)
        error, self._error = self._error, None
        try:
            step = next(self._steps) if error is None else self._steps.throw(error)
        except StopIteration:
            self._steps = None
            return None
        except BaseException as raised:
            self._steps = None
            if raised is not error:
                raise
            self._due_ms = mono_ms + interval
            return None
        if isinstance(step, int):
            self._due_ms = mono_ms + step
            return None
        self._out = True
        if isinstance(step, Removal) and step.queue is not None:
            self._queues.losing_files = step.queue.topic, step.queue.queue_id
        return step

    def end(self, chore: Chore, error: BaseException | None, mono_ms: int) -> None:
        """It was run. An error of a directory's sync fences the store as any error of a sync."""
        self._out = False
        self._due_ms = mono_ms
        if not isinstance(chore, Removal):
            self._error = error
            return
        self._queues.losing_files = None
        if chore.failed and not chore.is_off:
            chore.since_ms = mono_ms
            self._hanging[chore.row] = chore
        if chore.queue is not None and not chore.is_off and error is None:
            gone = {*chore.paths} - {path for path, _ in chore.failed}
            chore.queue.forgotten = tuple([path for path in chore.queue.forgotten if path not in gone])
        if error is not None:
            self._writability.sync_failed(error)

    # --- one look

    def _look(self) -> Steps:
        yield from self._make_room()
        log_min = -1
        while log_min < self._log.min_offset:  # it may rise meanwhile
            log_min = self._log.min_offset
            yield from self._follow_log(log_min)

    def _make_room(self) -> Steps:
        """What cannot wait until thousands of queues are through (Java: CleanCommitLogService, on a thread of its own)."""
        space = self._space
        space.look()
        yield from self._try_again()
        jumped = self._clock_jumped()
        is_time = local_hour(self._wall_ms, self._zone) in space.rules.delete_when
        if is_time or space.deletes_expired or self._manual_looks:
            self._manual_looks = max(self._manual_looks - 1, 0)
            yield from self._delete_log_files(believes_clock=not jumped)

    def _clock_jumped(self) -> bool:
        """Whether the wall clock did not go as the monotonic one since the last look."""
        before, self._last_look = self._last_look, (self._mono_ms, self._wall_ms)
        if before is None:
            return False
        return abs((self._wall_ms - before[1]) - (self._mono_ms - before[0])) > JUMP_MS_MAX

    def _try_again(self) -> Steps:
        for row, removal in list(self._hanging.items()):
            if not (removal.is_off or removal.is_due(self._mono_ms, self._space.rules.redelete_hanged_file_interval)):
                continue
            del self._hanging[row]
            self._follows_again = True  # behind them there may be more to remove by now
            if not removal.is_off:
                yield removal.again()

    # --- the log

    def _delete_log_files(self, believes_clock: bool) -> Steps:
        rules = self._space.rules
        log = self._log.segments
        at_once = self._space.deletes_any
        for _ in range(rules.delete_file_batch_max):
            start = self._oldest()
            if start is None or log in self._hanging or not (at_once or (believes_clock and self._has_expired(start))):
                return
            view = self._reader.forget_file(start)
            yield Removal(self._disk, [self._forget(log, start)], log, view)
            yield rules.delete_commit_log_files_interval

    def _oldest(self) -> int | None:
        """The first log file, if it may be deleted at all."""
        log = self._log
        if not log.segments.starts:
            return None
        start = log.segments.starts[0]
        end = start + log.segments.file_bytes
        flusher = self._flusher
        if end >= log.written_offset or end > flusher.flushed_offset or end > self._dispatcher.dispatched_offset:
            return None
        return start if flusher.has_safe_queues(end) else None

    def _has_expired(self, start: int) -> bool:
        try:
            changed_ms = self._disk.modified_ms(self._log.segments.path(start))
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return changed_ms + self._space.rules.file_reserved_time * HOUR_MS <= self._wall_ms

    def _forget(self, segments: Segments, start: int) -> str:
        """From here on nobody here finds the file. Its path."""
        path = segments.path(start)
        segments.files.forget(path)
        segments.starts.remove(start)
        self.removed_files += 1
        return path

    # --- queues and index

    def _follow_log(self, log_min: int) -> Steps:
        """Minimum offsets, queue files and index files after the log's new beginning."""
        yield from self._follow_with_index(log_min)
        if log_min <= self.followed and not self._follows_again:
            return
        rules = self._space.rules
        self._follows_again = False
        number = 0
        for topic in self._queues.topics():
            was_unopened = topic in self._queues.unopened
            for queue in self._queues.of_topic(topic):
                if self._mono_ms >= self._next_look_ms:
                    self._next_look_ms = self._mono_ms + rules.clean_resource_interval
                    yield from self._make_room()
                try:
                    removal = yield from self._follow(queue, log_min)
                except (OSError, StoreError):  # it cannot be read now: the others follow, and the next look tries again
                    removal, self._follows_again = None, True
                number += 1
                if removal is not None:
                    yield removal
                    yield rules.delete_consume_queue_files_interval
                elif number % QUEUES_AT_ONCE == 0:
                    yield PAUSE_MS
            if was_unopened:
                self._queues.put_back(topic)
        if not self._follows_again:
            self.followed = log_min

    def _follow(self, queue: ConsumeQueue, log_min: int) -> Generator[Chore | int, None, Removal | None]:
        """Correct one queue's minimum (Java: ConsumeQueue.correctMinOffset); its files that are wholly below, or None."""
        while not queue.is_deleted:  # it may be, after any wait
            try:
                first = first_kept(queue, log_min)
                break
            except Cold as cold:
                yield cold
            except FileNotFoundError:
                return None  # somebody else removed a file
        else:
            return None
        queue.min_offset = max(queue.min_offset, first)
        if isinstance(queue, ExtendedConsumeQueue):
            yield from self._follow_with_extensions(queue)
        segments = queue.segments
        below = [start for start in segments.starts[:-1] if queue.offset_behind_file(start) <= queue.min_offset]
        if not below or segments in self._hanging:
            return None
        if not (yield from self._is_flushed(queue, segments.starts[len(below)])):
            self._follows_again = True
            below.pop()
        if not below or queue.is_deleted:
            return None
        return self._removal(queue, segments, below)

    def _removal(self, queue: ConsumeQueue, segments: Segments, below: list[int]) -> Removal:
        paths = [self._forget(segments, start) for start in below]
        queue.forgotten += tuple(paths)
        return Removal(self._disk, paths, segments, queue=queue)

    def _is_flushed(self, queue: ConsumeQueue, start: int) -> Generator[Chore | int, None, bool]:
        """Whether the log has the first message of this queue file on the medium, so that the file can be made anew.

        A queue that loses its last units to a power cut, when retention has taken all before them, does not know its offsets.
        """
        while True:
            try:
                physical, *_ = QUEUE_UNIT.unpack(queue.read_bytes(start, 0, QUEUE_UNIT.size))
            except Cold as cold:
                yield cold
            except FileNotFoundError:
                return False
            else:
                return bool(physical < self._flusher.flushed_offset)

    def _follow_with_extensions(self, queue: ExtendedConsumeQueue) -> Steps:
        """Java: ConsumeQueueExt.truncateByMinAddress."""
        while True:
            try:
                below = queue.ext_files_below_min()
                break
            except Cold as cold:
                yield cold
            except FileNotFoundError:
                return
        if below and not queue.is_deleted and queue.ext not in self._hanging:
            yield self._removal(queue, queue.ext, below)

    def _follow_with_index(self, log_min: int) -> Steps:
        index = self._index
        if index is None or index in self._hanging:
            return
        gone: list[str] = []
        busy = [*index.retiring, *index.retired]
        held: list[Any] = []
        while len(index.files) > 1 and index.files[0].end_physical < log_min and index.files[0] not in busy:
            file = index.files.pop(0)
            held.append((file, self._log.segments.files.forget(file.path)))
            gone.append(file.path)
            self.removed_files += 1
        if gone:
            yield Removal(self._disk, gone, index, held)
