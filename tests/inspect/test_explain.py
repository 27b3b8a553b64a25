"""`explain`: what a step claims to stand at a byte stands there, and each walk ends where the reference's does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmq_inspect.decode.directory import list_store
from rmq_inspect.decode.index_file import IndexReader
from rmq_store.disk.disk import RealDisk
from rmq_wire.implied.index_keys import index_hash
from tests.support.command import Seen, look
from tests.support.store_rig import Rig, draft, small
from tests.support.stores import SLOTS, golden_of, golden_store, rich_store, spoil


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_store(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("rich")
    rich_store(root)
    return root


def honest(root: Path, seen: Seen) -> list[dict[str, Any]]:
    """Its steps, each byte of them checked against the files."""
    steps = seen.rows
    checked = 0
    for step in steps:
        if "file" not in step:
            continue
        data = (root / step["file"]).read_bytes()
        for one in [step, *step.get("fields", [])]:
            raw = bytes.fromhex(one["raw"])
            assert data[one["byte"] : one["byte"] + len(raw)] == raw, (step["title"], one)
            checked += 1
    assert checked or seen.status
    return steps


def test_every_key_of_the_golden_store(golden: Path) -> None:
    rows = look("show", golden, "--json").rows
    asked = 0
    for row in rows[::4]:
        for option, text in [("--key", row["uniqKey"]), ("--tag", row["tags"]), *(("--key", key) for key in row["keys"])]:
            if not text or row["transaction"] == "rollback":
                continue
            seen = look("explain", golden, "--topic", row["topic"], option, text, "--json")
            steps = honest(golden, seen)
            assert (seen.status, steps[-1]["found"]) == (0, True), (row, text)
            asked += 1
    assert asked > 40


def test_every_queue_unit(rich: Path) -> None:
    for row in look("show", rich, "--topic", "TopicA", "--json").rows:
        place = ("--queue", row["queueId"], "--at", row["queueOffset"])
        seen = look("explain", rich, "--topic", "TopicA", *place, "--json")
        steps = honest(rich, seen)
        assert seen.status == 0
        assert f"Commit log at {row['commitLogOffset']}" == steps[-1]["title"]
        names = {field["name"]: field["value"] for field in steps[-1]["fields"]}
        assert names["queue_offset"] == str(row["queueOffset"])


def test_batch_queues(tmp_path: Path) -> None:
    root = golden_of("batch", tmp_path)
    seen = look("explain", root, "--topic", "Packed", "--queue", 0, "--at", 3, "--json")
    steps = honest(root, seen)
    assert seen.status == 0
    assert steps[0]["says"][0] == "it covers the offsets 2 to 3"
    assert look("explain", root, "--topic", "Packed", "--queue", 0, "--at", 99999).status == 1
    rows = look("show", root / "batchconsumequeue" / "Packed" / "0", "--json").rows
    assert [row["base_offset"] for row in rows] == sorted(row["base_offset"] for row in rows)


def test_ids_and_offsets(rich: Path) -> None:
    for row in look("show", rich, "--json").rows[::11]:
        for way in (("--id", row["offsetMsgId"]), ("--offset", row["commitLogOffset"])):
            seen = look("explain", rich, *way, "--json")
            assert honest(rich, seen)[-1]["found"]
    unknown = look("explain", rich, "--id", "0A0B0C0D00002A9F0000000000000000", "--json")
    assert unknown.status == 1
    assert any("another broker's" in line for step in unknown.rows for line in step["says"])


def test_times(rich: Path) -> None:
    rows = look("show", rich, "--topic", "TopicA", "--queue", 2, "--json").rows
    for number in (0, 3, len(rows) - 1):
        seen = look("explain", rich, "--topic", "TopicA", "--queue", 2, "--at", f"@{rows[number]['storeTimestamp']}", "--json")
        assert honest(rich, seen)[-1]["title"] == f"Commit log at {rows[number]['commitLogOffset']}"
    assert look("explain", rich, "--topic", "TopicA", "--queue", 2, "--at", "@now").status == 1


def test_two_texts_with_one_hash_are_told_apart(tmp_path: Path) -> None:
    rig = Rig(RealDisk(), small(store_path_root_dir=str(tmp_path), max_hash_slot_num=SLOTS))
    rig.put(draft(0, keys=("Aa",)))
    assert rig.store.close(rig.wall_ms)
    assert index_hash("TopicA", "Aa") == index_hash("TopicA", "BB")
    seen = look("explain", tmp_path, "--topic", "TopicA", "--key", "BB", "--json")
    assert seen.status == 1
    assert any("the hashes only happen to agree" in line for step in honest(tmp_path, seen) for line in step["says"])


def test_what_leads_nowhere_says_why(rich: Path) -> None:
    for arguments, said in (
        (("--topic", "TopicA", "--key", "nobody"), "Not found"),
        (("--topic", "Nowhere", "--queue", 0, "--at", 0), "no queue at all"),
        (("--topic", "TopicA", "--queue", 9, "--at", 0), "queues 0, 1, 2"),
        (("--topic", "TopicA", "--queue", 0, "--at", 5000), "no file holds that byte"),
        (("--offset", 5), "no unit begins here"),
        (("--offset", 1 << 40), "the log has no byte"),
    ):
        seen = look("explain", rich, *arguments)
        assert seen.status == 1
        assert said in seen.out
    for arguments in ((), ("--topic", "TopicA"), ("--key", "x"), ("--id", "xyz"), ("--key", "a", "--offset", 1)):
        assert look("explain", rich, *arguments).status == 2


def test_a_damaged_target_is_reported(rich: Path, tmp_path: Path) -> None:
    golden = golden_store(tmp_path)
    row = look("find", golden, "--topic", "kinds-5_5_0", "--queue", 1, "--json").rows[3]
    spoil(golden / "commitlog" / f"{0:020}", row["commitLogOffset"] + 30, b"\xff")
    seen = look("explain", golden, "--topic", "kinds-5_5_0", "--queue", 1, "--at", row["queueOffset"])
    assert seen.status == 1
    assert "a unit that says it begins at" in seen.out


def test_a_cyclic_chain_ends(tmp_path: Path) -> None:
    golden = golden_store(tmp_path)
    [file] = list_store(golden).index
    with IndexReader(file) as reader:
        hash_of = index_hash("kinds-5_5_0", "k1")
        chain = list(reader.chain(hash_of % reader.slots))
        spoil(file.path, chain[-1].at + 16, chain[0].number.to_bytes(4, "big"))
    seen = look("explain", golden, "--topic", "kinds-5_5_0", "--key", "k1")
    assert seen.status == 0
    assert "a chain must lead to lower numbers" in seen.out
    assert seen.out.count(". Entry ") == len(chain)
    with IndexReader(file) as reader:
        assert [entry.number for entry in reader.chain(hash_of % reader.slots)] == [entry.number for entry in chain]


def test_light_queues(tmp_path: Path) -> None:
    """A message is stored under its own topic and read under the names of its light queues, too."""
    root = golden_of("light", tmp_path)
    paths = ("--commit-log", root / "logs-a", "--commit-log", root / "logs-b")
    asked = 0
    for queue in ("%LMQ%a", "%LMQ%b", "%LMQ%c"):
        rows = look("show", root, *paths, "--topic", queue, "--queue", 0, "--json").rows
        assert rows == look("show", root, *paths, "--topic", queue, "--scan", "--json").rows
        for number, row in enumerate(rows):
            assert queue in row["properties"]["INNER_MULTI_DISPATCH"].split(",")
            seen = look("explain", root, *paths, "--topic", queue, "--queue", 0, "--at", number, "--json")
            assert (seen.status, seen.rows[-1]["found"]) == (0, True), (queue, number, seen.rows[-1]["says"])
            found = look("find", root, row["uniqKey"], *paths, "--topic", queue, "--json").rows
            assert [one["commitLogOffset"] for one in found] == [row["commitLogOffset"]]
            asked += 1
    assert asked >= 10
    assert look("show", root, *paths, "--topic", "%LMQ%nobody").out == ""
    wrong = root / "consumequeue" / "%LMQ%a" / "0" / f"{0:020}"
    plain = look("show", root, *paths, "--topic", "Plain", "--limit", 1, "--json").rows[0]
    spoil(wrong, 0, plain["commitLogOffset"].to_bytes(8, "big") + plain["storeSize"].to_bytes(4, "big"))
    assert look("explain", root, *paths, "--topic", "%LMQ%a", "--queue", 0, "--at", 0).status == 1


def test_times_in_batch_queues(tmp_path: Path) -> None:
    root = golden_of("batch", tmp_path)
    rows = look("show", root, "--topic", "Packed", "--queue", 0, "--json").rows
    for row in (rows[0], rows[5], rows[-1]):
        first = next(one for one in rows if one["storeTimestamp"] >= row["storeTimestamp"])
        seen = look("explain", root, "--topic", "Packed", "--queue", 0, "--at", f"@{row['storeTimestamp']}", "--json")
        assert seen.status == 0
        assert seen.rows[0]["says"][0].startswith(f"offset {first['queueOffset']},")
    assert look("explain", root, "--topic", "Packed", "--queue", 0, "--at", f"@{rows[-1]['storeTimestamp'] + 1}").status == 1
