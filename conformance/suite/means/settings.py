"""A broker's configuration over the wire: read, and changed for as long as a case needs it.  Such cases run alone."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from conformance.suite.trial import Trial
from rmq_wire.headers.configuration import GetBrokerConfig, UpdateBrokerConfig


async def configuration(t: Trial) -> dict[str, str]:
    """The broker's configuration (26)."""
    text = t.answer("configuration", await t.broker.ask(GetBrokerConfig())).body.decode()
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


@contextlib.asynccontextmanager
async def configured(t: Trial, **values: str) -> AsyncIterator[None]:
    """These settings (25), which must be taken and reported; afterwards what was there before."""
    before = await configuration(t)
    try:
        t.answer("changed", await t.broker.ask(UpdateBrokerConfig(), _lines(values)))
        t.equal("reported", _of(await configuration(t), values), values)
        yield
    finally:
        await t.broker.ask(UpdateBrokerConfig(), _lines(_of(before, values)))
    t.equal("as before", _of(await configuration(t), values), _of(before, values))


def _of(table: dict[str, str], keys: dict[str, str]) -> dict[str, str]:
    return {key: table[key] for key in keys if key in table}


def _lines(values: dict[str, str]) -> bytes:
    return "".join(f"{key}={value}\n" for key, value in values.items()).encode()
