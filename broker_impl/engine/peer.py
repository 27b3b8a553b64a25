"""One connection as the broker knows it: who it is, its unread requests, its unsent answers, what it was last seen doing.

No socket: the shell of `rmq_net` moves the bytes.  Peers compare by identity, so tables may be keyed by them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rmq_net.service import Address, Buffer
from rmq_wire.command import ONE_WAY, RESPONSE, Command, Unreadable
from rmq_wire.message_id import pack_host

if TYPE_CHECKING:
    from broker_impl.engine.answers import Row
    from broker_impl.engine.deadlines import Deadline
    from rmq_wire.conversation import Conversation


class Peer:
    """Public to capabilities: `id`, `remote`, `local`, `listener`, `remote_packed`, `closed`, `congested`, `attached`.

    The rest belongs to the engine and, where `rmq_net.service.PeerLike` says so, to the shell.
    """

    __slots__ = (
        "attached",
        "backlog",
        "client_requests",
        "closed",
        "closing",
        "conversation",
        "frames",
        "held",
        "id",
        "last_ms",
        "listener",
        "local",
        "opened_ms",
        "output_bytes_max",
        "queued_ms",
        "received_bytes",
        "remote",
        "remote_packed",
        "rows",
        "sent_bytes",
        "tasks",
        "unsent_bytes",
        "watching",
        "write_buffer",
    )

    def __init__(
        self,
        number: int,
        remote: Address,
        local: Address,
        listener: str,
        *,
        conversation: Conversation,
        rows: Mapping[int, Row],
        now_ms: int,
        output_bytes_max: int,
    ) -> None:
        self.id = number
        self.remote = remote
        self.local = local
        self.listener = listener
        self.remote_packed = pack_address(remote)
        """IP and 4-byte port as message units store a host: 8 bytes, or 20 for IPv6."""
        self.conversation = conversation
        self.rows = rows
        self.attached: dict[str, Any] = {}
        """What capabilities keep with a connection, by a name of their own."""
        self.write_buffer: list[Buffer] = []
        self.unsent_bytes = 0
        self.sent_bytes = 0
        self.output_bytes_max = output_bytes_max
        self.backlog: deque[Command | Unreadable] = deque()
        self.queued_ms = now_ms
        """Since when what stands in the backlog waits for us (`engine.patience`)."""
        self.tasks = 0
        """Background tasks that it waits for."""
        self.held = False
        """Nothing more of it is served until a task has ended."""
        self.client_requests = 0
        """Counted questions that it has not answered yet."""
        self.frames = 0
        self.received_bytes = 0
        self.opened_ms = self.last_ms = now_ms
        self.watching: Deadline | None = None
        """The next look of its `Watch`."""
        self.closing: str | None = None
        """Why we are about to close it."""
        self.closed = False

    @property
    def congested(self) -> bool:
        """It does not take its answers, or has more requests than are served now: nothing more is read from it for now.

        A capability that could send a lot unasked (a held pull) waits while this holds.
        """
        return self.unsent_bytes > self.output_bytes_max or bool(self.backlog) or self.held

    def wants_bulk(self, command: Command | Unreadable) -> bool:
        """Its answer may have megabytes."""
        row = self.rows.get(command.code) if isinstance(command, Command) else None
        return row is not None and row.bulky and not command.flag & (RESPONSE | ONE_WAY)

    def __str__(self) -> str:
        """As log lines name it."""
        return f"{self.remote[0]}:{self.remote[1]}"

    def __repr__(self) -> str:
        return f"<Peer {self.id} {self.remote[0]}:{self.remote[1]} on {self.listener}>"


def pack_address(address: Address) -> bytes:
    """IP bytes and a 4-byte port, as `MessageDecoder` lays a host out.  An unreadable host packs as 0.0.0.0."""
    try:
        return pack_host(*address)
    except ValueError:
        return pack_host("0.0.0.0", address[1])
