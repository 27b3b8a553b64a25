"""Who has been silent, slow or deaf for too long.

Each peer has a `Watch` that looks at it now and then, when the earliest of its rules could be broken: a first frame soon after
connecting, a byte now and then, a started frame that progresses, answers that are taken.  Between looks nothing is
recorded, so a busy peer pays nothing and ten thousand idle ones next to nothing; a fault shows at most one look late.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from broker_impl.engine.limits import Limits
from broker_impl.env import Env

DEAF_LOOKS = 6
"""How often a peer with unsent answers is looked at within `stuck_ms_max`."""


class Conversing(Protocol):
    @property
    def bytes_pending(self) -> int: ...


class Watched(Protocol):
    """The part of a `Peer` that is looked at; `watching` is the next look, which can be cancelled."""

    watching: Any

    @property
    def opened_ms(self) -> int: ...
    @property
    def last_ms(self) -> int: ...
    @property
    def frames(self) -> int: ...
    @property
    def received_bytes(self) -> int: ...
    @property
    def unsent_bytes(self) -> int: ...
    @property
    def sent_bytes(self) -> int: ...
    @property
    def conversation(self) -> Conversing: ...
    @property
    def congested(self) -> bool: ...


class Watch:
    """What was seen of one peer.  `look` at the time that `next_look` names."""

    __slots__ = ("_deaf_since_ms", "_frames", "_limits", "_peer", "_received_bytes", "_sent_bytes", "_started_ms")

    def __init__(self, peer: Watched, limits: Limits) -> None:
        self._peer = peer
        self._limits = limits
        self._started_ms: int | None = None
        """Since when one and the same frame has been incomplete, as far as we have seen."""
        self._frames = 0
        self._received_bytes = 0
        self._deaf_since_ms: int | None = None
        self._sent_bytes = 0

    def keep(self, at: Callable[[int, Callable[[], None]], Any], close: Callable[..., None], env: Env) -> None:
        """Look when it is due, again and again; who breaks a rule is closed."""

        def look() -> None:
            why = self.look(env.mono_ms)
            if why is None:
                self.keep(at, close, env)
            else:
                close(self._peer, why, level=logging.INFO)

        self._peer.watching = at(self.next_look(env.mono_ms), look)

    def next_look(self, now_ms: int) -> int:
        """When the next look is due."""
        peer, limits = self._peer, self._limits
        if not peer.frames:
            return max(peer.opened_ms + limits.first_frame_ms_max, now_ms + 1)
        pause = limits.stuck_ms_max // DEAF_LOOKS if peer.unsent_bytes else limits.slow_window_ms
        return max(min(peer.last_ms + limits.idle_ms_max, now_ms + pause), now_ms + 1)

    def look(self, now_ms: int) -> str | None:
        """Why this peer should be closed; None when it keeps the rules."""
        peer, limits = self._peer, self._limits
        if not peer.frames and now_ms - peer.opened_ms >= limits.first_frame_ms_max:
            return f"no complete frame within {limits.first_frame_ms_max} ms ({peer.received_bytes} bytes came)"
        if now_ms - peer.last_ms >= limits.idle_ms_max and not peer.unsent_bytes:
            return f"idle for {limits.idle_ms_max} ms"
        return self._slow(now_ms) or self._deaf(now_ms)

    def _slow(self, now_ms: int) -> str | None:
        peer, limits = self._peer, self._limits
        pending = peer.conversation.bytes_pending
        if not pending or peer.congested:  # what we do not read cannot progress
            self._started_ms = None
        elif self._started_ms is None or self._frames != peer.frames:
            self._started_ms, self._frames, self._received_bytes = now_ms, peer.frames, peer.received_bytes
        elif now_ms - self._started_ms >= limits.slow_window_ms:
            came = peer.received_bytes - self._received_bytes
            if came * 1000 < limits.slow_bytes_per_s_min * (now_ms - self._started_ms):
                return f"{came} bytes of a started frame in {now_ms - self._started_ms} ms ({pending} bytes waiting)"
            self._started_ms, self._received_bytes = now_ms, peer.received_bytes
        return None

    def _deaf(self, now_ms: int) -> str | None:
        peer, limits = self._peer, self._limits
        if not peer.unsent_bytes:
            self._deaf_since_ms = None
        elif self._deaf_since_ms is None or self._sent_bytes != peer.sent_bytes:
            self._deaf_since_ms, self._sent_bytes = now_ms, peer.sent_bytes
        elif now_ms - self._deaf_since_ms >= limits.stuck_ms_max:
            return f"took none of {peer.unsent_bytes} bytes for {now_ms - self._deaf_since_ms} ms"
        return None
