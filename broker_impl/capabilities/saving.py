"""Changes that an answer acknowledges are on disk before it leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from broker_impl.call import Parked, Refusal, Reply
from broker_impl.state.persisted import PersistedTable
from rmq_net.log import plain_text
from rmq_store.errors import StoreError
from rmq_wire.codes import ResponseCode


class Saving(Protocol):
    """What writes a table: `Persister`."""

    def save(self, table: PersistedTable) -> None: ...


class Saver:
    """Writes a table now, and says no when the disk does: the change is then in memory and will be tried again."""

    def __init__(self, persister: Saving) -> None:
        self._persister = persister

    def save(self, table: PersistedTable) -> None:
        """Write the table if it changed.  Raises `Refusal`."""
        if not table.dirty:
            return
        try:
            self._persister.save(table)
        except (OSError, StoreError) as failed:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"{table.file} could not be written: {plain_text(failed)}") from failed


def acknowledge(asker: Parked) -> Callable[[object, BaseException | None], None]:
    """What tells the asker that long work is done, or why it is not."""

    def tell(_result: object, error: BaseException | None) -> None:
        asker.answer(Reply() if error is None else Refusal(ResponseCode.SYSTEM_ERROR, plain_text(error)))

    return tell
