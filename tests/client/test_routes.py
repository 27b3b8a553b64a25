"""The table of routes: what follows from a name server's answer."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_client.errors import CallerError
from rmq_client.routes import MessageQueue, Place, RouteTable, TopicRoute, modelled_on
from rmq_wire.bodies.route import BrokerData, QueueData, TopicQueueMappingInfo, TopicRouteData
from rmq_wire.errors import BadBody


def data(*rows: tuple[str, int, int, int], brokers: dict[str, dict[int, str]], **more: Any) -> TopicRouteData:
    """Rows: broker, queues to read, to write, permission."""
    queues = [QueueData(broker_name=name, read_queue_nums=r, write_queue_nums=w, perm=perm) for name, r, w, perm in rows]
    named = [BrokerData(cluster="C", broker_name=name, broker_addrs=addresses) for name, addresses in brokers.items()]
    return TopicRouteData(queue_datas=queues, broker_datas=named, **more)


TWO = data(("b", 2, 3, 6), ("a", 1, 1, 6), brokers={"a": {0: "a:1"}, "b": {0: "b:1", 1: "b:2", 2: "b:3"}})


def laid(*pairs: tuple[str, int]) -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue("T", broker, at) for broker, count in pairs for at in range(count))


def test_queues_follow_from_counts_and_brokers_are_in_order() -> None:
    route = TopicRoute.of("T", TWO)
    assert route.writable == laid(("a", 1), ("b", 3))
    assert route.readable == laid(("a", 1), ("b", 2))


def test_queues_to_write_are_those_of_masters() -> None:
    route = TopicRoute.of("T", data(("a", 1, 1, 6), ("b", 1, 1, 6), brokers={"a": {1: "a:2"}, "b": {0: "b:1"}}))
    assert route.writable == laid(("b", 1))
    assert route.readable == laid(("a", 1), ("b", 1)), "a slave is read"


@pytest.mark.parametrize(("perm", "written", "read"), [(6, 1, 1), (4, 0, 1), (2, 1, 0), (0, 0, 0)])
def test_permissions(perm: int, written: int, read: int) -> None:
    route = TopicRoute.of("T", data(("a", 1, 1, perm), brokers={"a": {0: "a:1"}}))
    assert (len(route.writable), len(route.readable)) == (written, read)


def test_ordered_topics_keep_their_queues() -> None:
    """Whichever brokers are alive: order is worth more there than a send that works."""
    route = TopicRoute.of("T", data(("a", 1, 1, 6), brokers={"a": {0: "a:1"}}, order_topic_conf="b:2;a:1"))
    assert route.ordered
    assert route.writable == laid(("b", 2), ("a", 1))


@pytest.mark.parametrize("text", ["a", "a:x", "a:-1", "a:1;", "a:9999999"])
def test_an_ordered_configuration_that_is_none(text: str) -> None:
    with pytest.raises(BadBody):
        TopicRoute.of("T", data(brokers={}, order_topic_conf=text))


def test_routes_that_are_too_much() -> None:
    with pytest.raises(BadBody, match="2000000000 queues"):
        TopicRoute.of("T", data(("a", 10**9, 10**9, 6), brokers={"a": {0: "a:1"}}))
    static = data(("a", 1, 1, 6), brokers={"a": {0: "a:1"}}, topic_queue_mapping_by_broker={"a": TopicQueueMappingInfo()})
    with pytest.raises(CallerError, match="static topic"):
        TopicRoute.of("T", static)


def test_a_new_topic_has_as_many_queues_as_its_model_and_no_more_than_asked_for() -> None:
    route = TopicRoute.of("new", modelled_on(TWO, 2))
    assert [(queue.broker_name, queue.queue_id) for queue in route.writable] == [("a", 0), ("b", 0), ("b", 1)]


def test_where_one_writes_and_reads() -> None:
    table = RouteTable()
    assert table.put("T", TWO)
    assert not table.put("T", TWO), "the same again changes nothing"
    assert (table.master("a"), table.master("b"), table.master("c")) == ("a:1", "b:1", None)
    assert table.reading_place("b") == Place("b:1", False)
    assert table.reading_place("b", 1) == Place("b:2", True)
    assert table.reading_place("b", 5) == Place("b:1", False), "that slave is gone: the lowest id"
    assert table.reading_place("c") is None
    table.put("T", data(("b", 1, 1, 6), brokers={"b": {2: "b:3", 3: "b:4"}}))
    assert table.master("b") is None
    assert table.reading_place("b") == Place("b:3", True)
    assert table.reading_place("b", 1) == Place("b:3", True), "the next slave"


def test_brokers_that_no_route_names_are_dropped() -> None:
    table = RouteTable()
    table.put("T", TWO)
    table.put("U", data(("a", 1, 1, 6), brokers={"a": {0: "a:1"}}))
    assert table.drop_unrouted() == []
    table.forget("T")
    assert table.drop_unrouted() == ["b:1", "b:2", "b:3"]
    assert table.addresses() == {"a:1"}


def test_masters_alone() -> None:
    table = RouteTable()
    table.put("T", TWO)
    assert table.addresses(masters_only=True) == {"a:1", "b:1"}
    assert table.addresses() == {"a:1", "b:1", "b:2", "b:3"}


def test_a_bad_answer_leaves_the_old_route() -> None:
    table = RouteTable()
    table.put("T", TWO)
    with pytest.raises(BadBody):
        table.put("T", data(brokers={"a": {0: "evil:1"}}, order_topic_conf="?"))
    assert table.master("a") == "a:1"
    found = table.get("T")
    assert found is not None
    assert found.data == TWO
