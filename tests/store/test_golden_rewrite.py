"""What the real 5.5.0 broker stored, appended through our store at the same times: the same log, queues and index, byte for byte.

Over the golden stores of `conformance/golden`: `store-5.5.0` (stock clients, every kind of message) and `store-5.5.0-mix` (hosts
of both families, version 2 units, many small files).  Planted changes show that each of the three would be seen to differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rmq_wire.implied.delay_levels import DELAY_LEVELS_MS
from rmq_wire.layout.message import BORN_V6, MAGIC_V1, MAGIC_V2, STORE_V6
from tests.support.golden import GOLDEN
from tests.support.store_differ import DATA, Files, by_age, first_difference, read_files
from tests.support.store_rewrite import append_again, groups
from tests.support.store_view import Shape, Stored, View


class Golden(NamedTuple):
    shape: Shape
    files: Files
    view: View


def stock_clients() -> tuple[Shape, list[str]]:
    """As in `tests.java.golden_store`."""
    return Shape(16_384, 2_000, 100, 400, DELAY_LEVELS_MS), []


def mix() -> tuple[Shape, list[str]]:
    reported = json.loads((GOLDEN / "store-5.5.0-mix" / "shape.json").read_text())
    deleted = reported.pop("deleted")
    return Shape(**{**reported, "delays_ms": tuple(reported["delays_ms"])}), deleted


STORES = {"store-5.5.0": stock_clients, "store-5.5.0-mix": mix}


@pytest.fixture(scope="module", params=STORES)
def golden(request: pytest.FixtureRequest) -> Golden:
    root = GOLDEN / request.param
    sizes = json.loads((root / "sizes.json").read_text())
    kept = {name: (root / name).read_bytes().ljust(size, b"\0") for name, size in sizes.items() if name.startswith(DATA)}
    shape, deleted = STORES[request.param]()
    return Golden(shape, by_age(kept), View(kept, shape, deleted))


def log_of(files: Files) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name.startswith("commitlog/")}


def again(root: Path, golden: Golden, units: list[Stored] | None = None) -> dict[str, bytes]:
    append_again(root, golden.shape, units or golden.view.units)
    return by_age(read_files(root))


def differs(golden: Golden, made: Files) -> str:
    """Where what we made differs from Java's store; queues of topics that were deleted there are ours alone."""
    expected = log_of(golden.files) | golden.view.files(deleted_too=True)
    difference = first_difference(expected, made, hash_slots=golden.shape.hash_slots)
    return str(difference) if difference else ""


def test_java_s_own_files_are_what_its_log_implies(golden: Golden) -> None:
    expected = log_of(golden.files) | golden.view.files()
    assert first_difference(golden.files, expected, hash_slots=golden.shape.hash_slots) is None


def test_appended_again_the_files_are_the_same(golden: Golden, tmp_path: Path) -> None:
    made = again(tmp_path, golden)
    assert differs(golden, made) == ""
    if not golden.view.deleted:  # then nothing stands between the two directories
        assert first_difference(golden.files, made, hash_slots=golden.shape.hash_slots) is None


def planted(golden: Golden, **changed: Any) -> list[Stored]:
    """The same messages, the tenth changed."""
    units = list(golden.view.units)
    units[10] = units[10]._replace(unit=units[10].unit._replace(**changed))
    return units


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"flag": 77}, "flag"),
        ({"reconsume_times": 5}, "reconsume_times"),
        ({"born_timestamp": 1}, "born_timestamp"),
        ({"body": b"!"}, "body"),
        ({"prepared_transaction_offset": 9}, "prepared_transaction_offset"),
    ],
)
def test_one_changed_field_of_a_message_is_named(golden: Golden, tmp_path: Path, changed: dict[str, Any], named: str) -> None:
    length = len(golden.view.units[10].unit.body)
    made = again(
        tmp_path, golden, planted(golden, **{name: b"!" * length if name == "body" else v for name, v in changed.items()})
    )
    reported = differs(golden, made)
    where = "body_crc" if named == "body" else named
    assert reported.startswith("commitlog/")
    assert f"): {where}: " in reported


def test_a_message_at_another_time_is_named(golden: Golden, tmp_path: Path) -> None:
    at = golden.view.units[10].unit.store_timestamp
    assert "store_timestamp" in differs(golden, again(tmp_path, golden, planted(golden, store_timestamp=at + 1)))


def test_another_key_shows_in_the_index_alone(golden: Golden, tmp_path: Path) -> None:
    units = list(golden.view.units)
    units[10] = units[10]._replace(keys=("another",) * len(units[10].keys))
    reported = differs(golden, again(tmp_path, golden, units))
    assert reported.startswith("index/")
    assert "slot" in reported or "header" in reported or "entry" in reported


def test_the_mix_has_what_it_is_for() -> None:
    root = GOLDEN / "store-5.5.0-mix"
    shape, deleted = mix()
    kept = {str(path.relative_to(root)): path.read_bytes() for path in (root / "commitlog").iterdir()}
    view = View(kept, shape, deleted)
    assert deleted
    assert len(kept) > 3
    assert len(view.index_files()) > 3
    assert {one.unit.magic for one in view.units} == {MAGIC_V1, MAGIC_V2}
    assert {one.unit.sys_flag & (BORN_V6 | STORE_V6) for one in view.units} >= {0, BORN_V6 | STORE_V6}


def test_a_batch_that_moved_to_the_next_file_is_appended_as_one() -> None:
    """Known by the room it left behind: 100 bytes would have held its first item and the blank."""
    view = View(log_of_mix(), mix()[0])
    first, second, third = (view.units[number] for number in range(3))
    size = len(first.data)
    file_bytes = size + 8 + len(second.data) + 1

    def at(one: Stored, place: int) -> Stored:
        return one._replace(unit=one.unit._replace(physical_offset=place))

    placed = [at(first, 0), at(second, file_bytes), at(third, file_bytes + len(second.data))]
    assert [len(group) for group in groups(placed, file_bytes)] == [1, 2]
    assert [len(group) for group in groups(placed, file_bytes - 2)] == [1, 1, 1]


def log_of_mix() -> dict[str, bytes]:
    root = GOLDEN / "store-5.5.0-mix"
    return {str(path.relative_to(root)): path.read_bytes() for path in (root / "commitlog").iterdir()}
