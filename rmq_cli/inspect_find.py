"""`rmq inspect find`: messages by id, unique key, key, tag or time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rmq_cli.inspect_common import json_option, open_store, store_argument
from rmq_cli.inspect_selection import Notes, body_option, chosen, selection_options, wanted_of, write_messages
from rmq_inspect.decode.records import BodyForm, printable
from rmq_inspect.errors import CannotLook
from rmq_inspect.explain.outlook import Outlooks

ID_CHARACTERS = (32, 56)
NOT_FOUND = 1


@click.command("find")
@store_argument
@click.argument("text", metavar="[ID|KEY]", required=False)
@selection_options
@body_option
@click.option("--full", is_flag=True, help="Every field, not a table.")
@json_option
def command(
    directory: Path, commit_logs: tuple[Path, ...], text: str | None, form: str, full: bool, as_json: bool, **options: Any
) -> None:
    """Find messages in DIR: by offset message id, unique key or key, by the index when there is one, else by reading the log.

    \b
    rmq inspect find ./.rmq 7F00000100002A9F0000000000000190
    rmq inspect find ./.rmq order-1 --topic my-topic
    rmq inspect find ./.rmq --tag TagA --since -1h

    Exit status 1 when nothing was found.
    """
    wanted = wanted_of(options)
    if text is not None:
        is_id = len(text) in ID_CHARACTERS and all(character in "0123456789abcdefABCDEF" for character in text)
        if (wanted.message_id if is_id else wanted.key) is not None:  # an id and a key together must both hold
            raise click.UsageError(
                f"{printable(text)} and {'another id, --id' if is_id else 'another key, --key'}: say one of them"
            )
        wanted = replace(wanted, message_id=text) if is_id else replace(wanted, key=text)
    if wanted == type(wanted)():
        raise CannotLook("nothing to find was named: give an id or a key, or --tag, --topic, --since")
    notes = Notes()
    store = open_store(directory, commit_logs)
    units = chosen(store, wanted, options, notes)
    if not write_messages(units, BodyForm(form), notes, Outlooks(store), as_json=as_json, full=full):
        click.echo("rmq: nothing found", err=True)
        raise SystemExit(NOT_FOUND)
