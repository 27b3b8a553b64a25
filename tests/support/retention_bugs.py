"""Bugs to plant into retention."""

from __future__ import annotations

import pytest

from rmq_store import retention
from rmq_store.retention import Retention


def deletes_the_last_file(patch: pytest.MonkeyPatch) -> None:
    """S30"""
    patch.setattr(Retention, "_oldest", lambda self: self._log.segments.starts[0] if self._log.segments.starts else None)


def leaves_minimum_offsets(patch: pytest.MonkeyPatch) -> None:
    """S22"""
    patch.setattr(retention, "first_kept", lambda queue, log_min: queue.min_offset)


def shortens_what_it_deletes(patch: pytest.MonkeyPatch) -> None:
    """S30 (one being read), S33: the space is wanted back at once."""
    run = retention.Removal.run

    def planted(self: retention.Removal) -> None:
        for path in self.paths:
            self._disk.open(path).set_length(0)
        run(self)

    patch.setattr(retention.Removal, "run", planted)


def wipes_what_it_deletes(patch: pytest.MonkeyPatch) -> None:
    """S30 (one being read): zeros first."""
    run = retention.Removal.run

    def planted(self: retention.Removal) -> None:
        for path in self.paths:
            file = self._disk.open(path)
            file.write_at(0, bytes(file.length()))
        run(self)

    patch.setattr(retention.Removal, "run", planted)
