"""`rmq topic`: which topics there are, where they are, making and deleting them."""

from __future__ import annotations

import json
from typing import Any

import click

from rmq_cli.client_options import Cluster, cluster_options, run
from rmq_cli.complaint import Complaint

_PERMS = {"R": 4, "W": 2, "RW": 6}


@click.group("topic")
def command() -> None:
    """List, show, create and delete the topics of any RocketMQ."""


@command.command("list")
@click.option("--system", is_flag=True, help="Those of RocketMQ itself, too.")
@click.option("--json", "as_json", is_flag=True, help="As a JSON list.")
@cluster_options
def list_(cluster: Cluster, system: bool, as_json: bool) -> None:
    """List the topics that have a route."""

    async def show() -> None:
        async with cluster.connect() as client:
            names = await client.topics.names(system=system)
        click.echo(json.dumps(names) if as_json else "\n".join(names), nl=bool(names) or as_json)

    run(show)


@command.command("show")
@click.argument("topic")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@cluster_options
def show(cluster: Cluster, topic: str, as_json: bool) -> None:
    """Show where a topic's queues are and what is in them."""

    async def look() -> None:
        async with cluster.connect() as client:
            state = await client.topics.show(topic)
        click.echo(json.dumps(_rows(state), indent=1) if as_json else _table(state))

    run(look)


@command.command("create")
@click.argument("topic")
@click.option("-q", "--queues", type=click.IntRange(min=1), default=8, show_default=True, help="In each broker.")
@click.option("-c", "--cluster-name", help="Only in this cluster.")
@click.option("-b", "--broker", "brokers", multiple=True, help="Only in this broker (repeatable).")
@click.option("--perm", type=click.Choice(list(_PERMS)), default="RW", show_default=True, help="Read, write.")
@click.option("--order", is_flag=True, help="An ordered topic.")
@click.option("-a", "--attribute", "pairs", multiple=True, metavar="NAME=VALUE", help="As message.type=FIFO (repeatable).")
@cluster_options
def create(
    cluster: Cluster,
    topic: str,
    queues: int,
    cluster_name: str | None,
    brokers: tuple[str, ...],
    perm: str,
    order: bool,
    pairs: tuple[str, ...],
) -> None:
    """Make a topic, or change it to this, and wait until name servers know it."""
    attributes = dict(map(_pair, pairs))

    async def make() -> None:
        async with cluster.connect() as client:
            made = await client.topics.create(
                topic,
                queues=queues,
                cluster=cluster_name,
                brokers=brokers,
                perm=_PERMS[perm],
                order=order,
                attributes=attributes,
            )
        click.echo(f"{topic}: {queues} queues in {', '.join(made)}")

    run(make)


@command.command("delete")
@click.argument("topic")
@click.option("-c", "--cluster-name", help="Only in this cluster.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@cluster_options
def delete(cluster: Cluster, topic: str, cluster_name: str | None, yes: bool) -> None:
    """Delete a topic with all its messages."""
    if not yes:
        _ask(f"Delete {topic} with all its messages?")

    async def remove() -> None:
        async with cluster.connect() as client:
            had = await client.topics.delete(topic, cluster=cluster_name)
        click.echo(f"{topic}: deleted in {', '.join(had)}")

    run(remove)


def _ask(question: str) -> None:
    """Raises `click.Abort` for a no and for Ctrl-C, `Complaint` where nobody can say yes."""
    try:
        click.confirm(question, abort=True)
    except click.Abort as aborted:
        if isinstance(aborted.__context__, EOFError):
            click.echo(err=True)  # behind the question
            raise Complaint("nobody answers on standard input: to delete without being asked, say --yes") from None
        raise


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise click.UsageError(f"--attribute {text}: NAME=VALUE is expected")
    return name, value


def _rows(state: Any) -> dict[str, Any]:
    return {
        "topic": state.topic,
        "brokers": [
            {
                "brokerName": one.broker_name,
                "cluster": one.cluster,
                "brokerAddrs": {str(number): address for number, address in one.addresses.items()},
                "readQueueNums": one.read_queue_nums,
                "writeQueueNums": one.write_queue_nums,
                "perm": one.perm,
            }
            for one in state.brokers
        ],
        "queues": [
            {
                "brokerName": one.queue.broker_name,
                "queueId": one.queue.queue_id,
                "minOffset": one.min_offset,
                "maxOffset": one.max_offset,
                "lastUpdateTimestamp": one.last_update_ms,
            }
            for one in state.queues
        ],
    }


def _table(state: Any) -> str:
    from rmq_inspect.times import short_text_of
    from rmq_wire.sys_flag import perm_text

    lines = []
    for one in state.brokers:
        queues = f"{one.write_queue_nums} to write, {one.read_queue_nums} to read"
        addresses = ", ".join(one.addresses[number] for number in sorted(one.addresses))
        lines.append(f"{one.broker_name} ({one.cluster}) at {addresses}: {queues}, {perm_text(one.perm)}")
    lines.append(f"{'broker':<24} {'queue':>5} {'first':>12} {'next':>12} {'messages':>12}  last stored")
    for one in state.queues:
        last = "-" if one.last_update_ms is None else short_text_of(one.last_update_ms)
        held = one.max_offset - one.min_offset
        name, number = one.queue.broker_name, one.queue.queue_id
        lines.append(f"{name:<24} {number:>5} {one.min_offset:>12} {one.max_offset:>12} {held:>12}  {last}")
    return "\n".join(lines)
