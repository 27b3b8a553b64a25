"""`rmq lag`: how far groups are behind, queue by queue, live or once."""

from __future__ import annotations

import json
import shutil
import sys
import time
from functools import partial
from typing import Any

import click

from rmq_cli.client_options import Cluster, cluster_options, run, said
from rmq_cli.complaint import Complaint
from rmq_cli.seconds import Seconds

_CLEARED = "\x1b[H\x1b[J"


@click.command("lag")
@click.option("-g", "--group", "groups", multiple=True, help="Only this one (repeatable); else all that have consumed.")
@click.option("-t", "--topic", "topics", multiple=True, help="Only queues of this topic (repeatable).")
@click.option("--once", is_flag=True, help="Show it once, and end.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, a line for each look.")
@click.option("--max-lag", type=click.IntRange(min=0), metavar="N", help="With --once: 1 if a group is more messages behind.")
@click.option("--max-delay", type=Seconds(min=0), metavar="S", help="With --once: 1 if one waits for more seconds.")
@click.option("--interval", type=Seconds(min=0.1), default=2.0, show_default=True, help="Seconds between looks.")
@cluster_options
def command(
    cluster: Cluster,
    groups: tuple[str, ...],
    topics: tuple[str, ...],
    once: bool,
    as_json: bool,
    max_lag: int | None,
    max_delay: float | None,
    interval: float,
) -> None:
    """Show how far groups are behind: of each queue what waits, since when, who has the queue, when it was consumed last.

    \b
    rmq lag
    rmq lag -g my-consumers
    rmq lag --once --json --max-lag 1000 --max-delay 60 || alert

    Ordered queues whose first message fails again and again are marked as stuck; with --once that takes two seconds, if there are
    ordered queues that lag.
    """
    if not once and (max_lag is not None or max_delay is not None):
        raise click.UsageError("--max-lag and --max-delay go with --once")
    beyond: list[str] = []

    async def show() -> None:
        from rmq_cli.lag_table import Limits

        async with cluster.connect() as client:
            looking = _Looking(client.groups, groups, topics, as_json, Limits(max_lag, max_delay))
            if once:
                beyond.extend(await looking.once())
            else:
                await looking.follow(interval)

    run(show)
    if beyond:
        raise Complaint("; ".join(beyond))


class _Looking:
    def __init__(self, source: Any, groups: tuple[str, ...], topics: tuple[str, ...], as_json: bool, limits: Any) -> None:
        from rmq_cli.lag_table import Heads

        self._source = source
        self._groups = groups
        self._topics = frozenset(topics)
        self._as_json = as_json
        self._limits = limits
        self._heads = Heads()

    async def once(self) -> list[str]:
        """What is beyond the limits."""
        import trio

        from rmq_cli.lag_table import STUCK_MS, needs_another_look

        seen = await self._look()
        if missing := self._missing(seen):
            raise Complaint(missing)
        if needs_another_look(seen):
            await trio.sleep(STUCK_MS / 1e3)
            seen = await self._look()
        self._show(seen)
        return [line for group in seen for line in self._limits.beyond(group)]

    async def follow(self, interval_s: float) -> None:
        """Until Ctrl-C.  A look that fails is said in its place; the next one follows."""
        import trio

        from rmq_cli.printing import until_unread
        from rmq_client.errors import ClientError

        async with trio.open_nursery() as nursery:
            nursery.start_soon(until_unread)
            first = True
            while True:
                try:
                    seen = await self._look()
                    self._show(seen, missing=self._missing(seen), live=sys.stdout.isatty())
                except ClientError as error:
                    if first or not error.may_pass:
                        raise
                    click.echo(f"rmq: {said(error)}", err=True)
                first = False
                await trio.sleep(interval_s)

    async def _look(self) -> list[Any]:
        """Raises `ClientError`, the first one."""
        from rmq_client.groups import side_by_side

        names = list(self._groups) or await self._source.names()
        found: dict[str, Any] = {}

        async def look(name: str) -> None:
            found[name] = await self._source.lag(name)

        await side_by_side(partial(look, name) for name in names)
        seen = [found[name] for name in names]
        if self._topics:
            seen = [self._narrowed(group) for group in seen]
        self._heads.see(seen, _now_ms())
        return seen

    def _narrowed(self, group: Any) -> Any:
        from dataclasses import replace

        return replace(group, queues=tuple(one for one in group.queues if one.queue.topic in self._topics))

    def _missing(self, seen: list[Any]) -> str:
        """What was asked for and is nowhere, or nothing."""
        if self._groups and (unknown := [one.group for one in seen if not (one.queues or one.members)]):
            where = " of these topics" if self._topics else ""
            return f"no broker knows progress{where} or members of {', '.join(unknown)}"
        if unknown := sorted(self._topics - {row.queue.topic for one in seen for row in one.queues}):
            whose = "none of these groups" if self._groups else "no group that has consumed"
            return f"{whose} has a queue of {', '.join(unknown)}: nobody knows how far behind it is"
        return ""

    def _show(self, seen: list[Any], *, missing: str = "", live: bool = False) -> None:
        """missing: may come yet.  live: in the place of the last look, as much as the window holds."""
        from rmq_cli.lag_table import plain, text

        now_ms = _now_ms()
        if self._as_json:
            click.echo(json.dumps(plain(seen, self._heads, self._limits, now_ms)))
            return
        room: dict[str, int] = {}
        if live:
            window = shutil.get_terminal_size()
            room = {"lines_max": window.lines - 1, "columns_max": window.columns}
        shown = text(seen, self._heads, now_ms, missing=missing, **room)
        click.echo(f"{_CLEARED if live else ''}{shown or 'no group has consumed anything'}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
