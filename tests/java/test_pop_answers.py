"""The receipts that the Java client makes of our answers to pops, and of answers as old brokers gave them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rmq_wire.headers.pop import PopMessage
from tests.support.engine import Harness
from tests.support.java import judge
from tests.support.requests import send

pytestmark = pytest.mark.java
FIRST, COUNT = 2, 3
"""Popped are so many, after so many that were popped before."""


@pytest.mark.parametrize("old", [False, True], ids=["with where it began", "without"])
def test_receipts_of_an_answer(tmp_path: Path, old: bool) -> None:
    """Without `startOffsetInfo` the first message of a queue is where the pop began: here it is that anyhow."""
    broker = Harness(tmp_path / "store").begun()
    client = broker.connect()
    for _ in range(FIRST + COUNT):
        assert client.ask(send("T", 1), b"body").code == 0

    def pop(count: int) -> PopMessage:
        at = {"consumer_group": "G", "topic": "T", "queue_id": 1, "max_msg_nums": count}
        return PopMessage(**at, invisible_time=60_000, poll_time=0, born_time=0, init_mode=0)

    client.ask(pop(FIRST))
    answer = client.ask(pop(COUNT))
    assert answer.code == 0
    fields = dict(answer.ext_map())
    assert fields["startOffsetInfo"] == f"0 1 {FIRST}"
    if old:
        del fields["startOffsetInfo"], fields["msgOffsetInfo"]
    words = [f"{name}={value}" for name, value in fields.items()]
    command = judge("PopAnswer", "broker-a", "T", *words)
    ran = subprocess.run(command, input=bytes(answer.body), capture_output=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    said = f"{fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']} 0 broker-a 1"
    offsets = range(FIRST, FIRST + COUNT)
    assert ran.stdout.decode().splitlines() == [f"{FIRST} {said} {offset}" for offset in offsets]
    broker.stop()
