"""Planted damage: each kind is found, named, and said to be where it is; nothing else is said of a sound store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support import plants_index, plants_log, plants_queues, plants_rest
from tests.support.damaged_store import Subject, fill_soundly
from tests.support.plants import Plant

PLANTS: list[Plant] = [*plants_log.PLANTS, *plants_queues.PLANTS, *plants_index.PLANTS, *plants_rest.PLANTS]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_soundly(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def subject(sound: Path, tmp_path: Path) -> Subject:
    shutil.copytree(sound, tmp_path / "store")
    return Subject(tmp_path / "store")


def test_a_sound_store_is_clean(subject: Subject) -> None:
    report = subject.report()
    assert report.listed() == []
    assert report.notes == []
    assert len(subject.log_files) > 4
    assert len(subject.index_files) > 1
    assert report.messages == 300
    assert report.queue_units == 300
    assert report.queues == 4
    assert report.is_clean


@pytest.mark.parametrize("damage", PLANTS, ids=lambda f: f.__name__)
def test_planted_damage_is_found_and_named(subject: Subject, damage: Plant) -> None:
    where = damage(subject)
    report = subject.report()
    found = [(one.code, one.file, one.offset) for one in report.listed()]
    assert (where.code, where.file, where.offset) in found, found
    others = {code for code, _, _ in found} - {where.code}
    assert others <= where.along, report.listed()
    for one in report.listed():
        assert one.kind.title
        assert one.kind.consequence
        assert one.kind.remedy


def test_every_message_behind_a_lost_index_file_is_counted(subject: Subject) -> None:
    first = min(subject.entry(path, 1)[1] for path in subject.index_files[-2:])
    for path in subject.index_files[-2:]:
        path.unlink()
    report = subject.report()
    assert report.findings.codes() == {"index-missing"}
    behind = sum(unit.physical_offset >= first for number in range(len(subject.log_files)) for _, unit in subject.units(number))
    assert report.findings.total == behind > 1


def test_at_least_twenty_kinds_are_planted() -> None:
    assert len(PLANTS) >= 20
