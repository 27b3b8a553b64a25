"""Generated stores: byte for byte what a broker would leave, the same for the same arguments, clean where nothing was planted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from planted_stores import generate
from planted_stores.generate import Made, Wanted, faults_of, main
from planted_stores.pattern import DELAY_MS, LONG_TOPIC, SHARDED_TOPIC, SLOTS, WHEEL
from planted_stores.plan import FIRST_MS, ROUNDS_BACK, Sizes
from rmq_columns.checks.scope import Scope
from rmq_inspect.decode.directory import list_store
from rmq_inspect.verify.verify import verify
from rmq_wire import properties
from rmq_wire.implied.delay_levels import DELAY_LEVELS_MS
from rmq_wire.layout.message import BORN_V6, MAGIC_V2
from rmq_wire.message import has_good_crc, pack_unit
from tests.support.store_differ import by_age, first_difference, read_files
from tests.support.store_rewrite import append_again, store_settings
from tests.support.store_rig import open_store
from tests.support.store_view import Shape, Stored, View

SIZES = Sizes(log_file_bytes=1 << 20, queue_file_bytes=4000, hash_slots=500, index_entries=10_000)
SHAPE = Shape(SIZES.log_file_bytes, SIZES.queue_file_bytes, SIZES.hash_slots, SIZES.index_entries, DELAY_LEVELS_MS)
BODY_BYTES = 60
SIZE = 9_000_000
"""More than the rounds before the first delivery."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return generate.generate(tmp_path_factory.mktemp("made"), Wanted(SIZE, BODY_BYTES, 7, sizes=SIZES))


@pytest.fixture(scope="module")
def view(made: Made) -> View:
    return View(read_files(made.store), SHAPE)


def test_verify_finds_nothing(made: Made) -> None:
    report = verify(list_store(made.store), Scope(workers=1))
    assert report.is_clean, report.findings.kept


def test_files_are_what_the_log_implies(made: Made, view: View) -> None:
    files = by_age(read_files(made.store))
    log = {name: data for name, data in files.items() if name.startswith("commitlog/")}
    assert first_difference(files, log | view.files(), hash_slots=SIZES.hash_slots) is None
    assert len(view.units) == made.messages > ROUNDS_BACK * SLOTS
    assert len([name for name in files if name.startswith("index/")]) > 1
    assert len(log) == -(-SIZE // SIZES.log_file_bytes)


def test_our_store_appends_the_same_bytes(tmp_path: Path) -> None:
    made = generate.generate(tmp_path / "made", Wanted(3 << 20, 200, 3, sizes=SIZES))
    files = read_files(made.store)
    (tmp_path / "again").mkdir()
    append_again(tmp_path / "again", SHAPE, View(files, SHAPE).units)
    again = by_age(read_files(tmp_path / "again"))
    assert first_difference(by_age(files), again, hash_slots=SIZES.hash_slots) is None


def test_our_store_opens_it_without_recovery(tmp_path: Path) -> None:
    made = generate.generate(tmp_path, Wanted(3 << 20, 200, 3, sizes=SIZES))
    opened = open_store(store_settings(made.store, SHAPE), FIRST_MS + 10**9)
    assert opened.report.clean
    assert (opened.report.cut_bytes, opened.report.bridged, opened.report.rebuilt) == (0, 0, False)
    assert opened.report.end == made.log_end
    assert opened.close(FIRST_MS + 10**9)


def test_units_are_packed_as_one_by_one(view: View) -> None:
    for one in [*view.units[: 2 * SLOTS], *view.units[-2 * SLOTS :]]:
        unit = one.unit
        assert has_good_crc(unit)
        again = pack_unit(
            unit.queue_id,
            unit.flag,
            unit.queue_offset,
            unit.physical_offset,
            unit.sys_flag,
            unit.born_timestamp,
            unit.born_host,
            unit.store_timestamp,
            unit.store_host,
            unit.reconsume_times,
            unit.prepared_transaction_offset,
            unit.body,
            unit.topic,
            unit.properties,
        )
        assert again == one.data
        assert unit.born_timestamp <= unit.store_timestamp


def values(one: Stored) -> dict[str, str]:
    return properties.decode(one.unit.properties.decode())


def test_there_is_every_kind_of_message(view: View) -> None:
    topics = Counter(one.topic for one in view.units)
    assert topics.keys() >= {"orders", "payments", LONG_TOPIC, SHARDED_TOPIC, "SCHEDULE_TOPIC_XXXX", WHEEL}
    assert {"%RETRY%GID-orders", "%DLQ%GID-orders", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"} <= topics.keys()
    assert any(one.unit.magic == MAGIC_V2 for one in view.units)
    assert any(one.unit.sys_flag & BORN_V6 for one in view.units)
    assert any(one.unit.sys_flag & 1 for one in view.units)


def test_followers_name_what_they_follow(view: View) -> None:
    followers = {"retry": 0, "commit": 0, "delivered": 0, "timed": 0}
    by_key = {(one.topic, values(one).get("UNIQ_KEY")): one for one in view.units}
    for one in view.units:
        own, unit = values(one), one.unit
        if one.topic.startswith("%"):
            for name in ("ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_MESSAGE_ID"):
                if name in own:
                    origin = view.at[int(own[name][16:], 16)]
                    assert values(origin)["UNIQ_KEY"] == own["UNIQ_KEY"]
                    assert (origin.topic, origin.unit.body) == (own["RETRY_TOPIC"], unit.body)
                    followers["retry"] += 1
        elif unit.prepared_transaction_offset:
            half = view.at[unit.prepared_transaction_offset]
            assert half.topic == "RMQ_SYS_TRANS_HALF_TOPIC"
            assert values(half)["REAL_TOPIC"] == one.topic
            followers["commit"] += 1
        elif "DELAY" in own and one.topic == "orders":
            origin = by_key["SCHEDULE_TOPIC_XXXX", own["UNIQ_KEY"]]
            assert 0 <= unit.store_timestamp - origin.unit.store_timestamp - DELAY_MS < 1000
            followers["delivered"] += 1
        elif "TIMER_OUT_MS" in own and one.topic == "payments":
            assert (WHEEL, own["UNIQ_KEY"]) in by_key
            assert 0 <= unit.store_timestamp - int(own["TIMER_OUT_MS"]) < 1000
            followers["timed"] += 1
    assert all(followers.values()), followers


def test_sequences_of_sharded_messages_have_no_breaks(view: View) -> None:
    following: Counter[str] = Counter()
    for one in view.units:
        if one.topic == SHARDED_TOPIC:
            own = values(one)
            assert int(own["sequence"]) == following[own["__SHARDINGKEY"]]
            following[own["__SHARDINGKEY"]] += 1
    assert len(following) > 1


def test_everything_sent_is_in_the_log(made: Made, view: View) -> None:
    there = {(one.topic, one.unit.queue_id, one.unit.queue_offset, values(one).get("UNIQ_KEY")) for one in view.units}
    sent = sent_rows(made)
    assert len(sent) > made.messages * 0.8
    assert {(row["topic"], row["queueId"], row["queueOffset"], row["uniqKey"]) for row in sent} <= there
    assert len({row["uniqKey"] for row in sent}) == len(sent)


def sent_rows(made: Made) -> list[dict[str, object]]:
    paths = sorted((made.store.parent / "sent").glob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def all_bytes(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_same_arguments_make_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = {"lost": 2, "duplicate": 2, "corrupt-body": 1}
    generate.generate(tmp_path / "a", Wanted(2 << 20, 100, 5, faults, SIZES))
    monkeypatch.setattr(generate, "PIECE_BYTES", 100_000)  # pieces of other sizes
    generate.generate(tmp_path / "b", Wanted(2 << 20, 100, 5, faults, SIZES))
    generate.generate(tmp_path / "c", Wanted(2 << 20, 100, 6, faults, SIZES))
    a, b, c = (all_bytes(tmp_path / name) for name in "abc")
    assert a == b
    assert a["faults.jsonl"] != c["faults.jsonl"]
    assert a["store/commitlog/00000000000000000000"] != c["store/commitlog/00000000000000000000"]


def test_processes_write_the_same_bytes(tmp_path: Path) -> None:
    generate.generate(tmp_path / "a", Wanted(3 << 20, 100, 5, sizes=SIZES))
    generate.generate(tmp_path / "b", Wanted(3 << 20, 100, 5, sizes=SIZES, workers=2))
    a, b = all_bytes(tmp_path / "a"), all_bytes(tmp_path / "b")
    assert {name: data for name, data in a.items() if name != "summary.json"} == {
        name: data for name, data in b.items() if name != "summary.json"
    }


def test_without_index_and_sent_ledger(tmp_path: Path) -> None:
    made = generate.generate(tmp_path, Wanted(1 << 20, 100, sizes=SIZES, with_index=False, with_sent=False))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["faults.jsonl", "store", "summary.json"]
    assert not (made.store / "index").exists()
    assert verify(list_store(made.store), Scope(with_index=False, workers=1)).is_clean


def test_a_few_messages_are_a_store_too(tmp_path: Path) -> None:
    made = generate.generate(tmp_path, Wanted(5_000, 100, sizes=SIZES))
    assert 0 < made.messages < SLOTS
    assert made.log_end <= 5_000
    assert verify(list_store(made.store), Scope(workers=1)).is_clean


def test_faults_as_text() -> None:
    assert faults_of("lost=3, late") == {"lost": 3, "late": 1}
    assert faults_of("all=2")["torn-tail"] == 1
    for bad in ("lots=1", "lost=x", "lost=-1"):
        with pytest.raises(ValueError):
            faults_of(bad)


def test_the_command_says_why_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("kept")
    assert main([str(tmp_path / "full")]) == 2
    assert "not empty" in capsys.readouterr().err
    few = ["--size", "20KB", "--workers", "0", "--faults", "lost=500"]
    assert main([str(tmp_path / "few"), *few]) == 2
    assert "no place" in capsys.readouterr().err
    assert main([str(tmp_path / "tiny"), "--log-file", "100", "--workers", "0"]) == 2
    assert "largest message" in capsys.readouterr().err
    assert main([str(tmp_path / "good"), "--size", "20KB", "--workers", "0", "--no-index"]) == 0
    assert "messages" in capsys.readouterr().out
    assert (tmp_path / "full" / "mine").read_text() == "kept"
