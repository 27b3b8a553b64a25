"""Where jobs write what they found: looked at before the work starts, also a URI, with the file system that Spark writes to."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyspark", reason="needs PySpark: the extra [spark]")
from rmq_columns import BadOption, CannotRead
from rmq_spark.outcome import Outcome
from rmq_spark.session import silent
from rmq_spark.writing import BEGUN, FORMATS, check_shared, check_uri, is_seen, write_frames
from tests.spark import command_driver
from tests.spark.kit import made


class Disk(NamedTuple):
    """A directory, and the URI by which Spark knows it."""

    path: Path
    uri: str


@pytest.fixture
def disk(spark: Any, tmp_path: Path) -> Iterator[Disk]:
    """Of a file system of Hadoop's that is another one and needs nothing installed.  Spark keeps those that it has opened."""
    (tmp_path / "disk").mkdir()
    name = f"view-{uuid.uuid4().hex}"
    key = f"fs.viewfs.mounttable.{name}.link./disk"
    spark.conf.set(key, (tmp_path / "disk").as_uri())
    yield Disk(tmp_path / "disk", f"viewfs://{name}/disk")
    spark.conf.unset(key)


def test_a_uri_that_is_free(spark: Any, disk: Disk) -> None:
    for overwrite in (False, True):
        check_uri(spark, f"{disk.uri}/found", overwrite=overwrite)
        check_uri(spark, disk.uri, overwrite=overwrite)
    assert [one.name for one in disk.path.glob("[!._]*")] == ["found"]
    for place in (disk.path, disk.path / "found"):
        assert list((place / BEGUN).glob("part-*")), "tasks have written there"
        assert not [one for one in place.glob("[!._]*") if one.is_file()]


def test_a_uri_that_is_taken(spark: Any, disk: Disk) -> None:
    (disk.path / "found").mkdir()
    (disk.path / "found" / "mine").touch()
    with pytest.raises(BadOption, match=f"{disk.uri}/found: is not empty; name another, or say --overwrite"):
        check_uri(spark, f"{disk.uri}/found", overwrite=False)
    check_uri(spark, f"{disk.uri}/found", overwrite=True)
    for overwrite in (False, True):
        with pytest.raises(BadOption, match="is no directory"):
            check_uri(spark, f"{disk.uri}/found/mine", overwrite=overwrite)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("s3://bucket/found", 'No FileSystem for scheme "s3"'),
        ("viewfs://{host}/nothing/found", "cannot be written: "),  # only what is linked is there, and nobody makes more
        ("s3a://no bucket/x", "cannot be written: "),
    ],
)
def test_a_uri_that_cannot_be_written(spark: Any, disk: Disk, uri: str, said: str) -> None:
    with pytest.raises(BadOption) as caught:
        check_uri(spark, uri.format(host=disk.uri.split("/")[2]), overwrite=False)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_before_the_work_starts(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from rmq_cli.spark import command

    store = made(tmp_path / "g", 1 << 20) / "store"
    module, started = command_driver.module(), list[Any]()
    vars(module)["run"] = lambda *given: started.append(given)
    monkeypatch.setitem(sys.modules, "rmq_spark.jobs.skew", module)
    done = CliRunner().invoke(command, ["skew", str(store), "--do", "frames", "--out", "s3://bucket/found"])
    assert (done.exit_code, started) == (2, [])
    assert done.stderr.startswith("rmq: s3://bucket/found: cannot be written: ")


@pytest.mark.parametrize("name", ["a b", "ä", "100%25", "x#y?z"])
def test_any_name_of_a_directory(spark: Any, tmp_path: Path, name: str) -> None:
    outcome = Outcome("skew", "clean", True, frames={"few": spark.range(3)})
    for number, form in enumerate(FORMATS):
        for place in (tmp_path / name / f"{number}", tmp_path / name / f"{number}-uri"):
            uri = place.as_uri() if place.name.endswith("uri") else str(place)
            assert [*write_frames(spark, outcome, uri, form, silent, overwrite=False)] == ["few"]
            assert list((place / "few").glob("part-*"))
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_through_a_uri(spark: Any, disk: Disk) -> None:
    outcome = Outcome("skew", "clean", True, frames={"few": spark.range(3)})
    assert [*write_frames(spark, outcome, f"{disk.uri}/found/", "parquet", silent, overwrite=False)] == ["few"]
    assert list((disk.path / "found" / "few").glob("part-*"))


@pytest.mark.parametrize("kind", FORMATS)
def test_frames_without_rows_arrive_too(spark: Any, tmp_path: Path, kind: str) -> None:
    frames = {"none": spark.range(0), "empty": spark.createDataFrame([], "a int"), "few": spark.range(9).where("id > 7")}
    outcome = Outcome("skew", "clean", True, frames=frames)
    assert [*write_frames(spark, outcome, str(tmp_path), kind, silent, overwrite=False)] == list(frames)


class Elsewhere:
    """A session whose master is on another machine."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self.conf = SimpleNamespace(get={"spark.master": "spark://host:7077"}.get)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)


def test_whether_executors_share_a_directory(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an executor writes to a disk of its own, Spark commits without a word: asked before the work starts."""
    other: Any = Elsewhere(spark)
    check_shared(other, str(tmp_path / "new" / "found"))
    assert not (tmp_path / "new" / "found").exists()
    check_shared(other, f"file://{tmp_path}")
    assert [one.name for one in tmp_path.iterdir()] == ["new"], "the probe is gone"
    monkeypatch.setattr("rmq_spark.writing.is_seen", look_elsewhere)
    with pytest.raises(Exception, match="an executor does not see what the driver wrote there: name a directory"):
        check_shared(other, str(tmp_path / "found"))
    assert not (tmp_path / "found").exists()
    check_shared(spark, str(tmp_path / "found"))


def look_elsewhere(path: str, row: int) -> bool:
    return is_seen(path + "-of-another-machine", row)


def test_nothing_arrived(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmq_spark.writing.PART", "piece-")
    outcome = Outcome("skew", "clean", True, frames={"few": spark.range(3)})
    with pytest.raises(CannotRead, match="few: nothing arrived: name a directory that the driver"):
        list(write_frames(spark, outcome, str(tmp_path), "parquet", silent, overwrite=False))
