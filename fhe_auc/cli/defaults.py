"""Defaults of options from the environment and from a study's file of settings.

An option ``--label-column`` of ``fhe-auc evaluate`` takes its default from ``FHE_AUC_EVALUATE_LABEL_COLUMN``, else from
the file: ``label-column`` in its table ``[evaluate]``, else at its top, which is for every command that has the option.
The file is named with ``--config``, else it is ``fhe-auc.toml`` in the current folder, if that is there.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_toml
from fhe_auc.base.names import known_names
from fhe_auc.cli import output

PREFIX = "FHE_AUC"  # what names of variables begin with
FILE = "fhe-auc.toml"  # the file of settings that is read where it is there

WITHOUT_DEFAULT: Mapping[str, str] = {
    name: reason
    for reason, names in {
        "leads to a secret": ("passphrase_file",),
        "decides who is trusted with what": ("protocol", "model"),
        "says whom or what a person has checked and agreed to": (
            *("study", "holder", "aggregator", "helper"),
            *("compared", "yes", "no", "members_folder", "coordinators", "signatures"),
            *("acknowledge", "reconcile", "again"),
        ),
        "bounds what a result tells, or what noise protects": (
            *("min_cell", "min_parties", "heterogeneity", "cluster", "each_pair"),
            *("epsilon", "epsilons", "delta", "options", "limit", "row_cap", "no_proofs"),
        ),
        "makes randomness known": ("seed",),
        "lets somebody lie": ("cheat",),
        "overwrites files": ("force",),
        "gives a result up": ("lose_result",),
        "changes what the command does": ("stolen",),
        "is the caller's: programs rely on it": ("as_json", "brief"),
    }.items()
    for name in names
}
"""Options, by parameter, that have to be given where they are wanted, and why."""


def give(ctx: click.Context, name: str, command: click.Command, arguments: list[str]) -> None:
    """Give a command its defaults, and tell on stderr which it takes; `InputError` for names of no option of its."""
    options = _options(command)
    for option in options.values():
        if option.name in WITHOUT_DEFAULT or option.envvar is not None:
            option.allow_from_autoenv = False
    file = _file(ctx)
    values = {} if file is None else _values(file, ctx, name, options)
    ctx.default_map = {
        name: {options[key].name: _as_given(key, options[key], value, file) for key, value in values.items()}
    }
    below = click.Context(command, parent=ctx, info_name=name)
    _require_known_variables(below, options)
    told = []
    for key, option in options.items():
        if not any(argument.partition("=")[0] in option.opts for argument in arguments):
            if option.value_from_envvar(below) is not None:
                if option.envvar is None:  # one of the command's own is documented with it
                    told.append(f"--{key} ({_variable(below, option)})")
            elif key in values:
                told.append(f"--{key} ({file})")
    if told:
        output.print_line(f"defaults: {', '.join(told)}")


def _require_known_variables(ctx: click.Context, options: Mapping[str, click.Option]) -> None:
    """Raise `InputError` where a variable looks like a default of the command's and is none: it would be ignored."""
    beginning = f"{ctx.auto_envvar_prefix}_".upper()
    variables = {f"{beginning}{option.name}".upper(): option for option in options.values()}
    for found in sorted(each for each in os.environ if each.startswith(f"{PREFIX}_")):
        option, wanted = variables.get(found), beginning + found.removeprefix(f"{PREFIX}_")
        if option is not None and (reason := WITHOUT_DEFAULT.get(option.name or "")) is not None:
            raise InputError(
                f"variable {found}: {max(option.opts, key=len)} can only be given on the command line: it {reason}"
            )
        if found.startswith(beginning) and option is None:
            raise InputError(f"variable {found} is of no option of {ctx.info_name}{known_names(found, variables)}")
        if wanted in variables and variables[wanted].envvar is None:
            raise InputError(f"variable {found} is of no command; for {ctx.info_name} it is {wanted}")


def origin(ctx: click.Context, parameter: click.Parameter) -> str | None:
    """Return the variable or the file that a parameter's value comes from, None where it was given."""
    source = ctx.get_parameter_source(parameter.name or "")
    if source is ParameterSource.ENVIRONMENT and isinstance(parameter, click.Option):
        return _variable(ctx, parameter)
    return str(_file(ctx)) if source is ParameterSource.DEFAULT_MAP else None


def _variable(ctx: click.Context, option: click.Option) -> str:
    return str(option.envvar or f"{ctx.auto_envvar_prefix}_{option.name}".upper())


def _options(command: click.Command) -> dict[str, click.Option]:
    """Return a command's options by their long names, without the dashes."""
    return {
        max(option.opts, key=len).removeprefix("--"): option
        for option in command.params
        if isinstance(option, click.Option)
    }


def _file(ctx: click.Context) -> Path | None:
    named: Path | None = ctx.find_root().params.get("config")
    return named or (Path(FILE) if Path(FILE).is_file() else None)


def _wrong(file: Path | None, text: str) -> InputError:
    return InputError(f"settings file {str(file)!r}: {text}", file=str(file))


def _values(file: Path, ctx: click.Context, name: str, options: Mapping[str, click.Option]) -> dict[str, Any]:
    """Return what a file says of a command's options: at its top, and in the command's table, which goes first."""
    try:
        top = read_toml(file, dict[str, Any], "settings")
    except FileNotFoundError:
        raise InputError(f"settings file {str(file)!r} does not exist", file=str(file)) from None
    except OSError as error:
        raise InputError(f"settings file {str(file)!r} cannot be read: {error.strerror}", file=str(file)) from None
    shared, root = {key: value for key, value in top.items() if not isinstance(value, dict)}, ctx.find_root()
    own = {key: value for key, value in top.items() if key not in shared}
    _require_known(file, own, root)
    for key in shared.keys() - options.keys():
        if isinstance(root.command, click.Group) and key in root.command.list_commands(root):
            raise _wrong(file, f"{key!r} is a command: write [{key}]")
        if key not in (known := _every_option(root)):
            raise _wrong(file, f"{key!r} is no option of any command{known_names(key, known)}")
    for word in (*ctx.command_path.split()[1:], name):
        own = own.get(word, {})
    found = {**{key: value for key, value in shared.items() if key in options}, **own}
    for key in found:
        if (reason := WITHOUT_DEFAULT.get(options[key].name or "")) is not None:
            raise _wrong(file, f"--{key} can only be given on the command line: it {reason}")
    return found


def _below(ctx: click.Context, name: str) -> click.Context | None:
    """Return the context of a group's command of that name."""
    command = ctx.command.get_command(ctx, name) if isinstance(ctx.command, click.Group) else None
    return None if command is None else click.Context(command, parent=ctx, info_name=name)


def _require_known(file: Path, table: Mapping[str, Any], ctx: click.Context) -> None:
    """Raise `InputError` where a command's table has what is no option of it, or a group's what is no command."""
    known = _known(ctx)
    for key, value in table.items():
        if isinstance(ctx.command, click.Group) and not isinstance(value, dict):
            raise _wrong(file, f"in [{ctx.info_name}], {key!r} is no table of a command")
        if key not in known:
            what = "command" if isinstance(ctx.command, click.Group) else f"option of {ctx.info_name}"
            raise _wrong(file, f"{key!r} is no {what}{known_names(key, known)}")
        if (below := _below(ctx, key)) is not None:
            _require_known(file, value, below)


def _known(ctx: click.Context) -> list[str]:
    """Return a group's commands, or a command's options."""
    return ctx.command.list_commands(ctx) if isinstance(ctx.command, click.Group) else list(_options(ctx.command))


def _every_option(ctx: click.Context) -> list[str]:
    if not isinstance(ctx.command, click.Group):
        return _known(ctx)
    return sorted({option for name in _known(ctx) if (below := _below(ctx, name)) for option in _every_option(below)})


def _as_given(key: str, option: click.Option, value: Any, file: Path | None) -> Any:
    """Return a value as it would be given: a list of texts where an option may be repeated, else text with commas."""
    if option.is_flag != isinstance(value, bool):
        raise _wrong(file, f"{key} needs {'true or false' if option.is_flag else 'a value'}")
    if option.is_flag:
        return value
    texts = [str(each) for each in (value if isinstance(value, list) else [value])]
    return texts if option.multiple else ",".join(texts)


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
        if not (ctx.resilient_parsing or name is None or command is None or isinstance(command, click.Group)):
            give(ctx, name, command, rest)
        return name, command, rest
