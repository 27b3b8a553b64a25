"""Runs scripts against a client, several beside each other, and judges each.

Every run has a server, ports and topic state of its own, so runs cannot disturb one another.  A run ends when the client's
program has ended and its connections are gone; what is still open then is closed by us.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import trio

from conformance.torture.client import Client, ClientFailed
from conformance.torture.judge import Judged, Verdict, judge
from conformance.torture.script import ClientPart, Script, ServerPart
from conformance.torture.server import Server, serving

GONE_S_MAX: Final = 3.0
"""How long connections may stay after the program has ended: a resident client's transport closes a moment later."""
WARM_UP: Final = (
    Script(name="warm-up-send", title="", rests_on=[], step=[], expect=[], client=ClientPart(timeout_ms=30_000)),
    Script(
        name="warm-up-push",
        title="",
        rests_on=[],
        step=[],
        expect=[],
        client=ClientPart(program="push"),
        server=ServerPart(messages=3),
    ),
)
"""Honest servers: all that a Java client needs is loaded after these."""
Progress = Callable[[Verdict], None]


async def torment(script: Script, client: Client) -> Verdict:
    """One script against one client.  A program that cannot be run makes the verdict `broken`."""
    async with serving(script) as server:

        def report(line: dict[str, Any]) -> None:
            server.events.add("app", "client", message=str(line.get("message", "")), app=line)

        try:
            await client.run(script.client, server.namesrv, server.topic, report)
        except ClientFailed as wrong:
            verdict = _verdict(script, server, client)
            verdict.outcome = "broken"
            verdict.expectations = [Judged(what="its program can be run", level="MUST", passed=False, seen=str(wrong))]
            return verdict
        with trio.move_on_after(GONE_S_MAX):
            await all_gone(server)
        return _verdict(script, server, client)


async def torment_all(scripts: Sequence[Script], client: Client, progress: Progress = lambda verdict: None) -> list[Verdict]:
    """All scripts, `client.at_once` of them at a time; the verdicts in the order of the scripts.

    A client that runs as one process for all is warmed up first, or its first sends would run into their own time-outs.
    """
    found: dict[str, Verdict] = {}
    limit = trio.CapacityLimiter(client.at_once)

    async def one(script: Script) -> None:
        async with limit:
            found[script.name] = await torment(script, client)
        progress(found[script.name])

    if client.is_resident:
        for script in WARM_UP:
            await torment(script, client)
    async with trio.open_nursery() as nursery:
        for script in sorted(scripts, key=lambda script: -script.client.patience_ms):  # long ones first
            nursery.start_soon(one, script)
    return [found[script.name] for script in scripts]


async def all_gone(server: Server) -> None:
    """Return when nobody is connected."""
    while server.connections:
        await server.changed.wait()


def _verdict(script: Script, server: Server, client: Client) -> Verdict:
    reports = any(event.app for event in server.events.all)
    return judge(
        script, server.events, client=client.label, behaves_like=client.behaves_like, quirks=client.quirks, reports=reports
    )
