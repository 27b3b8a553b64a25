"""Bugs planted into the verifier: with each of them the damage that it should see goes unseen, so the damage tests can fail."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmq_columns.checks import entries, index, log, places, queues, sequence, tasks, whole
from rmq_columns.checks.findings import Findings
from rmq_columns.decode import scan, units
from rmq_inspect.verify import verify
from tests.support import plants_index, plants_log, plants_queues, plants_rest
from tests.support.damaged_store import Subject, add_config, fill
from tests.support.planting import planted
from tests.support.plants import Plant


def nothing(*_: Any, **__: Any) -> None:
    return None


def none_bad(_buffer: object, found: units.Units) -> Any:
    return np.zeros(len(found), bool)


BUGS: dict[str, tuple[object, str, Any, Plant]] = {
    "check sums are not compared": (units, "bad_crcs", none_bad, plants_log.flip_in_a_body),
    "a gap is passed over": (log._LogCheck, "_gap", nothing, plants_log.zeros_in_the_log),
    "a broken unit is passed over": (log._LogCheck, "_gap", nothing, plants_log.wrong_magic),
    "the end of a file is not looked at": (log._LogCheck, "_end", nothing, plants_log.wrong_blank),
    "queue offsets need not follow": (sequence, "judge_step", nothing, plants_log.queue_offset_skipped),
    "missing files are not looked for": (whole.Whole, "look_at_log_files", nothing, plants_log.log_file_missing),
    "a lost log is not looked for": (whole, "look_for_loss", nothing, plants_log.a_log_of_which_the_prepared_file_is_left),
    "own offsets are believed": (scan._Scan, "_displacement", lambda *_: 0, plants_log.log_file_under_a_wrong_name),
    "tags are not compared": (places.Places, "_tags", nothing, plants_queues.wrong_tags_code),
    "what differs is not reported": (places.Places, "_differ", nothing, plants_queues.queue_without_its_end),
    "queues are not held against the log": (
        tasks,
        "find_dangling",
        lambda *_: Findings(),
        plants_queues.a_queue_unit_into_the_midst_of_a_message,
    ),
    "holes are not looked for": (queues._QueueFile, "_finish", nothing, plants_queues.a_hole_in_a_queue),
    "links are not followed": (index._Chains, "_links", nothing, plants_index.an_index_cycle),
    "slots are not compared": (index._Chains, "_slots", nothing, plants_index.a_wrong_index_slot),
    "bounds are not compared": (index._Chains, "_header", nothing, plants_index.index_bounds_wrong),
    "keys are not compared": (entries.IndexCheck, "_differ", nothing, plants_index.an_index_entry_of_another_key),
    "times are not compared": (entries.IndexCheck, "_times", nothing, plants_index.a_wrong_time_in_the_index),
    "the checkpoint is believed": (verify, "check_checkpoint", nothing, plants_rest.checkpoint_in_the_future),
    "configuration is not read": (verify, "check_config", lambda *_: {}, plants_rest.config_broken),
    "strays are not reported": (verify, "check_strays", nothing, plants_rest.a_link),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    fill(root)
    add_config(root)
    return root


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_hides_the_damage(bug: str, sound: Path, tmp_path: Path) -> None:
    place, name, replacement, plant = BUGS[bug]
    shutil.copytree(sound, tmp_path / "store")
    subject = Subject(tmp_path / "store")
    where = plant(subject)
    assert where.code in subject.report().findings.codes()

    def planted_bug(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(place, name, replacement)

    with planted(planted_bug):
        assert where.code not in subject.report().findings.codes()
