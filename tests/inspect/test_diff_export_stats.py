"""`diff` names what was changed, `export` loses nothing, `stats` counts what is there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rmq_inspect.decode import export
from rmq_inspect.explain.stats import BUCKETS_MAX, OTHERS, Buckets, Count, Stats
from tests.support.command import look
from tests.support.store_rig import draft
from tests.support.stores import LONG_TOPIC, SLOTS, golden_store, plain_store, rich_store, spoil, units_of

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    golden_store(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    return tmp_path / "a", tmp_path / "b"


def differ(pair: tuple[Path, Path], *more: str) -> list[tuple[str, int, str]]:
    seen = look("diff", *pair, "--json", *more)
    assert seen.status == (1 if seen.rows else 0)
    return [(row["file"], row["byte"], row["field"]) for row in seen.rows]


def test_the_same(pair: tuple[Path, Path]) -> None:
    assert differ(pair, "--strict", "--all") == []


def flip(path: Path, at: int) -> None:
    spoil(path, at, bytes([path.read_bytes()[at] ^ 0x11]))


@pytest.mark.parametrize(
    ("name", "at", "field"),
    [
        ("commitlog/00000000000000016384", 0, "total_size"),
        ("commitlog/00000000000000016384", 19, "flag"),
        ("commitlog/00000000000000016384", 92, "body"),
        ("consumequeue/kinds-5_5_0/1/00000000000000000000", 45, "unit 2 physical_offset"),
        ("consumequeue/kinds-5_5_0/1/00000000000000000000", 59, "unit 2 tags_code"),
        ("index/20261121121741895", 36, "header 0 index_count"),
        ("index/20261121121741895", 40 + 4 * 7 + 2, "slot 7 newest"),
        ("index/20261121121741895", 40 + 400 + 20 * 9 + 5, "entry 9 physical_offset"),
    ],
)
def test_a_changed_byte_is_named(pair: tuple[Path, Path], name: str, at: int, field: str) -> None:
    flip(pair[1] / name, at)
    [(file, byte, reported)] = differ(pair)
    assert (file, byte) == (name, at)
    assert reported == field or reported.startswith(f"{field} of the unit at")


def test_every_difference_once(pair: tuple[Path, Path]) -> None:
    log = pair[1] / "commitlog" / f"{0:020}"
    units = [unit for unit in units_of(pair[0]) if unit.file.start == 0]
    for unit in units[3:9:2]:
        flip(log, unit.at + 16)
        flip(log, unit.at + 17)
    flip(pair[1] / "consumequeue/kinds-5_5_0/1/00000000000000000000", 3)
    assert [byte for _, byte, _ in differ(pair, "--all")] == [*(unit.at + 16 for unit in units[3:9:2]), 3]
    assert len(differ(pair)) == 1


def test_what_differs_by_nature(pair: tuple[Path, Path]) -> None:
    index = pair[1] / "index"
    (index / "20261121121741895").rename(index / "20261121121741999")
    flip(pair[1] / "checkpoint", 7)
    (pair[1] / "abort").write_text("77")
    config = pair[1] / "config" / "topics.json"
    config.write_text(config.read_text().replace('"counter":', '"counter":9'))
    assert differ(pair) == []
    found = {(file, field) for file, _, field in differ(pair, "--strict", "--all")}
    assert {("index", "name"), ("checkpoint", "physic_msg_timestamp"), ("abort", "file")} <= found
    assert any(field.startswith("dataVersion.counter") for _, field in found)


def test_what_an_open_store_has_not_written_of_its_index_yet(tmp_path: Path) -> None:
    """Its repair has it: slots that still lead to an older entry, or nowhere.  One that leads elsewhere is wrong all the same."""
    pair = tmp_path / "open", tmp_path / "repaired"
    rig = rich_store(pair[0], clean=False, rolled_back=False)
    rig.put(*map(draft, range(5)))
    assert look("repair", pair[0], "--to", pair[1]).status == 0
    assert any(" newest" in field for _, _, field in differ(pair, "--all", "--strict"))
    assert differ(pair) == differ(pair[::-1]) == []
    spoil(max((pair[0] / "index").iterdir()), 40, (5).to_bytes(4) * SLOTS)
    assert [field.split()[0] for _, _, field in differ(pair)] == ["slot"]
    assert rig.store.close(rig.wall_ms)


def test_a_changed_value_of_configuration(pair: tuple[Path, Path]) -> None:
    config = pair[1] / "config" / "topics.json"
    config.write_text(config.read_text().replace('"writeQueueNums":4', '"writeQueueNums":5', 1))
    [(file, _, field)] = differ(pair)
    assert file == "config/topics.json"
    assert field.endswith("writeQueueNums")
    (pair[1] / "config" / "topics.json").write_text("{")
    assert len(differ(pair)) == 1


def test_missing_files(pair: tuple[Path, Path]) -> None:
    (pair[1] / "commitlog" / f"{16384:020}").unlink()
    assert differ(pair) == [("commitlog/00000000000000016384", -1, "file")]
    assert differ((pair[1], pair[0])) == [("commitlog/00000000000000016384", -1, "file")]
    (pair[0] / "commitlog" / f"{49152:020}").write_bytes(bytes(16384))
    assert len(differ(pair, "--all")) == 2, "preallocated room, counted as by nature"


# Export


def test_json_lines_are_what_show_prints(tmp_path: Path) -> None:
    """But for what becomes of a message, which is no part of it."""
    golden = golden_store(tmp_path / "s")
    assert look("export", golden, "--to", tmp_path / "x.jsonl").status == 0
    shown = look("show", golden, "--json").rows
    outlooks = [row.pop("outlook", None) for row in shown]
    assert any(outlooks)
    assert shown == [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert (tmp_path / "x.jsonl").read_text() == look("export", golden, "--to", "-").out
    again = look("export", golden, "--to", tmp_path / "x.jsonl")
    assert (again.status, "does not overwrite" in again.err) == (2, True)
    assert look("export", golden, "--to", tmp_path / "x.doc").status == 2
    assert look("export", golden, "--to", tmp_path / "no" / "x.jsonl").status == 2
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["x.jsonl"]


def test_parquet_has_every_message(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    plain_store(tmp_path / "s")
    assert look("export", tmp_path / "s", "--to", tmp_path / "x.parquet").status == 0
    rows = parquet.read_table(tmp_path / "x.parquet").to_pylist()
    shown = look("show", tmp_path / "s", "--json").rows
    assert len(rows) == len(shown)
    for row, expected in zip(rows, shown, strict=True):
        for name in ("topic", "queueId", "queueOffset", "commitLogOffset", "offsetMsgId", "uniqKey", "keys", "tags", "bornHost"):
            assert row[name] == expected[name], name
        assert dict(row["properties"]) == expected["properties"]
        assert int(row["storeTimestamp"].timestamp() * 1000) == expected["storeTimestamp"]
        if "body" in expected:
            assert row["body"].decode() == expected["body"]


def test_parquet_comes_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(export, "ROWS_MAX", 10)
    golden = golden_store(tmp_path / "s")
    assert look("export", golden, "--to", tmp_path / "x.parquet").status == 0
    assert parquet.ParquetFile(tmp_path / "x.parquet").num_row_groups == 11


def test_without_pyarrow_one_line_says_what_to_install(tmp_path: Path) -> None:
    golden = golden_store(tmp_path / "s")
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from rmq_cli.main import main\n"
        f"main(['inspect', 'export', {str(golden)!r}, '--to', {str(tmp_path / 'x.parquet')!r}])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (2, f"rmq: {export.HINT}\n")


def test_an_interrupted_export_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = golden_store(tmp_path / "s")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(export, "record_of", interrupted)
    seen = look("export", golden, "--to", tmp_path / "x.jsonl")
    assert (seen.status, seen.err.splitlines()[-1]) == (130, "rmq: interrupted")
    assert not [path for path in tmp_path.iterdir() if path.is_file()]


# Stats


def test_queues_of_many_topics_are_gone_through_once() -> None:
    """And each stands with its own topic, in order."""

    class Queues(dict[tuple[str, int], Count]):
        passes = 0

        def items(self) -> Any:
            self.passes += 1
            return super().items()

    stats = Stats(queues=Queues())
    for number in range(50):
        stats.topics[f"T{number}"] = Count(3, 3 * (100 - number), 1, 2)
        for queue_id in (11, 2, 0):
            stats.queues[f"T{number}", queue_id] = Count(1, 100 + queue_id, 1, 2)
    stats.topics[OTHERS] = Count(1, 1, 1, 2)
    rows = stats.as_json()["topics"]
    assert [row["topic"] for row in rows] == [*(f"T{number}" for number in range(50)), OTHERS]
    assert {tuple((one["queueId"], one["bytes"]) for one in row["queues"]) for row in rows[:-1]} == {
        ((0, 100), (2, 102), (11, 111))
    }
    assert rows[-1]["queues"] == []
    assert isinstance(stats.queues, Queues)
    assert stats.queues.passes == 1


def test_stats_count_what_is_there(tmp_path: Path) -> None:
    golden = golden_store(tmp_path)
    [counted] = look("stats", golden, "--json").rows
    rows = look("show", golden, "--json").rows
    assert counted["messages"] == len(rows)
    assert counted["bytes"] == sum(row["storeSize"] for row in rows)
    assert {one["topic"]: one["messages"] for one in counted["topics"]} == Counter(row["topic"] for row in rows)
    queues = {(one["topic"], q["queueId"]): q["messages"] for one in counted["topics"] for q in one["queues"]}
    assert queues == Counter((row["topic"], row["queueId"]) for row in rows)
    assert counted["tags"] == Counter(row["tags"] for row in rows if row["tags"])
    assert counted["keys"] == sum(len(row["keys"]) for row in rows)
    assert sum(one["messages"] for one in counted["rates"]) == len(rows)
    assert sum(one["messages"] for one in counted["sizes"]) == len(rows)
    assert counted["transactions"] == Counter(row["transaction"] for row in rows)
    assert counted["files"]["commit log"] == {"files": 3, "bytes": 49152, "allocated": 49152}
    assert counted["logEnd"] == rows[-1]["commitLogOffset"] + rows[-1]["storeSize"]


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    plain_store(tmp_path / "s")
    assert look("stats", tmp_path / "s", "--html", tmp_path / "x.html").status == 0
    page = (tmp_path / "x.html").read_text()
    assert page.count("<svg") >= 3
    assert "http" not in page
    assert "<script" not in page
    assert "\x1b" not in page
    assert len(page) < 1 << 20
    assert f"<td class=text>{LONG_TOPIC}<td>" in page, "a name that may be broken anywhere leaves the numbers in sight"
    assert look("stats", tmp_path / "s", "--html", tmp_path / "no" / "x.html").status == 2


def test_text_in_a_page_cannot_be_markup(tmp_path: Path) -> None:
    golden = golden_store(tmp_path / "<b>s")
    look("stats", golden, "--html", tmp_path / "x.html")
    assert "<b>" not in (tmp_path / "x.html").read_text()


def test_buckets_stay_few_and_lose_nothing() -> None:
    buckets = Buckets()
    times = [0, 1, 999, 1000, 86_400_000, -5, 10**12, 10**12 + 1, (1 << 63) - 1, -(1 << 63)]
    for count, time in enumerate(times, 1):
        buckets.add(time, 10)
        rows = buckets.rows()
        assert len(rows) <= BUCKETS_MAX
        assert sum(messages for _, messages, _ in rows) == count
        assert all(begin <= max(times) for begin, _, _ in rows)


def test_text_fits(tmp_path: Path) -> None:
    seen = look("stats", golden_store(tmp_path))
    assert seen.status == 0
    assert all(len(line) <= 130 for line in seen.out.splitlines())
    assert json.dumps("107 messages")[1:-1] in seen.out
