"""What a look reports that is no damage, and what it advises by how the rest of the store is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rmq_columns.checks.kinds import KINDS, remedy_of
from rmq_columns.checks.scope import Scope
from rmq_inspect.decode.directory import list_store
from rmq_inspect.verify import html as verify_html
from rmq_inspect.verify import report as verify_report
from rmq_inspect.verify.verify import verify
from rmq_wire.layout import timer
from tests.support import plants_log, plants_queues
from tests.support.command import look
from tests.support.damaged_store import Subject, fill
from tests.support.plants import CHECKPOINT
from tests.support.stores import SLOTS, rich_store


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    fill(tmp_path / "store")
    return Subject(tmp_path / "store")


@pytest.mark.parametrize("field", ["physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp"])
def test_a_time_of_the_checkpoint_at_which_nothing_was_stored(subject: Subject, field: str) -> None:
    """Between two messages: recovery begins before it, so nothing is lost; but no broker wrote it."""
    stored = subject.units()[3][1].store_timestamp
    subject.set_field(subject.path("checkpoint"), CHECKPOINT, 0, field, stored)
    assert subject.report().notes == []
    subject.set_field(subject.path("checkpoint"), CHECKPOINT, 0, field, stored + 1)
    report = subject.report()
    assert report.is_clean
    assert report.notes == [f"checkpoint: {field} is {stored + 1}, at which no message of the log was stored"]


@pytest.mark.parametrize("field", ["confirm_phy_offset", "logics_physical_offset"])
def test_an_offset_of_the_checkpoint_at_which_nothing_begins(subject: Subject, field: str) -> None:
    unit = subject.units()[3][1].physical_offset
    blank = subject.units()[-1][1].physical_offset + subject.units()[-1][1].total_size
    for good in (unit, blank):
        subject.set_field(subject.path("checkpoint"), CHECKPOINT, 0, field, good)
        assert subject.report().notes == []
    subject.set_field(subject.path("checkpoint"), CHECKPOINT, 0, field, unit + 1)
    report = subject.report()
    assert report.is_clean
    assert report.notes == [f"checkpoint: {field} is {unit + 1}, where no message of the log begins"]


@pytest.mark.parametrize("settled", [True, False])
def test_more_hash_slots_than_an_index_file_has_room_for(tmp_path: Path, settled: bool) -> None:
    """Who names a number hears that it cannot be; of a store that is open nothing else would tell."""
    rig = rich_store(tmp_path, messages=60, clean=settled)
    report = verify(list_store(tmp_path), Scope(index_slots=900_000_000))
    files = [file.name for file in list_store(tmp_path).index]
    assert [(one.code, one.file) for one in report.findings.kept] == [("index-geometry", name) for name in files]
    assert look("verify", tmp_path, "--hash-slots", 900_000_000).status == 1
    assert verify(list_store(tmp_path), Scope(index_slots=SLOTS)).is_clean
    if not settled:
        assert rig.store.close(rig.wall_ms)


def test_a_checkpoint_older_than_the_log_is_nothing(subject: Subject) -> None:
    """Retention took what it speaks of."""
    for field in ("physic_msg_timestamp", "index_msg_timestamp"):
        subject.set_field(subject.path("checkpoint"), CHECKPOINT, 0, field, 1)
    assert (subject.report().is_clean, subject.report().notes) == (True, [])


def test_timer_files_are_named_as_not_checked(subject: Subject) -> None:
    assert "not checked" not in look("verify", subject.root).out
    (subject.root / "config").mkdir()
    (subject.root / "timerlog").mkdir()
    (subject.root / "config" / "timercheck").write_bytes(bytes(4096))
    (subject.root / "timerlog" / f"{0:020}").write_bytes(b"x" * 4096)
    (subject.root / "timerwheel").write_bytes(bytes(2 * 7 * 86_400 * timer.SLOT.sizeof()))
    seen = look("verify", subject.root)
    assert seen.status == 0
    assert "  note: not checked: what is in the timer's files (timerwheel, config/timercheck, timerlog)\n" in seen.out


def test_what_the_log_cannot_give_is_not_promised(subject: Subject) -> None:
    """Queues are built of the log: what to do first is another thing when that is damaged, too."""
    plants_queues.a_queue_unit_wrong(subject)
    whole = look("verify", subject.root).out
    assert "Remedy: The log has everything: rmq inspect repair" in whole
    plants_log.zeros_in_the_log(subject)
    report = subject.report()
    text = "\n".join(verify_report.lines(report))
    assert "has everything" not in text
    assert "Remedy: The log is damaged, too" in text
    assert "has everything" not in json.dumps(verify_report.as_json(report))
    assert "has everything" not in verify_html.page(report)


def test_every_remedy_is_a_sentence_either_way() -> None:
    for code in KINDS:
        for is_whole in (True, False):
            assert remedy_of(code, is_whole).endswith(".")
