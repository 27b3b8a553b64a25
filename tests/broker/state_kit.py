"""The tables of a broker's state, empty."""

from __future__ import annotations

from broker_impl.config import BrokerConfig, Machine
from broker_impl.env import Env
from broker_impl.state.consumer_offsets import ConsumerOffsets
from broker_impl.state.groups import GroupTable
from broker_impl.state.topics import TopicTable


def tables() -> tuple[TopicTable, GroupTable, ConsumerOffsets]:
    config, env = BrokerConfig({"brokerName": "b"}, Machine()), Env(wall_ms=1_700_000_000_000)
    return TopicTable(config, env), GroupTable(config, env), ConsumerOffsets(config, env)
