"""What a broker with this configuration refuses, whatever it has stored: its own rules, for who asks before one runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from broker_impl.capabilities.topics import content_problem, name_problem
from broker_impl.config import BrokerConfig
from broker_impl.env import Env
from broker_impl.intake import Intake, Message, check_inner_batch, check_key, not_taken
from broker_impl.state.topics import TopicTable
from broker_impl.store_settings import timer_settings
from broker_impl.timer_slots import SlotRule
from rmq_store.errors import Illegal
from rmq_store.log.staging import check_sizes
from rmq_store.store import Store
from rmq_store.timer.settings import TimerSettings
from rmq_wire import properties
from rmq_wire.bodies.topics import TopicConfig

_HOST = bytes(8)
_WALL_MS = 10**12
"""When a message will be sent is not known, but how many digits that has is."""


class _EmptyTimer:
    """A timer in which nothing waits."""

    def __init__(self, settings: TimerSettings) -> None:
        self.settings = settings

    def count(self, slot_ms: int) -> int:
        return 0


class Foreseen:
    """Of one broker.  Problems are told in the words of its answers."""

    def __init__(self, config: BrokerConfig) -> None:
        env = Env()
        self.config = config
        self._topics = TopicTable(config, env)
        self._rewriter = properties.Rewriter(
            cluster=config.broker_cluster_name, region=config.region_id, trace_on=config.trace_on
        )
        slots = SlotRule(env, config, _EmptyTimer(timer_settings(config))) if config.timer_wheel_enable else None
        self._intake = Intake(cast(Store, None), store_host=_HOST, delay_levels_ms=config.delay_levels, slot_of=slots)

    def topic_name_problem(self, name: str) -> str | None:
        """Of a topic that a tool makes or changes."""
        return name_problem(name, self.config, self._topics)

    def topic_problem(self, topic: TopicConfig) -> str | None:
        """Of everything else in it; its attributes are a change (`+key`)."""
        return content_problem(topic, self.config)

    def check_message(self, topic: str, attributes: Mapping[str, str], body: bytes, sent: str) -> None:
        """A message with these properties, as a producer sends them; attributes: its topic's.  Raises `NotTaken`, `Refusal`."""
        try:
            most = self.config.max_message_size
            rewritten, values = self._rewriter.rewrite(sent, str)
            check_sizes(len(body), len(rewritten), most)
            check_key(attributes, values)
            check_inner_batch(values, 0, has_batch_queues=None)
            message = Message(topic, 0, body, values, flag=0, sys_flag=0, born_timestamp=0, born_host=_HOST, reconsume_times=0)
            self._intake.divert(message, _WALL_MS)
            check_sizes(len(body), len(self._intake.draft(message).properties), most)
        except Illegal as why:
            raise not_taken(why) from None
