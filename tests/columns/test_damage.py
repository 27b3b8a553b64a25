"""Whatever the bytes are: the modes agree with each other, splits with the whole, and no row is made of what is no message."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmq_columns import FileGone, Malformed, SeamMismatch, parse_options, plan_splits, read_split, read_store
from rmq_wire.message import read_unit
from rmq_wire.message_id import pack_host
from tests.columns.rows import listed, rows, split_rows
from tests.support.given import damaged
from tests.support.logs import FILE_BYTES, FIXED_BYTES, SOME, forged, unit, write_log
from tests.support.stores import golden_store

CALM = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
FEW = "physicalOffset,storeSize,queueOffset,body,_corrupt"
"""What tells a row from another; what is made of its properties is looked at elsewhere."""


@pytest.mark.parametrize("v6", [False, True])
def test_a_sound_log(tmp_path: Path, v6: bool) -> None:
    log = write_log(tmp_path, SOME, v6=v6)
    for strategy in ("auto", "magic", "consumequeue", "file"):
        for split_bytes in (500, 1500, 1 << 20):
            found = split_rows(tmp_path, splitBytes=split_bytes, splitStrategy=strategy, blockBytes=64)
            assert [row["physicalOffset"] for row in found] == log.places
            assert [row["body"] for row in found] == SOME
            assert [row["uniqKey"] for row in found] == [str(number) for number in range(len(SOME))]


@CALM
@given(st.data())
def test_modes_agree(tmp_path: Path, data: st.DataObject) -> None:
    log = write_log(tmp_path, SOME[:40], v6=data.draw(st.booleans()))
    hit = data.draw(st.sampled_from(log.files))
    hit.write_bytes(data.draw(damaged(hit.read_bytes())))
    block = data.draw(st.sampled_from([64, 700, 1 << 20]))
    shown = rows(tmp_path, mode="PERMISSIVE", blockBytes=block, verifyCrc=True, batchRows=data.draw(st.integers(1, 9)))
    sound = [{**row} for row in shown if row["_corrupt"] is None]
    for row in sound:
        del row["_corrupt"]
    assert rows(tmp_path, mode="DROPMALFORMED", verifyCrc=True) == sound
    files = {int(path.name): path.read_bytes() for path in log.files}
    for row in sound:
        start = row["physicalOffset"] // FILE_BYTES * FILE_BYTES
        one = read_unit(files[start], row["physicalOffset"] - start)
        assert (one.body, one.queue_offset, one.physical_offset) == (row["body"], row["queueOffset"], row["physicalOffset"])
    untouched = [place for place in log.places if place // FILE_BYTES != int(hit.name) // FILE_BYTES]
    assert set(untouched) <= {row["physicalOffset"] for row in sound}
    prefix = []
    try:
        for batch in read_store(tmp_path, verifyCrc=True, batchRows=3, blockBytes=block):
            prefix += listed(batch)
        assert len(sound) == len(shown)
        assert prefix == sound
    except Malformed:
        assert len(sound) < len(shown)
        assert prefix == sound[: len(prefix)]


@CALM
@given(st.data())
def test_splits_agree_with_the_whole(tmp_path: Path, data: st.DataObject) -> None:
    log = write_log(tmp_path, SOME[:40])
    hit = data.draw(st.sampled_from(log.files))
    raw = bytearray(hit.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        piece = data.draw(st.sampled_from([b"\x7f", b"\xff\xff\xff\xff", bytes(4), bytes(400), b"\0\0\1\0", b"\xda\xa3\x20\xa7"]))
        raw[at : at + len(piece)] = piece
    hit.write_bytes(bytes(raw[:FILE_BYTES]))
    whole = rows(tmp_path, mode="PERMISSIVE", columns=FEW)
    size, block = data.draw(st.integers(300, 3000)), data.draw(st.sampled_from([64, 900]))
    strategy = data.draw(st.sampled_from(["magic", "auto", "consumequeue"]))
    found = split_rows(tmp_path, mode="PERMISSIVE", columns=FEW, splitBytes=size, blockBytes=block, splitStrategy=strategy)
    for row in [*whole, *found]:
        row["_corrupt"] = row["_corrupt"] is not None
    assert found == whole


@CALM
@given(
    st.lists(st.one_of(st.binary(max_size=200), st.integers(1, 6).map(forged)), min_size=8, max_size=30), st.integers(200, 2500)
)
def test_forged_units_never_become_rows(tmp_path: Path, bodies: list[Any], split_bytes: int) -> None:
    log = write_log(tmp_path, bodies)

    def places(read: Any, **options: Any) -> list[int]:
        return [row["physicalOffset"] for row in read(tmp_path, columns="physicalOffset", **options)]

    assert places(rows) == log.places
    assert places(split_rows, splitBytes=split_bytes, splitStrategy="consumequeue") == log.places
    low = log.places[len(log.places) // 2] - 1
    assert places(rows, startingPhysicalOffset=low) == [place for place in log.places if place >= low]
    try:
        found = places(split_rows, splitBytes=split_bytes, splitStrategy="magic")
    except SeamMismatch:
        return
    assert found == log.places


def test_a_forged_seam_is_met(tmp_path: Path) -> None:
    write_log(tmp_path, [forged(20)] * 3, file_bytes=1 << 14)
    with pytest.raises(SeamMismatch, match="over the split's end"):
        split_rows(tmp_path, splitBytes=800, splitStrategy="magic")


def test_gaps_say_where_and_why(tmp_path: Path) -> None:
    log = write_log(tmp_path, SOME)
    assert rows(tmp_path, table="gaps") == []
    [tail] = rows(tmp_path, table="gaps", tail="report")
    assert (tail["kind"], tail["endOffset"]) == ("unwritten", len(log.files) * FILE_BYTES)
    for path in (log.files[0],):
        raw = bytearray(path.read_bytes())
        raw[log.places[3] + 4] = 0
        raw[log.places[7] : log.places[9]] = bytes(log.places[9] - log.places[7])
        path.write_bytes(raw)
    log.files[1].unlink()
    found = [(row["startOffset"], row["endOffset"], row["kind"]) for row in rows(tmp_path, table="gaps")]
    assert found == [
        (log.places[3], log.places[4], "magic"),
        (log.places[7], log.places[9], "zeros"),
        (FILE_BYTES, 2 * FILE_BYTES, "no file"),
    ]
    with pytest.raises(Malformed, match=f"byte {log.places[3]}: "):
        rows(tmp_path)
    shown = [row for row in rows(tmp_path, mode="PERMISSIVE") if row["_corrupt"]]
    assert [(row["physicalOffset"], row["physicalOffset"] + row["storeSize"]) for row in shown] == [row[:2] for row in found]


def test_a_wrong_crc_is_malformed_when_it_is_verified(tmp_path: Path) -> None:
    log = write_log(tmp_path, SOME)
    raw = bytearray(log.files[0].read_bytes())
    raw[log.places[5] + FIXED_BYTES] ^= 1
    log.files[0].write_bytes(raw)
    assert len(rows(tmp_path)) == len(SOME)
    with pytest.raises(Malformed, match="CRC"):
        rows(tmp_path, verifyCrc=True)
    bad = [row for row in rows(tmp_path, verifyCrc=True, mode="PERMISSIVE") if not row["crcOk"]]
    assert [row["physicalOffset"] for row in bad] == [log.places[5]]
    assert "CRC" in bad[0]["_corrupt"]
    assert len(rows(tmp_path, verifyCrc=True, mode="DROPMALFORMED")) == len(SOME) - 1


def test_a_file_deleted_after_planning(tmp_path: Path) -> None:
    log = write_log(tmp_path, SOME)

    def planned(mode: str) -> Iterator[dict[str, Any]]:
        write_log(tmp_path, SOME)
        splits = plan_splits(parse_options({"path": tmp_path, "mode": mode, "splitBytes": FILE_BYTES}))
        log.files[1].unlink()
        return (row for split in splits for batch in read_split(split) for row in batch.to_pylist())

    with pytest.raises(FileGone, match="deleted"):
        list(planned("FAILFAST"))
    left = [place for place in log.places if place // FILE_BYTES != 1]
    assert [row["physicalOffset"] for row in planned("DROPMALFORMED")] == left
    assert [row["physicalOffset"] for row in planned("PERMISSIVE") if row["_corrupt"]] == [FILE_BYTES]


def test_a_log_that_grows_while_it_is_read(tmp_path: Path) -> None:
    log = write_log(tmp_path, SOME[:5])
    [split] = plan_splits(parse_options({"path": tmp_path}))
    grown = write_log(tmp_path, SOME[:9])
    found = [row["physicalOffset"] for batch in read_split(split) for row in listed(batch)]
    assert found == grown.places[:9]
    assert found[:5] == log.places


def test_errors_survive_being_sent() -> None:
    sent = pickle.loads(pickle.dumps(Malformed("a/b", 7, "why")))
    assert (sent.path, sent.at, str(sent)) == ("a/b", 7, "a/b, byte 7: why")
    assert len(pack_host("127.0.0.1", 1)) == 8


def test_queue_units_that_are_none(tmp_path: Path) -> None:
    write_log(tmp_path, SOME[:8])
    path = tmp_path / "consumequeue" / "T" / "0" / f"{0:020}"
    raw = bytearray(path.read_bytes())
    raw[40:60] = bytes(20)
    raw[88:92] = b"\xff\xff\xff\xff"
    path.write_bytes(raw)
    with pytest.raises(Malformed, match="byte 40"):
        rows(tmp_path, table="consumequeue")
    for block in (20, 60, 4096):
        shown = rows(tmp_path, table="consumequeue", mode="PERMISSIVE", blockBytes=block)
        assert sorted(row["queueOffset"] for row in shown if not row["_corrupt"]) == [0, 1, 3, 5, 6, 7]
        assert len([row for row in shown if row["_corrupt"]]) == 2


@pytest.mark.parametrize(("table", "beneath"), [("consumequeue", "consumequeue"), ("index", "index")])
def test_a_queue_or_index_deleted_after_planning(tmp_path: Path, table: str, beneath: str) -> None:
    def planned(mode: str) -> list[dict[str, Any]]:
        root = golden_store(tmp_path / mode)
        splits = plan_splits(parse_options({"path": root, "table": table, "mode": mode, "columns": columns[mode]}))
        gone.append(next(path for path in sorted((root / beneath).rglob("0*" if table != "index" else "2*")) if path.is_file()))
        gone[-1].unlink()
        return [row for split in splits for batch in read_split(split) for row in listed(batch)]

    gone: list[Path] = []
    of_table = {"consumequeue": "topic,queueId", "index": "file"}[table]
    columns = {"FAILFAST": of_table, "DROPMALFORMED": of_table, "PERMISSIVE": f"{of_table},_corrupt"}
    with pytest.raises(FileGone) as raised:
        planned("FAILFAST")
    assert str(raised.value) == f"{gone[-1]}: deleted since the splits were planned"
    left = planned("DROPMALFORMED")
    shown = planned("PERMISSIVE")
    [bad] = [row for row in shown if row["_corrupt"]]
    assert bad["_corrupt"] == f"{gone[-1]}: deleted since the splits were planned"
    assert len(shown) == len(left) + 1
    if table == "index":
        assert bad["file"] == str(gone[-1])
    else:
        assert (bad["topic"], bad["queueId"]) == (gone[-1].parts[-3], int(gone[-1].parts[-2]))


def test_the_next_file_that_a_broker_has_made_ahead(tmp_path: Path) -> None:
    """A running broker's log ends in the file before it; what is begun there after planning comes too late to be shown."""
    log = write_log(tmp_path, SOME)
    ahead = log.files[-1].with_name(f"{len(log.files) * FILE_BYTES:020}")
    ahead.write_bytes(bytes(FILE_BYTES))
    ahead.with_name(f"{(len(log.files) + 1) * FILE_BYTES:020}").write_bytes(b"")
    assert [row["physicalOffset"] for row in rows(tmp_path)] == log.places
    assert rows(tmp_path, table="gaps") == []
    [unwritten, behind] = rows(tmp_path, table="gaps", tail="report")
    assert (unwritten["kind"], unwritten["endOffset"]) == ("unwritten", len(log.files) * FILE_BYTES)
    assert (behind["kind"], behind["startOffset"]) == ("unwritten", len(log.files) * FILE_BYTES)
    splits = plan_splits(parse_options({"path": tmp_path, "splitBytes": FILE_BYTES}))
    ahead.write_bytes(unit(len(log.files) * FILE_BYTES, b"begun").ljust(FILE_BYTES, b"\0"))
    found = [row["physicalOffset"] for split in splits for batch in read_split(split) for row in listed(batch)]
    assert found == log.places
    with pytest.raises(Malformed, match="zeros"):  # now the file before it should have been filled
        rows(tmp_path)


def test_a_file_whose_beginning_is_lost_is_not_taken_for_one_made_ahead(tmp_path: Path) -> None:
    log = write_log(tmp_path, SOME)
    raw = log.files[-1].read_bytes()
    log.files[-1].write_bytes(bytes(100) + raw[100:])
    with pytest.raises(Malformed, match=f"{log.files[-1].name}, byte 0: "):
        rows(tmp_path)
