"""`rmq inspect stats`: what is in a store, counted."""

from __future__ import annotations

from pathlib import Path

import click

from rmq_cli.inspect_common import (
    PLACE,
    check_log,
    check_outside,
    clear_progress,
    json_option,
    open_store,
    progress,
    store_argument,
    width,
)
from rmq_inspect.decode.records import fit, json_line, pad
from rmq_inspect.errors import CannotLook
from rmq_inspect.explain.stats import Stats, collect
from rmq_inspect.times import bytes_text, short_text_of, span_text, text_of, zone_text

TOPICS_SHOWN, TAGS_SHOWN, RATES_SHOWN = 30, 10, 24
NAME_COLUMNS = 40
ORDERED_NAME, ORDERED_COLUMNS = 28, 108
"""Of the table of ordered pops: its first column, and all before the last."""
BLOCKS = " ▁▂▃▄▅▆▇█"


@click.command("stats")
@store_argument
@json_option
@click.option("--html", "page", metavar="FILE", type=PLACE, help="Also write a page with plots (no network).")
def command(directory: Path, commit_logs: tuple[Path, ...], as_json: bool, page: Path | None) -> None:
    """Count the messages of DIR: topics, queues, rates over time, sizes, keys; and what its files take.

    \b
    rmq inspect stats ./.rmq
    rmq inspect stats ./.rmq --html store.html
    rmq inspect stats ./.rmq --json | jq '.topics[0]'
    """
    if page is not None:
        check_outside(page, directory, commit_logs)
    store = open_store(directory, commit_logs)
    check_log(store)
    stats = collect(store, progress())
    clear_progress()
    if page is not None:
        from rmq_inspect.explain.stats_html import page as made

        try:
            page.write_text(made(stats, str(directory)), encoding="utf-8", errors="backslashreplace")
        except OSError as reason:
            raise CannotLook(f"{page}: {reason.strerror}") from reason
        click.echo(f"rmq: written to {page}", err=True)
    if as_json:
        click.echo(json_line(stats.as_json()))
    elif page is None:
        _print(stats)


def _print(stats: Stats) -> None:
    total = stats.total
    click.echo(f"{total.messages:,} messages, {bytes_text(total.bytes)}, log from {stats.log_start:,} to {stats.log_end:,}")
    if total.messages:
        span = span_text(total.last_ms - total.first_ms)
        click.echo(f"stored from {text_of(total.first_ms)} to {text_of(total.last_ms)} ({span})")
        click.echo(f"bodies {bytes_text(stats.body_bytes)}, on average {stats.body_bytes // total.messages:,} bytes")
    if stats.spoilt:
        click.echo(f"spoilt: {stats.spoilt:,} stretches, {bytes_text(stats.spoilt_bytes)} (rmq inspect verify says more)")
    click.echo(f"with tags {stats.with_tags:,}, with keys {stats.with_keys:,} ({stats.keys:,} keys)")
    kinds = [f"{count:,} {name}" for name, count in stats.transactions.items() if name != "none"]
    kinds += [f"{count:,} compressed ({name})" for name, count in stats.compressed.items()]
    kinds += [f"{stats.inner_batches:,} inner batches"] if stats.inner_batches else []
    if kinds:
        click.echo("of these " + ", ".join(kinds))
    for kind, one in stats.still_to_come.items():
        due = f", due from {text_of(one.first_due_ms)} to {text_of(one.last_due_ms)}" if one.first_due_ms >= 0 else ""
        click.echo(f"still to come: {one.messages:,} {kind}{due}")
    if stats.ordered_pops_unread is not None:
        click.echo(f"ordered pops: {stats.ordered_pops_unread}")
    _print_topics(stats)
    _print_ordered_pops(stats)
    _print_rates(stats)
    _print_sizes(stats)
    click.echo(f"\n{'files':<{NAME_COLUMNS}} {'count':>9} {'length':>12} {'on disk':>12}")
    for kind, of in stats.files.items():
        click.echo(f"{kind:<{NAME_COLUMNS}} {of['files']:>9,} {bytes_text(of['bytes']):>12} {bytes_text(of['allocated']):>12}")


def _print_topics(stats: Stats) -> None:
    queues: dict[str, int] = {}
    for topic, _ in stats.queues:
        queues[topic] = queues.get(topic, 0) + 1
    last = f"last stored, {zone_text()}"
    click.echo(
        f"\n{'topic':<{NAME_COLUMNS}} {'queues':>6} {'messages':>12} {'bytes':>11}  {last if width() >= 100 else ''}".rstrip()
    )
    rows = stats.by_size()
    for name, one in rows[:TOPICS_SHOWN]:
        when = short_text_of(one.last_ms) if width() >= 100 else ""
        numbers = f"{queues.get(name, 0):>6,} {one.messages:>12,} {bytes_text(one.bytes):>11}"
        click.echo(f"{pad(name, NAME_COLUMNS)} {numbers}  {when}".rstrip())
    if len(rows) > TOPICS_SHOWN:
        click.echo(f"and {len(rows) - TOPICS_SHOWN:,} more (--json has all)")


def _print_ordered_pops(stats: Stats) -> None:
    if not stats.ordered_pops:
        return
    left = width() - ORDERED_COLUMNS  # for the attempt
    times = f"  {'popped, ' + zone_text():<23}  {'blocked until':<23}  {fit('attempt', left)}" if left > 0 else ""
    click.echo(f"\n{'ordered pops, topic@group':<{ORDERED_NAME}} {'queue':>5}  {'offsets':<14} {'acked':>5}{times}")
    for batch in stats.ordered_pops[:TOPICS_SHOWN]:
        first, last = batch.offsets[0], batch.offsets[-1]
        offsets = str(first) if first == last else f"{first} to {last}"
        acked = len(batch.offsets) - len(batch.until)
        line = f"{pad(f'{batch.topic}@{batch.group}', ORDERED_NAME)} {batch.queue_id:>5}  {offsets:<14} {acked:>5}"
        if left > 0:
            free = "free" if batch.free_ms is None else short_text_of(batch.free_ms)
            line += f"  {short_text_of(batch.info.pop_time):<23}  {free:<23}  {fit(batch.info.attempt or '', left)}"
        click.echo(line.rstrip())
    if len(stats.ordered_pops) > TOPICS_SHOWN:
        click.echo(f"and {len(stats.ordered_pops) - TOPICS_SHOWN:,} more (--json has all)")


def _print_rates(stats: Stats) -> None:
    rows = stats.buckets.rows()
    if not rows:
        return
    top = max(count for _, count, _ in rows)
    click.echo(f"\nmessages over time, {span_text(stats.buckets.width_ms)} each, at most {top:,}")
    columns = width() - 4
    per = -(-len(rows) // columns)
    shown = [sum(count for _, count, _ in rows[at : at + per]) for at in range(0, len(rows), per)]
    highest = max(shown)
    click.echo("  " + "".join(BLOCKS[-(-count * (len(BLOCKS) - 1) // highest)] for count in shown))
    click.echo(f"  {short_text_of(rows[0][0])} to {short_text_of(rows[-1][0] + stats.buckets.width_ms)} ({zone_text()})")


def _print_sizes(stats: Stats) -> None:
    if not stats.sizes:
        return
    click.echo(f"\n{'size of a message unit':<{NAME_COLUMNS}} {'messages':>12}")
    top = max(stats.sizes.values())
    for power, count in sorted(stats.sizes.items()):
        click.echo(f"{'up to ' + bytes_text(1 << power):<{NAME_COLUMNS}} {count:>12,}  {'#' * (-(-count * 24 // top))}")
    if stats.tags:
        shown = sorted(stats.tags.items(), key=lambda pair: -pair[1])[:TAGS_SHOWN]
        click.echo(f"\n{'tags':<{NAME_COLUMNS}} {'messages':>12}")
        for tag, count in shown:
            click.echo(f"{pad(tag, NAME_COLUMNS)} {count:>12,}")
