"""Files of the store that have had their time: deleted when the store says so, and when somebody asks for it (306, 316, 329).

The store decides what goes and when; here it gets a thread (the thread `clean`) and the clock.  Java: `AdminBrokerProcessor`
(cleanExpiredConsumeQueue, cleanUnusedTopic, deleteExpiredCommitLog), `DefaultMessageStore.addScheduleTask`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Protocol

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import LATER, Answer, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.peer import Peer
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import ROWS_PER_SLICE, Slices
from broker_impl.state.topics import TopicTable
from broker_impl.store_settings import retention_rules
from rmq_net.service import Job
from rmq_store.disk_space import RetentionRules
from rmq_store.retention import Chore, Removal, Retention
from rmq_wire import names
from rmq_wire.headers.files import CleanExpiredConsumeQueue, DeleteExpiredCommitLog
from rmq_wire.headers.topics import CleanUnusedTopic

if TYPE_CHECKING:
    from broker_impl.engine.engine import Engine

THREAD = "clean"


class FilesStore(Protocol):
    """What is asked of the store here."""

    retention: Retention

    def retain_by(self, rules: RetentionRules) -> None: ...
    def cleaning_expired_queues(self) -> Generator[None, None, int]: ...
    def topic_names(self) -> list[str]: ...
    def deleting_topics(self, topics: Iterable[str]) -> Generator[None, None, int]: ...


class Files(Capability):
    """Registers the looks for old files with the engine, and obeys the configuration as it changes."""

    def __init__(self, engine: Engine, config: BrokerConfig, topics: TopicTable, store: FilesStore) -> None:
        self._engine = engine
        self._config = config
        self._topics = topics
        self._store = store
        config.on_update.append(lambda _changed: store.retain_by(retention_rules(config)))
        self._later()

    @answers(CleanExpiredConsumeQueue)
    def clean_expired_queues(self, call: Call, asked: CleanExpiredConsumeQueue) -> Answer:
        """Remove queues whose messages have all gone with the log."""
        self._engine.in_background(self._cleaning_expired_queues(call.peer), call.detach().acknowledge)
        return LATER

    def _cleaning_expired_queues(self, asker: Peer) -> Slices[None]:
        count = yield from self._store.cleaning_expired_queues()
        self._engine.env.log.warning("%d queues without a message left are removed for %s", count, asker)

    @answers(CleanUnusedTopic)
    def clean_unused_topics(self, call: Call, asked: CleanUnusedTopic) -> Answer:
        """Remove the queues of topics that are not configured any more, but those of system topics and light queues."""
        self._engine.in_background(self._cleaning_unused_topics(call.peer), call.detach().acknowledge)
        return LATER

    def _cleaning_unused_topics(self, asker: Peer) -> Slices[None]:
        found, count = self._store.topic_names(), 0
        for start in range(0, len(found), ROWS_PER_SLICE):
            unused = [topic for topic in found[start : start + ROWS_PER_SLICE] if self._is_unused(topic)]
            count += yield from self._store.deleting_topics(unused)
            yield None
        self._engine.env.log.warning("the queues of %d topics are removed for %s", count, asker)

    def _is_unused(self, topic: str) -> bool:
        return topic not in self._topics and not self._topics.is_system(topic) and not names.is_lmq(topic)

    @answers(DeleteExpiredCommitLog)
    def delete_expired_log_files(self, call: Call, asked: DeleteExpiredCommitLog) -> Answer:
        """Delete log files past their time at any hour, in the next looks."""
        self._engine.env.log.warning("expired files of the commit log are deleted for %s", call.peer)
        self._store.retention.delete_now()
        return Reply()

    # -- looks

    def _later(self) -> None:
        mono_ms = self._engine.env.mono_ms
        self._engine.at(max(self._store.retention.next_due(mono_ms), mono_ms + 1), self._look)

    def _look(self) -> None:
        env = self._engine.env
        chore = None
        try:
            chore = self._store.retention.begin(env.mono_ms, env.wall_ms)
        finally:
            if chore is None:
                self._later()
        if chore is not None:
            self._engine.job(Job(THREAD, chore.run, lambda _, error: self._done(chore, error)))

    def _done(self, chore: Chore, error: BaseException | None) -> None:
        self._store.retention.end(chore, error, self._engine.env.mono_ms)
        if isinstance(chore, Removal):
            failed = dict(chore.failed)
            self._engine.env.log.info("old files removed: %s", [path for path in chore.paths if path not in failed])
            for path, why in failed.items():
                self._engine.env.log.error("%s is not needed any more and cannot be removed: %s", path, why)
        if error is not None:
            self._engine.env.log.error("cleaning up met an error: %s", error)
        self._later()
