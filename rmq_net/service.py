"""What a shell serves: the seam between sockets and an engine that knows none.

A shell (`shell.Shell` on epoll, `streams.StreamShell` on plain trio streams) accepts connections, hands received bytes over in
turns, writes what comes back and runs `Job`s on threads of its own.  The service decides everything else.  One loop iteration is
`turn` (requests, answers), write, `settle` (what may wait until the answers are on their way), write, `take_jobs`, park until
`next_deadline`.  Received views die with `turn`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

Buffer = bytes | bytearray | memoryview
Address = tuple[str, int]
"""Host as text (an IPv4 address mapped into IPv6 is shown as IPv4) and port."""


class Job(NamedTuple):
    """Something that blocks in the kernel.  Thread `sync` flushes files, thread `read` reads cold bytes.

    `run` touches no state of the service; `done(result, error)` runs on the loop, before the next turn.
    """

    thread: str
    run: Callable[[], Any]
    done: Callable[[Any, BaseException | None], None]


class PeerLike(Protocol):
    """One accepted connection as the shell sees it."""

    unsent_bytes: int
    """Raised by the service when it gives output, lowered by the shell as the kernel takes bytes."""
    sent_bytes: int
    """Total the kernel has taken; raised by the shell.  Standing still while `unsent_bytes` > 0 means the peer does not read."""

    @property
    def congested(self) -> bool:
        """The shell reads nothing from this peer for now: it does not take its answers, or has more requests than a turn
        serves.
        """
        ...


P = TypeVar("P", bound=PeerLike)


Output = tuple[Any, list[Buffer], bool]
"""For one peer: the peer, bytes for it in order, and whether to close it once they have been offered to the kernel."""


class Service(Protocol[P]):
    """The shell calls these from one thread, never one inside another."""

    receive_bytes_max: int
    """At most so many bytes of one peer go into a turn.  Read by the shell before each receive; shrinks under pressure."""

    @property
    def drained(self) -> bool:
        """After `drain`: no answer is pending any more."""
        ...

    def opened(self, remote: Address, local: Address, listener: str) -> P | None:
        """A connection was accepted on the named listener.  None: refused, close it."""
        ...

    def closed(self, peer: P, why: str) -> None:
        """The connection is gone; called once for every peer that `opened` returned, whoever closed it."""
        ...

    def turn(self, arrived: Sequence[tuple[P, Buffer]]) -> Sequence[Output]:
        """Serve what arrived.  The buffers may be overwritten as soon as this returns."""
        ...

    def settle(self) -> Sequence[Output]:
        """Do what may follow the answers: dispatch, wake-ups, deadlines, one slice of each long work."""
        ...

    def next_deadline(self) -> int | None:
        """Monotonic milliseconds when the next turn is due without any input; in the past: at once; None: never."""
        ...

    def take_jobs(self) -> Sequence[Job]:
        """Jobs to start now, each handed out once."""
        ...

    def drain(self) -> None:
        """Stop in order: send pending answers, take nothing new."""
        ...
