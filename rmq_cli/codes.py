"""`rmq codes`: what is answered, what is refused and why."""

from __future__ import annotations

import json
import shutil
import textwrap
from typing import Any

import click

from rmq_cli.complaint import Complaint

REFUSED = "refused"
ANSWERED = "answered"
ANSWERED_BY_CLIENTS = "of clients"
NARROWEST = 60
"""Columns: reasons are not broken into shorter lines than that."""
NO_TERMINAL = (0, 0)
"""What `get_terminal_size` says where there is none: a pipe gets each code on one line, for grep."""
REASON_INDENT = " " * 11


@click.command("codes")
@click.argument("wanted", metavar="[CODE|NAME]", required=False)
@click.option("--role", type=click.Choice(["broker", "name_server", "client"]), help="Only codes that this role answers.")
@click.option("--refused", "only_refused", is_flag=True, help="Only codes that our servers know and refuse.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
def command(wanted: str | None, role: str | None, only_refused: bool, as_json: bool) -> None:
    """List the request codes of RocketMQ 5.5.0: what our servers answer, what they refuse and why.

    \b
    rmq codes                 the table
    rmq codes 310             one code with all its fields (or: rmq codes SEND_MESSAGE_V2)
    rmq codes --refused
    """
    found = rows()
    if wanted is not None:
        found = [row for row in found if wanted.upper() in (str(row["code"]), row["name"])]
        if not found:
            raise Complaint(f"no request code {wanted!r} (rmq codes lists them)")
    if role is not None:
        found = _narrowed(found, wanted, [row for row in found if role in row["roles"]], f"not answered by the role {role}")
    if only_refused:
        found = _narrowed(found, wanted, [row for row in found if row["refused"]], "not refused")
    if as_json:
        click.echo(json.dumps(found, indent=1))
    elif wanted is not None:
        for row in found:
            click.echo(_sheet(row))
    else:
        click.echo(_table(found))


def _narrowed(found: list[dict[str, Any]], wanted: str | None, left: list[dict[str, Any]], why: str) -> list[dict[str, Any]]:
    """What is left.  Raises `Complaint` where that is nothing of the code that was asked for, which there is."""
    if wanted is not None and not left:
        named = ", ".join(f"{row['code']} {row['name']} (of {', '.join(row['roles'])})" for row in found)
        raise Complaint(f"{named} is {why}")
    return left


def rows() -> list[dict[str, Any]]:
    """Every code with its fields; `refused`: role -> why that role of ours refuses it."""
    from broker_impl import refused
    from rmq_wire import registry

    reasons = {"broker": refused.BROKER, "name_server": refused.NAME_SERVER}
    return [
        {**row, "refused": {role: reasons[role][row["code"]] for role in row["roles"] if row["code"] in reasons.get(role, {})}}
        for row in registry.as_json()
    ]


def _state(row: dict[str, Any]) -> str:
    if row["refused"]:
        return REFUSED
    return ANSWERED_BY_CLIENTS if row["roles"] == ["client"] else ANSWERED


def _table(found: list[dict[str, Any]]) -> str:
    """One line a code; on a terminal, reasons that are too long for it go on below, on lines of their own."""
    width = shutil.get_terminal_size(NO_TERMINAL).columns
    lines = [f"{'code':>7}  {'name':<40} {'by':<19} state"]
    for row in found:
        why = "; ".join(row["refused"].values())
        by = ", ".join(row["roles"]).replace("name_server", "name server")
        line = f"{row['code']:>7}  {row['name']:<40} {by:<19} {_state(row)}"
        if width and len(f"{line}: {why}") > width:
            below = textwrap.wrap(why, max(width, NARROWEST), initial_indent=REASON_INDENT, subsequent_indent=REASON_INDENT)
            lines += [line, *below]
        else:
            lines.append(f"{line}: {why}" if why else line)
    answered = sum(_state(row) == ANSWERED for row in found)
    refused = sum(_state(row) == REFUSED for row in found)
    lines.append(f"{len(found)} codes: {answered} answered, {refused} refused")
    return "\n".join(lines)


def _sheet(row: dict[str, Any]) -> str:
    lines = [f"{row['code']} {row['name']}, answered by {', '.join(row['roles'])}: {_state(row)}"]
    lines += [f"  {role}: {why}" for role, why in row["refused"].items()]
    lines += textwrap.wrap(row["doc"], 100, initial_indent="  ", subsequent_indent="  ")
    for title, fields in (("request", row["fields"]), ("response", row["reply_fields"])):
        lines.append(f"  {title}:" + ("" if fields else " no fields"))
        lines += [f"    {f['name']:<28} {f['type']:<8} {'required' if f['required'] else ''}".rstrip() for f in fields]
    return "\n".join(lines)
