"""A group of commands: with defaults for their options, and help where none is named."""

from __future__ import annotations

import click

from fhe_auc.cli import defaults


class CommandGroup(click.Group):
    """A group of commands that, called without one, prints its help on stderr and ends with status 2."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Print the help where there is nothing to parse."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called, and give it its defaults."""
        name, command, rest = super().resolve_command(ctx, args)
        if ctx.resilient_parsing or name is None or command is None or isinstance(command, click.Group):
            return name, command, rest
        defaults.give(ctx, name, command, rest)
        return name, command, rest
