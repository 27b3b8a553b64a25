"""One broker put together: store, tables, capabilities and timers on an engine.  No sockets, no trio.

The order is that of Java's `BrokerController`: configuration, tables from their files, the store with its recovery, then what
serves requests.  `close` undoes it: whatever changed is written, the store stops cleanly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from broker_impl import refused
from broker_impl.capabilities.assignment import Assignment
from broker_impl.capabilities.call_consumer import CallConsumer
from broker_impl.capabilities.clients import ClientManagement
from broker_impl.capabilities.cold_data import ColdData
from broker_impl.capabilities.configuration import Configuration
from broker_impl.capabilities.consume_stats import ConsumeProgress
from broker_impl.capabilities.files import Files
from broker_impl.capabilities.groups import Groups
from broker_impl.capabilities.listings import Listings
from broker_impl.capabilities.locks import Locks
from broker_impl.capabilities.notification import Notification
from broker_impl.capabilities.offset_changes import OffsetChanges
from broker_impl.capabilities.offsets import Offsets
from broker_impl.capabilities.pop import Pop
from broker_impl.capabilities.pop_ends import PopEnds
from broker_impl.capabilities.pop_revive import PopRevive
from broker_impl.capabilities.positions import Positions
from broker_impl.capabilities.pull import Pull
from broker_impl.capabilities.query import Query
from broker_impl.capabilities.replies import Replies
from broker_impl.capabilities.runtime import Runtime
from broker_impl.capabilities.schedule import Schedule
from broker_impl.capabilities.send import Send
from broker_impl.capabilities.send_back import SendBack
from broker_impl.capabilities.send_rules import SendRules
from broker_impl.capabilities.timers import Timers
from broker_impl.capabilities.topics import Topics
from broker_impl.capabilities.transaction_check import TransactionCheck
from broker_impl.capabilities.transactions import Transactions
from broker_impl.config import BrokerConfig
from broker_impl.embedding import EmbeddedRegistration
from broker_impl.engine.cold_reads import ColdReads
from broker_impl.engine.engine import Engine
from broker_impl.engine.limits import Limits
from broker_impl.engine.router import Router
from broker_impl.engine.slices import Slices
from broker_impl.env import Env
from broker_impl.fast_failure import patience
from broker_impl.half_messages import HalfMessages
from broker_impl.intake import Intake
from broker_impl.lost_topics import look_for_topics
from broker_impl.namesrv.server import NameServer
from broker_impl.pop_parts import PopParts, pop_parts
from broker_impl.registration import Announcement, Identity, Registrar
from broker_impl.retries import Retries
from broker_impl.revive_clock import ReviveClock
from broker_impl.saves import Saves
from broker_impl.state.attributes import BATCH_QUEUES, QUEUE_TYPE
from broker_impl.state.clients import Clients
from broker_impl.state.consumer_filters import ConsumerFilters
from broker_impl.state.consumer_offsets import ConsumerOffsets
from broker_impl.state.delay_offsets import DelayOffsets
from broker_impl.state.groups import GroupTable
from broker_impl.state.light import LightConsumerOffsets, LightGroupTable, LightTopicTable
from broker_impl.state.locks import QueueLocks
from broker_impl.state.order_info import OrderInfos
from broker_impl.state.persisted import PersistedTable, Persister, load_tables
from broker_impl.state.request_modes import RequestModes
from broker_impl.state.stats import Stats
from broker_impl.state.topics import TopicTable
from broker_impl.state.transaction_metrics import TransactionMetrics
from broker_impl.store_settings import retention_rules, store_settings, timer_settings
from broker_impl.timer_slots import SlotRule
from broker_impl.topic_routes import TopicRoutes
from broker_impl.whole_files import WholeFiles
from rmq_store.disk.disk import Disk, Usage
from rmq_store.errors import Closed
from rmq_store.flush import Ticket
from rmq_store.settings import FlushDiskType
from rmq_store.store import Store
from rmq_store.timer.flush import TimerFlusher
from rmq_store.timer.machine import Timer
from rmq_wire import names
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.declare import Role
from rmq_wire.message_id import UniqueKeyMaker, pack_host

MAIN_LISTENER: Final = "main"
FAST_LISTENER: Final = "fast"
"""Names of the two listeners: the fast port takes everything but pulls."""
FIRST_SAVE_MS: Final = 10_000
"""When offsets are first written after the start (Java: `initializeBrokerScheduledTasks`)."""
SAVE_FILTERS_MS: Final = 10_000
CLEAN_ORDERS_MS: Final = 10_000
"""When batches of ordered pops are looked through for what nobody needs, as when Java writes them."""
SAVE_AGAIN_MS: Final = 10_000
"""When a table whose write failed is written again."""
REFUSAL_LOOK_MS: Final = 1_000
MS_PER_S: Final = 1_000
NEVER_IDLE_MS: Final = 1 << 62
"""`serverChannelMaxIdleTimeSeconds=0`: nobody is idle."""


class BrokerNode:
    """One broker.  `engine` is what a shell serves.  Raises what `Store.open` and `Persister.load` raise."""

    def __init__(self, env: Env, config: BrokerConfig, disk: Disk, limits: Limits | None = None) -> None:
        self.env = env
        env.log.rename("rmq.broker")
        self.config = config
        self.disk = disk
        light = config.enable_lmq
        self.topics = (LightTopicTable if light else TopicTable)(config, env)
        self.groups = (LightGroupTable if light else GroupTable)(config, env)
        self.offsets = (LightConsumerOffsets if light else ConsumerOffsets)(config, env, lambda: self.store.flushed_offset)
        self._kinds_known = False
        self._read_early: tuple[PersistedTable, ...] = ()
        limits = limits or Limits()
        self.topics.rows_max, self.groups.rows_max = limits.topics_max, limits.groups_max
        settings = store_settings(config, limits.open_files_max)
        self.store = Store.open(disk, settings, env.wall_ms, pid=env.pid, zone=env.zone, has_batch_queues=self._has_batch_queues)
        for said in self.store.report.sentences():
            self.env.log.warning("store: %s", said)
        try:
            self.store.retain_by(retention_rules(config))
            self._put_together(limits)
        except BaseException:
            self.store.close(env.wall_ms)
            raise

    def _has_batch_queues(self, topic: str) -> bool | None:
        """Asked first while the store opens, with the directory locked: then the tables are read for it alone."""
        if not self._kinds_known:
            self._kinds_known = True
            self._read_early = (self.topics, self.groups, self.offsets)
            load_tables(self.disk, f"{self.config.store_path_root_dir}/config", self._read_early, self.env.log)
        found = self.topics.get(topic)
        return None if found is None else found.attributes.get(QUEUE_TYPE) == BATCH_QUEUES

    def _read_queues(self, topic: str) -> int | None:
        found = self.topics.get(topic)
        return None if found is None else found.read_queue_nums

    def _put_together(self, limits: Limits) -> None:
        env, config, store = self.env, self.config, self.store
        idle_ms = config.server_channel_max_idle_time_seconds * MS_PER_S or NEVER_IDLE_MS
        limits = limits._replace(idle_ms_max=idle_ms, flush_wait_ms_max=config.sync_flush_timeout)
        self.engine = Engine(
            env, store, limits=limits, sync_flush=config.flush_disk_type == FlushDiskType.SYNC_FLUSH.value, sync=Ticket.run
        )
        self.delay_offsets = DelayOffsets(lambda: store.flushed_offset, version_step=config.delay_offset_update_version_step)
        self.transaction_metrics = TransactionMetrics(env.wall_ms)
        self.filters = ConsumerFilters(config, env)
        self.orders = OrderInfos(env, self._read_queues, lambda group: group in self.groups)
        self.request_modes = RequestModes()
        self.request_modes.topics_max = limits.topics_max
        self.offsets.on_reset.append(self.orders.clear_block)
        self.persister = Persister(
            self.disk,
            f"{config.store_path_root_dir}/config",
            (
                *(self.topics, self.groups, self.offsets, self.delay_offsets),
                *(self.transaction_metrics, self.filters, self.orders, self.request_modes),
            ),
            env.log,
        )
        self.persister.load(self._read_early)
        self.topics.report_uncompacted(self.topics.table.values())
        look_for_topics(self.disk, config.store_path_root_dir, self.topics.file, store, env.log)
        self.saves = Saves(self.engine, self.persister, env.log, waiting_max=limits.saves_waiting_max, fence=store.fence)
        self._configuration_file = WholeFiles(self.engine, self.disk)
        self._kinds_known = True
        self.offsets.clamp(store.queue_bounds)
        self.clients = Clients(config, env)
        self.clients.on_subscribed.append(self.filters.register)
        self.clients.on_group_gone.append(self.filters.group_gone)
        self.topics.before_making = self.engine.shares.one_creation
        self.announcement = Announcement(
            Identity(
                cluster=config.broker_cluster_name,
                name=config.broker_name,
                broker_id=config.broker_id,
                addr=f"{config.broker_ip1}:{config.listen_port}",
                ha_addr=f"{config.broker_ip2}:{config.ha_listen_port}",
            ),
            config,
            self.topics,
        )
        self.registrar = Registrar(self.announcement, config.name_servers, env.mono_ms, env.log)
        self.routes = TopicRoutes(
            asks=bool(config.name_servers), refresh_ms=lambda: config.load_balance_poll_name_server_interval, now_ms=env.mono_ms
        )
        self._embedded = EmbeddedRegistration(self.announcement, self.engine)
        self.topics.on_change.append(self._topics_changed)
        self.schedule: Schedule
        self.halves: HalfMessages
        self.transaction_check: TransactionCheck
        self.timers: Timers
        self.revive: PopRevive
        self.pops: PopParts
        self.timer: Timer | None = None
        if config.timer_wheel_enable:
            report = env.log.warning
            self.timer = Timer(self.disk, timer_settings(config), store, store.written_offset, env.wall_ms, report)
        self._install()
        self.engine.every(
            config.flush_consumer_offset_interval, lambda: self._save_soon(self.offsets, self.orders), first_ms=FIRST_SAVE_MS
        )
        self.engine.every(config.flush_delay_offset_interval, lambda: self._save_soon(self.delay_offsets), first_ms=FIRST_SAVE_MS)
        self.engine.every(SAVE_FILTERS_MS, self._save_filters)
        self.engine.every(CLEAN_ORDERS_MS, self._clean_orders)
        self.engine.every(config.transaction_metric_flush_interval, lambda: self._save_soon(self.transaction_metrics))
        self.engine.every(SAVE_AGAIN_MS, lambda: self._save_soon(self.topics, self.groups))
        self._refusal: Closed | None = None
        self.engine.every(REFUSAL_LOOK_MS, self._report_refusal)
        self.schedule.start()
        half_topic = self.topics.get(names.TRANS_HALF_TOPIC)
        self.halves.start(half_topic.read_queue_nums if half_topic is not None else 1)
        self.transaction_check.start()
        self.timers.start()
        self.revive.start()

    def _report_refusal(self) -> None:
        """One line when the store stops taking messages, and one when it takes them again."""
        why = self.store.refusal
        if why is self._refusal:
            return
        self._refusal = why
        if why is None:
            self.env.log.warning("store: messages are taken again")
        else:
            self.env.log.error("store: no message is taken: %s: %s", why.value, self.store.refusal_text)

    def _install(self) -> None:
        env, config, store, engine = self.env, self.config, self.store, self.engine
        topics, groups, offsets, clients = self.topics, self.groups, self.offsets, self.clients
        stats = Stats(config, env, topics.is_system)
        locks = QueueLocks(env)
        reads = ColdReads(engine)
        retries = Retries(topics, groups)
        intake = Intake(
            store,
            store_host=pack_host(env.host, config.listen_port),
            delay_levels_ms=config.delay_levels,
            has_batch_queues=self._has_batch_queues,
            slot_of=None if self.timer is None else SlotRule(env, config, self.timer),
        )
        unique_keys = UniqueKeyMaker(
            ip=intake.store_host[:-4], pid=env.pid, process_number=env.rng.getrandbits(32), zone=env.zone
        )
        self.halves = HalfMessages(engine, config, offsets, self.transaction_metrics, stats, intake, reads)
        self.transaction_check = TransactionCheck(self.halves, topics, clients)
        self.schedule = Schedule(engine, config, self.delay_offsets, stats, intake, reads)
        flusher = None if self.timer is None else TimerFlusher(self.disk, self.timer)
        self.timers = Timers(engine, config, topics, stats, intake, reads, self.timer, flusher)
        self.pops = pops = pop_parts(engine, config, topics, groups, clients, offsets, self.orders, stats, intake, reads)
        pop = Pop(pops)
        self.revive = PopRevive(pops, ReviveClock(env, store, self.timer))
        rules = SendRules(env, config, topics, retries, locks, stats, intake, self.halves, unique_keys, self._disk_use)
        capabilities = (
            Send(rules),
            Replies(engine, config, clients, stats, intake, rules),
            Pull(engine, config, topics, groups, clients, offsets, stats, store, reads, self.filters),
            SendBack(env, config, topics, groups, retries, clients, stats, intake, reads),
            self.schedule,
            Transactions(self.halves),
            self.transaction_check,
            self.timers,
            pop,
            Notification(pops, pop.polling),
            PopEnds(pops),
            self.revive,
            Query(engine.shares, config, clients, store, reads, self.filters),
            Positions(store, reads),
            Topics(engine, reads, config, topics, offsets, stats, store, self._forget_topics),
            Groups(engine, groups, offsets, stats, lambda group, clean: pops.forgetting_group(group, clean_offset=clean)),
            Listings(config, env, topics, groups, offsets, clients, self.delay_offsets.encode),
            Offsets(config, topics, groups, offsets, store),
            OffsetChanges(engine, reads, config, topics, groups, clients, offsets, store),
            ClientManagement(engine, config, topics, groups, clients),
            Assignment(config, topics, groups, clients, self.request_modes, self.routes),
            CallConsumer(engine, config, topics, groups, clients, store),
            Locks(engine, locks),
            ConsumeProgress(env, reads, config, topics, groups, offsets, clients, stats, store),
            Runtime(engine, reads, config, stats, store, lambda: self.delay_offsets.progress, self._usage, self.timers.figures),
            Configuration(config, self._configuration_file, self._register_anew),
            ColdData(config),
            Files(engine, config, topics, store),
        )
        router = Router(Role.BROKER, capabilities, refused.BROKER)
        engine.install(router, {FAST_LISTENER: refused.FAST_PORT}, patience(config))

    def _forget_topics(self, topics: Sequence[str]) -> list[Iterator[None]]:
        for topic in topics:
            self.timers.forget(topic)
        return self.pops.forgetting(topics=topics)

    # -- name servers

    def register_with(self, name_server: NameServer, *, keeps_address: bool = False) -> Slices[None]:
        """Enter this broker into a name server of the same process, in slices, and keep its topics up to date there.

        `keeps_address`: everybody is given brokerIP1; else each asker an address that it reaches.
        """
        self.routes.in_process = name_server.route_answers.finding_route
        period_ms = self.config.register_name_server_period
        return self._embedded.begin(name_server, keeps_address=keeps_address, period_ms=period_ms)

    def withdraw_from_name_server(self) -> None:
        """Take it out again."""
        self.routes.in_process = None
        self._embedded.end()

    def _topics_changed(self, changed: Iterable[TopicConfig]) -> None:
        changed = list(changed)
        self.store.adopt_topics(topic.topic_name for topic in changed)
        self.registrar.topics_changed(changed)
        self._embedded.topics_changed(changed)

    def _register_anew(self) -> None:
        self.registrar.everything_changed()
        self._embedded.everything_changed()

    # -- files

    def _save_soon(self, *tables: PersistedTable) -> None:
        """Write what changed; nobody waits."""
        for table in tables:
            if table.dirty:
                self.saves.soon(table)

    def _save_filters(self) -> None:
        self.filters.sweep()
        self._save_soon(self.filters)

    def _clean_orders(self) -> None:
        if not self.orders.dirty:  # else the write that comes does it
            self.engine.in_background(self.orders.cleaning())

    def _usage(self, path: str) -> Usage | None:
        try:
            return self.disk.usage(path)
        except OSError:
            return None

    def _disk_use(self) -> str:
        """Used parts of the partitions as Java's remark states them (`diskUtil`)."""
        info: Mapping[str, str] = self.store.runtime_info(self.env.wall_ms)
        physical, logical = info.get("commitLogDiskRatio", "-1"), info.get("consumeQueueDiskRatio", "-1")
        return f"CL: {float(physical):5.2f} CQ: {float(logical):5.2f} INDEX: {float(logical):5.2f}"

    def close(self) -> bool:
        """Write every table, as Java does at its end, and close the store.

        True when everything is written and the next start finds a clean stop.
        """
        self.schedule.stop()
        self.revive.stop()
        self.transaction_check.stop()
        self.halves.stop()
        self.timers.stop()
        saved = self.pops.buffer.close(self.store)
        self._sync_log()
        self.halves.settled()
        self.revive.settle()
        self.timers.close()
        saved = self.persister.save_all(but=self.saves.writing) and saved
        saved = self._configuration_file.close() and saved
        return self.store.close(self.env.wall_ms) and saved

    def _sync_log(self) -> None:
        """What files say of the log counts when the disk has it: else messages come twice.  The first ticket may be of queues."""
        store = self.store
        while store.flushed_offset < store.written_offset and (ticket := store.begin_sync(self.env.mono_ms, force=True)):
            error: OSError | None = None
            try:
                ticket.run()
            except OSError as why:
                error = why
            store.end_sync(ticket, error)
