"""The `consumerFilter.json` that our broker writes, read by the Java broker's class: the same filters, the same file again."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Final

import pytest

from tests.support.engine import Harness
from tests.support.java import judge
from tests.support.requests import heartbeat

pytestmark = pytest.mark.java
SQL: Final = {"expression_type": "SQL92"}
FILTERS: Final = {
    ("Orders", "GID_a"): ("n > 5 AND colour IN ('red', 'grün \"€\" <b> \\')", "true"),
    ("Orders", "GID_b"): ("n BETWEEN -1.5 AND 2 OR name IS NULL", "true"),
    ("Orders", "GID_gone"): ("n = 2", "false"),
    ("Payments", "GID_c"): ("NOT (n = 7)", "false"),
}
"""Topic and group: selector, and what it says of the message."""
MESSAGE: Final = {"n": "7", "colour": 'grün "€" <b> \\'}


def test_java_reads_ours_and_writes_it_again(tmp_path: Path) -> None:
    """Both take everybody for gone when they read it: since he came, for he came in the last half a minute."""
    broker = Harness(tmp_path, enablePropertyFilter="true")
    broker.env.wall_ms = time.time_ns() // 1_000_000
    for (topic, group), (selector, _) in FILTERS.items():
        broker.env.advance(1)
        client = broker.connect()
        heartbeat(client, group, topic, selector, **SQL)
        if group == "GID_gone":
            client.close()
    broker.stop()
    written = (tmp_path / "config/consumerFilter.json").read_bytes()
    words = [f"{name}={value}" for name, value in MESSAGE.items()]
    command = judge("FilterFile", *words)
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}  # as which Java reads its arguments
    ran = subprocess.run(command, input=written, env=environment, capture_output=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    said, _, again = ran.stdout.partition(b"\n\n")
    assert said.decode().splitlines() == [f"{topic} {group} {says}" for (topic, group), (_, says) in sorted(FILTERS.items())]
    broker.open()
    assert broker.node.filters.encode() == again
    assert written.count(b'"dead":false') == 3
    assert again.count(b'"dead":true') == 4
    broker.stop()
