"""Checks of a broker under attack that planted bugs must fail, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker_impl.config_keys import MASK
from rmq_wire import java
from rmq_wire.codes import RequestCode
from rmq_wire.headers.configuration import GetBrokerConfig, UpdateBrokerConfig
from tests.broker.siege import Siege, files_below, is_safe_echo
from tests.support.requests import send


def configured(tmp_path: Path) -> Path:
    """A configuration file as a broker is started with."""
    path = tmp_path / "conf" / "broker.conf"
    path.parent.mkdir()
    path.write_text("brokerName=broker-a\nmaxMessageSize=4194304\n")
    return path


def unchanged(broker: Siege, body: bytes, code: int) -> None:
    """The change is refused with this code; memory, the file and every other file are as they were."""
    before = files_below(broker.scratch)
    with broker.unharmed():
        unknown = broker.connect()
        answer = unknown.ask(UpdateBrokerConfig(), body)
        assert answer.code == code, answer.remark
        assert is_safe_echo(answer.remark)
        assert files_below(broker.scratch) == before
        unknown.send_oneway(UpdateBrokerConfig(), body)
        assert files_below(broker.scratch) == before


def check_secrets_are_masked(broker: Siege) -> None:
    """Answer 26 and the log of a change hold no secret."""
    listing = bytes(broker.connect().ask(GetBrokerConfig()).body).decode()
    assert "open sesame" not in listing
    assert f"mySecretKey={MASK}" in listing
    assert broker.connect().ask(UpdateBrokerConfig(), GOOD_CHANGE).code == 0
    assert not broker.lines.about("open sesame")


def check_plans_are_bounded(broker: Siege, count: int) -> None:
    """Send messages with ever new names; what is kept of them has an end."""
    handler: Any = broker.node.engine._rows[RequestCode.SEND_MESSAGE_V2].handle
    rewriter = handler.__self__._rewriter
    unknown = broker.connect()
    for n in range(count):
        unknown.send_oneway(send("T", properties=f"name{n}\x01v\x02"), b"x")
    assert len(rewriter._plans) <= 1_024
    assert java.permutation.cache_info().maxsize == 4_096


GOOD_CHANGE = b"maxMessageSize=4194305\n"
