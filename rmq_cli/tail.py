"""`rmq tail`: what comes into a topic, without a group: nobody's progress changes."""

from __future__ import annotations

import click

from rmq_cli.client_options import Cluster, cluster_options, run
from rmq_cli.message_lines import line
from rmq_cli.reading_options import Reading, reading_options

HOLD_MS = 15_000
"""How long a pull waits at the broker; the next one follows at once."""


@click.command("tail")
@reading_options()
@cluster_options
def command(cluster: Cluster, reading: Reading) -> None:
    """Print messages of a topic as they come.  It reads without a group, so it takes no message from anybody.

    \b
    rmq tail my-topic
    rmq tail my-topic --from start --no-follow --json
    rmq tail my-topic --from -1h -t "A || B" -c 10
    """
    read(cluster, reading)


def read(cluster: Cluster, reading: Reading) -> None:
    """Print messages without a group, `count` of them, or all that come if it is to follow."""
    first, subscription = reading.first, reading.subscription

    async def work() -> None:
        from rmq_cli.tailing import Tail, check

        async with cluster.connect() as client:
            await check(client, reading.topic, subscription)
            tail = Tail(client.puller(), subscription, HOLD_MS, lambda message: click.echo(line(message, reading.as_json)))
            await tail.run(reading.topic, begin=first, count=reading.most, follow=not reading.no_follow)

    run(work)
