"""`rmq inspect explain`: one look-up, byte by byte."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import click

from rmq_cli.inspect_common import NoSuchTopic, check_topic, json_option, open_store, print_no_topic, store_argument, width
from rmq_inspect.decode.directory import StoreDirectory
from rmq_inspect.decode.fields import Field, hex_text
from rmq_inspect.decode.records import fit, json_line, printable
from rmq_inspect.errors import CannotLook
from rmq_inspect.explain.lookup import Step, by_id, by_key, by_offset, by_queue, by_time
from rmq_inspect.times import parse

NOT_FOUND = 1
RAW_COLUMNS, RAW_BYTES = 24, 8


@click.command("explain")
@store_argument
@click.option("--topic", metavar="NAME")
@click.option("--key", metavar="TEXT", help="A key or unique key of the topic: hash, slot, chain, entry, log.")
@click.option("--tag", metavar="TEXT", help="The same by tags.")
@click.option("--queue", "queue_id", type=click.IntRange(0), metavar="N", help="With --at: queue file, byte, log.")
@click.option("--at", "place", metavar="OFFSET|TIME", help="An offset of the queue, or a time (@2026-01-31, @-10m).")
@click.option("--id", "message_id", metavar="ID", help="An offset message id.")
@click.option("--offset", type=click.IntRange(0), metavar="N", help="An offset of the commit log.")
@click.option("--hash-slots", type=click.IntRange(1), metavar="N", help="maxHashSlotNum, where it cannot be found out.")
@json_option
def command(
    directory: Path,
    commit_logs: tuple[Path, ...],
    topic: str | None,
    key: str | None,
    tag: str | None,
    queue_id: int | None,
    place: str | None,
    message_id: str | None,
    offset: int | None,
    hash_slots: int | None,
    as_json: bool,
) -> None:
    """Walk one look-up through the files of DIR: every step with its file, its byte, what stands there and what it means.

    \b
    rmq inspect explain ./.rmq --topic my-topic --key order-1
    rmq inspect explain ./.rmq --topic my-topic --tag TagA
    rmq inspect explain ./.rmq --topic my-topic --queue 0 --at 42
    rmq inspect explain ./.rmq --topic my-topic --queue 0 --at @-10m
    rmq inspect explain ./.rmq --id 7F00000100002A9F0000000000000190

    Exit status 1 when it leads to no message.
    """
    store = open_store(directory, commit_logs)
    ways = [way for way in (key, tag, place, message_id, offset) if way is not None]
    if len(ways) != 1:
        raise CannotLook("one look-up at a time: --topic with --key, --tag or --queue and --at; or --id; or --offset")
    if message_id is not None:
        steps = by_id(store, message_id)
    elif offset is not None:
        steps = by_offset(store, offset)
    elif topic is None:
        raise CannotLook("--topic is missing: keys and queues belong to one")
    elif key is not None or tag is not None:
        steps = by_key(store, topic, key or tag or "", is_tag=tag is not None, slots=hash_slots)
    else:
        assert place is not None
        steps = _by_place(store, topic, queue_id, place)
    if not _print(steps, as_json):
        try:
            if topic is not None:
                check_topic(store, topic)
        except NoSuchTopic as reason:
            print_no_topic(reason)
        raise SystemExit(NOT_FOUND)


def _by_place(store: StoreDirectory, topic: str, queue_id: int | None, place: str) -> Iterator[Step]:
    if queue_id is None:
        raise CannotLook("--queue is missing: which queue of the topic?")
    if place.startswith("@"):
        return by_time(store, topic, queue_id, parse(place[1:], time.time_ns() // 1_000_000))
    if not (place.isascii() and place.isdigit() and len(place) <= 18):
        raise CannotLook(f"{place!r} is no offset; a time begins with @")
    return by_queue(store, topic, queue_id, int(place))


def _print(steps: Iterator[Step], as_json: bool) -> bool:
    found = False
    for number, step in enumerate(steps, 1):
        found = bool(step.found)
        if as_json:
            click.echo(json_line({"step": number, **step.as_json()}))
            continue
        click.echo(f"{number:>2}. {step.title}")
        if step.file:
            click.echo(f"    {printable(step.file)} byte {step.byte}")
        if step.fields:
            for one in step.fields:
                click.echo(_field_line(one))
        elif step.raw:
            click.echo(f"    {hex_text(step.raw)}")
        for line in step.says:
            click.echo(f"    {'-> ' if step.fields or step.raw else ''}{line}")
    return found


def _field_line(one: Field) -> str:
    raw = hex_text(one.raw, RAW_BYTES)
    said = one.value if not one.meaning else f"{one.value}  ({one.meaning})" if one.value else one.meaning
    line = f"    {one.at:>10}  {raw:<{RAW_COLUMNS + 2}} {one.name:<22} {said}"
    return fit(line, width()).rstrip()
