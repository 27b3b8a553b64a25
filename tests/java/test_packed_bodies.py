"""Messages that the stock producer packs with LZ4 and Zstandard (`rocketmq.message.compressType`) are shown unpacked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.inspect.kit import look
from tests.java.flows import producer
from tests.support.clients import JavaDriver
from tests.support.java import REFERENCE
from tests.support.subject import start_subject

pytestmark = pytest.mark.java

SIZE = 20_000
EXPECTED = bytes(ord("a") + at % 26 for at in range(SIZE)).decode()
"""What the driver sends when it is told a size."""


@pytest.mark.parametrize("packed", ["LZ4", "ZSTD"])
def test_inspect_unpacks_what_the_stock_producer_packed(tmp_path: Path, packed: str, fresh: Callable[[str], str]) -> None:
    pytest.importorskip("pyarrow")
    flags = [f"-Drocketmq.message.compressType={packed}"]
    subject = start_subject("ours", tmp_path / "ours")
    try:
        with JavaDriver(tmp_path / "clients", REFERENCE, flags=flags) as clients, producer(clients, subject, fresh) as p:
            clients.call("send", producer=p, topic="Packed", size=SIZE)
        [row] = look("show", subject.store, "--topic", "Packed", "--json").rows
    finally:
        subject.end()
    assert (row["compression"], row["body"]) == (packed.lower(), EXPECTED)
    assert row["bodySize"] < SIZE // 10
