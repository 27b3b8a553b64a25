"""The figures of code 28 that the store owns, in Java's spelling."""

from __future__ import annotations

from datetime import UTC

import pytest

from rmq_store.disk.disk import Usage
from rmq_store.statistics import StoreStatistics, double_text, running_text
from rmq_wire.sys_flag import INNER_BATCH
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, START_MS, Rig, draft, open_store, small


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (1.0, "1.0"),
        (-2.5, "-2.5"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (1234567.0, "1234567.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (1e21, "1.0E21"),
        (-1e-5, "-1.0E-5"),
        (100 / 3, "33.333333333333336"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (2e10, "2.0E10"),
    ],
)
def test_double_to_string(value: float, text: str) -> None:
    assert double_text(value) == text


def test_running_time() -> None:
    assert running_text(0) == "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"
    assert running_text((((1234 * 24 + 5) * 60 + 6) * 60 + 7) * 1000 + 999) == "[ 1,234 days, 5 hours, 6 minutes, 7 seconds ]"


def test_an_idle_store() -> None:
    info = StoreStatistics(START_MS).runtime_info(START_MS)
    assert info == {
        "bootTimestamp": str(START_MS),
        "runtime": "[ 0 days, 0 hours, 0 minutes, 0 seconds ]",
        "putMessageEntireTimeMax": "0",
        "putMessageTimesTotal": "1",
        "putMessageFailedTimes": "0",
        "putMessageSizeTotal": "0",
        "putMessageDistributeTime": "null",
        "putMessageAverageSize": "0.0",
        "dispatchMaxBuffer": "0",
        "getMessageEntireTimeMax": "0",
        "putTps": "  ",
        "getFoundTps": "  ",
        "getMissTps": "  ",
        "getTotalTps": "0.0 0.0 0.0",
        "getTransferredTps": "  ",
        "putLatency99": "0.00",
        "putLatency999": "0.00",
    }


def test_rates_appear_when_there_are_samples_enough() -> None:
    statistics = StoreStatistics(0)
    for second in range(62):
        statistics.put_times += 100
        statistics.get_found_times += 3
        statistics.get_missed_times += 2
        statistics.transferred_messages += 10
        statistics.sample(second * 1000)
    info = statistics.runtime_info(62_000)
    assert info["putTps"] == "100.0 100.0 "
    assert info["getTotalTps"] == "5.0 5.0 0.0"
    assert info["getTransferredTps"] == "10.0 10.0 "
    for second in range(62, 700):
        statistics.sample(second * 1000)
    assert statistics.runtime_info(0)["putTps"] == "0.0 0.0 0.0"
    assert len(statistics._samples) == 601


def test_a_store_counts() -> None:
    disk = MemoryDisk()
    disk.space = Usage(1000, 600, 500)
    rig = Rig(disk)
    info = rig.store.runtime_info(START_MS)
    assert info["commitLogMinOffset"] == "-1"
    rig.put(draft(1), draft(2))
    rig.store.read_queue("TopicA", 0, 0, 32, 1000)
    rig.store.read_queue("TopicA", 0, 2, 32, 1000)
    info = rig.store.runtime_info(START_MS + 1000)
    assert info["putMessageTimesTotal"] == "2"
    assert info["putMessageSizeTotal"] == str(rig.store.written_offset)
    assert info["putMessageAverageSize"] == double_text(rig.store.written_offset / 2)
    assert (info["commitLogMinOffset"], info["commitLogMaxOffset"]) == ("0", str(rig.store.written_offset))
    assert info["commitLogDiskRatio"] == info[f"commitLogDiskRatio_{ROOT}/commitlog"] == info["consumeQueueDiskRatio"] == "0.45"
    statistics = rig.store.statistics
    assert (statistics.get_found_times, statistics.get_missed_times, statistics.transferred_messages) == (1, 1, 2)


def test_an_inner_batch_counts_as_its_messages() -> None:
    """Java: AppendMessageResult.getMsgNum, CqUnit.getBatchNum."""
    rig = Rig()
    rig.store = open_store(small(), START_MS, disk=MemoryDisk(), zone=UTC, has_batch_queues=lambda topic: topic == "B")
    batches = [draft(number, "B", sys_flag=INNER_BATCH) for number in range(3)]
    for one in batches:
        one.properties += b"INNER_NUM\x0110\x02"
    rig.put(batches[0])
    assert rig.store.statistics.put_times == 10
    rig.put(*batches[1:])
    assert rig.store.runtime_info(START_MS)["putMessageTimesTotal"] == "30"
    assert rig.store.runtime_info(START_MS)["putMessageSizeTotal"] == str(rig.store.written_offset)
    assert rig.store.read_queue("B", 0, 0, 32, 1 << 20).message_count == 30
    assert rig.store.statistics.transferred_messages == 30
