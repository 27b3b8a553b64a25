"""The order of Java's hash maps, kept as keys come and go, and what is written in it while rows change."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from broker_impl.config import BrokerConfig, Machine
from broker_impl.engine.slices import finished
from broker_impl.env import Env
from broker_impl.state import java_order
from broker_impl.state.consumer_offsets import ConsumerOffsets
from broker_impl.state.java_order import JavaOrder
from rmq_wire import fastjson
from rmq_wire.java import concurrent_order, iteration_order, spread_of
from tests.support.lines import lines_of

slow = settings(deadline=None, max_examples=60)


def offsets() -> ConsumerOffsets:
    return ConsumerOffsets(BrokerConfig({"brokerName": "broker-a"}, Machine()), Env(wall_ms=1_700_000_000_000))


@slow
@given(st.lists(st.text(max_size=6), unique=True, max_size=200), st.sampled_from([8, 16, 128]))
def test_the_order_of_java_maps_is_kept_as_keys_come(keys: list[str], buckets: int) -> None:
    order, concurrent = JavaOrder(buckets, concurrent=False), JavaOrder(buckets)
    for key in keys:
        order.add(key)
        concurrent.add(key)
    assert list(concurrent) == concurrent_order(keys, buckets)
    limit = buckets * 3 // 4
    if len(keys) <= limit or limit * 2 >= len(keys):
        assert list(order) == iteration_order(keys, order._buckets)
    assert sorted(order) == sorted(keys)


KEYS = [f"k{number}" for number in range(60)]


@slow
@given(st.lists(st.tuples(st.sampled_from("+++-s"), st.sampled_from(KEYS)), max_size=300), st.integers(2, 5))
def test_the_order_forgets_what_goes(events: list[tuple[str, str]], block_max: int) -> None:
    """And whoever asked for it before has it as it was then."""
    order, model = JavaOrder(8, concurrent=False), dict[str, None]()
    seen: list[tuple[list[str], Any]] = []

    def wanted() -> list[str]:
        return sorted(model, key=lambda key: spread_of(key) & (order._buckets - 1))  # in a bucket by arrival

    with patch.object(java_order, "BLOCK_MAX", block_max):
        for event, key in [*events, ("s", "")]:
            if event == "s":
                seen.append((wanted(), order.portions()))
            elif event == "+" and key not in model:
                order.add(key)
                model[key] = None
            elif event == "-" and key in model:
                order.remove(key)
                del model[key]
            assert sorted(model, key=order.place) == wanted()
    for then, portions in seen:
        assert [place[1] for portion in portions for place in portion] == then
    assert list(order) == wanted()


CLOSE = [f"T{number * number * 43 % 1009}@g{number % 7}" for number in range(60)]
"""Eight of them, no more, in one of 16 buckets."""


@slow
@given(st.permutations(CLOSE), st.integers(2, 5), st.integers(0, 60))
def test_keys_are_turned_round_where_they_part(keys: list[str], block_max: int, gone: int) -> None:
    """In a `ConcurrentHashMap`, by each doubling, those that are there then; whoever asks in the midst of it has it so, too."""
    order, plain, seen = JavaOrder(8), JavaOrder(8, concurrent=False), []
    with patch.object(java_order, "BLOCK_MAX", block_max):
        for count, key in enumerate(keys, 1):
            order.add(key)
            plain.add(key)
            seen.append((concurrent_order(keys[:count], 8), order.portions()))
        for then, portions in seen:
            assert [place[1] for portion in portions for place in portion] == then
        through = not order._rest.blocks  # else who goes is missed where others are turned round
        for key in keys[:gone]:
            order.remove(key)
    left = [key for key in concurrent_order(keys, 8) if key in keys[gone:]]
    assert sorted(order) == sorted(left)
    assert list(plain) == iteration_order(keys, 8)
    if through:
        assert list(order) == sorted(left, key=order.place) == left


def test_a_doubling_is_through_when_all_that_is_left_of_it_goes() -> None:
    """What had gone on already was not found any more, and was lost with the next doubling: the file lacked rows."""
    order, keys = JavaOrder(16), [f"key-{number}" for number in range(770)]
    for key in keys:
        order.add(key)
    left = {key for block in order._rest.blocks for _, key, _ in block}
    assert left
    for key in sorted(left):
        order.remove(key)
    for key in keys:
        if key not in left:
            order.remove(key)
    assert not list(order)


def test_no_key_that_goes_takes_longer_in_a_larger_order() -> None:
    """Places of keys that had gone were swept out together: 87 ms for 100,000."""

    def longest(count: int) -> int:
        order = filled(count)
        return max(lines_of(lambda number=number: order.remove(f"key-{number}")) for number in range(count))  # type: ignore[misc]

    assert longest(8_000) <= longest(1_000) + 2 * 3  # three more steps of a search
    assert max(map(len, (order := filled(8_000)).portions())) <= java_order.BLOCK_MAX
    assert list(order) == concurrent_order([f"key-{number}" for number in range(8_000)], 1 << 14)


def test_no_key_that_comes_takes_longer_in_a_larger_order() -> None:
    """Where the map of Java doubles, all keys were walked at once: 376 ms for 786,432."""

    order = JavaOrder(16)
    longest = max(lines_of(lambda number=number: order.add(f"key-{number}")) for number in range(8_000))  # type: ignore[misc]
    assert longest <= 10 * java_order.BLOCK_MAX


def filled(count: int) -> JavaOrder:
    order = JavaOrder(1 << 14)
    for number in range(count):
        order.add(f"key-{number}")
    return order


def test_a_table_that_changes_without_end_is_written() -> None:
    """Each slice was followed by more changes than it encoded: no write of progress came to its end."""
    table = offsets()
    for number in range(5_000):
        table.commit(f"G{number}", "T", 0, 1)
    for at, _ in enumerate(table.encode_slices()):
        assert at < 2_000
        for number in range(at * 300, at * 300 + 300):
            table.commit(f"G{number % 5_000}", "T", 0, at + 2)


def test_what_changes_while_a_table_is_written_is_not_in_the_file() -> None:
    """Nor is what goes missing from it: the encoded rows are not copied."""
    table = offsets()
    for number in range(1_000):
        table.commit(f"G{number}", "T", 0, 1)
    slices = table.encode_slices()
    chunks = [next(slices)]
    while b"offsetTable" not in b"".join(chunks):
        chunks.append(next(slices))
    table.commit("G5", "T", 0, 42)
    table.commit("new", "T", 0, 42)
    finished(table.dropping_group("G6"))
    other = table.encode()
    document = fastjson.loads(b"".join([*chunks, *slices]))
    assert set(document["offsetTable"]) == {f"T@G{number}" for number in range(1_000)}
    assert document["offsetTable"]["T@G5"] == {"0": 1}
    after = fastjson.loads(other)["offsetTable"]
    assert after["T@G5"] == {"0": 42}
    assert "T@new" in after
    assert "T@G6" not in after
    assert not table._offsets._snapshots


def test_rows_that_are_long_have_slices_of_their_own() -> None:
    """32 groups with progress in 16,384 queues were encoded in one piece."""
    table = offsets()
    for group in range(8):
        for queue_id in range(16_384):
            table.commit(f"G{group}", "T", queue_id, 1)
    pauses = sum(chunk == b"" for chunk in table.encode_slices())
    assert pauses >= 7
