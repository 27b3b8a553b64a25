"""What a look reports that is no damage, and what it advises by how the rest of the store is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rmq_columns.checks.kinds import KINDS, remedy_of
from rmq_columns.checks.scope import Scope
from rmq_columns.decode.queues import FILLER_SIZE
from rmq_inspect.decode.directory import Kind, StoreFile, list_store
from rmq_inspect.decode.reader import Reader
from rmq_inspect.errors import CannotLook
from rmq_inspect.verify import html as verify_html
from rmq_inspect.verify import report as verify_report
from rmq_inspect.verify.verify import verify
from rmq_wire.layout import timer
from tests.support import plants_log, plants_queues
from tests.support.command import look
from tests.support.damaged_store import LOG_FILE_BYTES, Subject, fill
from tests.support.plants import CHECKPOINT, QUEUE_UNIT, Plant
from tests.support.stores import SLOTS, golden_of, rich_store


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


# --- messages of which only what was made of them still knows


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ("consumequeue", "queues have 300 unit(s)"),
        ("index", "the index has 1200 entries"),
        ("checkpoint", "the checkpoint says that a message was stored at 1700000002990"),
    ],
)
def test_each_that_knows_of_a_lost_log_is_enough(subject: Subject, kept: str, said: str) -> None:
    plants_log.a_log_of_which_the_prepared_file_is_left(subject)
    for name in ("consumequeue", "index"):
        if name != kept:
            shutil.rmtree(subject.path(name))
    if kept != "checkpoint":
        subject.path("checkpoint").unlink()
    [lost] = subject.report().listed()
    assert (lost.code, lost.detail) == ("log-emptied", f"no file of the log has a message; {said}")
    assert look("verify", subject.root).status == 1


def test_queues_of_batches_know_of_a_lost_log_too(tmp_path: Path) -> None:
    store = golden_of("batch", tmp_path / "store")
    shutil.rmtree(store / "consumequeue")
    shutil.rmtree(store / "index")
    (store / "checkpoint").unlink()
    for file in list_store(store).commit_log:
        file.path.write_bytes(bytes(file.size))
    assert "log-lost" in verify(list_store(store)).findings.codes()


def begun_with_a_filler(subject: Subject) -> Subject:
    """A queue as it is when its topic is made again in the midst of a log."""
    subject.write(subject.queue_file("TopicB"), 0, QUEUE_UNIT.packed.pack(0, FILLER_SIZE, 0))
    return subject


def test_queues_with_fillers_know_of_a_lost_log_too(subject: Subject) -> None:
    plants_log.a_log_of_which_the_prepared_file_is_left(begun_with_a_filler(subject))
    for name in ("consumequeue/TopicA", "index"):
        shutil.rmtree(subject.path(name))
    subject.path("checkpoint").unlink()
    for path in sorted(subject.path("consumequeue/TopicB/0").iterdir())[1:]:
        path.unlink()
    [lost] = subject.report().listed()
    assert (lost.code, lost.detail) == ("log-emptied", "no file of the log has a message; queues have 19 unit(s)")


def test_queues_with_fillers_lead_before_the_logs_start_too(subject: Subject) -> None:
    begun_with_a_filler(subject)
    before = sum(len(subject.units(number)) for number in (0, 1))
    for path in subject.log_files[:2]:
        path.unlink()
    assert any(note.startswith(f"{before - 1} queue unit(s) lead before") for note in subject.report().notes)


def test_where_nobody_knows_of_a_message_the_log_is_not_lost(subject: Subject) -> None:
    plants_log.a_log_of_which_the_prepared_file_is_left(subject)
    for name in ("consumequeue", "index"):
        shutil.rmtree(subject.path(name))
    for field in ("physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp"):
        subject.set_field(subject.path("checkpoint"), CHECKPOINT, 0, field, 0)
    assert subject.report().is_clean
    assert look("show", subject.root) == (0, "", "rmq: no messages yet\n")


def test_a_log_that_cannot_be_read_is_not_said_to_be_lost(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = StoreFile.open

    def unreadable(file: StoreFile) -> Reader:
        if file.kind is Kind.COMMIT_LOG:
            raise CannotLook("the disk is broken")
        return opened(file)

    monkeypatch.setattr(StoreFile, "open", unreadable)
    codes = subject.report().findings.codes()
    assert "file-unreadable" in codes
    assert not codes & {"log-lost", "log-emptied"}


def test_a_log_without_its_first_files_is_what_retention_leaves(subject: Subject) -> None:
    """Queues keep their last file, so some units lead nowhere: that is no damage, and no secret."""
    before = sum(len(subject.units(number)) for number in (0, 1))
    start = int(subject.log_files[2].name)
    for path in subject.log_files[:2]:
        path.unlink()
    report = subject.report()
    assert report.is_clean
    note = f"{before} queue unit(s) lead before the log's start, {start}: retention took their messages, or they were removed"
    assert note in report.notes


@pytest.mark.parametrize(
    "damage",
    [plants_log.a_log_of_which_the_prepared_file_is_left, plants_log.a_log_of_zeros, plants_log.a_log_cut_to_nothing],
    ids=lambda f: f.__name__,
)
def test_show_does_not_take_a_lost_log_for_a_new_store(subject: Subject, damage: Plant) -> None:
    damage(subject)
    said = "rmq: no messages, though the queues, the index and the checkpoint know some: rmq inspect verify says more\n"
    for path in (subject.root, subject.path("commitlog")):
        assert look("show", path) == (0, "", said)
    shutil.rmtree(subject.path("index"))
    subject.path("checkpoint").unlink()
    assert "though the queues know some" in look("show", subject.root, "--json").err


def test_of_a_part_of_the_log_show_says_no_more_than_that_it_has_none(subject: Subject) -> None:
    last = subject.log_files[-1]
    following = last.with_name(f"{int(last.name) + LOG_FILE_BYTES:020}")
    following.write_bytes(bytes(LOG_FILE_BYTES))
    assert look("show", following) == (0, "", "rmq: no messages\n")
    assert look("show", following, "--as", "log") == (0, "", "rmq: no messages\n")
