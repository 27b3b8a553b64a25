"""`show` and `find`: every way to the messages gives the same ones, and every kind of file can be read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rmq_inspect.decode.queues import BATCH
from rmq_inspect.decode.records import cells
from rmq_wire import properties
from rmq_wire.layout import consume_queue, timer
from rmq_wire.layout.flat import flat
from rmq_wire.message_id import offset_message_id
from tests.support.command import look
from tests.support.golden import answered
from tests.support.stores import LONG_TOPIC, MESSAGES, golden_store, rich_store, spoil, units_of

SIZES = (4096, 8192, 1 << 20)


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_store(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module", params=SIZES)
def rich(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp(f"rich-{request.param}")
    rich_store(root, log_file_bytes=request.param)
    return root


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["commitLogOffset"] for row in rows]


def test_every_message_of_the_golden_store(golden: Path) -> None:
    rows = look("show", golden, "--json").rows
    units = units_of(golden)
    assert len(rows) == len(units) == 107
    for row, unit in zip(rows, units, strict=True):
        message = unit.message
        assert row["topic"] == message.topic.decode()
        assert row["properties"] == properties.decode(message.properties.decode())
        assert (row["queueId"], row["queueOffset"], row["storeSize"]) == (message.queue_id, message.queue_offset, len(unit.raw))
        assert row["offsetMsgId"] == offset_message_id(message.store_host, message.physical_offset)
        assert row["bodyCRCOk"]


def test_what_senders_were_answered_is_found(golden: Path) -> None:
    looked = 0
    for entry in answered()[:12]:
        for answer in entry["answers"]:
            if not answer or not answer["offset_msg_id"]:
                continue
            for key, at in zip(answer["msg_id"].split(","), answer["offset_msg_id"].split(","), strict=True):
                [row] = look("find", golden, at, "--json").rows
                assert row["uniqKey"] == key
                assert row["offsetMsgId"] in [found["offsetMsgId"] for found in look("find", golden, key, "--json").rows]
                looked += 1
    assert looked >= 10


def test_queues_and_the_log_say_the_same(rich: Path) -> None:
    scanned = look("show", rich, "--topic", "TopicA", "--scan", "--json").rows
    queued = [row for row in scanned if row["transaction"] in ("none", "commit")]
    assert look("show", rich, "--topic", "TopicA", "--json").rows == queued
    for queue_id in range(3):
        rows = look("show", rich, "--topic", "TopicA", "--queue", queue_id, "--json").rows
        assert rows == [row for row in queued if row["queueId"] == queue_id]
        later = look("show", rich, "--topic", "TopicA", "--queue", queue_id, "--queue-offset", 7, "--limit", 3, "--json").rows
        assert later == rows[7:10]
        assert [row["queueOffset"] for row in rows] == list(range(len(rows)))


def test_version_2_and_ipv6_are_read(rich: Path) -> None:
    rows = look("show", rich, "--json").rows
    assert len(rows) == MESSAGES
    assert {row["version"] for row in rows if row["topic"] == LONG_TOPIC} == {2}
    assert {row["bornHost"] for row in rows} == {"127.0.0.1:10911", "[2001:db8::1]:1234"}
    assert {row["storeHost"] for row in rows} == {"127.0.0.1:10911", "[2001:db8::1]:1234"}
    assert {row["transaction"] for row in rows} == {"none", "prepared", "rollback"}
    assert all(row["bodyCRCOk"] for row in rows)


def test_bodies_in_every_form(rich: Path) -> None:
    rows = look("show", rich, "--limit", 12, "--json").rows
    assert rows[5]["compression"] == "zlib"
    assert rows[5]["body"] == "5: unpacked"
    assert "body" not in rows[6]
    assert rows[6]["body_base64"].startswith("AAEC")
    assert look("show", rich, "--limit", 12, "--json", "--body", "hex").rows[6]["body_hex"] == bytes(range(256)).hex()
    assert not {"body", "body_base64", "body_hex"} & look("show", rich, "--limit", 1, "--json", "--body", "none").rows[0].keys()


def test_json_bodies(golden: Path) -> None:
    rows = look("show", golden, "--json", "--body", "json").rows
    assert rows[0]["body"] == "plain"
    assert "bodyNotJson" in rows[0]


def test_times_bound_what_is_shown(rich: Path) -> None:
    rows = look("show", rich, "--json").rows
    since, until = rows[50]["storeTimestamp"], rows[99]["storeTimestamp"]
    assert look("show", rich, "--since", since, "--until", until, "--json").rows == rows[50:100]
    by_queue = look("show", rich, "--since", since, "--until", until, "--topic", "TopicA", "--queue", 1, "--json").rows
    assert by_queue == [
        row for row in rows[50:100] if (row["topic"], row["queueId"], row["transaction"]) == ("TopicA", 1, "none")
    ]
    assert look("show", rich, "--since", "2023-11-14T22:13:25+00:00", "--limit", 1, "--json").rows == rows[5:6]
    assert look("show", rich, "--since", "yesterday").status == 2
    assert look("show", rich, "--offset", rows[70]["commitLogOffset"] + 1, "--limit", 2, "--json").rows == rows[71:73]


def test_keys_by_index_and_by_scan(rich: Path) -> None:
    everything = look("show", rich, "--json").rows
    for number in (0, 1, 7, 8, 100, 239):
        rows = look("find", rich, f"key{number}", "--json").rows
        assert rows == [row for row in everything if f"key{number}" in row["keys"]]
        assert rows == look("find", rich, f"key{number}", "--scan", "--json").rows
        if rows[0]["transaction"] != "rollback":
            assert rows[0]["uniqKey"] == f"7F0000010007AAAA{number:016X}"
            assert rows == look("find", rich, rows[0]["uniqKey"], "--json").rows
    shared = look("find", rich, "shared", "--topic", "TopicA", "--json").rows
    all_of_topic = [row for row in everything if row["topic"] == "TopicA"]
    indexed = [row for row in all_of_topic if row["transaction"] != "rollback"]
    # One that was rolled back has no entry; between two index files it is found all the same.
    assert set(offsets(indexed)) <= set(offsets(shared)) <= set(offsets(all_of_topic))
    assert offsets(shared) == sorted(set(offsets(shared)))


def test_tags(rich: Path) -> None:
    rows = look("find", rich, "--topic", "TopicA", "--tag", "Tag1", "--json").rows
    assert rows
    assert {row["tags"] for row in rows} == {"Tag1"}
    scanned = look("find", rich, "--topic", "TopicA", "--tag", "Tag1", "--scan", "--json").rows
    assert rows == [row for row in scanned if row["transaction"] == "none"]


def test_without_index_or_queues_the_log_is_read(rich: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(rich, copy)
    shutil.rmtree(copy / "index")
    shutil.rmtree(copy / "consumequeue")
    for what in (["key42"], ["--tag", "Tag1", "--topic", "TopicA"], ["--topic", LONG_TOPIC]):
        assert look("find", copy, *what, "--json").rows == look("find", rich, *what, "--scan", "--json").rows


def test_nothing_found_is_status_1(rich: Path) -> None:
    for what in ("nobody", "7F00000100002A9FFFFFFFFFFFFFFFFF", "0" * 32):
        seen = look("find", rich, what)
        assert (seen.status, seen.out) == (1, "")
        assert seen.err.splitlines()[-1] == "rmq: nothing found"
    assert look("find", rich).status == 2


def test_tables_fit_and_obey_no_message(rich: Path) -> None:
    seen = look("show", rich, "--limit", 0)
    assert len(seen.out.splitlines()) == MESSAGES + 1
    for line in seen.out.splitlines():
        assert cells(line) <= 130
        assert line.isprintable()
    assert "\x1b" not in look("show", rich, "--full", "--limit", 12).out
    assert "100; --limit N for more" in look("show", rich).err


def test_units_of_a_queue(rich: Path) -> None:
    rows = look("show", rich / "consumequeue" / "TopicA" / "0", "--json").rows
    messages = look("show", rich, "--topic", "TopicA", "--queue", 0, "--json").rows
    assert [(row["queue_offset"], row["physical_offset"], row["size"]) for row in rows] == [
        (row["queueOffset"], row["commitLogOffset"], row["storeSize"]) for row in messages
    ]
    seen = look("show", rich / "consumequeue" / "TopicA" / "0", "--queue-offset", 12, "--limit", 1)
    assert " 12 " in seen.out


def test_index_files(rich: Path, golden: Path) -> None:
    rows = look("show", rich / "index", "--json").rows
    entries = [row for row in rows if "number" in row]
    assert {row["hash_slots"] for row in rows if "hash_slots" in row} == {97}
    messages = {row["commitLogOffset"]: row for row in look("show", rich, "--json").rows}
    assert {row["physical_offset"] for row in entries} == {at for at, row in messages.items() if row["transaction"] != "rollback"}
    assert "hash_slots                                  100" in look("show", golden / "index").out


def test_more_hash_slots_than_a_file_has_room_for(rich: Path) -> None:
    """They are said to be too many, of each file that cannot be read so; messages come from the log."""
    many = ("--hash-slots", 900_000_000)
    files = sorted((rich / "index").iterdir())
    shown = look("show", files[0], *many)
    assert shown.status == 2
    assert "900000000 hash slots" in shown.err
    found = look("find", rich, "key30", *many, "--json")
    assert found.rows == look("find", rich, "key30", "--json").rows
    assert found.err.count("900000000 hash slots") == len(files)
    explained = look("explain", rich, "--topic", found.rows[0]["topic"], "--key", "key30", *many)
    assert explained.out.count("900000000 hash slots") == len(files)


@pytest.mark.parametrize("command", ["show queue", "show index", "show log", "show all", "find", "export"])
def test_a_limit_that_is_beyond_all_counting(rich: Path, command: str) -> None:
    arguments: dict[str, list[object]] = {
        "show queue": ["show", rich / "consumequeue" / "TopicA" / "0", "--json"],
        "show index": ["show", rich / "index", "--json"],
        "show log": ["show", rich / "commitlog", "--json"],
        "show all": ["show", rich, "--json"],
        "find": ["find", rich, "--topic", "TopicA", "--json"],
        "export": ["export", rich, "--to", "-"],
    }
    everything, as_much = (look(*arguments[command], "--limit", limit) for limit in ("0", "9" * 30))
    assert as_much == everything
    assert everything.rows


def test_small_files(golden: Path, rich: Path) -> None:
    [row] = look("show", golden / "checkpoint", "--json").rows
    assert row["physic_msg_timestamp"] > 0
    assert "physic_msg_timestamp" in look("show", golden / "checkpoint").out
    topics = json.loads(look("show", golden / "config" / "topics.json").out)
    assert "kinds-5_5_0" in topics["topicConfigTable"]
    assert look("show", golden / "config" / "timercheck", "--json").rows[0]["last_read_ms"] > 0
    assert look("show", rich / "lock").out == "lock\n"


def test_files_that_a_default_broker_does_not_write(tmp_path: Path) -> None:
    head = flat(consume_queue.EXT_UNIT_HEAD).packed
    (tmp_path / "ext").write_bytes(head.pack(22, 5, 7, 2) + b"\x01\x02" + head.pack(20, 6, 8, 0) + bytes(100))
    rows = look("show", tmp_path / "ext", "--as", "ext", "--json").rows
    assert [(row["byte"], row["tags_code"], row["bit_map"]) for row in rows] == [(0, 5, "0102"), (22, 6, "")]
    assert rows[0]["address"] == -(1 << 63)
    (tmp_path / "batch").write_bytes(BATCH.packed.pack(100, 200, 3, 4, 50, 10, -1, 0) + bytes(BATCH.size))
    [row] = look("show", tmp_path / "batch", "--as", "batch", "--json").rows
    assert (row["base_offset"], row["batch_size"]) == (50, 10)
    unit = flat(timer.LOG_UNIT).packed
    (tmp_path / "timer").write_bytes(unit.pack(52, -1, 1, 1000, 5, 77, 9, 3, 0) + bytes(52))
    assert [row["physical_offset"] for row in look("show", tmp_path / "timer", "--as", "timerlog", "--json").rows] == [77]
    assert look("show", tmp_path / "timer").status == 2


def test_a_log_in_several_directories(rich: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(rich, copy)
    other = tmp_path / "other"
    other.mkdir()
    names = sorted(path.name for path in (copy / "commitlog").iterdir())
    for name in names[1::2]:
        shutil.move(copy / "commitlog" / name, other / name)
    assert look("show", copy, "--commit-log", other, "--json").out == look("show", rich, "--json").out


def test_layouts() -> None:
    rows = look("layouts", "--json").rows
    assert len(rows) >= 20
    [entry] = [row for row in rows if row["layout"] == "index file: entry"]
    assert [field["name"] for field in entry["fields"]] == ["key_hash", "physical_offset", "seconds", "previous"]
    assert entry["bytes"] == 20
    assert all(len(line) <= 130 for line in look("layouts").out.splitlines())
    assert look("layouts", "index").out.count("==") == 3
    assert look("layouts", "nonsense").status == 2


def test_a_topic_that_is_not_there_is_said_before_the_whole_log_is_read(rich: Path) -> None:
    assert "rmq: no consume queue of Nope is here: the log itself is read\n" in look("show", rich, "--topic", "Nope").err
    seen = look("show", rich, "--topic", "TopicA", "--queue", "7")
    assert "rmq: TopicA has no consume queue 7, but 3 from 0 to 2: the log itself is read\n" in seen.err


@pytest.mark.parametrize("arguments", [("",), ("--key", ""), ("--tag", ""), ("--id", ""), ("--topic", "")])
def test_nothing_is_no_key(rich: Path, arguments: tuple[str, ...]) -> None:
    """A message without keys has no empty one."""
    seen = look("find", rich, *arguments)
    assert (seen.status, seen.out, seen.err.count("\n")) == (2, "", 1)
    assert "an empty text for" in seen.err


def test_a_spoilt_store_time_does_not_end_the_search(tmp_path: Path) -> None:
    """It is covered by no check sum; one far ahead must not hide what follows."""
    rich = tmp_path / "store"
    rich_store(rich)
    units = [unit for unit in units_of(rich) if unit.file.start == 0]
    until = units[-1].message.store_timestamp
    expected = len(look("show", rich, "--scan", "--until", until, "--json").rows)
    spoil(rich / units[2].file.name, units[2].at + 56, (1 << 60).to_bytes(8, "big"))
    assert units[2].message.store_timestamp.to_bytes(8, "big") == units[2].raw[56:64]
    assert len(look("show", rich, "--scan", "--until", until, "--json").rows) == expected - 1
