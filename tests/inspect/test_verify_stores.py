"""`rmq inspect verify` of whole stores: Java's, ours, running, killed, old; and the command round it."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from rmq_cli.main import rmq
from rmq_columns.checks.kinds import KINDS
from rmq_columns.checks.scope import Scope
from rmq_inspect.decode.directory import list_store
from rmq_inspect.errors import CannotLook
from rmq_inspect.verify.html import page
from rmq_inspect.verify.report import Report
from rmq_inspect.verify.verify import verify
from rmq_inspect.verify.workers import each
from rmq_store.disk.disk import RealDisk
from rmq_wire.implied.index_keys import index_keys
from rmq_wire.implied.tags import tags_code
from tests.support.damaged_store import Subject, add_config, fill, settings_at
from tests.support.golden import GOLDEN
from tests.support.golden_formats import restore
from tests.support.store_rig import Rig, draft, small

GOLDEN_STORES = {"store-5.5.0": (107, ()), "store-5.5.0-batch": (38, ()), "store-5.5.0-light": (32, ("logs-a", "logs-b"))}


@pytest.mark.parametrize("name", GOLDEN_STORES)
def test_a_store_that_java_wrote_is_clean(name: str, tmp_path: Path) -> None:
    messages, logs = GOLDEN_STORES[name]
    restore(GOLDEN / name, tmp_path)
    report = verify(list_store(tmp_path, [tmp_path / log for log in logs]))
    assert report.listed() == []
    assert report.messages == messages
    assert report.queues > 3
    assert report.index_entries > 50


@pytest.mark.parametrize("name", GOLDEN_STORES)
def test_damage_in_a_store_that_java_wrote(name: str, tmp_path: Path) -> None:
    _, logs = GOLDEN_STORES[name]
    restore(GOLDEN / name, tmp_path)
    store = list_store(tmp_path, [tmp_path / log for log in logs])
    queue = next(file for files in (store.batch_queues or store.queues).values() for file in files)
    raw = bytearray(queue.path.read_bytes())
    raw[15] ^= 1  # tags code
    queue.path.write_bytes(raw)
    assert verify(store).findings.codes() == {"queue-tags-code"}
    raw[15] ^= 1
    raw[11] ^= 1  # size
    queue.path.write_bytes(raw)
    assert "queue-unit-wrong" in verify(store).findings.codes()


def test_damaged_extensions_are_found(tmp_path: Path) -> None:
    restore(GOLDEN / "store-5.5.0-batch", tmp_path)
    store = list_store(tmp_path)
    file = store.extensions["Plain", 0][0]
    raw = bytearray(file.path.read_bytes())
    raw[5] ^= 1  # the tags code of the first
    file.path.write_bytes(raw)
    [found] = verify(store).listed()
    assert (found.code, found.file, found.offset) == ("queue-extension", f"consumequeue/Plain/0/{0:020}", 0)


def test_a_message_that_fails_its_own_crc(tmp_path: Path) -> None:
    restore(GOLDEN / "store-5.5.0-light", tmp_path)
    store = list_store(tmp_path, [tmp_path / "logs-a", tmp_path / "logs-b"])
    raw = bytearray(store.commit_log[0].path.read_bytes())
    raw[16] ^= 1  # the client's flag, which nothing else repeats
    store.commit_log[0].path.write_bytes(raw)
    [found] = verify(store).listed()
    assert (found.code, found.offset) == ("log-property-crc", 0)


def test_a_file_with_too_many_damaged_places_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, 60)
    monkeypatch.setattr("rmq_columns.decode.scan.GAPS_MAX", 3)
    subject = Subject(tmp_path)
    for at, _ in subject.units(0)[::3]:
        subject.set_head(subject.log_files[0], at, "magic", 0)
    assert "log-hopeless" in subject.report().findings.codes()


def test_every_kind_has_a_test_that_plants_it() -> None:
    here = Path(__file__).parent
    plants = here.parent.joinpath("support").glob("plants_*.py")
    source = "".join(path.read_text() for path in (*here.glob("test_verify_*.py"), *plants))
    assert not [code for code in KINDS if f'"{code}"' not in source]


# What the log says twice, or another file repeats; a change of the others (flag, born time and host ...) cannot be seen.
SEEN = ("total_size", "magic", "body_crc", "queue_id", "queue_offset", "physical_offset")


@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize("bit", [0, 3, 12, 31])
def test_any_bit_of_what_is_repeated_elsewhere_is_seen(sound: Path, tmp_path: Path, name: str, bit: int) -> None:
    shutil.copytree(sound, tmp_path / "store")
    subject = Subject(tmp_path / "store")
    at, unit = subject.units(0)[2]
    value = getattr(unit, name) ^ (1 << bit if bit < 31 else -(1 << 31))
    subject.set_head(subject.log_files[0], at, name, value)
    assert not subject.report().is_clean


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    fill(root, 60)
    return root


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_any_bit_of_body_topic_tags_and_keys_is_seen(sound: Path, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(sound, Path(scratch) / "store")
        subject = Subject(Path(scratch) / "store")
        number = data.draw(st.integers(0, 1))
        at, unit = data.draw(st.sampled_from(subject.units(number)))
        end = at + unit.total_size
        place = data.draw(st.integers(at + 91 - 4, end - 1))
        raw = bytearray(subject.log_files[number].read_bytes())
        raw[place] ^= 1 << data.draw(st.integers(0, 7))
        subject.log_files[number].write_bytes(raw)
        assert not subject.report().is_clean


def test_a_killed_store_is_clean_but_for_what_the_next_start_mends(tmp_path: Path) -> None:
    rig = fill(tmp_path, 100, clean=False)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path, copy, ignore=shutil.ignore_patterns("copy"))
    assert rig.store.close(rig.wall_ms)
    report = verify(list_store(copy))
    assert report.listed() == []
    assert any("abort" in note for note in report.notes)
    assert report.messages == 100


def test_a_running_store_is_clean_at_every_moment(tmp_path: Path) -> None:
    """Between staging, commit, dispatch and the index's own second nothing of what waits is damage."""
    rig = Rig(RealDisk(), settings_at(tmp_path))
    for number in range(60):
        rig.store.stage(draft(number, "TopicA", number % 3), rig.wall_ms)
        assert verify(list_store(tmp_path)).listed() == []
        rig.store.commit()
        report = verify(list_store(tmp_path))
        assert report.listed() == []
        assert report.messages == number + 1
        if number % 4 == 3:
            rig.store.dispatch(rig.wall_ms, 2)
            assert verify(list_store(tmp_path)).listed() == []
        rig.wait(300)
        assert report.condition.has_abort
    assert rig.store.close(rig.wall_ms)


def test_retention_leaves_a_clean_store(tmp_path: Path) -> None:
    """The log's first files are gone; queues and index still begin before it, or lost their first files, too."""
    fill(tmp_path, 200)
    subject = Subject(tmp_path)
    kept = subject.units(3)[0][1].physical_offset
    for path in subject.log_files[:3]:
        path.unlink()
    assert subject.report().listed() == []
    queue = subject.queue_file()
    assert int.from_bytes(queue.read_bytes()[-20:-12], "big") < kept
    queue.unlink()
    subject.index_files[0].unlink()
    assert subject.report().listed() == []


def test_a_store_without_index_or_queues_says_so(tmp_path: Path) -> None:
    fill(tmp_path, 50)
    shutil.rmtree(tmp_path / "index")
    report = Subject(tmp_path).report()
    assert report.listed() == []
    assert any("no index" in note for note in report.notes)
    shutil.rmtree(tmp_path / "consumequeue")
    assert Subject(tmp_path).report().findings.codes() == {"queue-missing"}


def test_what_waits_for_its_queue_is_reported(tmp_path: Path) -> None:
    rig = Rig(RealDisk(), settings_at(tmp_path))
    rig.put(draft(0))
    for number in range(1, 4):
        rig.store.stage(draft(number), rig.wall_ms)
    rig.store.commit()
    report = verify(list_store(tmp_path))
    assert report.listed() == []
    assert any(note.startswith("3 message(s)") for note in report.notes)
    (tmp_path / "abort").unlink()  # as if the stop had been clean: now nobody will mend it
    shutil.copytree(tmp_path, tmp_path / "copy")
    report = verify(list_store(tmp_path / "copy"))
    assert report.findings.codes() == {"queue-unit-missing", "index-missing"}
    (tmp_path / "abort").write_bytes(b"")
    rig.store.close(rig.wall_ms)


def test_an_index_without_tags_is_an_older_brokers(tmp_path: Path) -> None:
    rig = Rig(RealDisk(), settings_at(tmp_path))
    for number in range(40):
        unique = f"7F0000010007AAAA{number:016X}"
        rig.put(draft(number, keys=index_keys(unique, f"key{number} shared", None)))
    rig.store.close(rig.wall_ms)
    report = verify(list_store(tmp_path))
    assert report.listed() == []
    assert any("before 5.5" in note for note in report.notes)


def test_a_topic_deleted_and_made_again(tmp_path: Path) -> None:
    rig = fill(tmp_path, 60, clean=False)
    rig.store.delete_topics(["TopicB"])
    for number in range(60, 80):
        rig.put(draft(number, "TopicB", 0))
    rig.store.delete_topics(["TopicA"])
    rig.store.close(rig.wall_ms)
    add_config(tmp_path)
    config = tmp_path / "config" / "topics.json"
    table = json.loads(config.read_text())
    del table["topicConfigTable"]["TopicA"]
    config.write_text(json.dumps(table))
    report = verify(list_store(tmp_path))
    assert report.listed() == []
    assert any("deleted topics" in note for note in report.notes)
    assert any("made again" in note for note in report.notes)


def test_delayed_messages_have_their_due_time_as_tags_code(tmp_path: Path) -> None:
    rig = Rig(RealDisk(), settings_at(tmp_path))
    for number in range(10):
        rig.put(draft(number, "SCHEDULE_TOPIC_XXXX", 2, deliver_delay_ms=10_000))
        rig.wait(7)
    rig.store.close(rig.wall_ms)
    assert verify(list_store(tmp_path)).listed() == []
    subject = Subject(tmp_path)
    path = subject.queue_file("SCHEDULE_TOPIC_XXXX", 2)
    subject.write(path, 5 * 20 + 18, b"\x00")
    assert subject.report().findings.codes() == {"queue-delay-time"}


def test_other_letters_than_ascii(tmp_path: Path) -> None:
    rig = Rig(RealDisk(), settings_at(tmp_path))
    for number in range(10):
        tags, key, unique = "grün😀", f"schlüssel-{number}", f"U{number}"
        properties = f"UNIQ_KEY\x01{unique}\x02KEYS\x01{key}\x02TAGS\x01{tags}\x02".encode()
        one = draft(number, tags_code=tags_code(tags), keys=index_keys(unique, key, tags))
        one.properties = properties
        rig.put(one)
    rig.store.close(rig.wall_ms)
    report = verify(list_store(tmp_path))
    assert report.listed() == []
    assert report.index_entries == 30


def test_many_files_in_many_processes_give_the_same_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, 200)
    subject = Subject(tmp_path)
    at, unit = subject.units()[4]
    subject.set_head(subject.log_files[1], at, "total_size", unit.total_size + 1)
    alone = subject.report()
    monkeypatch.setattr("rmq_inspect.verify.verify.POOL_BYTES_MIN", 0)
    reported: list[tuple[str, int, int]] = []
    together = verify(list_store(tmp_path), Scope(workers=2), lambda *step: reported.append(step))
    assert together.listed() == alone.listed()
    assert {what for what, _, _ in reported} == {"queues", "index", "log"}
    assert all(done <= of for _, done, of in reported)


def _endless(item: int) -> int:
    if item:
        signal.pause()
    return item


def test_an_interrupted_look_leaves_no_process_behind() -> None:
    before = set(multiprocessing.active_children())
    answers = each(_endless, [0, 1, 2, 3], (), 2)
    assert next(answers) == (0, 0)
    answers.close()  # type: ignore[attr-defined]
    assert set(multiprocessing.active_children()) == before


def _dies(item: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return item


def test_a_process_of_ours_that_dies_is_one_line() -> None:
    with pytest.raises(CannotLook, match="--workers 1"):
        list(each(_dies, [0, 1], (), 2))


# --- the command


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(rmq, ["inspect", "verify", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_exit_statuses(tmp_path: Path) -> None:
    fill(tmp_path / "store", 30)
    status, text = run(str(tmp_path / "store"))
    assert status == 0
    assert "clean" in text
    (tmp_path / "store" / "commitlog" / "odd\x1bname").write_bytes(b"")
    status, text = run(str(tmp_path / "store"))
    assert status == 1
    assert "WARNING stray" in text
    assert "Remedy" in text
    assert "\x1b" not in text
    status, text = run(str(tmp_path / "nowhere"))
    assert status == 2
    assert text.count("\n") == 1


def test_a_log_that_lies_elsewhere_is_asked_for(tmp_path: Path) -> None:
    """Without it a good store would seem to be full of errors, with remedies that do harm."""
    light = restore(GOLDEN / "store-5.5.0-light", tmp_path / "light")
    asked = CliRunner().invoke(rmq, ["inspect", "verify", str(light)])
    assert asked.exit_code == 2
    assert "--commit-log" in asked.stderr
    assert "logs-a" in asked.stderr
    one = CliRunner().invoke(rmq, ["inspect", "verify", str(light), "--commit-log", str(light / "logs-a")])
    assert f"--commit-log {light}/logs-b" in one.stderr
    both = ["--commit-log", str(light / "logs-a"), "--commit-log", str(light / "logs-b")]
    clean = CliRunner().invoke(rmq, ["inspect", "verify", str(light), *both])
    assert (clean.exit_code, clean.stderr) == (0, "")


def test_json_and_html(tmp_path: Path) -> None:
    fill(tmp_path / "store", 80)
    subject = Subject(tmp_path / "store")
    at, _ = subject.units(0)[3]
    subject.write(subject.log_files[0], at + 100, b"\0\0\0\0")
    (tmp_path / "store" / "<b>&").write_bytes(b"")
    status, text = run(str(subject.root), "--json", "--html", str(tmp_path / "report.html"))
    assert status == 1
    report: dict[str, Any] = json.loads(text)
    assert (report["clean"], report["messages"], report["errors"]) == (False, 80, 1)
    [crc] = [one for one in report["findings"] if one["code"] == "log-body-crc"]
    assert (crc["file"], crc["offset"], crc["severity"]) == ("commitlog/" + subject.log_files[0].name, at, "error")
    assert crc["consequence"]
    page = (tmp_path / "report.html").read_text()
    assert "log-body-crc" in page
    assert f"commitlog/{subject.log_files[0].name} byte {at}" in page
    assert "&lt;b&gt;&amp;" in page
    assert "<b>&" not in page
    assert "<script" not in page
    assert "<svg" in page
    assert "http" not in page


class Balance(HTMLParser):
    """Every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_balanced_and_marks_what_is_damaged(tmp_path: Path) -> None:
    fill(tmp_path / "store", 80)
    subject = Subject(tmp_path / "store")
    at, _ = subject.units(0)[3]
    subject.write(subject.log_files[0], at + 100, b"\0\0\0\0")
    made = page(subject.report())
    parser = Balance()
    parser.feed(made)
    assert parser.open == []
    size = subject.log_files[0].stat().st_size
    assert f'<rect x="{at * 1000 / size:.1f}" width="4"' in made


def test_parts_can_be_left_out(tmp_path: Path) -> None:
    fill(tmp_path, 60)
    subject = Subject(tmp_path)
    subject.write(subject.queue_file(), 15, b"\x55")
    subject.set_index_header(subject.index_files[0], "end_physical_offset", 5)
    assert run(str(tmp_path), "--no-queues", "--no-index")[0] == 0
    assert "queue-tags-code" in run(str(tmp_path), "--no-index")[1]
    assert "index-header" in run(str(tmp_path), "--no-queues", "--hash-slots", "97")[1]


def test_every_kind_says_what_follows_and_what_to_do() -> None:
    for code, kind in KINDS.items():
        assert code == code.lower()
        assert all((kind.title, kind.consequence.endswith("."), kind.remedy.endswith((".", ".")))), code


def test_the_report_of_an_empty_store(tmp_path: Path) -> None:
    rig = Rig(RealDisk(), small(store_path_root_dir=str(tmp_path)))
    rig.store.close(rig.wall_ms)
    report: Report = verify(list_store(tmp_path))
    assert report.listed() == []
    assert report.messages == 0
