"""`rmq inspect layouts`: where every byte is."""

from __future__ import annotations

import click

from rmq_cli.inspect_common import json_option, width


@click.command("layouts")
@click.argument("wanted", metavar="[PART]", required=False)
@json_option
def command(wanted: str | None, as_json: bool) -> None:
    """Every layout of wire and store as a table: byte, size, type, field, meaning.  A `?` depends on the bytes before it.

    \b
    rmq inspect layouts               all of them
    rmq inspect layouts index         those with "index" in their title
    rmq inspect layouts --json
    """
    from rmq_inspect.decode.layouts import sections, text
    from rmq_inspect.decode.records import json_line
    from rmq_inspect.errors import CannotLook

    found = [section for section in sections() if wanted is None or wanted.lower() in section["layout"].lower()]
    if not found:
        titles = "; ".join(section["layout"] for section in sections())
        raise CannotLook(f"no layout has {wanted!r} in its title: {titles}")
    if as_json:
        for section in found:
            click.echo(json_line(section))
    else:
        click.echo(text(found, width()), nl=False)
