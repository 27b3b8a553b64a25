"""A log with messages and no table of topics: somebody has taken the table away, for it is written before a first answer leaves.

Going on without it, as Java does, answers consumers that their topics do not exist, and makes topics anew with other numbers of
queues as messages come.  After a stop that was not clean the first message may be there before the table: that is only logged.
"""

from __future__ import annotations

from typing import Final

from rmq_net.log import Log, plain_text
from rmq_store.advice import repair_command
from rmq_store.disk.config_files import BACKUP_SUFFIX
from rmq_store.disk.disk import Disk
from rmq_store.errors import StoreDamaged
from rmq_store.store import Store
from rmq_wire import names

NAMED_MAX: Final = 5


def look_for_topics(disk: Disk, root: str, table: str, store: Store, log: Log) -> None:
    """`table`: the file's name. Raises StoreDamaged when it is gone since a clean stop, OSError."""
    there = {entry.name for entry in disk.entries(f"{root}/config") if entry.size}
    if there & {table, table + BACKUP_SUFFIX}:
        return
    topics = sorted(topic for topic in store.topics() if not names.is_system_topic(topic))
    if not topics:
        return
    named = ", ".join(topics[:NAMED_MAX]) + (f" and {len(topics) - NAMED_MAX} more" if len(topics) > NAMED_MAX else "")
    what = f"{root}/config/{table} is missing, and the log has messages of {plain_text(named)}"
    if store.report.stopped_clean:
        raise StoreDamaged(
            f"{what}: restore it, or make it again from queues and log with: {repair_command(root, '--tables')} (a file that"
            " holds {} starts without topics)"
        )
    log.warning("%s: they are made anew when somebody sends to them", what)
