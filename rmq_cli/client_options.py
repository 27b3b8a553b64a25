"""What the commands that talk to a cluster share: its options, and errors of the client as one line.

Any RocketMQ will do.  Without `-n` and NAMESRV_ADDR it is the one that `rmq dev` starts.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from rmq_cli.complaint import Complaint
from rmq_cli.stopping import stoppable

if TYPE_CHECKING:
    from rmq_client.errors import ClientError

DEFAULT_NAMESRV = "127.0.0.1:9876"
F = TypeVar("F", bound=Callable[..., Any])


class Cluster(NamedTuple):
    """Which one, and who asks."""

    namesrv: str
    namespace: str
    access_key: str | None
    secret_key: str | None
    tls: bool
    ca: Path | None

    def connect(self) -> AbstractAsyncContextManager[Any]:
        """A client of it.  Raises `Complaint`, `ClientError`, `click.UsageError`."""
        from rmq_client.client import connect
        from rmq_client.signing import Credentials

        if (self.access_key is None) != (self.secret_key is None):
            raise click.UsageError("an access key needs a secret key, and the other way round: --access-key, --secret-key")
        credentials = Credentials(self.access_key, self.secret_key) if self.access_key and self.secret_key else None
        try:
            context = ssl.create_default_context(cafile=self.ca) if self.tls or self.ca else None
        except OSError as error:  # among them those of TLS
            raise Complaint(f"--ca {self.ca}: no certificate can be read from it: {error.strerror or error}") from None
        return connect(self.namesrv, namespace=self.namespace, credentials=credentials, tls=context)


def gathered(function: F, name: str, kind: type[Any], options: tuple[Callable[[Any], Any], ...]) -> F:
    """The command with these options, which it gets in one argument of that name: a `kind`, a NamedTuple with their names."""

    def command(**given: Any) -> Any:
        return function(**{name: kind(**{one: given.pop(one) for one in kind._fields})}, **given)

    command.__doc__ = function.__doc__
    command.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    wrapped: Any = command
    for option in reversed(options):
        wrapped = option(wrapped)
    result: F = wrapped
    return result


def cluster_options(function: F) -> F:
    """Adds the options; the command gets them as `cluster`."""
    options = (
        click.option(
            "-n",
            "--namesrv",
            envvar="NAMESRV_ADDR",
            default=DEFAULT_NAMESRV,
            show_default=True,
            metavar="HOST:PORT[;…]",
            help="Name servers (or NAMESRV_ADDR).",
        ),
        click.option("--namespace", default="", help="Before every name of a topic or group."),
        click.option("--access-key", envvar="ROCKETMQ_ACCESS_KEY", help="Who asks, where that counts (or ROCKETMQ_ACCESS_KEY)."),
        click.option("--secret-key", envvar="ROCKETMQ_SECRET_KEY", help="And the key to sign with (or ROCKETMQ_SECRET_KEY)."),
        click.option("--tls", is_flag=True, help="Call the servers in TLS."),
        click.option("--ca", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Who signs its certificates."),
    )
    return gathered(function, "cluster", Cluster, options)


def run(call: Callable[[], Awaitable[None]]) -> None:
    """Run it to its end.  An error of the client becomes a `Complaint`.

    Ctrl-C and SIGTERM end it without a word, with status 130 and 143.
    """
    import trio

    from rmq_client.errors import ClientError

    try:
        with stoppable():
            trio.run(call)
    except ClientError as error:
        raise Complaint(said(error)) from None
    except BaseExceptionGroup as group:
        ours: tuple[type[Exception], ...] = (ClientError, Complaint)
        found = group.subgroup(ours)
        if found is None:
            raise
        first: BaseException = found
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise (Complaint(said(first)) if isinstance(first, ClientError) else first) from None


def said(error: ClientError) -> str:
    """An error of the client as one line: of what a broker says the first one, its parser's has a dozen."""
    from rmq_columns.shown import printable

    text, remark = str(error), getattr(error, "remark", "")
    return printable(text.replace(remark, remark.strip().partition("\n")[0].rstrip()) if remark else text)
