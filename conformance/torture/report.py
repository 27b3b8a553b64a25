"""Verdicts as JSON, and as a page to read: which script, what it does, what each client made of it.

`make pages` makes the page from the JSON files and the scripts; of other files, `rmq conform torture --results A.json --document
FILE`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from conformance.suite.report.markdown import table
from conformance.torture.judge import Judged, Verdict
from conformance.torture.script import Script, ScriptError, find
from conformance.torture.torments import explain

MARKS: Final = {True: "yes", False: "**no**", None: "not judged"}
HEAD: Final = """# What torments a client, and what stock clients do then

Made by `make pages` from `conformance/torture/scripts/*.toml` and `conformance/reports/torture-*.json`, which are what
`rmq conform torture --client NAME --out FILE` wrote; its `--results FILE --document FILE` make such a page of other clients.

A script starts a name server and one or two brokers on loopback that are honest but for one thing; a small program sends or
consumes a few messages; what comes over the wire next, and what the program is given, is judged.  MUST: what any client owes its
application.  QUIRK: what the Java client does, and nobody need copy.  "Seen" is what happened in the recorded run, per client.
Expectations hold for the versions that were run; where 4.9.8 and 5.5.0 differ, the script says so by `since` and `before`.

## Torment a client of your own

`rmq conform serve --script half-answer` prints `NAMESRV_ADDR` and a topic, waits for any client, and says when it has gone what
it did wrong; `--timeline` shows every frame.  What the client's application was given remains open there.

`rmq conform torture --client-command './mine {namesrv} {topic} {program} {count} {timeout_ms}'` runs a command for each script
and reads what it prints.  The words that are filled in:

| word | meaning |
| --- | --- |
| `{namesrv}`, `{topic}` | where the name server is, which topic to use |
| `{program}` | `send` (one by one), `send-async` (all at once), `send-oneway`; `push` (consume from the start), `orderly` |
| `{count}` | messages to send, or to wait for; message n has the key `m-n` in its KEYS |
| `{timeout_ms}`, `{retries}` | of one send |
| `{body_bytes}`, `{pause_ms}` | size of a body; pause between two sends |
| `{patience_ms}`, `{linger_ms}` | a consumer ends when it has all messages and `linger_ms` more, or after `patience_ms` |
| `{poll_route_ms}` | how often to ask for the route again |
| `{fail_first}` | `true`: refuse each message once before taking it |

It prints a JSON object a line: `{"event":"sent","message":"m-0","broker":"broker-a","queue":1,"offset":0,"status":"SEND_OK"}`,
`{"event":"failed","message":"m-0","error":"…","code":13}`, `{"event":"received","message":"m-0","queue":1,"offset":0}` (with
`"refused":true` where it was refused), and at the end `{"event":"done"}`.  A script of one's own is a TOML file like those in
`conformance/torture/scripts`; `conformance/torture/script.py` names every key.

## All scripts
"""


def encode(verdicts: list[Verdict]) -> bytes:
    """A JSON list, one verdict a line."""
    return b"[\n" + b",\n".join(msgspec.json.encode(verdict) for verdict in verdicts) + b"\n]\n"


def decode(text: bytes) -> list[Verdict]:
    """Raises ValueError."""
    return msgspec.json.decode(text, type=list[Verdict])


def document(verdicts: list[Verdict]) -> str:
    """The page: a table of all scripts and clients, then each script with its expectations."""
    clients = sorted({verdict.client for verdict in verdicts}, reverse=True)
    by_script: dict[str, dict[str, Verdict]] = {}
    for verdict in verdicts:
        by_script.setdefault(verdict.script, {})[verdict.client] = verdict
    outcomes = (
        (f"[{script}](#{script})", *(_outcome(of.get(client)) for client in clients)) for script, of in sorted(by_script.items())
    )
    rows = [HEAD, table(("script", *clients), outcomes), "", *_oddities(verdicts, clients)]
    for script, of in sorted(by_script.items()):
        rows += ["", *_section(script, of, clients)]
    return "\n".join(rows) + "\n"


def _outcome(verdict: Verdict | None) -> str:
    return "" if verdict is None else verdict.outcome


def _oddities(verdicts: list[Verdict], clients: list[str]) -> list[str]:
    """All QUIRKs in one table."""
    found: dict[tuple[str, str], dict[str, Judged]] = {}
    for verdict in verdicts:
        for one in verdict.expectations:
            if one.level == "QUIRK":
                found.setdefault((verdict.script, one.what), {})[verdict.client] = one
    rows = (
        (f"[{script}](#{script})", what, *(_cell_of(by_client.get(client)) for client in clients))
        for (script, what), by_client in sorted(found.items())
    )
    heads = ("script", "the client", *clients)
    return ["## What an application may not expect", "", "The QUIRKs of all scripts.", "", table(heads, rows)]


def _cell_of(one: Judged | None) -> str:
    return f"{MARKS[one.passed]}: {one.seen}" if one is not None else ""


def _section(name: str, of: dict[str, Verdict], clients: list[str]) -> list[str]:
    first = next(iter(of.values()))
    rows = [f"## {name}", "", f"{first.title}.", ""]
    script = _script(name)
    if script is not None:
        rows += [f"- {_step(one.do, one.on, one.where, one.nth, one.code)}: {_lower(explain(one.do))}" for one in script.step]
        program = script.client
        what = f"awaits {program.count} messages" if program.program in ("push", "orderly") else f"{program.count} messages"
        rows.append(f"- the client's program: `{program.program}`, {what}")
    rows.append(f"- rests on {', '.join(f'`{one}`' for one in first.rests_on)}")
    listed: dict[tuple[str, str], dict[str, Judged]] = {}
    for client in clients:
        for one in of[client].expectations if client in of else []:
            listed.setdefault((one.level, one.what), {})[client] = one
    judged = (
        (level, what, *(_cell_of(by_client.get(client)) for client in clients)) for (level, what), by_client in listed.items()
    )
    return [*rows, "", table(("level", "the client", *clients), judged)]


def _step(do: str, on: str, where: str, nth: list[int], code: str) -> str:
    which = f"request {', '.join(map(str, nth))} of" if nth else "every request of"
    place = "" if where == "any" else f" at {where}"
    return f"`{do}{f' {code}' if code else ''}` on {which} {'any code' if on == 'any' else f'`{on}`'}{place}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _script(name: str) -> Script | None:
    """The script, when it is one of the package."""
    try:
        return find(name)
    except ScriptError:
        return None
