"""`rmq broker`: a broker that registers with name servers elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from rmq_cli.stopping import stoppable


@click.command("broker")
@click.option("-c", "config_file", type=click.Path(path_type=Path, readable=False), help="A properties file as Java reads it.")
@click.option("-n", "namesrv", metavar="NAMESRV", help="Name servers, host:port separated by ;  [default: $NAMESRV_ADDR]")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Any broker property, by Java's name (repeatable).")
@click.option("--json", "as_json", is_flag=True, help="Print exactly one line of JSON when ready.")
@click.option("--log-level", default="WARNING", show_default=True, type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]))
@click.option("--plain-streams", is_flag=True, hidden=True)
def command(
    config_file: Path | None,
    namesrv: str | None,
    settings: tuple[str, ...],
    as_json: bool,
    log_level: str,
    plain_streams: bool,
) -> None:
    """Start a broker with Java's configuration and Java's defaults (store in ~/store).

    \b
    rmq broker -c broker.conf -n 127.0.0.1:9876
    rmq broker --set listenPort=10921 --set brokerName=broker-b -n '127.0.0.1:9876;127.0.0.1:9877'
    """
    from rmq_cli.logs import log_to_stderr
    from rmq_cli.servers import open_broker
    from rmq_cli.serving import serve

    log_to_stderr(log_level)
    with stoppable():
        servers, summary = open_broker(config_file, namesrv, settings, plain_streams=plain_streams)
        serve(servers, summary, as_json=as_json)
