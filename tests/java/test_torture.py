"""The stock Java clients under torture: every expectation of every script is true of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from conformance.torture.java_client import BUILT_IN, java_client
from conformance.torture.judge import Verdict
from conformance.torture.run import torment_all
from conformance.torture.script import find
from tests.support.java import library

QUICK = ("bare-keys", "garbage-send", "glued-answers", "go-away-send", "message-illegal", "split-pull", "system-busy")
"""Some of each kind; `.ci/run` runs them all."""


@pytest.mark.java
@pytest.mark.parametrize("client", BUILT_IN)
async def test_a_stock_client_does_what_the_scripts_say(client: str, tmp_path: Path) -> None:
    library(client.removeprefix("java-"))
    verdicts: list[Verdict] = []
    with trio.fail_after(900):
        async with java_client(client, tmp_path) as running:
            verdicts += await torment_all([find(name) for name in QUICK], running)
    reported = [[one.seen for one in verdict.expectations if one.passed is False] for verdict in verdicts]
    assert {verdict.outcome for verdict in verdicts} == {"passed"}, json.dumps(reported)
