"""What was made of messages and still knows of them where the log has none: there they are lost, and not yet to come."""

from __future__ import annotations

from collections.abc import Iterator

from rmq_inspect.decode import queues
from rmq_inspect.decode.directory import StoreDirectory, StoreFile
from rmq_inspect.decode.files import checkpoint_of
from rmq_inspect.decode.index_file import IndexReader

STORED_TIMES = "_msg_timestamp"
"""How fields of the checkpoint end that are a message's store time."""


def that_know_messages(store: StoreDirectory) -> Iterator[str]:
    """In words, those of queues, index and checkpoint that know any; little of them is read.  Raises `CannotLook`."""
    plain = any(next(queues.written(files), None) for files in store.queues.values())
    if plain or any(unit.is_written for files in store.batch_queues.values() for unit in queues.batch_units(files)):
        yield "the queues"
    if any(_has_entries(file) for file in store.index):
        yield "the index"
    if store.checkpoint is not None:
        fields = checkpoint_of(store.checkpoint)
        if any(value > 0 for name, value in fields.items() if name.endswith(STORED_TIMES)):
            yield "the checkpoint"


def _has_entries(file: StoreFile) -> bool:
    with IndexReader(file) as reader:
        return reader.header.index_count > 1
