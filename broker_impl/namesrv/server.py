"""A name server put together: tables, capabilities and timers on an engine.

The engine is served by a shell of `rmq_net`, alone (`rmq namesrv`) or beside brokers of the same process (`rmq dev`), which enter
themselves by `NameServer.embed` instead of over the wire.
"""

from __future__ import annotations

from typing import Final

from broker_impl.engine.engine import Engine
from broker_impl.engine.limits import Limits
from broker_impl.engine.peer import Peer
from broker_impl.engine.router import Router
from broker_impl.engine.slices import Slices, finished
from broker_impl.env import Env
from broker_impl.namesrv.brokers import Brokers
from broker_impl.namesrv.config import NamesrvConfig
from broker_impl.namesrv.configuration import Configuration
from broker_impl.namesrv.kv import KeyValues, KvTable
from broker_impl.namesrv.notices import Notices
from broker_impl.namesrv.registrations import Registered, Registration, Unregistration
from broker_impl.namesrv.route_answers import RouteAnswers
from broker_impl.namesrv.route_table import RouteTable
from broker_impl.namesrv.routes import MS_PER_S, Routes
from broker_impl.namesrv.topics import TopicLists
from broker_impl.whole_files import WholeFiles
from rmq_store.disk.config_files import load_config
from rmq_store.disk.disk import Disk, RealDisk
from rmq_wire.declare import Role

FIRST_SCAN_MS: Final = 5_000
"""When brokers without a sign of life are looked for first (Java: `NamesrvController.startScheduleService`)."""
NEVER_IDLE_MS: Final = 1 << 62
"""What `serverChannelMaxIdleTimeSeconds=0` means: Netty then looks for nothing."""


class NameServer:
    """One name server.  `engine` is what a shell serves; the rest is there for who runs in the same process, and for tests."""

    def __init__(
        self,
        env: Env,
        config: NamesrvConfig,
        disk: Disk,
        limits: Limits | None,
    ) -> None:
        self.config = config
        idle_ms = config.server_channel_max_idle_time_seconds * MS_PER_S or NEVER_IDLE_MS
        # Java brokers and clients connect to every name server and say nothing there until they need it: brokers for 10 s after
        # their start, clients for ever.  So silence at the beginning is as lawful as later.
        self.engine = Engine(env, limits=(limits or Limits())._replace(idle_ms_max=idle_ms, first_frame_ms_max=idle_ms))
        env.log.rename("rmq.namesrv")
        self.notices = Notices(env.log)
        """For who can connect to brokers."""
        self.table = RouteTable(config, env.log, self.notices.min_id_changed)
        self.route_answers = RouteAnswers(self.table, lambda: config.support_acting_master)
        self.kv = KvTable()
        load_config(disk, config.kv_config_path, self.kv.load, env.log.warning)
        self._files = files = WholeFiles(self.engine, disk)
        capabilities = (
            Brokers(self.table, self.route_answers, self.kv, config),
            Routes(self.route_answers, self.kv, config, env.mono_ms),
            TopicLists(self.table, self.route_answers, config),
            KeyValues(self.kv, files, config.kv_config_path),
            Configuration(config, files),
        )
        self.engine.install(Router(Role.NAME_SERVER, capabilities))
        self.engine.on_peer_closed(self._peer_closed)
        self.engine.every(config.scan_not_active_broker_interval, self._expire, first_ms=FIRST_SCAN_MS)

    def close(self) -> bool:
        """After the last turn: what could not be written is tried once more.  False: a change is lost."""
        return self._files.close()

    def embed(self, registration: Registration) -> Registered | None:
        """Enter a broker of this process, or its news.  It does not expire; `withdraw` takes it out."""
        return finished(self.embedding(registration))

    def embedding(self, registration: Registration) -> Slices[Registered | None]:
        """The same in slices.  Meanwhile news of the same broker may be entered; they are put into these topics, too."""
        return self.table.registering(registration._replace(embedded=True, link=None), self.engine.env.mono_ms)

    def withdraw(self, gone: Unregistration) -> None:
        """Take a broker of this process out."""
        self.table.unregister([gone])

    def _peer_closed(self, peer: Peer) -> None:
        self.table.link_closed(peer)

    def _expire(self) -> None:
        """Take out brokers that have been silent, and close their connections, as Java does."""
        for gone in self.table.expire(self.engine.env.mono_ms):
            self.engine.env.log.warning("broker %s at %s silent for %d ms", gone.name, gone.addr, gone.timeout_ms)
            if isinstance(gone.link, Peer):
                self.engine.close(gone.link, f"no sign of life of its broker for {gone.timeout_ms} ms")


def create_name_server(
    env: Env,
    config: NamesrvConfig,
    disk: Disk | None = None,
    *,
    limits: Limits | None = None,
) -> NameServer:
    """A name server with what its key-value file holds; `disk` is the real one by default.

    Raises `OSError` or `rmq_store.errors.StoreDamaged` when the file cannot be read.
    """
    return NameServer(env, config, disk or RealDisk(), limits)
