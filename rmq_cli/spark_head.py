"""`rmq spark head`: the first messages of topics, found by their queues; neither Spark nor a JDK is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from rmq_columns.shown import bytes_text, json_line, printable, text_of
from rmq_spark.arguments import format_options
from rmq_spark.needs import need
from rmq_spark.zone import session_zone

if TYPE_CHECKING:
    from rmq_columns import Split
    from rmq_columns.files.counted import Asked

COLUMNS: Final = "topic,queueId,queueOffset,storeTimestamp,bodySize,tags,keys,body"
BLOCK_BYTES: Final = 256 << 10
"""Read at once: whoever wants few messages needs no more."""
BODY_BYTES: Final = 80
"""Of a body, shown in a line."""


@click.command("head")
@click.argument("paths", nargs=-1, required=True, metavar="PATHS...")
@click.option("--topic", "topics", multiple=True, required=True, metavar="NAME", help="Of this topic.  May be repeated.")
@click.option("-n", "--rows", type=click.IntRange(1), default=10, show_default=True, metavar="N", help="So many messages.")
@click.option("--columns", default=COLUMNS, show_default=True, metavar="NAME,...", help="Those of docs/columns.md.")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="Of the format rocketmq_store.  May be repeated.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a message.")
def command(
    paths: Sequence[str], topics: Sequence[str], rows: int, columns: str, options: Sequence[str], *, as_json: bool
) -> None:
    """Show the first messages of topics, in the log's order, without a scan where the consume queues can be believed.

    \b
    rmq spark head /data/broker-a/store --topic Orders
    rmq spark head s3://bucket/store --topic Orders --option 'startingOffsets={"Orders":{"0":1000}}' --json

    How many bytes and requests that took, and by what they were found, goes to standard error.  Times are UTC.

    Exit status: 0 some were found; 1 none; 2 could not look.
    """
    need(("numpy", "pyarrow"))
    from rmq_cli.spark_run import pair_of
    from rmq_columns import BadOption, parse_options, plan_splits
    from rmq_columns.files.counted import Asked, counting
    from rmq_columns.read.topics import missing_topic

    given = format_options(dict(pair_of(one, "--option") for one in options), zone=session_zone())
    if twice := given.keys() & {"topics", "columns"}:
        raise BadOption(f"--option {min(twice)}: say --{min(twice).removesuffix('s')}")
    whole = {"pruning": "auto", "blockBytes": BLOCK_BYTES, **given}
    chosen = parse_options({**whole, "paths": list(paths), "topics": list(topics), "columns": columns, "batchRows": rows})
    count = 0
    with counting(Asked()) as asked:
        missing = missing_topic(chosen, chosen.topics or ())
        if missing is not None and missing.is_sure:
            raise BadOption(missing.line)
        splits = plan_splits(chosen)
        for row in _first(splits, rows):
            count += 1
            click.echo(json_line(_plain(row)) if as_json else _line(row))
    click.echo(f"rmq: {count or 'no'} message{'' if count == 1 else 's'}; {_how(splits)}; {_asked(asked, splits)}", err=True)
    if not count:
        raise SystemExit(1)


def _first(splits: Sequence[Split], count: int) -> Iterator[dict[str, Any]]:
    from rmq_columns import read_split

    for split in splits:
        for batch in read_split(split):
            yield from batch.slice(0, count).to_pylist()
            count -= min(batch.num_rows, count)
            if not count:
                return


def _how(splits: Sequence[Split]) -> str:
    """By what they were found."""
    if any(split.pruned is not None for split in splits):
        queues = max(split.pruned.queues for split in splits if split.pruned is not None)
        return f"found by {queues} consume queues"
    why = next((split.scanned_since for split in splits if split.scanned_since), "")
    return f"scanned: {why}" if why else "scanned"


def _asked(asked: Asked, splits: Sequence[Split]) -> str:
    log = sum({(part.path, part.start): part.end - part.start for split in splits for part in split.parts}.values())
    count, requests = sum(asked.bytes.values()), sum(asked.requests.values())
    return f"asked for {bytes_text(count)} in {requests:,} requests, of {bytes_text(log)} of log"


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """As JSON takes it: times as ms, bytes as text."""
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return dict(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value


def _line(row: dict[str, Any]) -> str:
    shown = []
    for name, value in row.items():
        if isinstance(value, datetime):
            shown.append(text_of(round(value.timestamp() * 1000), session_zone()))
        elif isinstance(value, bytes):
            text = value[:BODY_BYTES].decode("utf-8", "replace")
            shown.append(text + ("…" if len(value) > BODY_BYTES else ""))
        elif value is not None:
            shown.append(f"{name}={json.dumps(_value(value), ensure_ascii=False) if isinstance(value, list) else value}")
    return printable("  ".join(shown))
