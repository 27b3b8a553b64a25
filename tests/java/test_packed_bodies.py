"""Messages that the stock producer packs with LZ4 and Zstandard are shown unpacked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.java.flows import producer
from tests.support.clients import JavaDriver
from tests.support.command import look
from tests.support.java import REFERENCE
from tests.support.subject import Subject

pytestmark = pytest.mark.java

COMPRESSION = "rocketmq.message.compressType"
"""Read by each new producer."""
SIZE = 20_000
EXPECTED = bytes(ord("a") + at % 26 for at in range(SIZE)).decode()
"""What the driver sends when it is given a size."""


@pytest.mark.parametrize("packed", ["LZ4", "ZSTD"])
@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
def test_inspect_unpacks_what_the_stock_producer_packed(
    subject: Subject, clients: JavaDriver, packed: str, fresh: Callable[[str], str]
) -> None:
    pytest.importorskip("pyarrow")
    topic = fresh("Packed")
    clients.call("property", name=COMPRESSION, value=packed)
    try:
        with producer(clients, subject, fresh) as p:
            clients.call("send", producer=p, topic=topic, size=SIZE)
    finally:
        clients.call("property", name=COMPRESSION, value="ZLIB")
    [row] = look("show", subject.store, "--topic", topic, "--json").rows
    assert (row["compression"], row["body"]) == (packed.lower(), EXPECTED)
    assert row["bodySize"] < SIZE // 10
