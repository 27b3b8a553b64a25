"""The file of a broadcasting consumer's progress goes from the Python client to the Java one and back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rmq_client.consuming.local_offsets import LocalOffsets
from rmq_wire.fastjson import MessageQueue
from tests.support.java import OLD_CLIENT, REFERENCE, judge

pytestmark = pytest.mark.java


@pytest.mark.parametrize("version", [REFERENCE, OLD_CLIENT])
def test_java_reads_ours_and_we_read_java_s(tmp_path: Path, version: str) -> None:
    offsets = {
        MessageQueue(topic, broker, at): at * 1_000_003 for topic in ("T", "%RETRY%G") for broker in "ab" for at in range(4)
    }
    local = LocalOffsets("10.0.0.1@DEFAULT", "G", tmp_path)
    local.save(offsets)
    ours = local.path.read_text()
    command = judge("LocalOffsets", version=version)
    ran = subprocess.run(command, input=ours, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    local.path.write_text(ran.stdout)
    assert local.load() == offsets
    assert len(ran.stdout.split()) > 0
