"""`rmq dev`: a name server and brokers in one process."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from broker_impl.dev_differences import DEV_DIFFERENCES
from rmq_cli.complaint import Complaint

BROKERS_MAX = 16
PORT_STEP = 10
"""Between the ports of two brokers of one process: each takes three (listenPort - 2, listenPort, listenPort + 1)."""
PORT = click.IntRange(0, 65_535)

EPILOG = "\b\nWhere it differs from Java's defaults (--like-java drops these):\n" + "\n".join(
    f"  {key}{'=' + differs.value if differs.value else ''}: {differs.why}" for key, differs in DEV_DIFFERENCES.items()
)


@click.command("dev", epilog=EPILOG)
@click.option("--store", type=click.Path(path_type=Path), help="Directory of the store.  [default: ./.rmq]")
@click.option("--ephemeral", is_flag=True, help="Keep the store in a temporary directory and remove it at the end.")
@click.option("--namesrv-port", type=PORT, default=9876, show_default=True, help="0 picks a free one.")
@click.option("--broker-port", type=PORT, default=10911, show_default=True, help="0 picks a free one.")
@click.option("--brokers", type=click.IntRange(1, BROKERS_MAX), default=1, show_default=True, help="How many masters.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Any broker property, by Java's name (repeatable).")
@click.option("--bind", metavar="ADDRESS", help="Listen on this address.  [default: 127.0.0.1]")
@click.option("--like-java", is_flag=True, help="Java's defaults throughout (see below).")
@click.option("--json", "as_json", is_flag=True, help="Print exactly one line of JSON when ready.")
@click.option("--log-level", default="WARNING", show_default=True, type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]))
@click.option("--plain-streams", is_flag=True, hidden=True, help="Serve over trio streams, as on systems without epoll.")
def command(
    store: Path | None,
    ephemeral: bool,
    namesrv_port: int,
    broker_port: int,
    brokers: int,
    settings: tuple[str, ...],
    bind: str | None,
    like_java: bool,
    as_json: bool,
    log_level: str,
    plain_streams: bool,
) -> None:
    """Start a name server and a broker in one process, ready for a Java client.

    \b
    rmq dev                                        store in ./.rmq, ports 9876 and 10911
    rmq dev --ephemeral --namesrv-port 0 --broker-port 0 --json
    rmq dev --set flushDiskType=SYNC_FLUSH
    """
    from rmq_cli.house import DevPlan, open_dev
    from rmq_cli.logs import log_to_stderr
    from rmq_cli.serving import serve

    if ephemeral and store is not None:
        raise click.UsageError("--ephemeral keeps no store: leave out --store")
    log_to_stderr(log_level)
    with _store_directory(store, ephemeral) as root:
        plan = DevPlan(
            root=root,
            namesrv_port=namesrv_port,
            broker_port=broker_port,
            brokers=brokers,
            settings=settings,
            bind=bind,
            like_java=like_java,
            plain_streams=plain_streams,
        )
        house, summary = open_dev(plan)
        serve(house, summary, as_json=as_json)


@contextlib.contextmanager
def _store_directory(store: Path | None, ephemeral: bool) -> Iterator[Path]:
    if ephemeral:
        with tempfile.TemporaryDirectory(prefix="rmq-") as directory:
            yield Path(directory)
        return
    directory_path = (store or Path(".rmq")).absolute()
    try:
        directory_path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise Complaint(f"the store directory {directory_path} cannot be made ({why}); choose another with --store") from None
    if not os.access(directory_path, os.W_OK | os.X_OK):
        raise Complaint(f"the store directory {directory_path} is not writable; change its rights or choose another with --store")
    yield directory_path
