"""Consume queues from the log: byte for byte what the real broker and ours have, whatever was cut where."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from rmq_columns import BadOption, CannotRead, Malformed
from rmq_columns.rebuild.compare import compare_queues, plan_comparison
from rmq_columns.rebuild.entries import Key, Kind
from rmq_columns.rebuild.files import Target, extension_addresses, extensions_in
from rmq_columns.rebuild.place import MARK
from rmq_columns.rebuild.plan import plan_build
from rmq_columns.rebuild.runs import Bridge, Piece, Run, settle
from rmq_columns.rebuild.work import Made, build_split, rebuild
from tests.support.logs import QUEUE_OFFSET_AT, write_log
from tests.support.queue_files import TREES, built, files_of, options_of, store_of
from tests.support.stores import golden_of, golden_store, rich_store, spoil

SMALL_SPLITS = 20_000
"""Bytes: cuts every log of these tests in many places."""


def outcomes(made: list[Made], store: Path, **more: object) -> dict[tuple[str, int], dict[str, Any]]:
    tasks = [task for one in made for task in plan_comparison(one.plan, options_of(store, **more), one.queues)]
    rows = [row for task in tasks for batch in compare_queues(task) for row in batch.to_pylist()]
    return {(row["topic"], row["queueId"]): row for row in rows}


# --- what brokers have


@pytest.mark.parametrize("split_bytes", [1 << 28, SMALL_SPLITS])
@pytest.mark.parametrize("kind", ["plain", "batch", "light", "mix"])
def test_the_real_brokers_queues(kind: str, split_bytes: int, tmp_path: Path) -> None:
    store = store_of(kind, tmp_path / "store")
    made = built(store, tmp_path / "to", splitBytes=split_bytes)
    old, new = files_of(store), files_of(tmp_path / "to")
    deleted = new.keys() - old.keys()
    assert all(name.startswith("consumequeue/temporary-") for name in deleted)
    assert bool(deleted) is (kind == "mix"), "the mix has topics that were deleted"
    assert old == {name: data for name, data in new.items() if name not in deleted}
    found = outcomes(made, store)
    assert {row["outcome"] for row in found.values()} == {"equal"} | ({"deleted topic"} if deleted else set())
    assert len(found) == len(made[0].queues)


def test_without_any_queue_left(tmp_path: Path) -> None:
    """What only the old queues knew is given in their place."""
    store = golden_of("mix", tmp_path / "store")
    levels = " ".join(f"{ms // 1000}s" for ms in plan_build(options_of(store), "to")[0][0].rules.delay_levels_ms)
    old = files_of(store)
    shutil.rmtree(store / "consumequeue")
    built(store, tmp_path / "to", {"levels": levels, "queue_file_bytes": 200})
    assert old.items() <= files_of(tmp_path / "to").items()


def test_extensions_without_any_left(tmp_path: Path) -> None:
    store = golden_of("batch", tmp_path / "store")
    old = files_of(store)
    size = next(len(data) for name, data in old.items() if name.startswith("consumequeue_ext"))
    for tree in TREES:
        shutil.rmtree(store / tree)
    made = built(store, tmp_path / "to", {"queue_file_bytes": 200, "extensions": True})
    new = files_of(tmp_path / "to")
    first = "0" * 20  # addresses in later files are others: extension files have their default size now
    assert {
        name: data for name, data in old.items() if name.split("/")[0] == "consumequeue" and first in name
    }.items() <= new.items()
    assert {key.kind for key in made[0].queues} == {Kind.BATCH, Kind.EXTENDED}
    for name, data in new.items():
        if name.startswith("consumequeue_ext"):
            assert data[: size // 20 * 20 - 20] == old[name][: size // 20 * 20 - 20]


def test_our_brokers_queues(tmp_path: Path) -> None:
    rich_store(tmp_path / "store")
    built(tmp_path / "store", tmp_path / "to", splitBytes=4096)
    assert files_of(tmp_path / "to") == files_of(tmp_path / "store")


def test_again_into_the_same_directory(tmp_path: Path) -> None:
    store = golden_store(tmp_path / "store")
    built(store, tmp_path / "to")
    first = files_of(tmp_path / "to")
    (tmp_path / "to" / "unfinished").mkdir()
    built(store, tmp_path / "to")
    assert files_of(tmp_path / "to") == first
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == ["consumequeue", MARK]


def test_every_task_twice(tmp_path: Path) -> None:
    """As when Spark gives a task up and does it again."""
    store = golden_of("batch", tmp_path / "store")

    def twice(tasks: Any) -> Any:
        for task in tasks:
            list(build_split(task))
            yield from build_split(task)

    rebuild(options_of(store, splitBytes=SMALL_SPLITS), str(tmp_path / "to"), twice)
    assert files_of(tmp_path / "to") == files_of(store)


# --- what a log may be like


def test_damage_leads_to_the_next_message(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"%d" % number for number in range(20)], file_bytes=1 << 16)
    spoil(log.files[0], log.places[7] + 4, b"\0\0\0\0")
    with pytest.raises(Malformed):
        built(tmp_path / "store", tmp_path / "to", mode="FAILFAST")
    [made] = built(tmp_path / "store", tmp_path / "to", {"queue_file_bytes": 800}, mode="PERMISSIVE")
    queue = made.queues[Key("T", 0, Kind.PLAIN)]
    size = log.places[9] - log.places[8]
    assert queue.bridges == [Bridge(7, 1, log.places[8], size)]
    assert (queue.start, queue.end, queue.lives) == (0, 20, 1)
    assert made.damaged_bytes == log.places[8] - log.places[7]
    data = files_of(tmp_path / "to")["consumequeue/T/0/" + "0" * 20]
    assert data[140:172] == data[160:172] + bytes(8) + data[160:172]
    assert len(data) == 800


def test_a_log_without_its_beginning(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 500] * 30)
    built(tmp_path / "store", tmp_path / "whole", {"queue_file_bytes": 200})
    log.files[0].unlink()
    whole = files_of(tmp_path / "whole")
    for name, data in whole.items():
        (tmp_path / "store" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "store" / name).write_bytes(data)
    [made] = built(tmp_path / "store", tmp_path / "to", {"queue_file_bytes": 200})
    queue = made.queues[Key("T", 0, Kind.PLAIN)]
    first = sum(place < 4096 for place in log.places)
    assert queue.start == first
    data = files_of(tmp_path / "to")["consumequeue/T/0/" + "0" * 20]
    filler = bytes(8) + b"\x7f\xff\xff\xff" + bytes(8)
    assert data == filler * first + whole["consumequeue/T/0/" + "0" * 20][first * 20 :]
    assert [row["outcome"] for row in outcomes([made], tmp_path / "store").values()] == ["equal"]


@pytest.mark.parametrize(
    ("offset", "units", "said"),
    [
        (1 << 40, 12, "1 queue(s) begin anew elsewhere than at offset 0"),
        (2000, 20, "1 offsets have no message; 1 queue(s) begin anew elsewhere than at offset 0"),
        (1, 20, "6 offsets have no message; 1 queue(s) begin anew elsewhere than at offset 0"),
        (1 << 60, 20, "1 offsets have no message; 1 message(s) can be in no queue"),
    ],
)
def test_one_wild_offset_is_reported(tmp_path: Path, offset: int, units: int, said: str) -> None:
    """No check sum covers it.  What is built is what a broker would build; but clean it is not."""
    from rmq_spark.jobs.rebuild_queues import problems_of

    log = write_log(tmp_path / "store", [b"%d" % number for number in range(20)], file_bytes=1 << 16)
    assert problems_of(built(tmp_path / "store", tmp_path / "to")) == []
    spoil(log.files[0], log.places[7] + QUEUE_OFFSET_AT, offset.to_bytes(8, "big"))
    [made] = built(tmp_path / "store", tmp_path / "to", mode="PERMISSIVE")
    assert "; ".join(problems_of([made])) == said
    assert made.queues[Key("T", 0, Kind.PLAIN)].units == units


def test_nothing_into_a_store(tmp_path: Path) -> None:
    store = golden_store(tmp_path / "store")
    before = sorted(store.rglob("*"))
    for to in (store, store / "rebuilt", tmp_path):
        with pytest.raises(CannotRead, match="store"):
            built(store, to)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(CannotRead, match="not empty"):
        built(store, tmp_path / "full")
    with pytest.raises(CannotRead, match="object store"):
        rebuild(options_of(store), "s3://bucket/queues")
    assert sorted(store.rglob("*")) == before
    assert (tmp_path / "full" / "mine").exists()


def test_what_cannot_be_asked(tmp_path: Path) -> None:
    store = golden_store(tmp_path / "store")
    for a_range in ({"startingPhysicalOffset": 100}, {"startingOffsets": '{"T": {"0": 1}}'}):
        with pytest.raises(BadOption, match="made whole"):
            built(store, tmp_path / "to", **a_range)
    with pytest.raises(ValueError, match="times like"):
        built(store, tmp_path / "to", {"levels": "1s five"})
    assert not (tmp_path / "to").exists()


def test_only_some_topics(tmp_path: Path) -> None:
    store = golden_store(tmp_path / "store")
    topic = sorted(path.name for path in (store / "consumequeue").iterdir())[0]
    [made] = built(store, tmp_path / "to", topics=topic)
    assert {key.topic for key in made.queues} == {topic}
    assert {row["outcome"] for row in outcomes([made], store, topics=topic).values()} == {"equal"}


def test_the_first_difference_is_found(tmp_path: Path) -> None:
    store = golden_store(tmp_path / "store")
    queues = sorted((store / "consumequeue").glob("*/*"))
    changed, gone, more = (next(iter(sorted(queue.iterdir()))) for queue in queues[:3])
    spoil(changed, 12, b"\1")
    end = next(at for at in range(0, more.stat().st_size, 20) if not any(more.read_bytes()[at : at + 20]))
    spoil(more, end, more.read_bytes()[:20])
    shutil.rmtree(gone.parent)
    found = outcomes(built(store, tmp_path / "to"), store)
    rows = {name: row for name, row in found.items() if row["outcome"] != "equal"}
    places = [(path.parent.parent.name, int(path.parent.name)) for path in (changed, gone, more)]
    assert rows.keys() == set(places)
    wrong, missing, dangling = (rows[place] for place in places)
    assert (wrong["outcome"], wrong["firstDifferentOffset"], wrong["field"]) == ("different", 0, "tags_code")
    assert missing["outcome"] == "missing"
    assert (dangling["firstDifferentOffset"], dangling["field"]) == (end // 20, "no message in the log")
    assert [rows[place]["differentUnits"] for place in places] == [1, 0, 1]


def test_queues_that_went_before_they_are_compared(tmp_path: Path) -> None:
    store = golden_store(tmp_path / "store")
    made = built(store, tmp_path / "to")
    shutil.rmtree(tmp_path / "to")
    with pytest.raises(CannotRead, match=f"{tmp_path}/to/consumequeue/.*: no such file"):
        outcomes(made, store)


def test_a_lost_unit_of_a_batch_queue(tmp_path: Path) -> None:
    store = golden_of("batch", tmp_path / "store")
    file = next((store / "batchconsumequeue").rglob("0????*"))
    spoil(file, 46, file.read_bytes()[:46])
    found = outcomes(built(store, tmp_path / "to"), store)
    [row] = [row for row in found.values() if row["outcome"] != "equal"]
    assert row["differentUnits"] == 1
    assert "base_offset" in row["field"]


# --- pure parts


def test_addresses_of_extensions() -> None:
    import numpy as np

    assert extensions_in(64) == 3
    assert [int(one) for one in extension_addresses(np.array([0]), 64)] == [-(1 << 63)]
    deltas = np.diff(extension_addresses(np.array([0, 2, 3, 7]), 64)).tolist()
    assert deltas == [40, 24, 84]


def test_extensions_over_files(tmp_path: Path) -> None:
    target = Target(str(tmp_path / "to"), str(tmp_path), extension_file_bytes=64)
    (tmp_path / "first").mkdir()
    key = Key("T", 0, Kind.EXTENDED)
    data = b"".join(bytes((number,)) * 20 for number in range(1, 8))
    for begin, end in ((0, 2), (2, 3), (3, 7)):
        target.write_extensions(key, begin, data[begin * 20 : end * 20])
    row = b"".join(path.read_bytes() for path in sorted((tmp_path / "first").rglob("0????*")))
    assert row == data[:60] + b"\xff\xff\0\0" + data[60:120] + b"\xff\xff\0\0" + data[120:] + bytes(44)


def _run(first: int, units: int, at: int, split: int = 0) -> Run:
    return Run(first, first + units, units, at, at + 10 * (units - 1), 10, 10 * units, split)


def test_a_queue_that_began_anew() -> None:
    made = settle(Kind.PLAIN, [_run(0, 10, 0), _run(4, 3, 1000, 1)])
    assert not made.as_said
    assert made.lives == 2
    assert [(one.place, one.units) for one in made.pieces] == [(0, 4), (4, 3)]
    assert (made.start, made.end, made.units) == (0, 7, 7)
    assert (made.breaks, made.break_physical, made.dropped) == (1, 1000, 6)
    made = settle(Kind.PLAIN, [_run(5, 10, 0), _run(0, 3, 1000, 1)])
    assert made.pieces == [Piece(1, 1000, 3, 0, 0, 3)]
    assert (made.lives, made.breaks, made.dropped) == (2, 0, 10)
    made = settle(Kind.PLAIN, [_run(0, 3, 0), _run(5, 3, 100), _run(4, 2, 200)])
    assert made.bridges == [Bridge(3, 1, 100, 10)]
    assert made.end == 6


@pytest.mark.parametrize("kind", [Kind.PLAIN, Kind.EXTENDED, Kind.BATCH])
def test_an_offset_that_is_wrong(kind: Kind) -> None:
    """The queue begins anew there and where it goes on, as in a broker's rebuild; that is never a topic that was made again."""
    made = settle(kind, [_run(0, 50, 0), _run(1 << 40, 1, 500), _run(51, 9, 510), _run(0, 4, 900)])
    assert (made.lives, made.breaks, made.break_physical, made.dropped) == (4, 2, 500, 60)
    assert (made.start, made.end, made.units) == (0, 4, 4)


def test_a_light_queue_stays_together() -> None:
    made = settle(Kind.LIGHT, [_run(7, 3, 0), _run(12, 2, 100)])
    assert not made.as_said
    assert not made.bridges
    assert [(one.place, one.units) for one in made.pieces] == [(7, 3), (10, 2)]


lives = some.lists(some.tuples(some.integers(0, 40), some.integers(1, 12)), min_size=1, max_size=12)


@settings(max_examples=300)
@given(lives)
def test_settled_as_if_message_by_message(parts: list[tuple[int, int]]) -> None:
    """Runs in one go make what their messages make one by one."""
    queue: dict[int, int] = {}
    start, at, runs = -1, 0, []
    for first, count in parts:
        runs.append(_run(first, count, at))
        for offset in range(first, first + count):
            if start < 0 or offset <= start:
                queue, start = {}, offset
            queue = {place: held for place, held in queue.items() if place < offset}
            queue |= dict.fromkeys(range(max(queue, default=offset - 1) + 1, offset), -1)
            queue[offset] = at
            at += 10
    made = settle(Kind.PLAIN, runs)
    found = {one.place + step: one.first_physical + 10 * step for one in made.pieces for step in range(one.units)}
    found |= {one.place + step: -1 for one in made.bridges for step in range(one.units)}
    assert found == queue
    assert (made.start, made.end) == (start, max(queue) + 1)
    assert made.as_said is (made.lives == 1) or made.lives > 1


def test_tasks_say_all(tmp_path: Path) -> None:
    """A task is sent to another machine: everything in it can be."""
    import pickle

    plans, tasks = plan_build(options_of(golden_of("batch", tmp_path / "store")), str(tmp_path / "to"))
    assert pickle.loads(pickle.dumps(tasks)) == tasks
    assert dataclasses.is_dataclass(plans[0])
    assert json.loads(json.dumps(str(plans[0].target.root))) == str(tmp_path / "to")
