"""Our name server says what the real one says: each answer of the scenario against the recorded one of Java 5.5.0."""

from __future__ import annotations

from pathlib import Path

from tests.namesrv.engine_session import EngineSession
from tests.namesrv.record import recorded
from tests.namesrv.scenario import play, same_answer

_REFUSED = "a registration that is ignored changes nothing; Java takes over its zone and its acting-master mark"
_MISSING = (
    "a missing required field is an error that names it; Java goes on with null and mostly answers as if nothing had been there"
)
DIFFERENT = {
    "increment of a stranger: clusters": "a registration that is refused changes nothing; Java keeps a broker without address",
    "compressed and not announced": "some 5.x brokers compress and say they do not; Java cannot read them, we look at the bytes",
    "older state: route of T1": _REFUSED,
    "slave is master: route of T1": _REFUSED,
    **{f"no fields: {code}": _MISSING for code in (100, 101, 102, 104, 105, 205, 216, 217, 219, 224, 327, 901)},
}
"""Label -> why we answer otherwise."""


def test_every_answer_is_javas(tmp_path: Path) -> None:
    theirs, ours = recorded(), play(EngineSession(str(tmp_path)))
    assert ours.keys() == theirs.keys()
    unlike = {label: (theirs[label], ours[label]) for label in theirs if not same_answer(theirs[label], ours[label])}
    assert unlike.keys() == DIFFERENT.keys(), "\n".join(
        f"{label}\n  Java {java}\n  ours {our}" for label, (java, our) in unlike.items()
    )
