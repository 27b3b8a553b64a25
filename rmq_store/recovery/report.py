"""What opening a store found and did, as values and as sentences for the broker's log."""

from __future__ import annotations

from msgspec import Struct


class Report(Struct):
    """One opening. Positions count bytes of the log."""

    clean: bool
    """the last stop was, and log and queues agreed"""
    stopped_clean: bool = False
    """the last stop was, whatever the files say"""
    walked_from: int = 0
    end: int = 0
    """where the log goes on"""
    reason: str = ""
    """why the walk ended where it did"""
    cut_bytes: int = 0
    """bytes behind the end that were not zero"""
    cut_units: int = 0
    """whole units among them"""
    kept_aside: str = ""
    """the directory they were copied to"""
    removed_files: list[str] = []
    """log files behind the end, prepared ones included"""
    missing: list[str] = []
    """files that are gone since a clean stop and entries that lead nowhere, in words"""
    rebuilt: bool = False
    """queues were rebuilt from the first file on"""
    skipped: int = 0
    """units whose topic cannot be a directory: kept in the log, in no queue"""
    bridged: int = 0
    """queue offsets that no message of the log has, between others"""
    wrong_index_files: int = 0
    """index files of another size than configured, removed"""
    index_from: int = -1
    """log position from which the index was made again, since it lacked entries or files; -1 when it did not"""

    def sentences(self) -> list[str]:
        """For the log; none after a clean stop with nothing to say."""
        said = list(self.missing)
        if not self.clean:
            why = "log and queues do not agree" if self.stopped_clean else "the last stop was not clean"
            said.append(f"{why}: the log was read from {self.walked_from} and ends at {self.end}")
        if self.rebuilt:
            said.append("queues were rebuilt from the first log file on")
        if self.cut_bytes:
            cut = f"{self.cut_bytes} bytes behind {self.end} were cut, {self.cut_units} whole messages among them ({self.reason})"
            said.append(cut + (f"; they are kept in {self.kept_aside}" if self.kept_aside else ""))
        if self.skipped:
            said.append(f"{self.skipped} messages are in no queue, for their topics cannot be directories")
        if self.bridged:
            said.append(
                f"{self.bridged} queue offsets have no message in the log: readers go on with the next message behind them"
            )
        if self.wrong_index_files:
            said.append(
                f"{self.wrong_index_files} index files have another size than maxHashSlotNum and maxIndexNum ask for: they were"
                " removed, their entries made again from the log"
            )
        elif self.index_from >= 0:
            said.append(f"the index lacked entries or files: it was made again from {self.index_from} of the log on")
        return said
