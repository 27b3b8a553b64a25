"""What of a topic is read, and how it is shown: the options that `rmq tail` and `rmq consume` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from rmq_cli.client_options import F, gathered
from rmq_cli.message_lines import Where, where

if TYPE_CHECKING:
    from rmq_client.consuming.subscriptions import Subscription


FROM_HELP: Final = "`end`, `start`, or a time as `rmq inspect` takes it."


class Reading(NamedTuple):
    """As it was said."""

    topic: str
    begin: str
    offset: int | None
    tags: str | None
    sql: str | None
    most: int | None
    no_follow: bool
    as_json: bool

    @property
    def first(self) -> Where:
        """Where it begins.  Raises `click.UsageError`."""
        return where(self.begin, self.offset)

    @property
    def subscription(self) -> Subscription:
        """What is wanted.  Raises `click.UsageError`."""
        from rmq_client.consuming.subscriptions import SQL92, Subscription
        from rmq_client.errors import CallerError

        if self.sql is not None and self.tags is not None:
            raise click.UsageError("--sql or --tags, not both: in SQL a tag is TAGS = 'A'")
        try:
            if self.sql is not None:
                return Subscription(self.sql, SQL92)
            return Subscription() if self.tags is None else Subscription(self.tags)
        except CallerError as wrong:
            raise click.UsageError(str(wrong)) from None


def reading_options(*, note: str = "") -> Callable[[F], F]:
    """Adds topic and options; the command gets them as `reading`.  note: after the text of what goes without a group alone."""
    options = (
        click.argument("topic"),
        click.option(
            "--from", "begin", default="end", show_default=True, help="`end`, `start`, or a time as `rmq inspect` takes it."
        ),
        click.option("--offset", type=click.IntRange(min=0), help=f"From this number in each queue on, instead{note}."),
        click.option("-t", "--tags", help="Only these, as `A || B`.  [default: *]"),
        click.option("--sql", help="Only what this selects, as `price > 10`."),
        click.option("-c", "--count", "most", type=click.IntRange(min=1), help="End after so many messages."),
        click.option("--no-follow", is_flag=True, help=f"End where the topic ends now{note}."),
        click.option("--json", "as_json", is_flag=True, help="A JSON object for each message, a line each."),
    )
    return lambda function: gathered(function, "reading", Reading, options)
