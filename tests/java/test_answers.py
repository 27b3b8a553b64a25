"""What our servers say to stock 5.5.0 clients on the wire, beside the golden frames of the real ones.

The flows that made `conformance/golden` play again, through the same recorders.  Each answer must have a shape that the
reference's answers to the same question have: the same code, the same set of ext fields (none, and an empty table, are two
things), the same remark but for names and numbers.  It comes in the header form of the question, where the reference always
uses the form that it is configured for (docs/differences.md): the golden answers are JSON in either run.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from conformance.frames import Glance, glance
from rmq_wire.command import Command
from rmq_wire.conversation import Conversation
from tests.java.golden import FLOWS, file_of, record, speaking, stage
from tests.support.golden import exchanges
from tests.support.java import REFERENCE
from tests.support.subject import SUBJECTS

pytestmark = pytest.mark.java


class Shape(NamedTuple):
    """What two answers to one question must share."""

    fields: str
    """Names of the ext fields; `none` when there is not even an empty table, which only the JSON form can show."""
    remark: str | None


def shape(data: bytes, form: str) -> Shape:
    [command] = Conversation().feed(data)
    assert isinstance(command, Command)
    fields = ",".join(sorted(command.ext_map()))
    if not fields and form == "JSON":
        fields = "empty" if "extFields" in json.loads(data[8 : 8 + int.from_bytes(data[5:8], "big")]) else "none"
    if form == "ROCKETMQ":  # cannot tell an empty remark from none
        command.remark = command.remark or None
    remark = command.remark and re.sub(r"\d+(\.\d+)*|\[[^]]*\]|'[^']*'|[\w.%-]*-[\w.%-]*", "#", command.remark)
    return Shape(fields, remark)


def shapes(frames: list[tuple[bytes, int | None]], form: str) -> dict[tuple[int, int], set[Shape]]:
    """(asked code, answered code) -> the shapes of those answers."""
    found: dict[tuple[int, int], set[Shape]] = defaultdict(set)
    for data, asked in frames:
        if asked is not None:
            found[asked, glance(data).code].add(shape(data, form))
    return found


CHANCE = {(11, 19), (11, 20), (11, 21), (11, 25), (361, 19), (14, 22), (105, 17), (38, 1)}
"""Outcomes that depend on who comes first: pulls of a new queue, of an old subscription; routes, offsets, groups to be."""
LATE = {(11, 19): "OFFSET_OVERFLOW_ONE"}
"""The remark of an answer after the longest hold, which a pull has on a machine so busy that nothing came meanwhile."""
TOO_BIG = {(26, 0)}
"""Answers that the golden files leave out for their size; test_mqadmin compares them."""


@pytest.mark.parametrize("form", ["JSON", "ROCKETMQ"])
def test_our_answers_have_the_shape_of_the_references(form: str, tmp_path: Path) -> None:
    ours: list[tuple[bytes, int | None]] = []
    theirs: list[tuple[bytes, int | None]] = []
    with stage(tmp_path, SUBJECTS[0]) as on, speaking(tmp_path, REFERENCE, form) as clients:
        for kind, flow in FLOWS.items():
            stem = file_of(kind, REFERENCE, form)
            theirs += [(e.data, e.asked) for e in exchanges(stem) if e.is_response]
            asked: dict[tuple[int, bool, int], Glance] = {}
            for frame in record(clients, on, flow, stem.replace(".", "_")):
                seems = glance(frame.data)
                if not seems.is_response:
                    asked[frame.connection, frame.to_server, seems.opaque] = seems
                elif question := asked.get((frame.connection, not frame.to_server, seems.opaque)):
                    ours.append((frame.data, question.code))
                    assert seems.form == question.form or frame.to_server or SUBJECTS[0] != "ours"
    found, golden = shapes(ours, form), shapes(theirs, form)
    for key, remark in LATE.items():
        if key in golden:
            golden[key] |= {Shape(one.fields, remark) for one in golden[key]}
    assert not {key: found[key] - golden[key] for key in found.keys() & golden.keys() if found[key] - golden[key]}
    assert found.keys() - golden.keys() <= CHANCE | TOO_BIG
    assert golden.keys() - found.keys() <= CHANCE
