"""`rmq namesrv`: a name server alone."""

from __future__ import annotations

from pathlib import Path

import click

from rmq_cli.stopping import stoppable


@click.command("namesrv")
@click.option("--port", type=click.IntRange(0, 65_535), help="Listen here; 0 picks a free one.  [default: listenPort, 9876]")
@click.option("-c", "config_file", type=click.Path(path_type=Path, readable=False), help="A properties file as Java reads it.")
@click.option("--bind", metavar="ADDRESS", help="Listen on this address.  [default: bindAddress, else 127.0.0.1]")
@click.option("--json", "as_json", is_flag=True, help="Print exactly one line of JSON when ready.")
@click.option("--log-level", default="WARNING", show_default=True, type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]))
@click.option("--plain-streams", is_flag=True, hidden=True)
def command(
    port: int | None, config_file: Path | None, bind: str | None, as_json: bool, log_level: str, plain_streams: bool
) -> None:
    """Start a name server.

    \b
    rmq namesrv
    rmq namesrv --port 0 --json
    rmq namesrv -c namesrv.properties --bind 0.0.0.0

    It believes whoever connects, as Java's does; so it listens on loopback unless it is set otherwise.
    """
    from rmq_cli.logs import log_to_stderr
    from rmq_cli.servers import open_name_server
    from rmq_cli.serving import serve

    log_to_stderr(log_level)
    with stoppable():
        servers, summary = open_name_server(config_file, port, bind, plain_streams=plain_streams)
        serve(servers, summary, as_json=as_json)
