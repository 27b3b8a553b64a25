"""What an engine counts."""

from __future__ import annotations


class Counters:
    """What happened since start, for the runtime figures."""

    __slots__ = ("bad_frames", "errors", "peers_refused", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.bad_frames = 0
        self.errors = 0
        """Bugs of ours that an asker met."""
        self.peers_refused = 0
