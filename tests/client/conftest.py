"""A broker of our own for whole consumers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmq_wire.implied.delay_levels import FAST_DELAY_LEVELS
from tests.support.subject import Subject, start_subject


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    running = start_subject("ours", tmp_path_factory.mktemp("ours"), properties={"messageDelayLevel": FAST_DELAY_LEVELS})
    yield running
    running.end()
