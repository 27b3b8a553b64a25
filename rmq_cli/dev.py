"""`rmq dev`: a name server and brokers in one process."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker_impl.dev_differences import DEV_DIFFERENCES
from rmq_cli.complaint import Complaint
from rmq_cli.stopping import stoppable

if TYPE_CHECKING:
    from rmq_cli.init_file import InitFile
    from rmq_cli.servers import DevPlan

BROKERS_MAX = 16
PORT = click.IntRange(0, 65_535)
BROKER_PORT = 10_911

INDEX_KEYS = ("messageIndexEnable", "indexFileWriteEnable", "indexFileReadEnable")
INIT_HELP = """\b
The file of --init (keys by Java's names; what it does not name stays as it is, or is Java's default):
  [[topic]]
  name = "orders"
  queues = 8                          # or readQueueNums, writeQueueNums apart; 4 without
  perm = "RW"                         # R, W, RW, or a number
  attributes = { "message.type" = "FIFO" }
  [[group]]
  name = "billing"
  retryMaxTimes = 3                   # and the other settings of a group
  [[message]]
  topic = "orders"
  body = "hello"
  tags = "new"
  keys = ["k1", "k2"]
  properties = { colour = "blue" }
  delay = "10s"                       # or a level, 1 to 18
  hashKey = "order-7"                 # the queue, as SelectMessageQueueByHash chooses it
A second start makes nothing twice: a message is known by all that it says, through its unique key in the index.
"""
EPILOG = (
    INIT_HELP
    + "\n\b\nWhere it differs from Java's defaults (--like-java drops these):\n"
    + "\n".join(
        f"  {key}{'=' + differs.value if differs.value else ''}: {differs.why}" for key, differs in DEV_DIFFERENCES.items()
    )
)


@click.command("dev", epilog=EPILOG)
@click.option("--store", metavar="DIRECTORY", help="Directory of the store.  [default: ./.rmq]")
@click.option("--ephemeral", is_flag=True, help="Keep the store in a temporary directory and remove it at the end.")
@click.option("--namesrv-port", type=PORT, default=9876, show_default=True, help="0 picks a free one.")
@click.option("--broker-port", type=PORT, help="0 picks a free one.  [default: 10911]")
@click.option("--brokers", type=click.IntRange(1, BROKERS_MAX), default=1, show_default=True, help="How many masters.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Any broker property, by Java's name (repeatable).")
@click.option("--bind", metavar="ADDRESS", help="Listen on this address.  [default: 127.0.0.1]")
@click.option("--like-java", is_flag=True, help="Java's defaults throughout (see below).")
@click.option("--fast-delays", is_flag=True, help="Delay levels, and so retries, of 5 to 90 ms.")
@click.option("--init", "init", metavar="FILE", help="Make the topics, groups and messages of this TOML file (see below).")
@click.option("--json", "as_json", is_flag=True, help="Print exactly one line of JSON when ready.")
@click.option("--log-level", default="WARNING", show_default=True, type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]))
@click.option("--plain-streams", is_flag=True, hidden=True, help="Serve over trio streams, as on systems without epoll.")
def command(
    store: str | None,
    ephemeral: bool,
    namesrv_port: int,
    broker_port: int | None,
    brokers: int,
    settings: tuple[str, ...],
    bind: str | None,
    like_java: bool,
    fast_delays: bool,
    init: str | None,
    as_json: bool,
    log_level: str,
    plain_streams: bool,
) -> None:
    """Start a name server and a broker in one process, ready for a Java client.

    \b
    rmq dev                                        store in ./.rmq, ports 9876 and 10911
    rmq dev --ephemeral --namesrv-port 0 --broker-port 0 --json
    rmq dev --set flushDiskType=SYNC_FLUSH
    rmq dev --fast-delays                          sixteen retries until the dead letters, in a second
    rmq dev --init shop.toml                       topics, groups and messages from a file
    """
    from rmq_cli.logs import log_to_stderr
    from rmq_cli.servers import DevPlan, dev_settings, make_store_directory, open_dev
    from rmq_cli.serving import serve

    if ephemeral and store is not None:
        raise click.UsageError("--ephemeral keeps no store: leave out --store")
    said = {
        "listenPort": ("--broker-port", broker_port is not None),
        "bindAddress": ("--bind", bind is not None),
        "messageDelayLevel": ("--fast-delays", fast_delays),
        "storePathRootDir": ("--ephemeral" if ephemeral else "--store", ephemeral or store is not None),
    }
    chosen = dev_settings(settings, said)
    plan = DevPlan(
        root=Path(),
        namesrv_port=namesrv_port,
        broker_port=BROKER_PORT if broker_port is None else broker_port,
        brokers=brokers,
        settings=chosen,
        bind=bind,
        like_java=like_java,
        fast_delays=fast_delays,
        plain_streams=plain_streams,
    )
    wanted_first = None if init is None else _read_init(init, plan)
    log_to_stderr(log_level)
    with contextlib.ExitStack() as stack:
        stack.enter_context(stoppable())
        if ephemeral:
            root = stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-"))
        else:
            wanted = chosen.get("storePathRootDir", ".rmq") if store is None else store
            if not wanted:
                raise Complaint("the store directory has no name; give --store one, or leave it out for ./.rmq")
            try:
                root = os.path.abspath(wanted)
            except FileNotFoundError:
                raise Complaint("the current directory is gone; change to another, or give --store an absolute path") from None
            make_store_directory(root, "--store")
        servers, summary = open_dev(plan._replace(root=Path(root)))
        if wanted_first is None:
            serve(servers, summary, as_json=as_json)
            return
        found = wanted_first

        async def prepare() -> None:
            from rmq_cli.init_apply import apply_init

            made = await apply_init(found, summary.brokers, time.time_ns() // 1_000_000)
            if not as_json:
                now = f"topics {made.topics}, groups {made.groups}, messages {made.messages}"
                click.echo(f"{init}: made now: {now}; everything else was there")

        serve(servers, summary, as_json=as_json, prepare=prepare)


def _read_init(path: str, plan: DevPlan) -> InitFile:
    """What the file of `--init` says.  Raises `Complaint`."""
    from rmq_cli.init_file import read_init
    from rmq_cli.servers import dev_configs

    found = read_init(Path(path), dev_configs(plan))
    for key in INDEX_KEYS if found.messages else ():
        if plan.settings.get(key, "true").strip().lower() != "true":
            raise Complaint(f"--init knows its messages again by the index: leave out --set {key}=, or the messages")
    return found
