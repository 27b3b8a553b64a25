"""Messages of which only what was made of them still knows: of the whole log, or of its beginning.

A log that was lost looks like one into which nobody has written yet: a broker prepares its next file, of zeros, and that file is
left.  The end of such a log tells nothing, so what points before it would pass for messages that retention took.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rmq_columns.checks.files import CheckedFile
from rmq_columns.checks.findings import NOWHERE, Findings
from rmq_columns.checks.index import IndexTold
from rmq_columns.checks.queues import Told
from rmq_columns.checks.report import LogReport
from rmq_wire.store_names import COMMIT_LOG


class Derived(NamedTuple):
    """What was made of the messages of a store."""

    queues: Told
    index_files: IndexTold
    times: Sequence[int]
    """of the checkpoint, ms: when messages were stored"""

    def told(self) -> Iterator[str]:
        """What of it knows messages, in words."""
        if self.queues.leading:
            yield f"queues have {self.queues.leading} unit(s)"
        if self.index_files.entries:
            yield f"the index has {self.index_files.entries} entries"
        if self.times:
            yield f"the checkpoint says that a message was stored at {max(self.times)}"


def look_for_loss(
    log: Sequence[CheckedFile], reports: Sequence[LogReport], derived: Derived, start: int, findings: Findings, notes: list[str]
) -> None:
    """log: all its files; start: where it begins.

    One that does not begin at 0 and has no message may be that of a broker which nobody used for days: retention took them.
    """
    if any(one.units for one in reports):
        if derived.queues.before:
            text = f"{derived.queues.before} queue unit(s) lead before the log's start, {start}"
            notes.append(f"{text}: retention took their messages, or they were removed")
    elif any(("file-unreadable", one.name) in findings.counts for one in reports):
        return  # nobody knows what is in it
    elif told := list(derived.told()):
        name = log[0].name if log else COMMIT_LOG
        findings.add(
            "log-emptied" if start else "log-lost", name, NOWHERE, f"no file of the log has a message; {', '.join(told)}"
        )
