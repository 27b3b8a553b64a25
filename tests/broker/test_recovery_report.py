"""What opening the store found stands in the broker's log, and nothing when there is nothing to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engine import Harness


def test_a_stop_that_was_not_clean_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness(tmp_path)
    harness.restart()
    assert not [record for record in caplog.records if "store:" in record.message]
    harness.restart(kill=True)
    [reported] = [record.message for record in caplog.records if "store:" in record.message]
    assert reported == "store: the last stop was not clean: the log was read from 0 and ends at 0"
