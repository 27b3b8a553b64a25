"""Storing what producers send (10, 310, 320): the fast path of a topic, and the rules for everything else.

A send to a topic that was seen before, with nothing special in header or properties, takes the fast path: one look at the topic,
the properties rewritten by a remembered plan, one draft, one formatted answer.  Everything else goes through `SendRules`, step by
step.  Both put through the same `Intake` and store the same bytes (a test compares them).

Java: `SendMessageProcessor`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_impl.capabilities.send_answers import SendAnswers
from broker_impl.capabilities.send_rules import CLEANUP_POLICY, COMPACTION, MULTI_TAG, SendRules, Sent
from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Answer
from broker_impl.engine.call import Call
from broker_impl.engine.router import Capability, answers
from broker_impl.env import Env
from broker_impl.half_messages import HalfMessages
from broker_impl.intake import Intake, Message, NotTaken
from broker_impl.retries import Retries
from broker_impl.state.locks import QueueLocks
from broker_impl.state.stats import Stats
from broker_impl.state.topics import TopicTable
from rmq_wire import properties, sys_flag
from rmq_wire import property_names as prop
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.headers.send import SendBatchMessage, SendMessage, SendMessageV2
from rmq_wire.implied.index_keys import index_keys
from rmq_wire.implied.tags import tags_code
from rmq_wire.implied.timers import TIMES
from rmq_wire.message_id import UniqueKeyMaker
from rmq_wire.property_shapes import Shapes

PATHS_MAX: Final = 4_096
"""Topics with a fast path at once; beyond it all are looked up anew, a microsecond each."""
TAGS_MAX: Final = 4_096
TAG_CHARACTERS_MAX: Final = 128
"""Tags whose hashes are remembered: applications have dozens of short ones."""
SPECIAL: Final = frozenset({prop.DELAY, *TIMES, prop.TRAN_MSG, prop.INNER_NUM, prop.LITE_TOPIC, prop.PRIORITY})
"""Properties that make a send more than an append."""
HALF: Final = frozenset({prop.TRAN_MSG})


class FastPath:
    """What a send to one topic needs to know, settled at the first one.  Valid while `config` is the topic's."""

    __slots__ = ("config", "flags", "queues")

    def __init__(self, config: TopicConfig) -> None:
        self.config = config
        self.queues = max(config.write_queue_nums, config.read_queue_nums)
        self.flags = sys_flag.MULTI_TAGS if config.topic_filter_type == MULTI_TAG else 0


class Send(Capability):
    """Codes 10, 310, 320.  `rewriter` and `unique_keys` are the broker's own; `disk_use()` gives the text of the used ratios."""

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        topics: TopicTable,
        retries: Retries,
        locks: QueueLocks,
        stats: Stats,
        intake: Intake,
        halves: HalfMessages,
        unique_keys: UniqueKeyMaker,
        disk_use: Callable[[], str],
    ) -> None:
        self._env = env
        self._config = config
        self._topics = topics
        self._stats = stats
        self._intake = intake
        self._halves = halves
        self._make_key = lambda: unique_keys.make(env.wall_ms)
        self._rewriter = properties.Rewriter(
            cluster=config.broker_cluster_name, region=config.region_id, trace_on=config.trace_on
        )
        self._answers = SendAnswers(
            intake.store_host,
            region=config.region_id,
            trace_on=config.trace_on,
            sync_flush=config.flush_disk_type == "SYNC_FLUSH",
            max_message_size=lambda: config.max_message_size,
            disk_use=disk_use,
            timer_limits=lambda: (config.timer_max_delay_sec, config.timer_congest_num_each_slot),
        )
        self._shapes = Shapes(self._rewriter, SPECIAL)
        self._rules = SendRules(
            env,
            config,
            topics,
            retries,
            locks,
            stats,
            intake,
            halves,
            self._rewriter,
            self._make_key,
            self._answers,
            self._open_path,
        )
        self._paths: dict[str, FastPath] = {}
        self._tags: dict[str, tuple[int, str]] = {}

    @answers(SendMessage, SendMessageV2, SendBatchMessage, stages=True)
    def send(self, call: Call, asked: Sent) -> Answer:
        """Store the body.  Refused: 1, 13, 14, 16, 17, 26, 29 with the reference's texts."""
        topic = asked.topic
        path = self._paths.get(topic)
        if path is None or asked.batch or path.config is not self._topics.get(topic) or not 0 <= asked.queue_id < path.queues:
            return self._rules.answer(call, asked)
        config = self._config
        body = call.command.body
        wall_ms = self._env.wall_ms
        if (
            not body
            or wall_ms < config.start_accept_send_request_time_stamp
            or not config.broker_permission & sys_flag.PERM_WRITE
        ):
            return self._rules.answer(call, asked)
        if asked.sys_flag & sys_flag.INNER_BATCH:
            return self._rules.answer(call, asked)
        plain = self._shapes.rewrite(asked.properties)
        if plain is not None:
            encoded, unique_key, keys, tags, wait = plain
        else:
            encoded, values = self._rewriter.rewrite(asked.properties, self._make_key)
            special = SPECIAL.intersection(values)
            if special:
                if special == HALF and values[prop.TRAN_MSG] == "true" and not config.reject_transaction_message:
                    return self._half(call, asked, values, path)
                return self._rules.answer(call, asked)
            unique_key, wait = values["UNIQ_KEY"], values.get("WAIT", "")
            keys, tags = values.get("KEYS", ""), values.get("TAGS", "")
        code = 0
        if not tags:
            indexed = index_keys(unique_key, keys, None)
        else:
            code, tag_key = self._tags.get(tags) or self._learn(tags)
            indexed = (unique_key, keys, tag_key) if keys and " " not in keys else index_keys(unique_key, keys, tags)
        try:
            placed = self._intake.put_plain(
                topic,
                asked.queue_id,
                body,
                encoded,
                asked.born_timestamp,
                call.peer.remote_packed,
                asked.flag,
                asked.sys_flag | path.flags,
                asked.reconsume_times or 0,
                code,
                indexed,
                wall_ms,
            )
        except NotTaken as no:
            return self._answers.refusal(no.status)
        self._stats.add_put(topic, asked.queue_id, 1, placed.size)
        return self._answers.one_stored(call, asked.queue_id, placed, unique_key, wait)

    def _half(self, call: Call, asked: Sent, values: dict[str, str], path: FastPath) -> Answer:
        """A half message with nothing else special in it."""
        message = Message(
            asked.topic,
            asked.queue_id,
            call.command.body,
            values,
            flag=asked.flag,
            sys_flag=asked.sys_flag | path.flags,
            born_timestamp=asked.born_timestamp,
            born_host=call.peer.remote_packed,
            reconsume_times=asked.reconsume_times or 0,
        )
        try:
            placed = self._halves.prepare(message)
        except NotTaken as no:
            return self._answers.refusal(no.status)
        self._stats.add_put(message.topic, message.queue_id, 1, placed.size)
        return self._answers.one_stored(call, asked.queue_id, placed, values[prop.UNIQ_KEY], values.get(prop.WAIT, ""))

    def _learn(self, tags: str) -> tuple[int, str]:
        """Tag code and index key of tags.  Remembered while few: applications have dozens."""
        learned = (tags_code(tags), f"T#{tags}")
        if len(self._tags) >= TAGS_MAX:
            self._tags.clear()
        if len(tags) <= TAG_CHARACTERS_MAX:
            self._tags[tags] = learned
        return learned

    def _open_path(self, topic: TopicConfig) -> None:
        if len(self._paths) >= PATHS_MAX:
            self._paths.clear()
        if topic.attributes.get(CLEANUP_POLICY) != COMPACTION:
            self._paths[topic.topic_name] = FastPath(topic)
