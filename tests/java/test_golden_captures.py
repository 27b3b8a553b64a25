"""The golden captures said again to the real servers: no difference, or the capture or its comparison is wrong."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from conformance.captures.file import read
from conformance.captures.replay import Report, replay
from tests.support.courses import Place, plays
from tests.support.golden import CAPTURES, STEMS
from tests.support.subject import start_subject
from tests.support.talk import PATIENCE_S

pytestmark = pytest.mark.java

PAUSE_MS_MAX = 1000
"""The reference registers topics and writes its index in the background."""


def replayed(place: Place, stem: str) -> Report:
    """A course: fresh servers, for a name server answers all that is registered."""
    subject = start_subject("java", place.directory)
    try:
        return replay(
            read(CAPTURES / f"{stem}.jsonl"), subject.namesrv, in_turn=True, pause_ms_max=PAUSE_MS_MAX, answer_s=PATIENCE_S
        )
    finally:
        subject.end()


@pytest.mark.parametrize("stem", [pytest.param(stem, marks=plays(replayed, stem, seconds=17)) for stem in STEMS])
def test_the_real_servers_answer_as_they_did(stem: str, course: Future[Report]) -> None:
    report = course.result()
    assert report.compared
    assert not report.differences, "\n".join(map(str, report.differences))
