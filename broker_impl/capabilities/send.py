"""Storing what producers send (10, 310, 320): the fast path of a topic, and the rules for everything else.

A send to a topic that was seen before, with nothing special in header or properties, takes the fast path: one look at the topic,
the properties rewritten by a remembered plan, one draft, one formatted answer.  Everything else goes through `SendRules`, step by
step.  Both put through the same `Intake` and store the same bytes (a test compares them).

Java: `SendMessageProcessor`.
"""

from __future__ import annotations

from typing import Final

from broker_impl.capabilities.send_rules import SendRules, Sent, filter_flags
from broker_impl.engine.answers import Answer
from broker_impl.engine.call import Call
from broker_impl.engine.router import Capability, answers
from broker_impl.intake import NotTaken
from broker_impl.recent_halves import RecentHalf
from broker_impl.state.attributes import CLEANUP_POLICY, COMPACTION
from rmq_store.log.draft import Draft
from rmq_wire import names, sys_flag
from rmq_wire import property_names as prop
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.headers.send import SendBatchMessage, SendMessage, SendMessageV2
from rmq_wire.implied.index_keys import index_keys, tagged_index_keys, tags_key
from rmq_wire.implied.tags import tags_code
from rmq_wire.implied.timers import TIMES
from rmq_wire.implied.transactions import HALF_QUEUE, addressed, half_string, half_sys_flag
from rmq_wire.property_shapes import PICKED, Shapes

PATHS_MAX: Final = 4_096
"""Topics with a fast path at once; beyond it all are looked up anew, a microsecond each."""
TAGS_MAX: Final = 4_096
TAG_CHARACTERS_MAX: Final = 128
"""Tags whose hashes are remembered: applications have dozens of short ones."""
SPECIAL: Final = frozenset({prop.DELAY, *TIMES, prop.TRAN_MSG, prop.INNER_NUM, prop.LITE_TOPIC, prop.PRIORITY})
"""Properties that make a send more than an append."""
HALF_SPECIAL: Final = SPECIAL - {prop.TRAN_MSG} | {prop.CHECK_IMMUNITY_TIME_IN_SECONDS, prop.INNER_MULTI_DISPATCH}
"""The same for half messages."""
FLAGGED: Final = sys_flag.INNER_BATCH | sys_flag.TRANSACTION_MASK
"""Bits of a sysFlag with which a send is no ordinary one."""


class FastPath:
    """What a send to one topic needs to know, settled at the first one.  Valid while `config` is the topic's."""

    __slots__ = ("config", "flags", "queues")

    def __init__(self, config: TopicConfig) -> None:
        self.config = config
        self.queues = config.queues
        self.flags = filter_flags(config)


class Send(Capability):
    """Codes 10, 310, 320.  `rules` answer what is not ordinary; what the broker's sends share is theirs."""

    def __init__(self, rules: SendRules) -> None:
        self.rules = rules
        self._env = rules.env
        self._config = rules.config
        self._topics = rules.topics
        self._stats = rules.stats
        self._intake = rules.intake
        self._store_host = rules.intake.store_host
        self._halves = rules.halves
        self._answers = rules.answers
        self._make_key = rules.make_key
        self._rewriter = rules.rewriter
        rewrite = self._rewriter.rewrite
        self._shapes = Shapes(lambda text: rewrite(text, str)[0], SPECIAL)
        self._half_shapes = Shapes(
            lambda text: half_string(text, self._rewriter), HALF_SPECIAL, (*PICKED, prop.PGROUP, prop.TRAN_MSG)
        )
        self._paths: dict[str, FastPath] = {}
        self._tags: dict[str, tuple[int, str]] = {}

    @answers(SendMessage, SendMessageV2, SendBatchMessage, stages=True, in_order=True)
    def send(self, call: Call, asked: Sent) -> Answer:
        """Store the body.  Refused: 1, 13, 14, 16, 17, 26, 29 with the reference's texts."""
        topic = asked.topic
        path = self._paths.get(topic)
        if path is None or asked.batch or path.config is not self._topics.get(topic) or not 0 <= asked.queue_id < path.queues:
            return self.rules.answer(call, asked, self._open_path)
        config = self._config
        body = call.command.body
        wall_ms = self._env.wall_ms
        if (
            not body
            or wall_ms < config.start_accept_send_request_time_stamp
            or not config.broker_permission & sys_flag.PERM_WRITE
        ):
            return self.rules.answer(call, asked, self._open_path)
        if asked.sys_flag & FLAGGED:
            return self._half(call, asked, path) or self.rules.answer(call, asked, self._open_path)
        plain = self._shapes.rewrite(asked.properties)
        if plain is not None:
            encoded, unique_key, keys, tags, wait = plain
        else:
            encoded, values = self._rewriter.rewrite(asked.properties, self._make_key)
            if not SPECIAL.isdisjoint(values):
                return self.rules.answer(call, asked, self._open_path)
            unique_key, wait = values["UNIQ_KEY"], values.get("WAIT", "")
            keys, tags = values.get("KEYS", ""), values.get("TAGS", "")
        code = 0
        if not tags:
            indexed = index_keys(unique_key, keys, None)
        else:
            code, tag_key = self._tags.get(tags) or self._learn(tags)
            indexed = tagged_index_keys(unique_key, keys, tag_key)
        draft = Draft(
            topic,
            asked.queue_id,
            body,
            encoded,
            asked.born_timestamp,
            call.peer.remote_packed,
            self._store_host,
            asked.flag,
            asked.sys_flag | path.flags,
            asked.reconsume_times or 0,
            0,
            code,
            indexed,
        )
        try:
            placed = self._intake.stage_draft(draft, wall_ms)
        except NotTaken as no:
            return self._answers.refusal(no.status)
        self._stats.add_put(topic, asked.queue_id, 1, placed.size)
        return self._answers.one_stored(call, asked.queue_id, placed, unique_key, wait)

    def _half(self, call: Call, asked: Sent, path: FastPath) -> Answer | None:
        """A half message with nothing else special in it; None for what is not."""
        if asked.sys_flag & FLAGGED != sys_flag.TRANSACTION_PREPARED or self._config.reject_transaction_message:
            return None
        topic, queue_id = asked.topic, asked.queue_id
        plain = self._half_shapes.rewrite(addressed(asked.properties, topic, queue_id))
        if plain is None or plain[-1] != "true":
            return None
        encoded, unique_key, keys, tags, wait, group, _ = plain
        draft = Draft(
            names.TRANS_HALF_TOPIC,
            HALF_QUEUE,
            bytes(call.command.body),
            encoded,
            asked.born_timestamp,
            call.peer.remote_packed,
            self._store_host,
            asked.flag,
            half_sys_flag(asked.sys_flag | path.flags),
            asked.reconsume_times or 0,
            0,
            (self._tags.get(tags) or self._learn(tags))[0] if tags else 0,
            index_keys(unique_key, keys, tags or None),
        )
        try:
            placed = self._intake.stage_draft(draft, self._env.wall_ms)
        except NotTaken as no:
            return self._answers.refusal(no.status)
        self._stats.add_put(names.TRANS_HALF_TOPIC, HALF_QUEUE, 1, placed.size)
        answer = self._answers.one_stored(call, queue_id, placed, unique_key, wait)
        half = RecentHalf(draft, topic, queue_id, group, placed.queue_offset, placed.size)
        self._halves.coming(placed.physical_offset, half)
        return answer

    def _learn(self, tags: str) -> tuple[int, str]:
        """Tag code and index key of tags.  Remembered while few: applications have dozens."""
        learned = (tags_code(tags), tags_key(tags))
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
