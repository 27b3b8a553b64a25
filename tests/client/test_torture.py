"""The suite's torture by scripts, on producers and consumers: servers close, reset, answer late, twice, in pieces, with rubbish.

The judge holds it to what a client of 5.5.0 owes: what was acknowledged is stored, what failed is said, nothing is sent twice
without need, connections that are broken are left.
"""

from __future__ import annotations

from typing import Final

import pytest
import trio

from conformance.torture.our_client import OurClient
from conformance.torture.run import torment
from conformance.torture.script import find, names

SENDING: Final = [name for name in names() if find(name).client.program in ("send", "send-async", "send-oneway")]
CONSUMING: Final = [name for name in names() if find(name).client.program in ("push", "orderly")]
SECONDS_MAX: Final = 120


@pytest.mark.parametrize("name", [*SENDING, *CONSUMING])
async def test_it_passes(name: str) -> None:
    with trio.fail_after(SECONDS_MAX):
        verdict = await torment(find(name), OurClient())
    bad = [f"{one.level} {one.what} ({one.seen})" for one in verdict.expectations if one.passed is False and one.level != "QUIRK"]
    assert not bad
    assert verdict.outcome == "passed"


def test_there_are_scripts() -> None:
    assert (len(SENDING), len(CONSUMING)) == (40, 21)
