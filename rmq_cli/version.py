"""`rmq version`."""

from __future__ import annotations

import platform
from importlib.metadata import version

import click

from rmq_cli.main import DISTRIBUTION, PROTOCOL_VERSION


@click.command("version", help="Say which version this is, and of which RocketMQ.")
def command() -> None:
    """Print the version of this package, of the protocol and of Python."""
    ours = f"rmq {version(DISTRIBUTION)}, RocketMQ {PROTOCOL_VERSION} protocol and store"
    click.echo(f"{ours}, Python {platform.python_version()}")
