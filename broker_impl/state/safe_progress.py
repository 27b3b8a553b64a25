"""Progress that rests on what is in the log: the file gets it when the disk has the log up to there.

In memory a group's progress moves at once.  In the file it moves when the check point of what it passes over is on the disk too:
else a power cut would keep the progress and lose the check point, and the messages with it.  So a crash hands out again, and
loses nothing.  What is safe already is not here.

Java has nothing like it: `ConsumerOffsetManager` saves whatever it has in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from broker_impl.engine.slices import ROWS_PER_SLICE


class _Steps:
    """Of one queue: what the file may say now, and (end in the log, progress) of what comes; both numbers only grow."""

    __slots__ = ("coming", "safe")

    def __init__(self, safe: int) -> None:
        self.safe = safe
        self.coming: deque[tuple[int, int]] = deque()

    def settle(self, flushed: int) -> bool:
        moved = False
        while self.coming and self.coming[0][0] <= flushed:
            self.safe = self.coming.popleft()[1]
            moved = True
        return moved


class SafeProgress:
    """By row of the table and queue id.  `flushed()`: the log offset up to which the disk has everything."""

    def __init__(self, flushed: Callable[[], int]) -> None:
        self._flushed = flushed
        self._rows: dict[str, dict[int, _Steps]] = {}

    def __len__(self) -> int:
        """Rows in which something is not safe."""
        return len(self._rows)

    def add(self, key: str, queue_id: int, old: int, offset: int, end_offset: int) -> None:
        """Progress goes from `old` to `offset`, and rests on the log up to `end_offset`."""
        flushed = self._flushed()
        row = self._rows.get(key)
        steps = None if row is None else row.get(queue_id)
        if steps is None:
            if end_offset <= flushed:
                return
            steps = self._rows.setdefault(key, {})[queue_id] = _Steps(old)
        coming = steps.coming
        if coming and coming[-1][0] > end_offset:
            end_offset = coming[-1][0]
        coming.append((end_offset, offset))
        if coming[0][0] <= flushed:
            steps.settle(flushed)

    def drop(self, key: str, queue_id: int) -> bool:
        """Progress is set to what rests on nothing.  Says whether anything was not safe."""
        row = self._rows.get(key)
        if row is None or row.pop(queue_id, None) is None:
            return False
        if not row:
            del self._rows[key]
        return True

    def forget(self, key: str) -> None:
        """The row is gone."""
        self._rows.pop(key, None)

    def of(self, key: str, row: dict[int, int]) -> dict[int, int]:
        """The row as the file may have it."""
        unsafe = self._rows.get(key)
        return {**row, **{queue_id: steps.safe for queue_id, steps in unsafe.items() if queue_id in row}} if unsafe else row

    def settling(self, moved: Callable[[str], None]) -> Iterator[bytes]:
        """Look what has become safe; `moved` hears of each row in which something has.  An empty chunk is a place to pause."""
        flushed = self._flushed()
        for count, key in enumerate(list(self._rows), 1):
            row = self._rows.get(key, {})
            changed = [queue_id for queue_id, steps in row.items() if steps.settle(flushed)]
            for queue_id in [queue_id for queue_id in changed if not row[queue_id].coming]:
                self.drop(key, queue_id)
            if changed:
                moved(key)
            if count % ROWS_PER_SLICE == 0:
                yield b""
