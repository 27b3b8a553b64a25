"""The golden captures said again to the real servers: no difference, or the capture or its comparison is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.capture.file import read
from conformance.capture.replay import replay
from tests.conformance.test_capture_golden import CAPTURES, STEMS
from tests.support.java import java
from tests.support.subject import start_subject

pytestmark = pytest.mark.java

PAUSE_MS_MAX = 1000
"""The reference registers topics and writes its index in the background."""


@pytest.mark.parametrize("stem", STEMS)
def test_the_real_servers_answer_as_they_did(stem: str, tmp_path: Path) -> None:
    java()
    subject = start_subject("java", tmp_path)
    try:
        report = replay(read(CAPTURES / f"{stem}.jsonl"), subject.namesrv, in_turn=True, pause_ms_max=PAUSE_MS_MAX, answer_s=30)
    finally:
        subject.end()
    assert report.compared
    assert not report.differences
