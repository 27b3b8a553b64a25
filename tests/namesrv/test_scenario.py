"""Our name server says what the real one says: each answer of the scenario against the recorded one of Java 5.5.0."""

from __future__ import annotations

from pathlib import Path

from tests.namesrv.record import recorded
from tests.namesrv.scenario import DIFFERENT, play, same_answer
from tests.support.engine_session import EngineSession


def test_every_answer_is_javas(tmp_path: Path) -> None:
    theirs, ours = recorded(), play(EngineSession(str(tmp_path)))
    assert ours.keys() == theirs.keys()
    unlike = {label: (theirs[label], ours[label]) for label in theirs if not same_answer(theirs[label], ours[label])}
    assert unlike.keys() == DIFFERENT.keys(), "\n".join(
        f"{label}\n  Java {java}\n  ours {our}" for label, (java, our) in unlike.items()
    )
