"""How the broker is doing: everything that `brokerStatus` and `clusterList` show (28), one counter at a time (315).

All values are texts under Java's names; tools parse them as numbers and fail on a missing one, so figures of machinery that
does not exist here (thread pools) are there as zero.  Java: `AdminBrokerProcessor.prepareRuntimeInfo`,
`DefaultMessageStore.getRuntimeInfo`, `ScheduleMessageService.buildRunningStats`, `BrokerStats`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Answer, Pause, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.cold_reads import ColdReads
from broker_impl.engine.router import Capability, answers
from broker_impl.state.stats import HOURS_MS, MINUTES_MS, SECONDS_MS, Snapshot, Stats
from rmq_store.disk.disk import Usage
from rmq_wire import names
from rmq_wire.bodies.kv import KVTable
from rmq_wire.bodies.stats import BrokerStatsData, BrokerStatsItem
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.runtime import GetBrokerRuntimeInfo
from rmq_wire.headers.stats import ViewBrokerStatsData

if TYPE_CHECKING:
    from broker_impl.engine.engine import Engine

VERSION_NAME = "V5_5_0"
"""The version whose behaviour is promised (`MQVersion.getVersionDesc`)."""
UNBOUNDED = 2**31 - 1
"""Java's figure for buffers of a pool that is switched off."""
CLEAN_MS = 600_000
"""How often idle counters are looked for (`BrokerStatsManager.cleanAllResource`)."""
POOLS = ("send", "pull", "litePull", "query", "ack")
"""Java's thread pools that have figures."""


class RuntimeStore(Protocol):
    """What is asked of the store here."""

    def runtime_info(self, wall_ms: int) -> dict[str, str]: ...
    @property
    def written_offset(self) -> int: ...
    @property
    def flushed_offset(self) -> int: ...
    @property
    def dispatch_behind_bytes(self) -> int: ...
    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]: ...
    def earliest_message_time(self) -> int: ...


class Runtime(Capability):
    """Registers the sampling of the counters with the engine.

    `delay_offsets()`: progress by delay level; `usage(path)`: the file system that holds a path, or None;
    `timer()`: its figures.
    """

    def __init__(
        self,
        engine: Engine,
        reads: ColdReads,
        config: BrokerConfig,
        stats: Stats,
        store: RuntimeStore,
        delay_offsets: Callable[[], Mapping[int, int]],
        usage: Callable[[str], Usage | None],
        timer: Callable[[], dict[str, str]],
    ) -> None:
        self._timer = timer
        self._config = config
        self._stats = stats
        self._store = store
        self._delay_offsets = delay_offsets
        self._usage = usage
        for period_ms in (SECONDS_MS, MINUTES_MS, HOURS_MS):
            engine.every(period_ms, partial(self._sample, period_ms), first_ms=0)
        engine.every(CLEAN_MS, lambda: engine.in_background(stats.dropping_idle()))
        self._engine, self._reads = engine, reads
        self._sampling: set[int] = set()
        """Periods whose counters are being noted."""
        self._await_morning()

    def _sample(self, period_ms: int) -> None:
        """Unless the last time is not over: many counters take long where others want slices, too."""
        if period_ms not in self._sampling:
            self._sampling.add(period_ms)
            self._engine.in_background(self._stats.sample(period_ms), lambda *_: self._sampling.discard(period_ms))

    @answers(GetBrokerRuntimeInfo)
    def runtime(self, call: Call, asked: GetBrokerRuntimeInfo) -> Answer:
        """Everything."""
        try:
            table = self._store.runtime_info(call.env.wall_ms)
        except OSError as failed:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"the disk cannot be asked: {failed}") from failed
        return self._runtime(table)

    def _runtime(self, table: dict[str, str]) -> Generator[Pause | None, None, Reply]:
        earliest = yield from self._reads.warmed(self._store.earliest_message_time)
        table["earliestMessageTimeStamp"] = str(earliest)
        table.update(self._disk())
        table.update(self._broker())
        table.update(self._pools())
        return Reply(body=KVTable(table=table).encode())

    @answers(ViewBrokerStatsData)
    def counter(self, call: Call, asked: ViewBrokerStatsData) -> Answer:
        """One counter over a minute, an hour and a day."""
        item = self._stats.item(asked.stats_name, asked.stats_key)
        if item is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"The stats <{asked.stats_name}> <{asked.stats_key}> not exist")
        body = BrokerStatsData(stats_minute=_item(item.minute()), stats_hour=_item(item.hour()), stats_day=_item(item.day()))
        return Reply(body=body.encode())

    def _await_morning(self) -> None:
        """At the next midnight of the broker's zone, and every one after it (Java: `initializeBrokerScheduledTasks`)."""
        env = self._engine.env
        now = datetime.fromtimestamp(env.wall_ms / 1000, env.zone)
        midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        midnight_ms = int(midnight.timestamp()) * 1000
        self._engine.at(env.mono_ms + max(1, midnight_ms - env.wall_ms), partial(self._morning, midnight_ms))

    def _morning(self, midnight_ms: int) -> None:
        if self._engine.env.wall_ms >= midnight_ms:  # or the clock was set back, or goes slower than the other one
            self._stats.morning()
        self._await_morning()

    def _disk(self) -> dict[str, str]:
        store, config = self._store, self._config
        root = self._usage(config.store_path_root_dir)
        found = {
            "dispatchBehindBytes": str(store.dispatch_behind_bytes),
            "pageCacheLockTimeMills": "0",
            "remainTransientStoreBufferNumbs": str(UNBOUNDED),
            "remainHowManyDataToFlush": byte_count_text(store.written_offset - store.flushed_offset),
        }
        if root is not None:
            free, total = byte_count_text(root.free), byte_count_text(root.total)
            found["commitLogDirCapacity"] = f"Total : {total}, Free : {free}."
        for level, offset in self._delay_offsets().items():
            most = store.queue_bounds(names.SCHEDULE_TOPIC, level - 1)[1]
            found[f"scheduleMessageOffset_{level}"] = f"{offset},{most}"
        return found

    def _broker(self) -> dict[str, str]:
        stats = self._stats
        return {
            "brokerActive": "true",
            "brokerVersionDesc": VERSION_NAME,
            "startAcceptSendRequestTimeStamp": str(self._config.start_accept_send_request_time_stamp),
            "msgPutTotalYesterdayMorning": str(stats.put_yesterday_morning),
            "msgPutTotalTodayMorning": str(stats.put_today_morning),
            "msgPutTotalTodayNow": str(stats.put_now),
            "msgGetTotalYesterdayMorning": str(stats.get_yesterday_morning),
            "msgGetTotalTodayMorning": str(stats.get_today_morning),
            "msgGetTotalTodayNow": str(stats.get_now),
            **self._timer(),
        }

    def _pools(self) -> dict[str, str]:
        found = {
            "EndTransactionQueueSize": "0",
            "EndTransactionThreadPoolQueueCapacity": self._config.text("endTransactionPoolQueueCapacity") or "0",
        }
        for pool in POOLS:
            found[f"{pool}ThreadPoolQueueSize"] = "0"
            found[f"{pool}ThreadPoolQueueCapacity"] = self._config.text(f"{pool}ThreadPoolQueueCapacity") or "0"
            found[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
        return found


def byte_count_text(count: int) -> str:
    """`1.5 MiB` (`MixAll.humanReadableByteCount`, binary)."""
    if count < 1024:
        return f"{count} B"
    value, power = float(count), 0
    while value >= 1024:
        value /= 1024
        power += 1
    return f"{value:.1f} {'KMGTPE'[power - 1]}iB"


def _item(window: Snapshot) -> BrokerStatsItem:
    return BrokerStatsItem(sum=window.sum, tps=window.tps, avgpt=window.average)
