"""`rmq inspect verify`: check a store directory."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from rmq_cli.inspect_common import json_option, open_store, store_argument


@click.command("verify")
@store_argument
@json_option
def command(directory: Path, commit_logs: tuple[Path, ...], as_json: bool) -> None:
    """Check everything in DIR: units, check sums, chain, queues against the log, index, checkpoint, configuration."""
    verify = importlib.import_module("rmq_inspect.verify").verify
    raise SystemExit(verify(open_store(directory, commit_logs), as_json=as_json))
