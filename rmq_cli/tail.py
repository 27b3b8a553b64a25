"""`rmq tail`: what comes into a topic, without a group: nobody's progress changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rmq_cli.client_options import Cluster, cluster_options, run
from rmq_cli.message_lines import Where, line, where

if TYPE_CHECKING:
    from rmq_client.consuming.subscriptions import Subscription

HOLD_MS = 15_000
"""How long a pull waits at the broker; the next one follows at once."""


@click.command("tail")
@click.argument("topic")
@click.option("--from", "begin", default="end", show_default=True, help="`end`, `start`, or a time as `rmq inspect` takes it.")
@click.option("--offset", type=click.IntRange(min=0), help="From this number in each queue on, instead.")
@click.option("-t", "--tags", default="*", show_default=True, help="Only these, as `A || B`.")
@click.option("--sql", help="Only what this selects, as `price > 10`.")
@click.option("-c", "--count", type=click.IntRange(min=1), help="End after so many messages.")
@click.option("--no-follow", is_flag=True, help="End where the topic ends now.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each message, a line each.")
@cluster_options
def command(
    cluster: Cluster,
    topic: str,
    begin: str,
    offset: int | None,
    tags: str,
    sql: str | None,
    count: int | None,
    no_follow: bool,
    as_json: bool,
) -> None:
    """Print messages of a topic as they come.  It reads without a group, so it takes no message from anybody.

    \b
    rmq tail my-topic
    rmq tail my-topic --from start --no-follow --json
    rmq tail my-topic --from -1h -t "A || B" -c 10
    """
    from rmq_client.consuming.subscriptions import SQL92, Subscription

    read(
        cluster,
        topic,
        Subscription(sql, SQL92) if sql else Subscription(tags),
        where(begin, offset),
        count,
        not no_follow,
        as_json,
    )


def read(
    cluster: Cluster, topic: str, subscription: Subscription, first: Where, count: int | None, follow: bool, as_json: bool
) -> None:
    """Print messages without a group, from there on; `count` of them, or all that come if it is to `follow`."""

    async def reading() -> None:
        from rmq_cli.tailing import Tail

        async with cluster.connect() as client:
            tail = Tail(client.puller(), subscription, HOLD_MS, lambda message: click.echo(line(message, as_json)))
            await tail.run(topic, begin=first, count=count, follow=follow)

    run(reading)
