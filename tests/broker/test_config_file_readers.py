"""Whatever a configuration file holds, its reader takes it or says `BadBody`: anything else would be taken for a bug of ours."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_impl.namesrv.kv import KvTable
from broker_impl.state.delay_offsets import DelayOffsets
from rmq_wire.errors import BadBody
from tests.broker.state_kit import tables

MEMBERS = {
    "topicConfigTable": {"T": {"topicName": "T", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "attributes": {"a": "b"}}},
    "subscriptionGroupTable": {"G": {"groupName": "G", "consumeEnable": True, "retryQueueNums": 1}},
    "forbiddenTable": {"G": {"T": 1}},
    "offsetTable": {"T@G": {"0": 5}, "1": 7},
    "pullOffsetTable": {"T@G": {"0": 5}},
    "configTable": {"N": {"k": "v"}},
    "dataVersion": {"counter": 1, "timestamp": 2, "stateVersion": 0},
}
READERS: dict[str, Callable[[], Any]] = {
    "topics": lambda: tables()[0],
    "groups": lambda: tables()[1],
    "offsets": lambda: tables()[2],
    "delay offsets": lambda: DelayOffsets(lambda: 0),
    "key-value": KvTable,
}
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4)
KNOWN = ("T", "G", "T@G", "0", "topicName", "groupName", "perm", "attributes", "a", "", "../x", "\ud800")
NAMES = st.sampled_from(KNOWN) | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=12
)


def _replaced(value: Any, path: list[int], by: Any) -> Any:
    """The value with what lies at this path exchanged."""
    if not path or not isinstance(value, dict) or not value:
        return by
    name = list(value)[path[0] % len(value)]
    return {**value, name: _replaced(value[name], path[1:], by)}


@pytest.mark.parametrize("reader", READERS)
@given(st.lists(st.integers(0, 7), max_size=4), VALUES, st.dictionaries(st.sampled_from(list(MEMBERS)), VALUES, max_size=3))
@settings(max_examples=120, deadline=None)
def test_any_document(reader: str, path: list[int], by: Any, members: dict[str, Any]) -> None:
    text = json.dumps(_replaced({**MEMBERS, **members}, path, by)).encode()
    with contextlib.suppress(BadBody):
        READERS[reader]().load(text)


@pytest.mark.parametrize("reader", READERS)
@given(st.integers(0, 600), st.binary(max_size=6), st.integers(0, 6))
@settings(max_examples=120, deadline=None)
def test_any_bytes(reader: str, at: int, put: bytes, removed: int) -> None:
    text = json.dumps(MEMBERS).encode()
    with contextlib.suppress(BadBody):
        READERS[reader]().load(text[:at] + put + text[at + removed :])
