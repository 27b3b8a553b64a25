"""`repair`: what is good comes back at its place, the rest is made anew or reported; the old store is never written."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmq_inspect.decode import queues
from rmq_inspect.decode.directory import list_store
from rmq_inspect.decode.queues import BATCH
from rmq_inspect.repair.old_queues import OldQueues
from rmq_store.disk.disk import RealDisk
from rmq_store.store import Store
from rmq_wire import sys_flag as flags
from rmq_wire.implied.filler import is_filler
from tests.support.command import look
from tests.support.store_rig import START_MS, Rig, draft, open_store, small
from tests.support.stores import SLOTS, golden_of, golden_store, plain_store, rich_store, spoil, units_of

LOG_FILE_BYTES = 8192


def hashes(root: Path) -> dict[str, str]:
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def derived(root: Path) -> dict[str, str]:
    """Log and queues by name, index files by age."""
    found = {name: value for name, value in hashes(root).items() if name.startswith(("commitlog/", "consumequeue/"))}
    for number, path in enumerate(sorted((root / "index").iterdir())):
        found[f"index/{number}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@pytest.fixture
def rich(tmp_path: Path) -> Path:
    rich_store(tmp_path / "old", log_file_bytes=LOG_FILE_BYTES)
    return tmp_path / "old"


def fixed(root: Path, *more: object) -> tuple[int, dict[str, Any]]:
    """Repair into `new` beside it: exit status, report."""
    before = hashes(root)
    seen = look("repair", root, "--to", root.parent / "new", "--json", *more)
    assert hashes(root) == before, "the old store was written"
    return seen.status, json.loads(seen.out) if seen.out else {"complaint": seen.err}


def raws(root: Path) -> dict[int, bytes]:
    return {unit.message.physical_offset: unit.raw for unit in units_of(root) if not is_filler(unit.message)}


@pytest.mark.parametrize("make", [golden_store, plain_store])
def test_a_sound_store_is_made_again_byte_for_byte(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "old")
    status, report = fixed(tmp_path / "old")
    assert (status, report["whole"], report["lost_bytes"]) == (0, True, 0)
    assert derived(tmp_path / "new") == derived(tmp_path / "old")
    assert not (tmp_path / "new" / "abort").exists()
    assert look("diff", tmp_path / "old", tmp_path / "new").status == 0


def test_light_queues_of_a_log_in_two_directories(tmp_path: Path) -> None:
    old = golden_of("light", tmp_path / "old")
    logs = [option for name in ("logs-a", "logs-b") for option in ("--commit-log", old / name)]
    status, report = fixed(old, *logs)
    assert (status, report["whole"]) == (0, True), report
    left = [option for name in ("logs-a", "logs-b") for option in ("--left-commit-log", old / name)]
    assert look("diff", old, tmp_path / "new", *left, "--all").out == ""


def test_delays_other_than_by_default(tmp_path: Path) -> None:
    """When a delayed message is due depends on the broker's levels: the old queue knows."""
    old = golden_of("mix", tmp_path / "old")
    status, report = fixed(old)
    assert status == 0
    assert any("temporary-0" in note for note in report["notes"]), "its topic was deleted"
    apart = [row for row in look("diff", old, tmp_path / "new", "--all", "--json").rows if not row["by_nature"]]
    assert {row["file"].split("/")[1] for row in apart} == {"temporary-0"}
    assert {row["left"] for row in apart} == {"absent"}


def test_batch_queues_and_extensions_of_java(tmp_path: Path) -> None:
    old = golden_of("batch", tmp_path / "old")
    assert fixed(old)[0] == 0
    trees = ("batchconsumequeue/", "consumequeue/", "consumequeue_ext/")
    made = {name: value for name, value in hashes(tmp_path / "new").items() if name.startswith(trees)}
    assert {name.partition("/")[0] + "/" for name in made} == set(trees)
    assert made == {name: value for name, value in hashes(old).items() if name.startswith(trees)}


def test_a_unit_whose_seal_is_broken_is_lost(tmp_path: Path) -> None:
    """Properties have a check sum only when the broker was set to write one."""
    old = golden_of("light", tmp_path / "old")
    logs = [option for name in ("logs-a", "logs-b") for option in ("--commit-log", old / name)]
    row = look("show", old, *logs, "--json").rows[3]
    assert row["unitCRCOk"]
    at = row["commitLogOffset"]
    spoil(old / "logs-a" / f"{0:020}", at + row["storeSize"] - 60, b"Z")
    assert not look("show", old, *logs, "--json").rows[3]["unitCRCOk"]
    status, report = fixed(old, *logs)
    assert status == 1
    assert [(entry["byte"], entry["why"]) for entry in report["lost"]] == [(at, "the check sum over the whole unit is wrong")]


def opened(root: Path) -> Store:
    settings = small(store_path_root_dir=str(root), mapped_file_size_commit_log=LOG_FILE_BYTES, max_hash_slot_num=SLOTS)
    return open_store(settings, START_MS + 10**7)


def test_what_survives_can_be_read_and_gone_on_with(rich: Path) -> None:
    before = raws(rich)
    victims = sorted(before)[40:43]
    log = rich / "commitlog"
    for at in victims:
        spoil(log / f"{at - at % LOG_FILE_BYTES:020}", at % LOG_FILE_BYTES, bytes(60))
    status, report = fixed(rich)
    new = rich.parent / "new"
    after = raws(new)
    assert status == 1
    assert after == {at: raw for at, raw in before.items() if at not in victims}
    assert report["counts"]["lost"] == 1
    assert report["lost_bytes"] == sum(len(before[at]) for at in victims)
    store = opened(new)
    assert store.report.clean, store.report
    numbers = set()
    for queue_id in range(3):
        offset, end = store.queue_bounds("TopicA", queue_id)
        while offset < end:
            read = store.read_queue("TopicA", queue_id, offset, 32, 1 << 20)
            for chunk in read.chunks:
                numbers.add(bytes(chunk))
            assert read.next_offset > offset
            offset = read.next_offset
    joined = b"".join(numbers)
    for unit in units_of(new):
        if unit.message.topic == b"TopicA" and not unit.message.sys_flag & flags.TRANSACTION_PREPARED:
            assert unit.raw in joined
    placed = store.stage(draft(9999), START_MS + 10**7)
    store.commit()
    store.dispatch(START_MS + 10**7)
    assert placed.physical_offset >= report["log_end"]
    assert store.close(START_MS + 10**7)
    assert look("find", new, "key9999").status == 0


def lost_body(root: Path, at: int) -> None:
    spoil(root / "commitlog" / f"{at - at % LOG_FILE_BYTES:020}", at % LOG_FILE_BYTES + 92, b"\xff\xff")


def lost_file(root: Path, at: int) -> None:
    (root / "commitlog" / f"{at - at % LOG_FILE_BYTES:020}").unlink()


def zeroed_page(root: Path, at: int) -> None:
    spoil(root / "commitlog" / f"{at - at % LOG_FILE_BYTES:020}", 4096, bytes(4096))


def cut_short(root: Path, at: int) -> None:
    path = root / "commitlog" / f"{at - at % LOG_FILE_BYTES:020}"
    path.write_bytes(path.read_bytes()[: at % LOG_FILE_BYTES + 50])


def negative_length(root: Path, at: int) -> None:
    spoil(root / "commitlog" / f"{at - at % LOG_FILE_BYTES:020}", at % LOG_FILE_BYTES, b"\xff\xff\xff\xff")


def garbage(root: Path, at: int) -> None:
    spoil(root / "commitlog" / f"{at - at % LOG_FILE_BYTES:020}", at % LOG_FILE_BYTES, bytes(range(7, 247)) * 4)


DAMAGES = [lost_body, lost_file, zeroed_page, cut_short, negative_length, garbage]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("number", [0, 30, 77, 150, 239])
def test_damage_costs_what_it_covers(rich: Path, damage: Callable[[Path, int], None], number: int) -> None:
    before = raws(rich)
    at = sorted(before)[number]
    damage(rich, at)
    status, report = fixed(rich)
    new = rich.parent / "new"
    after = raws(new)
    if damage is lost_body and len(before[at]) < 200:
        return  # those bytes are no body
    assert after.items() <= before.items()
    lost = before.keys() - after.keys()
    file = range(at - at % LOG_FILE_BYTES, at - at % LOG_FILE_BYTES + LOG_FILE_BYTES)
    assert lost <= set(file), "messages of other files were lost"
    if damage in (negative_length, lost_body):
        assert lost == {at}
    if damage is lost_file and at < LOG_FILE_BYTES:
        assert status == 0, "as after retention: a log may begin anywhere"
    else:
        assert status == (1 if lost else 0), report
    whole_pass(new, len(after))
    store = opened(new)
    assert store.report.clean, store.report
    assert store.close(START_MS + 10**7)


def whole_pass(root: Path, messages: int) -> None:
    """A second repair finds nothing more to lose."""
    status, again = fixed_again(root)
    assert (status, again["whole"], again["messages"]) == (0, True, messages), again
    assert again["fillers"] == len([unit for unit in units_of(root) if is_filler(unit.message)])


def fixed_again(root: Path) -> tuple[int, dict[str, Any]]:
    seen = look("repair", root, "--to", root.parent / "newer", "--json")
    return seen.status, json.loads(seen.out)


def test_gaps_are_reported_and_filled(rich: Path) -> None:
    victim = next(unit for unit in units_of(rich)[60:] if unit.message.topic == b"TopicA" and not unit.message.sys_flag)
    spoil(rich / victim.file.name, victim.at, bytes(40))
    status, report = fixed(rich)
    message = victim.message
    assert status == 1
    assert report["gaps"] == [{"topic": "TopicA", "queueId": message.queue_id, "from": message.queue_offset, "count": 1}]
    files = list_store(rich.parent / "new").queues["TopicA", message.queue_id]
    unit = queues.unit_at(files, message.queue_offset)
    assert unit is not None
    assert (unit.physical_offset > message.physical_offset, unit.tags_code) == (True, 0), "it leads to the next message"
    old = list_store(rich).queues["TopicA", message.queue_id]
    assert queues.bounds(old) == (0, queues.bounds(files)[1])


def test_a_gap_in_the_first_log_file_leads_to_the_next_message(rich: Path) -> None:
    first = [unit for unit in units_of(rich) if (unit.message.topic, unit.message.queue_id) == (b"TopicA", 0)]
    queued = [unit for unit in first if not unit.message.sys_flag & flags.TRANSACTION_PREPARED]
    spoil(rich / queued[2].file.name, queued[2].at, bytes(40))
    fixed(rich)
    files = list_store(rich.parent / "new").queues["TopicA", 0]
    unit = queues.unit_at(files, 2)
    assert unit is not None
    assert (unit.physical_offset, unit.tags_code) == (queued[3].message.physical_offset, 0)


def test_only_the_log_is_needed(rich: Path) -> None:
    expected = derived(rich)
    for name in ("consumequeue", "index"):
        shutil.rmtree(rich / name)
    (rich / "checkpoint").unlink()
    status, report = fixed(rich, "--hash-slots", SLOTS)
    assert status == 0
    assert report["notes"]
    made = {
        name: value for name, value in derived(rich.parent / "new").items() if not name.startswith(("index/", "consumequeue/"))
    }
    assert made == {name: value for name, value in expected.items() if name.startswith("commitlog/")}
    old = look("show", rich, "--topic", "TopicA", "--scan", "--json").rows
    queued = [row for row in old if row["transaction"] == "none"]
    assert look("show", rich.parent / "new", "--topic", "TopicA", "--json").rows == queued
    assert look("find", rich.parent / "new", "key100").status == 0


def test_configuration_comes_from_its_backup_when_it_must(tmp_path: Path) -> None:
    old = golden_store(tmp_path / "old")
    config = old / "config"
    shutil.copy(config / "topics.json", config / "topics.json.bak")
    (config / "topics.json").write_text('{"topicConfigTable":{')
    (config / "delayOffset.json").write_bytes(b"\0" * 50)
    _, report = fixed(old)
    assert "topics.json (from topics.json.bak)" in report["config"]
    assert not (tmp_path / "new" / "config" / "delayOffset.json").exists()
    assert any("delayOffset.json" in note for note in report["notes"])
    assert json.loads((tmp_path / "new" / "config" / "topics.json").read_text())["topicConfigTable"]


def test_batch_queues_are_made_for_topics_that_have_them(rich: Path) -> None:
    (rich / "config").mkdir()
    table = {"TopicA": {"topicName": "TopicA", "attributes": {"queue.type": "BatchCQ"}}}
    (rich / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    fixed(rich)
    made = list_store(rich.parent / "new")
    assert not [key for key in made.queues if key[0] == "TopicA"]
    rows = [unit for unit in queues.batch_units(made.batch_queues["TopicA", 0]) if unit.is_written]
    old = list(queues.written(list_store(rich).queues["TopicA", 0]))
    assert [(row.physical_offset, row.size, row.tags_code, row.base_offset, row.batch_size) for row in rows] == [
        (unit.physical_offset, unit.size, unit.tags_code, unit.queue_offset, 1) for unit in old
    ]
    assert made.batch_queues["TopicA", 0][0].size == 300_000 * BATCH.size


def test_timer_files_of_a_wrong_size_are_left_out(rich: Path, tmp_path: Path) -> None:
    """A Java broker refuses to start with them; without them it makes its own."""
    (rich / "timerlog").mkdir()
    (rich / "timerlog" / f"{0:020}").write_bytes(bytes(1000))
    (rich / "config" / "timercheck").parent.mkdir(exist_ok=True)
    (rich / "config" / "timercheck").write_bytes(bytes(4096))
    (rich / "timerwheel").write_bytes(b"x" * 5000)
    seen = look("repair", rich, "--to", tmp_path / "new", "--hash-slots", SLOTS)
    assert "timerwheel has 5000 bytes" in " ".join(seen.out.split())
    assert not any((tmp_path / "new" / name).exists() for name in ("timerwheel", "timerlog", "config/timercheck"))


def test_never_in_place(rich: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(rich)
    for to in (rich, rich / "below", rich.parent, tmp_path / "full", tmp_path / "file", tmp_path / "link"):
        before = hashes(tmp_path)
        seen = look("repair", rich, "--to", to)
        assert seen.status == 2, to
        assert seen.err.count("\n") == 1
        assert hashes(tmp_path) == before


def test_nothing_to_save(tmp_path: Path) -> None:
    (tmp_path / "old" / "commitlog").mkdir(parents=True)
    assert look("repair", tmp_path / "old", "--to", tmp_path / "a").status == 2
    (tmp_path / "old" / "commitlog" / f"{0:020}").write_bytes(bytes(8192))
    seen = look("repair", tmp_path / "old", "--to", tmp_path / "b")
    assert (seen.status, "no message could be found" in seen.err) == (2, True)
    assert (tmp_path / "b" / "abort").exists()


def test_an_interrupted_repair_is_known_from_a_whole_one(rich: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(OldQueues, "walked", interrupted)
    before = hashes(rich)
    seen = look("repair", rich, "--to", rich.parent / "new")
    assert (seen.status, seen.err) == (130, "rmq: interrupted\n")
    assert (rich.parent / "new" / "abort").exists()
    assert hashes(rich) == before


def test_a_full_disk_is_one_line(rich: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("rmq_inspect.repair.files.os.pwrite", full)
    seen = look("repair", rich, "--to", rich.parent / "new")
    assert seen.status == 2
    assert seen.err.endswith("No space left on device: what was made so far is there, with a file `abort`\n")
    assert (rich.parent / "new" / "abort").exists()


def test_the_checkpoint_says_that_all_is_on_disk(rich: Path) -> None:
    fixed(rich)
    new = rich.parent / "new"
    [row] = look("show", new / "checkpoint", "--json").rows
    last = units_of(new)[-1].message
    assert (row["physic_msg_timestamp"], row["confirm_phy_offset"]) == (last.store_timestamp, last.physical_offset)
    queued = [row for row in look("show", new, "--json").rows if row["transaction"] == "none"][-1]
    assert (row["logics_physical_offset"], row["logics_msg_timestamp"]) == (queued["commitLogOffset"], queued["storeTimestamp"])


def verified(root: Path) -> dict[str, Any]:
    pytest.importorskip("numpy")
    [report] = look("verify", root, "--json").rows
    return dict(report)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("number", [2, 30, 70, 77, 150, 200])
def test_what_was_repaired_is_sound(rich: Path, damage: Callable[[Path, int], None], number: int) -> None:
    damage(rich, sorted(raws(rich))[number])
    fixed(rich)
    seen = verified(rich.parent / "new")
    assert (seen["clean"], seen["findings"]) == (True, [])
    has_fillers = any(is_filler(unit.message) for unit in units_of(rich.parent / "new"))
    assert any("an earlier repair filled 1 stretch(es)" in note for note in seen["notes"]) == has_fillers


@pytest.mark.parametrize("number", [3, 70])
def test_what_was_lost_before_a_repair_is_reported_as_no_news(rich: Path, number: int) -> None:
    """In the first log file and behind it, where the queue's units differ."""
    victim = [unit for unit in units_of(rich) if unit.message.topic == b"TopicA" and not unit.message.sys_flag][number]
    spoil(rich / victim.file.name, victim.at, bytes(40))
    assert verified(rich)["findings"]
    assert fixed(rich)[0] == 1
    seen = look("verify", rich.parent / "new")
    assert seen.status == 0
    assert "in which messages had been lost: 1 queue offset(s) have no message" in seen.out
    again = look("repair", rich.parent / "new", "--to", rich.parent / "newer")
    assert again.status == 0
    assert "nothing was lost that was not lost before: 1 queue offset in 1 gap had no message already" in again.out


def test_the_end_of_a_file_that_was_lost_is_marked(rich: Path) -> None:
    """Its last message: the blank alone would hide that there was one."""
    last = [unit for unit in units_of(rich) if unit.at + unit.file.start < 2 * LOG_FILE_BYTES][-1]
    before = len(units_of(rich))
    spoil(rich / last.file.name, last.at, b"\xff" * 20)
    fixed(rich)
    made = units_of(rich.parent / "new")
    [mark] = [unit for unit in made if is_filler(unit.message)]
    assert (mark.message.physical_offset, len(made)) == (last.message.physical_offset, before)
    assert verified(rich.parent / "new")["clean"]


def test_units_that_lead_on_are_damage_in_a_store_that_nobody_repaired(rich: Path) -> None:
    pytest.importorskip("numpy")
    [file] = [one for one in list_store(rich).queues["TopicA", 0] if one.start == 0]
    raw = file.path.read_bytes()
    file.path.write_bytes(raw[:40] + raw[60:72] + bytes(8) + raw[60:])
    assert {finding["code"] for finding in verified(rich)["findings"]} == {"queue-unit-wrong"}


def test_a_topic_that_was_made_again_is_no_loss(tmp_path: Path) -> None:
    settings = small(
        store_path_root_dir=str(tmp_path / "old"), mapped_file_size_commit_log=LOG_FILE_BYTES, max_hash_slot_num=SLOTS
    )
    rig = Rig(RealDisk(), settings)
    for number in range(9):
        rig.put(draft(number))
    rig.store.delete_topics(["TopicA"])
    for number in range(4):
        rig.put(draft(number))
    assert rig.store.close(rig.wall_ms)
    seen = look("repair", tmp_path / "old", "--to", tmp_path / "new")
    assert (seen.status, "nothing was lost\n" in seen.out) == (0, True), seen
    assert "its topic was deleted and made again" in " ".join(seen.out.split())
    assert len(list(queues.written(list_store(tmp_path / "new").queues["TopicA", 0]))) == 4
    assert verified(tmp_path / "new")["clean"]


def test_a_message_with_another_ones_offset_costs_no_others(rich: Path) -> None:
    """A spoilt queue offset, which no check sum covers, must not cut the queue."""
    units = [unit for unit in units_of(rich) if (unit.message.topic, unit.message.queue_id) == (b"TopicA", 0)]
    victim = [unit for unit in units if not unit.message.sys_flag][20]
    spoil(rich / victim.file.name, victim.at + 20, (3).to_bytes(8, "big"))
    status, report = fixed(rich)
    assert status == 1
    assert [(one["offset"], "has another message" in one["why"]) for one in report["unqueued"]] == [
        (victim.message.physical_offset, True)
    ]
    made, old = (
        {one.queue_offset: one.physical_offset for one in queues.written(list_store(root).queues["TopicA", 0])}
        for root in (rich.parent / "new", rich)
    )
    assert [offset for offset in old if made[offset] != old[offset]] == [victim.message.queue_offset]


def test_extensions_keep_their_bit_maps(tmp_path: Path) -> None:
    """And those of a queue that is gone are made of the messages."""
    old = golden_of("batch", tmp_path / "old")
    tree = old / "consumequeue_ext" / "Plain" / "0"
    first, second = sorted(tree.iterdir())
    raw = bytearray(first.read_bytes())
    raw[180:182], raw[198:200], raw[200:203] = (23).to_bytes(2, "big"), (3).to_bytes(2, "big"), b"\x01\x02\x03"
    first.write_bytes(raw.replace(b"\xff\xff", b"\0\0"))
    assert second.exists()
    fixed(old)
    rows = look("show", tmp_path / "new" / "consumequeue_ext" / "Plain", "--json").rows
    assert [row["bit_map"] for row in rows if row["bit_map"]] == ["010203"]
    assert verified(tmp_path / "new")["clean"]
    shutil.rmtree(old / "consumequeue" / "Plain")
    assert look("repair", old, "--to", tmp_path / "newer").status == 0
    assert len(look("show", tmp_path / "newer" / "consumequeue_ext" / "Plain", "--json").rows) == len(rows)
    assert verified(tmp_path / "newer")["clean"]
