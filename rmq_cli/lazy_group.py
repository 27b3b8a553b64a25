"""A command whose subcommands are imported when they are asked for, and not to be listed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import ClassVar

import click


class LazyGroup(click.Group):
    """`lines`: name of a subcommand -> the line that `--help` shows of it."""

    lines: ClassVar[Mapping[str, str]]

    def place(self, name: str) -> tuple[str, str]:
        """The module of this room that has a subcommand, and its name there."""
        raise NotImplementedError

    def line_of(self, name: str) -> str:
        """What `--help` shows of it."""
        return self.lines[name]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lines)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.lines:
            return None
        module, own = self.place(name)
        command = getattr(importlib.import_module(f"rmq_cli.{module}"), own)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.line_of(name)) for name in self.lines])
