"""Keys that are there more than once: exactly those that were planted, and those that the real broker stored twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmq_columns import BadOption
from tests.spark.kit import figures, job, made, planted
from tests.support.stores import golden_of, golden_store

COUNT = 4
BORN_TIME_AT = 40
"""In a message."""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    faults = {"duplicate": COUNT, "duplicate-key": COUNT, "reorder": 2, "lost": 2, "late": 2, "queue-missing": 2}
    return made(tmp_path_factory.mktemp("duplicates") / "faulty", **faults)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("duplicates") / "clean")


def seconds(outcome: Any) -> list[tuple[str, int]]:
    """(topic, place of the later copy) of every key found."""
    return sorted((row.topic, row.places[-1].physicalOffset) for row in outcome.frames["duplicates"].collect())


def test_born_in_microseconds(spark: Any, tmp_path: Path) -> None:
    """As a wrong client has it: some 50,000 years from now."""
    directory = made(tmp_path / "far", 1 << 20, duplicate=1)
    [fault] = planted(directory, "duplicate")
    file = directory / "store" / fault["file"]
    data, at = bytearray(file.read_bytes()), fault["fileOffset"] + BORN_TIME_AT
    data[at : at + 8] = (int.from_bytes(data[at : at + 8], "big") * 1000).to_bytes(8, "big")
    file.write_bytes(data)
    outcome = job(spark, "duplicates", directory / "store")
    assert [table.total for table in outcome.tables if table.is_finding] == [1]


def test_planted_unique_keys(spark: Any, broken: Path) -> None:
    outcome = job(spark, "duplicates", broken / "store")
    wanted = planted(broken, "duplicate")
    assert len(wanted) == COUNT
    assert seconds(outcome) == sorted((one["topic"], one["physicalOffset"]) for one in wanted)
    assert not outcome.is_clean
    for row in outcome.frames["duplicates"].collect():
        [fault] = [one for one in wanted if one["physicalOffset"] == row.places[1].physicalOffset]
        assert fault["what"] == f"has the unique key of the message at {row.places[0].physicalOffset}"
        assert (row.key, row.copies) == (fault["uniqKey"], 2)
        apart = [one.storeTimestamp.timestamp() for one in row.places]
        assert row.msApart == row.places[1].msAfterFirst == round((apart[1] - apart[0]) * 1000)
        assert not row.bodiesEqual
    assert figures(outcome)["keysDuplicated"] == figures(outcome)["copiesTooMany"] == COUNT
    [table] = [one for one in outcome.tables if one.is_finding]
    assert table.total == len(table.rows) == COUNT


def test_planted_business_keys(spark: Any, broken: Path) -> None:
    """A doubled unique key has its business key doubled too."""
    wanted = sorted((one["topic"], one["physicalOffset"]) for one in planted(broken, "duplicate", "duplicate-key"))
    for by in ("keys", "property:KEYS"):
        assert seconds(job(spark, "duplicates", broken / "store", by=by)) == wanted


@pytest.mark.parametrize("by", ["uniqKey", "keys"])
def test_clean(spark: Any, clean: Path, by: str) -> None:
    outcome = job(spark, "duplicates", clean / "store", by=by)
    assert outcome.is_clean
    assert outcome.frames["duplicates"].count() == 0
    counted = figures(outcome)
    assert counted["keysJudged"] > 10_000
    assert counted["withoutKey"] == counted["packedUnits"] == 0


def test_two_brokers(spark: Any, clean: Path, broken: Path) -> None:
    """A send that another broker has, too."""
    outcome = job(spark, "duplicates", clean / "store", broken / "store", options={"topics": "clicks", "brokerName": "a,b"})
    row = outcome.frames["duplicates"].first()
    assert {one.brokerName for one in row.places} == {"a", "b"}
    assert {row.topic for row in outcome.frames["duplicates"].select("topic").distinct().collect()} == {"clicks"}


def test_many_copies_are_listed_in_part(spark: Any, clean: Path) -> None:
    outcome = job(spark, "duplicates", clean / "store", by="property:CLUSTER", options={"topics": "clicks"})
    [row] = outcome.frames["duplicates"].collect()
    assert row.copies > 1000
    assert len(row.places) == 20
    times = [(one.storeTimestamp, one.physicalOffset) for one in row.places]
    assert times == sorted(times)


def test_transactions_that_java_committed_twice(spark: Any, tmp_path: Path) -> None:
    """Its op message waits for a batch; a check in the meantime asked again, and the second commit is a second message."""
    outcome = job(spark, "duplicates", golden_store(tmp_path / "broker-a"))
    rows = outcome.frames["duplicates"].collect()
    twice = [row for row in rows if [place.physicalOffset for place in row.places] == [4362, 14768]]
    assert len(twice) == 1
    assert twice[0].bodiesEqual
    assert twice[0].key == "FD00000000000000000000000000000242BB4E0E2F2A69A293440010"


def test_units_that_cannot_be_judged(spark: Any, tmp_path: Path) -> None:
    counted = figures(job(spark, "duplicates", golden_of("batch", tmp_path / "broker-a")))
    assert counted["packedUnits"] > 0


def test_damage_is_reported(spark: Any, tmp_path: Path) -> None:
    directory = made(tmp_path / "damaged", 1 << 20, corrupt_size=2)
    outcome = job(spark, "duplicates", directory / "store")
    assert outcome.is_clean
    assert any("could not be read" in note for note in outcome.notes)


def test_wrong_key(spark: Any, clean: Path) -> None:
    with pytest.raises(BadOption, match="no nothing; there are"):
        job(spark, "duplicates", clean / "store", by="nothing")
    with pytest.raises(BadOption, match="no name of a property"):
        job(spark, "duplicates", clean / "store", by="property:")


def test_where_no_message_has_the_key(spark: Any, clean: Path, tmp_path: Path) -> None:
    """What was observed is lost where no row reaches the shuffle: it is counted all the same."""
    outcome = job(spark, "duplicates", clean, by="property:nobody-has-it")
    assert outcome.is_clean
    counted = figures(outcome)
    assert (counted["keysJudged"], counted["withoutKey"] > 0) == (0, True)
    assert outcome.messages == counted["withoutKey"]
    (tmp_path / "commitlog").mkdir()
    assert job(spark, "duplicates", tmp_path).messages == 0
