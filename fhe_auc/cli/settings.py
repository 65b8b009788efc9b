"""Defaults of options from variables and from a study's file of settings; click looks them up, this says where.

An option ``--label-column`` of ``fhe-auc evaluate`` takes its default from ``FHE_AUC_EVALUATE_LABEL_COLUMN``
(`click.Context.auto_envvar_prefix`), else from the file (`click.Context.default_map`): ``label-column`` in its table
``[evaluate]``, else at its top, which is for every command that has the option. The file is named with ``--config``,
else it is ``fhe-auc.toml`` in the current folder, if that is there.
"""

import os
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from fhe_auc.base.errors import InputError
from fhe_auc.base.names import known_names, quoted
from fhe_auc.cli import output

PREFIX = "FHE_AUC"  # what names of variables begin with
FILE = "fhe-auc.toml"  # the file of settings that is read where it is there

WITHOUT_DEFAULT = {
    name: reason
    for reason, names in {
        "leads to a secret": ("passphrase_file",),
        "decides who is trusted with what": ("protocol", "keys", "role"),
        "says whom or what a person has checked and agreed to": (
            *("study", "holder", "fleet"),
            *("compared", "yes", "no", "members_folder", "coordinators", "signatures"),
            *("acknowledge", "reconcile", "who", "again"),
        ),
        "bounds what a result tells, or what noise protects": (
            *("min_cell", "heterogeneity", "cluster", "each_pair"),
            *("epsilon", "epsilon_unit", "epsilons", "delta", "options", "limit", "row_cap", "no_proofs"),
        ),
        "makes randomness known": ("seed",),
        "lets somebody lie": ("cheat",),
        "overwrites files": ("force",),
        "gives a result up": ("lose_result", "nothing"),
        "changes what the command does": ("stolen", "flower", "check"),
        "is the caller's: programs rely on it": ("as_json", "brief"),
    }.items()
    for name in names
}
"""Options, by parameter, that have to be given where they are wanted, and why."""


def give(ctx: click.Context, name: str, command: click.Command, arguments: list[str]) -> None:
    """Give a command its defaults, and tell on stderr which it takes; `InputError` for what is no option, or may not.

    `ctx` is of the group that the command is in, and `arguments` are those of the command.
    """
    options = _options(command)
    below = click.Context(command, parent=ctx, info_name=name)
    for option in options.values():
        if option.name in WITHOUT_DEFAULT or option.envvar is not None:
            option.allow_from_autoenv = False
    _require_known_variables(below, {_variable(below, option, own=False): option for option in options.values()})
    file = _file(ctx)
    values = {} if file is None else _values(file, ctx, name, options)
    ctx.default_map = {name: {options[key].name: _as_given(options[key], value) for key, value in values.items()}}
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


def origin(ctx: click.Context, parameter: click.Parameter) -> str | None:
    """Return the variable or the file that a parameter's value comes from, None where it was given."""
    source = ctx.get_parameter_source(parameter.name or "")
    if source is ParameterSource.ENVIRONMENT and isinstance(parameter, click.Option):
        return _variable(ctx, parameter)
    return str(_file(ctx)) if source is ParameterSource.DEFAULT_MAP else None


def _long(option: click.Option) -> str:
    return max(option.opts, key=len).removeprefix("--")


def _variable(ctx: click.Context, option: click.Option, *, own: bool = True) -> str:
    return str((own and option.envvar) or f"{ctx.auto_envvar_prefix}_{option.name}".upper())


def _require_known_variables(ctx: click.Context, variables: dict[str, click.Option]) -> None:
    """Raise `InputError` where a variable looks like a default of the command's and is none: it would be ignored."""
    beginning = f"{ctx.auto_envvar_prefix}_".upper()
    for name in sorted(each for each in os.environ if each.startswith(f"{PREFIX}_")):
        option, wanted = variables.get(name), beginning + name.removeprefix(f"{PREFIX}_")
        if option is not None and (reason := WITHOUT_DEFAULT.get(option.name or "")):
            raise InputError(f"variable {name}: --{_long(option)} can only be given on the command line: it {reason}")
        if name.startswith(beginning) and option is None:
            raise InputError(f"variable {name} is of no option of {ctx.info_name}{known_names(name, variables)}")
        if wanted in variables and variables[wanted].envvar is None:
            raise InputError(f"variable {name} is of no command; for {ctx.info_name} it is {wanted}")


def _file(ctx: click.Context) -> Path | None:
    named: Path | None = ctx.find_root().params.get("config")
    return named or (Path(FILE) if Path(FILE).is_file() else None)


def _values(file: Path, ctx: click.Context, name: str, options: dict[str, click.Option]) -> dict[str, Any]:
    """Return what a file says of a command's options: at its top, and in the command's table, which goes first."""
    from fhe_auc.base.files import read_toml

    try:
        table = read_toml(file, dict[str, Any], "settings")
    except OSError as error:
        why = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise InputError(f"settings file {str(file)!r} {why}", file=str(file)) from None
    root, levels = ctx.find_root(), [ctx]
    while levels[0].parent is not None:
        levels.insert(0, levels[0].parent)
    shared = {key: value for key, value in table.items() if not isinstance(value, dict)}
    for level, word in zip(levels, (*ctx.command_path.split()[1:], name), strict=True):
        commands = level.command.list_commands(level) if isinstance(level.command, click.Group) else []
        for key, value in table.items():
            if level is root and key in shared and (key in options or key in _options_below(root)):
                continue  # thresholds and keys are commands, and options of others
            if key in commands and not isinstance(value, dict):
                raise _wrong(file, f"{key!r} is a command: write [{'.'.join((*level.command_path.split()[1:], key))}]")
            if key not in commands and (isinstance(value, dict) or level is not root):
                raise _wrong(file, f"{key!r} is no command{known_names(key, commands)}")
        table = own if isinstance(own := table.get(word), dict) else {}
    for key in shared.keys() - options.keys():
        if key not in (known := sorted(_options_below(root))):  # all commands are loaded for this
            raise _wrong(file, f"{key!r} is no option of any command{known_names(key, known)}")
    for key in table:
        if key not in options:
            raise _wrong(file, f"{key!r} is no option of {name}{known_names(key, options)}")
    found = {key: value for key, value in shared.items() if key in options} | table
    for key in [key for key in found if options[key].name in WITHOUT_DEFAULT]:
        if key not in table and key in _options_below(root, with_default=True):
            del found[key]  # it is meant for others: --by of evaluate, not of keys budget
    for key in found:
        if reason := WITHOUT_DEFAULT.get(options[key].name or ""):
            raise _wrong(file, f"--{key} can only be given on the command line: it {reason}")
    return found


def _wrong(file: Path, text: str) -> InputError:
    return InputError(f"settings file {str(file)!r}: {text}", file=str(file))


def _options(command: click.Command) -> dict[str, click.Option]:
    """Return a command's options by their long names, without the dashes."""
    return {_long(option): option for option in command.params if isinstance(option, click.Option)}


def _options_below(ctx: click.Context, *, with_default: bool = False) -> set[str]:
    """Return the options of all commands of a group, or those that may have a default."""
    if not isinstance(ctx.command, click.Group):
        options = _options(ctx.command).items()
        return {name for name, option in options if not (with_default and option.name in WITHOUT_DEFAULT)}
    below = ((name, ctx.command.get_command(ctx, name)) for name in ctx.command.list_commands(ctx))
    contexts = (click.Context(command, parent=ctx, info_name=name) for name, command in below if command)
    return set().union(*(_options_below(each, with_default=with_default) for each in contexts))


def _as_given(option: click.Option, value: Any) -> Any:
    """Return a value as it would be given: a list of texts where an option may be repeated, else text with commas."""
    texts = [str(each) for each in (value if isinstance(value, list) else [value])]
    if option.multiple:
        return texts
    return ",".join(map(quoted, texts) if isinstance(value, list) else texts)


class CommandGroup(click.Group):
    """A group of commands, in the order of their use; called without one it prints its help and ends with status 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return their names."""
        return list(self.commands)

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
