"""Flow control of cold reads (2001 to 2004), which this broker has off: what is asked of it is taken and told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker_impl.capabilities.cold_data import CHARACTERS_MAX
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.cold_data import (
    GetColdDataFlowCtrInfo,
    RemoveColdDataFlowCtrConfig,
    SetCommitLogReadMode,
    UpdateColdDataFlowCtrConfig,
)
from tests.support.engine import Harness


def test_limits_are_kept_and_listed(tmp_path: Path) -> None:
    client = Harness(tmp_path).connect()
    assert client.ask(UpdateColdDataFlowCtrConfig(), b"G=1024\nH=many\nI=-1\n").code == 0
    assert client.ask(RemoveColdDataFlowCtrConfig(), b"I").code == 0
    assert client.ask(RemoveColdDataFlowCtrConfig(), b"nobody").code == 0
    assert json.loads(bytes(client.ask(GetColdDataFlowCtrInfo()).body)) == {
        "runtimeTable": {},
        "configTable": {"G": 1024},
        "cgColdReadThreshold": 3 << 20,
        "globalColdReadThreshold": 100 << 20,
        "globalAcc": 0,
    }


def test_limits_of_too_many_groups(tmp_path: Path) -> None:
    client = Harness(tmp_path).connect()
    for number in range(CHARACTERS_MAX // 50_000):
        assert client.ask(UpdateColdDataFlowCtrConfig(), b"%d%s=1" % (number, b"g" * 49_999)).code == 0
    assert client.ask(UpdateColdDataFlowCtrConfig(), b"%s=1" % (b"h" * 60_000)).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(("mode", "code"), [("0", 0), ("1", 0), ("7", ResponseCode.INVALID_PARAMETER), ("x", 1), (None, 1)])
def test_reading_ahead(tmp_path: Path, mode: str | None, code: int) -> None:
    harness = Harness(tmp_path)
    assert harness.connect().ask(SetCommitLogReadMode(read_ahead_mode=mode)).code == code
    assert harness.node.config.text("dataReadAheadEnable") == ("false" if mode == "1" else "true")
