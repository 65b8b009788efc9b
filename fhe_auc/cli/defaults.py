"""Defaults of options from the environment and from a study's file of settings.

An option ``--label-column`` of ``fhe-auc evaluate`` takes its default from ``FHE_AUC_EVALUATE_LABEL_COLUMN``, else from
the file: ``label-column`` in its table ``[evaluate]``, else at its top, which is for every command that has the option.
The file is named with ``--config``, else it is ``fhe-auc.toml`` in the current folder, if that is there.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
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
            *("study_file", "holder", "aggregator", "helper"),
            *("compared", "yes", "no", "members_folder", "coordinators", "signatures"),
        ),
        "bounds what a result tells, or what noise protects": (
            *("min_cell", "min_parties", "heterogeneity", "cluster", "each_pair"),
            *("epsilon", "epsilons", "delta", "options"),
        ),
        "makes randomness known": ("seed",),
        "lets somebody lie": ("cheat",),
        "overwrites files": ("force",),
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
    of_command = {PREFIX + variable.removeprefix(beginning[:-1]): variable for variable in variables}
    for found in sorted(os.environ):
        option = variables.get(found)
        if option is not None and (reason := WITHOUT_DEFAULT.get(option.name or "")) is not None:
            raise InputError(
                f"variable {found}: {max(option.opts, key=len)} can only be given on the command line: it {reason}"
            )
        if found.startswith(beginning) and option is None:
            raise InputError(f"variable {found} is of no option of {ctx.info_name}{known_names(found, variables)}")
        wanted = of_command.get(found)
        if wanted is not None and variables[wanted].envvar is None:
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
    own: Any = top
    for word in (*_words(ctx), name):
        own = own.get(word, {}) if isinstance(own, dict) else own
    if not isinstance(own, dict):
        raise _wrong(file, f"{name!r} is a command: write [{name}]")
    root = ctx.find_root()
    shared = {key: value for key, value in top.items() if not isinstance(value, dict)}
    _require_tables(file, root, {key: value for key, value in top.items() if key not in shared})
    if not shared.keys() <= options.keys():
        _require_known(file, shared, "option of any command", sorted(_every_option(root)))
    found = {**{key: value for key, value in shared.items() if key in options}, **own}
    for key in found:
        if (reason := WITHOUT_DEFAULT.get(options[key].name or "")) is not None:
            raise _wrong(file, f"--{key} can only be given on the command line: it {reason}")
    return found


def _require_tables(file: Path, group: click.Context, tables: Mapping[str, Any]) -> None:
    """Raise `InputError` where a table is of no command, or holds what is no option of its command."""
    below = dict(_commands(group, tables))
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise _wrong(file, f"in [{group.info_name}], {name!r} is no table of a command")
        if name not in below:
            _require_known(file, [name], "command", _names(group))
        elif isinstance(below[name].command, click.Group):
            _require_tables(file, below[name], table)
        else:
            _require_known(file, table, f"option of {name}", _options(below[name].command))


def _require_known(file: Path, keys: Iterable[str], what: str, known: Iterable[str]) -> None:
    names = list(known)
    for key in keys:
        if key not in names:
            raise _wrong(file, f"{key!r} is no {what}{known_names(key, names)}")


def _names(group: click.Context) -> list[str]:
    return group.command.list_commands(group) if isinstance(group.command, click.Group) else []


def _commands(group: click.Context, names: Iterable[str]) -> Iterator[tuple[str, click.Context]]:
    """Return those of these commands that a group has, by name."""
    for name in names:
        if isinstance(group.command, click.Group) and (command := group.command.get_command(group, name)) is not None:
            yield name, click.Context(command, parent=group, info_name=name)


def _every_option(ctx: click.Context) -> set[str]:
    return set(_options(ctx.command)).union(*(_every_option(each) for _, each in _commands(ctx, _names(ctx))))


def _words(ctx: click.Context) -> list[str]:
    return [] if ctx.parent is None else [*_words(ctx.parent), ctx.info_name or ""]


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
