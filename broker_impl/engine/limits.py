"""Everything about connections that would otherwise have no end, with the reason for each default.

The composition root sets them from the configuration; a test sets what it needs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

DESCRIPTORS_KEPT: Final = 64
"""Of those that the process may open, kept from connections and store files: for listeners, locks, directories that are synced,
configuration files and connections of our own.  An eighth where few may be opened, and always what is held all the time."""
HELD_BY_PROCESS: Final = 16
"""Standard streams, trio's own, what the starter left open, a table that is being written."""
HELD_BY_SERVICE: Final = 3
"""Its epoll, what wakes it, a listener."""
HELD_BY_STORE: Final = 4
"""Its lock, its root directory, its checkpoint, the broker's second listener."""
WORKING_MIN: Final = 4
"""Files of a store, and connections of a service: log file and its map, queue and index; two clients and who asks about them."""


class Limits(NamedTuple):
    """Bytes, counts and milliseconds; `_max` is still allowed."""

    receive_bytes_max: int = 256 * 1024
    """Of one peer in one turn: some 170 sends of 1 KiB, about 2 ms of work, so that others wait no longer."""
    receive_bytes_lagging: int = 32 * 1024
    """The same while dispatch lags: appends slow down until queues and index have caught up."""
    requests_max: int = 256
    """Of one peer in one turn; the rest waits in its backlog.  256 KiB may hold thousands of tiny requests."""
    turn_requests_max: int = 2_048
    """Of all peers in one turn, shared evenly by those who have something to say, one each at least: some 50 ms of sends."""
    turn_output_bytes_max: int = 4 * 1024 * 1024
    """Answers of one turn, shared in the same way: a hundred full pulls cost as much as a thousand sends.  An answer goes out
    whole, so the last one may pass this; then no large one leaves in this turn, and nobody is woken."""
    small_answer_bytes_max: int = 64 * 1024
    """A pull or query with a larger answer waits in a row of such while a turn is full: not one of 32 messages of 2 KiB."""
    small_turn_bytes_max: int = 1024 * 1024
    """So much more goes out in one turn in small answers to pulls and queries, that nobody waits behind large ones for."""
    turn_backlogs_max: int = 512
    """Peers whose backlog gets its share in one turn, in rotation."""
    output_bytes_max: int = 2 * 1024 * 1024
    """Unsent answers above which a peer is not read any more: eight full pulls of maxTransferBytesOnMessageInMemory (256 KiB)."""
    idle_ms_max: int = 120_000
    """No byte in or out for so long: closed, as Java's serverChannelMaxIdleTimeSeconds."""
    first_frame_ms_max: int = 10_000
    """A stock client asks at once after connecting; a port scan or a stalled peer does not hold a descriptor for longer."""
    slow_window_ms: int = 30_000
    """Over so long a started frame must progress …"""
    slow_bytes_per_s_min: int = 1024
    """… at this rate: a 4 MiB message then takes an hour at most, a byte a second does not hold memory for ever."""
    stuck_ms_max: int = 60_000
    """A peer with unsent answers that takes no byte for so long is closed: twice a stock client's longest time-out (30 s)."""
    peers_max: int = 16_384
    """Connections at once.  The composition root lowers it to what descriptors allow."""
    flush_wait_ms_max: int = 5_000
    """A SYNC_FLUSH answer waits for the disk so long, then says FLUSH_DISK_TIMEOUT: Java's syncFlushTimeout."""
    flush_gather_turns_max: int = 3
    """Under SYNC_FLUSH a flush begins with the first turn that brings nothing more to share it, or after so many that do: by
    then those whom the last flush let go have asked again, and who sends on without waiting puts it off no longer."""
    flush_waiting_max: int = 65_536
    """Answers waiting for the disk at once; above it, requests that append get SYSTEM_BUSY."""
    unflushed_bytes_max: int = 1 << 30
    """Appended behind a flush that does not end; above it, too: a disk that hangs does not fill the page cache until the kernel
    stops the whole loop in a write.  One log file; at 50 MB/s the flush has then hung for 20 s."""
    saves_waiting_max: int = 65_536
    """Answers and requests waiting for tables to be written; above it they get SYSTEM_BUSY: a hanging disk fills no memory."""
    dispatch_units_min: int = 1_024
    """A turn dispatches as many units as it appended, and this many when there is more to do."""
    dispatch_units_max: int = 8_192
    """But no more than so many, of a large batch: 20 ms."""
    dispatch_keys_max: int = 16_384
    """But no more than have so many keys, or one: 20 ms; a message may have as many."""
    dispatch_behind_bytes_max: int = 32 << 20
    """Waiting for queues and index, above which appends get SYSTEM_BUSY: two bytes may be a key, and 4 MiB of keys take 3 s."""
    dispatch_lag_ms_max: int = 50
    """Dispatch behind for longer than this shrinks what is received."""
    due_max: int = 512
    """Deadlines per turn: a thousand pulls that end together do not stop everybody else."""
    tasks_max: int = 4
    """Background tasks that get a slice in one turn, in rotation; a slice is at most 0.5 ms."""
    requests_per_task: int = 8
    """But no more than one, and one for so many requests that the turn has served: who asks alone waits for one slice."""
    tasks_of_peer_max: int = 8
    """Background tasks for one peer at once: each holds a listing.  Its next request waits until one has ended."""
    topics_max: int = 100_000
    """Topics, those of retries and dead letters among them: some 4 KiB each, and what our name server takes of one broker."""
    groups_max: int = 100_000
    """Consumer groups: each of them gets a retry topic."""
    client_requests_max: int = 1_024
    """Questions open towards one client; a client that never answers does not fill memory."""

    open_files_max: int = 4_096
    """Descriptors of one store: files of log, queues and index, and maps of log files.  Who has more files opens them again and
    again, 10 µs each.  The composition root lowers it, too."""

    @classmethod
    def wanted(cls, services: int, stores: int) -> int:
        """Descriptors with which nobody has to do with less."""
        full = cls()
        return services * full.peers_max + stores * full.open_files_max + DESCRIPTORS_KEPT

    @staticmethod
    def least(services: int, stores: int) -> int:
        """Descriptors with fewer than which nobody can be served."""
        return _held(services, stores) + WORKING_MIN * (services + stores)

    def within_descriptors(self, descriptors: int, services: int, stores: int) -> Limits:
        """The same, with no more peers and files than so many descriptors allow, which are `least` or more.

        Stores get half of what is not kept, if they need that much, connections the rest; services share evenly.
        """
        left = descriptors - max(min(DESCRIPTORS_KEPT, descriptors // 8), _held(services, stores))
        files = min(self.open_files_max, left // 2 // stores) if stores else 0
        return self._replace(peers_max=min(self.peers_max, (left - stores * files) // services), open_files_max=files)


def _held(services: int, stores: int) -> int:
    return HELD_BY_PROCESS + HELD_BY_SERVICE * services + HELD_BY_STORE * stores
