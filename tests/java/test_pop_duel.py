"""The real broker and ours are asked the same at random, by every code of POP: they answer the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.night_seeds import each_of_the_night
from tests.support.pop_duel import Duel
from tests.support.subject import start_broker, start_name_server

pytestmark = pytest.mark.java

STEPS = 150
STEPS_BY_NIGHT = 500
SEEDS_BY_NIGHT = 2
SETTINGS: dict[str, Any] = {"popFromRetryProbability": "0", "autoCreateSubscriptionGroup": "false"}
"""Retries come last, not by chance; who asks makes no group."""
BUFFER = {"enablePopBufferMerge": "true"}
VARIANTS: dict[str, dict[str, str]] = {
    "as it is": {},
    "buffered": BUFFER,
    "buffered, acknowledged together": {**BUFFER, "enablePopBatchAck": "true"},
    "second version": {"enableRetryTopicV2": "true", "retrieveMessageFromPopRetryTopicV1": "false"},
    "actual topics": {"popResponseReturnActualRetryTopic": "true"},
    "few in flight": {"enablePopMessageThreshold": "true", "popInflightMessageThreshold": "5"},
}


def fight(root: Path, more: dict[str, str], seeds: list[int], steps: int) -> None:
    running: list[Any] = []
    try:
        for kind in ("java", "ours"):
            names = start_name_server(kind, root / kind / "namesrv")
            running.append(names)
            running.append(start_broker(kind, root / kind / "broker", names.address, properties={**SETTINGS, **more}))
        for seed in seeds:
            one, other = running[1].address, running[3].address
            duel = Duel(one, other, "broker-a", seed, v2="enableRetryTopicV2" in more)
            try:
                duel.play(steps)
                duel.play(steps // 2)
            except BaseException as wrong:
                wrong.add_note(f"seed {seed}: RMQ_SEEDS={seed}-{seed} takes it alone")
                raise
            duel.close()
    finally:
        for process in reversed(running):
            process.end()


def test_the_same_questions(tmp_path: Path) -> None:
    fight(tmp_path, {}, [1], STEPS)


@pytest.mark.nightly
@pytest.mark.parametrize("variant", VARIANTS)
def test_many_of_the_same_questions(tmp_path: Path, variant: str) -> None:
    seeds: list[int] = []
    each_of_the_night(SEEDS_BY_NIGHT, seeds.append)
    fight(tmp_path, VARIANTS[variant], seeds, STEPS_BY_NIGHT)
