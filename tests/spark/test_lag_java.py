"""Job `lag` beside the real broker: what `mqadmin consumerProgress` prints is the answer of GET_CONSUME_STATS, queue by queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmq_spark.jobs import lag as job
from rmq_wire.codes import RequestCode
from rmq_wire.fastjson import dumps_pretty, loads
from tests.support import remoting
from tests.support.golden import SMALL_FILES
from tests.support.java import java
from tests.support.reference import JavaBroker, JavaNameServer
from tests.support.stores import golden_of

pytestmark = pytest.mark.java
GROUP = "GID_traced"


def progress(address: str, group: str) -> dict[tuple[str, int], tuple[int, int]]:
    """(topic, queue) -> diff and inflight, computed as `ConsumerProgressSubCommand` computes them."""
    answer = remoting.ask(address, RequestCode.GET_CONSUME_STATS, {"consumerGroup": group})
    assert answer.code == 0, answer
    found = {}
    for queue, one in loads(answer.body)["offsetTable"].items():
        at = one["consumerOffset"]
        found[queue.topic, queue.queue_id] = (one["brokerOffset"] - at, one["pullOffset"] - at)
    return found


def test_diff_and_inflight(spark: Any, tmp_path: Path) -> None:
    java()
    store = golden_of("trace", tmp_path / "store")
    path = store / "config" / "consumerOffset.json"
    value = loads(path.read_bytes())
    value["offsetTable"][f"traced@{GROUP}"] = {0: 0, 1: 2}
    path.write_bytes(dumps_pretty(value))
    with JavaNameServer(tmp_path / "ns") as names:
        broker = JavaBroker(tmp_path / "broker", names.address, store=store, properties=SMALL_FILES)
        try:
            broker.start()
            reported = {group: progress(broker.address, group) for group in (GROUP, f"{GROUP}_strict")}
            broker.stop()
        finally:
            broker.end()
    rows = job.lag(spark, store).collect()
    assert sum(diff for diff, _ in reported[GROUP].values()) > 2  # what was taken back above, and the queues without a position
    for group, expected in reported.items():
        found = {(row["topic"], row["queueId"]): (row["diff"], row["inflight"]) for row in rows if row["group"] == group}
        assert found == expected
