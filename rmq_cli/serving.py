"""Run servers until they are stopped, and say when they are ready."""

from __future__ import annotations

import json
import logging
import os
import shlex
import shutil
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import trio

from broker_impl.broker import NotSaved, RunningServers, run
from rmq_cli.complaint import Complaint
from rmq_cli.ready import READY_S_MAX, Listed, answers_default_route

log = logging.getLogger("rmq.cli")


class Summary(NamedTuple):
    """What to print when ready.  `asks`: name servers, one of which must know TBW102 first; none: wait for nothing.

    `alone`: a broker whose name servers are elsewhere, and how they are to list it; it stays up without them, as Java's does, and
    registers when one comes.  `fast_delays`: the delay levels where they are not those that everybody expects.
    """

    namesrv: str | None
    brokers: Sequence[str]
    store: str | None
    asks: Sequence[str]
    notices: Sequence[str] = ()
    alone: Listed | None = None
    fast_delays: str | None = None


def serve(
    servers: RunningServers, summary: Summary, *, as_json: bool, prepare: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Serve until SIGTERM or Ctrl-C; exit status 0 after a clean stop that wrote everything.  Raises `Complaint`.

    `prepare` is done when everything serves, before anybody is told that it is ready.
    """

    async def ready() -> None:
        if summary.asks and not await answers_default_route(summary.asks, READY_S_MAX, summary.alone):
            which = "the broker" if summary.alone is None else f"{summary.alone.name} at {summary.alone.address}"
            missing = f"no name server of {';'.join(summary.asks)} lists {which} after {READY_S_MAX:g} s"
            if summary.alone is None:
                raise Complaint(missing)
            log.warning("%s; it goes on and registers when one answers", missing)
        if prepare is not None:
            await prepare()
        for notice in summary.notices:
            log.warning("%s", notice)
        click.echo(_json_line(summary) if as_json else _sheet(summary))
        sys.stdout.flush()

    try:
        trio.run(run, servers, ready)
    except* KeyboardInterrupt:
        raise SystemExit(130) from None
    except* Complaint as group:
        raise _first(group) from None
    except* NotSaved as lost:
        raise Complaint(str(lost.exceptions[0])) from None
    finally:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                log.warning("thread %s has not ended", thread.name)


def _first(group: BaseExceptionGroup[Complaint]) -> Complaint:
    leaf: BaseException = group
    while isinstance(leaf, BaseExceptionGroup):
        leaf = leaf.exceptions[0]
    assert isinstance(leaf, Complaint)
    return leaf


def _json_line(summary: Summary) -> str:
    broker = summary.brokers[0] if summary.brokers else None
    line: dict[str, object] = {"namesrv": summary.namesrv, "broker": broker, "store": summary.store, "pid": os.getpid()}
    if len(summary.brokers) > 1:
        line["brokers"] = list(summary.brokers)
    if summary.fast_delays is not None:
        line["messageDelayLevel"] = summary.fast_delays
    return json.dumps(line)


def _sheet(summary: Summary) -> str:
    """One clear line, what to export, a Java snippet to copy, and how to reach `rmq`."""
    if not summary.brokers:
        return f"name server ready at {summary.namesrv}"
    brokers = ", ".join(summary.brokers)
    if summary.namesrv is None:
        return f"broker ready at {brokers}, store {summary.store}, registered with no name server"
    if summary.alone is not None:
        return f"broker ready at {brokers}, store {summary.store}, name server {summary.namesrv}"
    fast = "" if summary.fast_delays is None else f"delay levels and retries in milliseconds: {summary.fast_delays}\n"
    return f"""ready: name server {summary.namesrv}, broker {brokers}, store {summary.store}
{fast}
  export NAMESRV_ADDR={summary.namesrv}

  DefaultMQProducer producer = new DefaultMQProducer("my-group");
  producer.setNamesrvAddr("{summary.namesrv}");
  producer.start();
  producer.send(new Message("my-topic", "hello".getBytes()));
{_way_to_rmq()}"""


def _way_to_rmq() -> str:
    """How another terminal gets the command, where it lies in an environment of its own: `make dev` has made one."""
    own = Path(sys.argv[0]).absolute()
    activate = own.with_name("activate")
    if shutil.which("rmq") is not None or own.name != "rmq" or not activate.is_file():
        return ""
    place = os.path.relpath(activate) if activate.is_relative_to(Path.cwd()) else str(activate)
    return f"\n  rmq in another terminal: . {shlex.quote(place)}\n"
