"""An audit in pieces says what `rmq inspect verify` says of whole files: of sound stores, planted damage, and Java's stores.

Here the pieces are done one after another, each sent through pickle as Spark would send it; cuts are narrow.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmq_columns import parse_options
from rmq_columns.checks import audit as auditing
from rmq_columns.checks import log as logs
from rmq_columns.checks import whole
from rmq_columns.checks.audit import StoreAudit, audit
from rmq_columns.checks.report import Known, LogPart, LogReport
from rmq_columns.checks.scope import Scope
from rmq_columns.checks.sequence import Sequences, grouped
from rmq_columns.checks.topics import USUAL_MAX, Topics
from rmq_columns.checks.trees import listed_stores
from rmq_columns.decode.units import read, walk
from rmq_columns.errors import BadOption
from rmq_columns.files.filesystem import LocalFile
from rmq_inspect.decode.directory import list_store
from rmq_inspect.verify.report import Report
from rmq_inspect.verify.verify import verify
from tests.support import plants_index, plants_log, plants_queues
from tests.support.damaged_store import Subject, fill, fill_soundly
from tests.support.generated import VISIBLE, make
from tests.support.logs import forged, write_log
from tests.support.planted_kinds import PERHAPS
from tests.support.plants import Plant
from tests.support.stores import golden_of, golden_store, rich_store

PLANTS: list[Plant] = [*plants_log.PLANTS, *plants_queues.PLANTS, *plants_index.PLANTS]
NARROW = 1500
"""Bytes of a part: some ten units of `damaged_store`, whose files have 8 KiB."""
OF_VERIFY = ("checkpoint", "config", "position", "timer", "stray")
"""Kinds that belong to one machine, and are not an audit's."""


def in_order(_what: str, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    return [pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(item))))) for item in items]


def look(root: Path, scope: Scope | None = None, **options: object) -> StoreAudit:
    [found] = audit(parse_options({"path": str(root), "splitBytes": NARROW, **options}), scope or Scope(), in_order)
    return found


def counts(found: StoreAudit | Report) -> dict[tuple[str, str], int]:
    return {key: count for key, count in found.findings.counts.items() if not key[0].startswith(OF_VERIFY)}


def shifts_by_kind(counted: dict[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """Units that stand beside their places are known as shifted where two of a run do: a narrow part may have one."""
    found: dict[tuple[str, str], int] = {}
    for (code, file), count in counted.items():
        key = "queue-unit-wrong" if code == "queue-shifted" else code, file
        found[key] = found.get(key, 0) + count
    return found


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_soundly(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def subject(sound: Path, tmp_path: Path) -> Subject:
    shutil.copytree(sound, tmp_path / "store")
    return Subject(tmp_path / "store")


def test_a_sound_store(subject: Subject) -> None:
    found = look(subject.root)
    assert not found.findings.total
    assert found.notes == []
    assert len(found.reports) > 2 * len(subject.log_files)
    assert {key: (one.units, one.first_offset, one.end_offset) for key, one in found.queues.items()} == {
        ("TopicA", 0): (75, 0, 75),
        ("TopicA", 1): (75, 0, 75),
        ("TopicA", 2): (75, 0, 75),
        ("TopicB", 0): (75, 0, 75),
    }
    assert (found.queue_units, found.index_entries) == (300, verify(list_store(subject.root)).index_entries)


@pytest.mark.parametrize("damage", PLANTS, ids=lambda f: f.__name__)
def test_planted_damage_is_found_as_in_whole_files(subject: Subject, damage: Plant) -> None:
    where = damage(subject)
    wanted = subject.report()
    found = look(subject.root)
    assert shifts_by_kind(counts(found)) == shifts_by_kind(counts(wanted))
    places = {(one.code, one.file, one.offset) for one in found.all_findings()}
    assert (where.code, where.file, where.offset) in places or where.code == "queue-shifted"


@pytest.mark.parametrize("kind", VISIBLE)
def test_planted_faults_of_a_generated_store(tmp_path: Path, kind: str) -> None:
    store, ledger = make(tmp_path, {kind: 1})
    found = look(store, splitBytes="100k")
    codes = {code for code, _ in counts(found)}
    wanted = {code for code in VISIBLE[kind] if not code.startswith(OF_VERIFY)}
    assert wanted <= codes <= wanted | PERHAPS.get(kind, set())
    assert counts(found) == counts(verify(list_store(store), Scope(workers=1)))
    assert len(found.reports) > 20
    assert len(ledger) == 1


@pytest.mark.parametrize("kind", ["mix", "batch", "light"])
def test_stores_that_java_wrote_are_clean(tmp_path: Path, kind: str) -> None:
    root = golden_of(kind, tmp_path)
    logs = [str(root / name) for name in ("logs-a", "logs-b") if (root / name).is_dir()]
    for split in (NARROW, 1 << 30):
        found = look(root, splitBytes=split, storePathCommitLog=",".join(logs) or None)
        wanted = verify(list_store(root, logs), Scope(workers=1))
        assert counts(found) == counts(wanted) == {}
        assert sum(one.units for one in found.reports) == wanted.messages > 0


def test_stores_of_ours_are_clean(tmp_path: Path) -> None:
    assert not look(golden_store(tmp_path / "java")).findings.total
    rich_store(tmp_path / "rich")
    assert counts(look(tmp_path / "rich")) == counts(verify(list_store(tmp_path / "rich"), Scope(workers=1)))


def test_a_killed_store_is_clean_but_for_what_the_next_start_mends(tmp_path: Path) -> None:
    fill(tmp_path, 100, clean=False)
    (tmp_path / "abort").touch()
    found = look(tmp_path)
    assert not found.findings.total
    assert len(found.notes) == 1  # that somebody has it open, or that the next start recovers


def test_parts_can_be_left_out(subject: Subject) -> None:
    plants_queues.wrong_tags_code(subject)
    plants_log.flip_in_a_body(subject)
    assert {code for code, _ in counts(look(subject.root))} == {"queue-tags-code", "log-body-crc"}
    assert {code for code, _ in counts(look(subject.root, Scope(with_queues=False)))} == {"log-body-crc"}
    assert {code for code, _ in counts(look(subject.root, Scope(with_crc=False)))} == {"queue-tags-code"}
    plants_index.an_index_entry_of_another_key(subject)
    log_only = look(subject.root, Scope(False, False))
    assert {code for code, _ in counts(log_only)} == {"log-body-crc"}
    assert log_only.queue_units == log_only.index_entries == 0
    assert len(log_only.queues) == 4


def test_queue_offsets_and_crc_properties_are_checked_without_queues(subject: Subject, tmp_path: Path) -> None:
    plants_log.queue_offset_skipped(subject)
    whole = look(subject.root)
    alone = look(subject.root, Scope(False, False))
    logs = {key: count for key, count in counts(whole).items() if key[0].startswith("log-")}
    assert logs
    assert counts(alone) == logs
    light = golden_of("light", tmp_path / "light")
    file = sorted((light / "logs-a").iterdir())[0]
    raw = bytearray(file.read_bytes())
    raw[16] ^= 1  # the client's flag, which nothing else repeats
    file.write_bytes(raw)
    logs_of = f"{light / 'logs-a'},{light / 'logs-b'}"
    for scope in (Scope(), Scope(False, False)):
        [one] = look(light, scope, storePathCommitLog=logs_of).all_findings()
        assert (one.code, one.offset) == ("log-property-crc", 0)
    assert not look(light, Scope(False, False, with_crc=False), storePathCommitLog=logs_of).findings.total


def test_a_forged_cut_is_noticed_and_the_file_looked_at_as_a_whole(tmp_path: Path) -> None:
    write_log(tmp_path, [forged(20)] * 3, file_bytes=1 << 14)
    for scope in (Scope(), Scope(False, False)):
        found = look(tmp_path, scope, splitBytes=1200, splitStrategy="magic")
        assert found.recut
        assert {code for code, _ in counts(found)} <= {"queue-tags-code"}  # which the queues of these logs do not have
        assert [(one.begin, one.units) for one in found.reports if one.units] == [(0, 3)]


def test_a_log_alone_says_that_there_was_nothing_to_compare(subject: Subject) -> None:
    found = look(subject.root / "commitlog")
    assert not found.findings.total
    assert any("only a log" in note for note in found.notes)
    assert not found.queue_units
    plants_log.flip_in_a_body(subject)
    assert {code for code, _ in counts(look(subject.root / "commitlog"))} == {"log-body-crc"}


def test_a_remote_store_has_its_log_checked_and_says_so(subject: Subject) -> None:
    from pyarrow import fs

    remote = fs.SubTreeFileSystem(str(subject.root.parent), fs.LocalFileSystem())
    plants_log.flip_in_a_body(subject)
    options = parse_options({"path": subject.root.name, "splitBytes": NARROW}, remote)
    [found] = audit(options, Scope(), in_order)
    assert {(code, file) for code, file in counts(found)} == set(counts(subject.report()))
    assert any("were not compared" in note for note in found.notes)
    assert len(found.reports) > len(subject.log_files)


def test_a_file_that_vanishes_is_a_finding(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = subject.log_files[1]
    parts = auditing.log_parts

    def gone(*arguments: Any) -> Any:
        planned = parts(*arguments)
        victim.unlink()
        return planned

    monkeypatch.setattr(auditing, "log_parts", gone)
    found = look(subject.root)
    reported = [one for one in found.all_findings() if one.code == "file-unreadable"]
    assert [(one.file, one.offset) for one in reported] == [(f"commitlog/{victim.name}", -1)]


def test_rows_are_not_chosen(subject: Subject) -> None:
    with pytest.raises(BadOption, match="looks at everything"):
        look(subject.root, topics="TopicA")


# --- pieces


def test_no_byte_of_a_file_crashes_a_worker(sound: Path, tmp_path: Path) -> None:
    import random

    rng = random.Random(7)
    for round_ in range(12):
        root = tmp_path / str(round_)
        shutil.copytree(sound, root)
        for path in [*(root / "commitlog").iterdir(), *(root / "index").iterdir()]:
            raw = bytearray(path.read_bytes())
            at = rng.randrange(len(raw))
            raw[at : at + rng.choice((1, 40, 2000))] = rng.randbytes(rng.choice((1, 40, 2000)))
            path.write_bytes(raw[: rng.choice((len(raw), at))])
        assert look(root).findings.total
        shutil.rmtree(root)


def test_sequences_over_blocks() -> None:
    report = LogReport("f", 0, 0)
    sequences = Sequences("f", report)
    names = ["A", "B"]
    for offsets in ([0, 10, 1, 11, 0], [2, 12, 4, 12, 1]):
        topics, queue_ids = np.array([0, 1, 0, 1, 0]), np.array([0, 0, 0, 0, 7], np.int32)
        groups = grouped(np.arange(5), topics, queue_ids, names)
        assert [key for key, _ in groups.rows()] == [("A", 0), ("A", 7), ("B", 0)]
        at = np.arange(5) * 100 + offsets[0] * 1000
        sequences.check(groups, np.array(offsets), at, None)
    assert [(one.code, one.offset, one.detail) for one in report.findings.kept] == [
        ("log-sequence-gap", 2200, "A queue 0: offset 4 follows 2"),
        ("log-sequence-back", 2300, "B queue 0: offset 12 after 12"),
    ]
    assert {key: tuple(edge) for key, edge in sequences.edges().items()} == {
        ("A", 0): (0, 0, 5, 2200, 4),
        ("A", 7): (0, 400, 2, 2400, 2),
        ("B", 0): (10, 100, 13, 2300, 4),
    }


def test_a_log_of_more_topics_than_are_known_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of topics begin anew; counts, ends of queues and findings are the same."""
    rich_store(tmp_path)
    monkeypatch.setattr(logs, "BLOCK_BYTES", 4096)

    def found() -> list[Any]:
        [listed] = listed_stores(parse_options({"path": str(tmp_path)}))
        known = Known({}, [], {}, 0, listed.files.log, with_queues=False, with_index=False, with_sequence=True)
        reports = [logs.check_log(LogPart(file, file is listed.files.log[-1]), known) for file in listed.files.log]
        return [(one.topics, one.edges, one.findings) for one in reports]

    at_once = found()
    assert len(at_once[0][0]) > 1
    monkeypatch.setattr("rmq_columns.checks.topics.TOPICS_MAX", 1)
    assert found() == at_once


def test_topics_are_numbered_as_they_are_met(tmp_path: Path) -> None:
    rich_store(tmp_path, log_file_bytes=1 << 16)
    [path, *_] = sorted((tmp_path / "commitlog").iterdir())
    import os

    descriptor = os.open(path, os.O_RDONLY)
    with LocalFile(descriptor, str(path)) as file:
        raw = file.read(0, path.stat().st_size)
    positions, _ = walk(raw, 0, len(raw))
    buffer = np.frombuffer(raw, np.uint8)
    units = read(buffer, np.array(positions[:-1]), len(raw))
    topics = Topics()
    for _ in range(3):
        numbers = topics.numbers(buffer, units)
        own = [raw[at : at + size].decode() for at, size in zip(units.topic_at, units.topic_size, strict=True)]
        assert [topics.names[number] for number in numbers] == own
    assert len(topics.names) == len(set(own))


def test_many_topics_of_one_length() -> None:
    made = [f"T{number:03}".encode() for number in range(3 * USUAL_MAX)]
    topics = Topics()
    assert topics._looked_up(made).tolist() == list(range(len(made)))
    assert len(topics._usual[4]) == USUAL_MAX
    assert topics._looked_up(made[::-1]).tolist() == list(range(len(made)))[::-1]


def test_steps_over_the_edges_of_parts_are_judged_when_joined(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    plants_log.queue_offset_skipped(subject)
    wanted = counts(subject.report())
    one_unit_each = look(subject.root, splitBytes=100)
    assert max(one.units for one in one_unit_each.reports) <= 2
    assert counts(one_unit_each) == wanted
    monkeypatch.setattr(whole, "judge_step", lambda *_: None)
    assert counts(look(subject.root, splitBytes=100)) != wanted


def test_a_part_that_is_passed_over_is_missed(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner that loses a part would be seen."""
    parts = auditing.log_parts
    monkeypatch.setattr(auditing, "log_parts", lambda *them: [[*own[:3], *own[4:]] for own in parts(*them)])
    assert {code for code, _ in counts(look(subject.root))} == {"log-sequence-gap"}
