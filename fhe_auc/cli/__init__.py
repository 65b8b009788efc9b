"""The command line ``fhe-auc``: its commands, those of plug-ins, and how every error becomes one line and a status.

Exit status: 0 done; 1 the evaluation failed; 2 bad usage or bad input; 130 interrupted.

A package adds commands through the entry-point group ``fhe_auc.commands``: the entry point's name is the command's, its
value a `click.Command`. Errors that they raise are treated like those of the commands here.
"""

import gc
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from fhe_auc import __version__
from fhe_auc.base import plug_ins
from fhe_auc.base.errors import EvaluationError
from fhe_auc.cli import failures, output, settings
from fhe_auc.cli.settings import CommandGroup

GROUP = "fhe_auc.commands"  # entry-point group of plug-in commands

_SECTIONS = {
    "Evaluate": {
        "demo": "Compute an encrypted AUC on real data, and check it.",
        "evaluate": "Compute the AUC over the rows of several parties.",
        "report": "Write the report card of a classifier.",
        "calibrate": "Turn scores into probabilities.",
        "thresholds": "Find bin edges with about equally many rows between.",
        "plan": "Show the encryption parameters that fit, and why.",
        "protocols": "List the protocols, and what each one trusts.",
    },
    "Between machines": {
        "members": "Say who is in a consortium.",
        "join": "Take part in a consortium.",
        "keys": "Hand out a session's keys, and look after key stores.",
        "serve": "Play a role in all sessions of an exchange.",
        "status": "Tell whether all is well, and how sessions stand.",
        "session": "Make a study's sessions.",
        "pending": "Show what waits for a person, and say yes or no.",
        "fleet": "Evaluate on a fleet of devices, through files.",
        "audit": "Verify a role's audit trail, and show it.",
        "check": "Verify results that sites have signed.",
    },
    "Laboratory": {
        "attack": "Attack the encrypted protocols as somebody who lies.",
        "benchmark": "Measure what an evaluation costs, beside its peers.",
        "compare-protocols": "Compare protocols on your rows: error, cost, privacy.",
    },
}
"""What the help says of our commands, in its order: so that it need not load them."""

_FOREIGN = "Added by other packages"  # heading of all other commands, if there are any

_HERE = {*_SECTIONS["Evaluate"], "serve", "status"}
"""Commands that are no plug-ins: functions of their names, in modules of their names."""


class _BrokenCommand(click.Command):
    """Stands for a plug-in that does not load, so that the others still work and this one can say why."""

    def __init__(self, point: plug_ins.PlugIn, error: Exception) -> None:
        lax = {"ignore_unknown_options": True, "allow_extra_args": True}
        super().__init__(point.name, context_settings=lax, add_help_option=False, short_help="(does not load)")
        self.reason = f"command {point.name!r} ({point.value}) does not load: {type(error).__name__}: {error}"

    def invoke(self, ctx: click.Context) -> None:
        raise EvaluationError(f"{self.reason}; mend or remove the package that brings it")


class _Program(CommandGroup):
    """A group that loads a command when it is needed, and turns errors into one line and a status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*_HERE, *_plug_ins()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands:
            if cmd_name in _HERE:
                self.add_command(getattr(import_module(f"{__name__}.{cmd_name}"), cmd_name))
            elif point := _plug_ins().get(cmd_name):
                self.add_command(_load(point), cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        width = max(map(len, names))
        sections = {title: {name: texts[name] for name in texts if name in names} for title, texts in _SECTIONS.items()}
        foreign = sections[_FOREIGN] = {}
        for name in sorted(set(names).difference(*_SECTIONS.values())):
            if command := self.get_command(ctx, name):
                foreign[name] = command.get_short_help_str(formatter.width - 6 - width)
                if isinstance(command, _BrokenCommand):
                    output.print_warning(command.reason)
        for title, texts in sections.items():
            if texts:
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(width), text) for name, text in texts.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            super().invoke(ctx)
        except KeyboardInterrupt:
            raise failures.Interrupted from None  # before click prints an empty line

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        arguments, debug = _without_debug(sys.argv[1:] if args is None else args)
        as_json = "--json" in arguments[: arguments.index("--") if "--" in arguments else None]
        output.never_fail_to_write()
        try:
            status = super().main(arguments, prog_name or "fhe-auc", complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()  # here a full disk can still be told in one line
        except Exception as error:  # the outermost frame of the program: nobody above could say it better
            if not standalone_mode:
                raise
            status = failures.report(error, debug=debug, as_json=as_json)
        if not standalone_mode:
            return status
        gc.freeze()  # Python need not look for rings in what goes with the process
        sys.exit(status if isinstance(status, int) else 0)


def _plug_ins() -> dict[str, plug_ins.PlugIn]:
    return {point.name: point for point in plug_ins.installed(GROUP)}


def _load(point: plug_ins.PlugIn) -> click.Command:
    try:
        command = point.load()
        if not isinstance(command, click.Command):
            raise TypeError(f"expected a click.Command, got {type(command).__name__}")
    except Exception as error:  # whatever a foreign package raises on import must not take the others down
        return _BrokenCommand(point, error)
    return command


def _without_debug(args: Sequence[str]) -> tuple[list[str], bool]:
    """Take ``--debug`` out, wherever it stands before a ``--``: plug-ins' commands need not know of it."""
    end = args.index("--") if "--" in args else len(args)
    before = [argument for argument in args[:end] if argument != "--debug"]
    return [*before, *args[end:]], len(before) < end


@click.group(
    "fhe-auc",
    cls=_Program,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 110,
        "show_default": True,
        "auto_envvar_prefix": settings.PREFIX,
    },
    epilog=output.examples(
        "fhe-auc demo                               real data of 78 clinics, checked against the pooled rows",
        "fhe-auc evaluate north.csv south.csv       your own files, one a party",
        "fhe-auc evaluate --help                    what a command does, with examples",
    )
    + f"""

\b
Defaults: {settings.FILE} in this folder, variables as {settings.PREFIX}_EVALUATE_LABEL_COLUMN.
Completion in bash: eval "$(_FHE_AUC_COMPLETE=bash_source fhe-auc)"; also zsh, fish.
Exit status: 0 done, 1 evaluation failed, 2 bad usage or input, 130 interrupted.
""",
)
@click.version_option(__version__, message="%(prog)s %(version)s", allow_from_autoenv=False)
@click.option(
    "--debug", is_flag=True, allow_from_autoenv=False, help="On an error, print the traceback too. May stand anywhere."
)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help='Settings of a study, in TOML: label-column = "died" for all commands, in a table [evaluate] for one. '
    f"Default: {settings.FILE} in this folder, if it is there.",
)
def main(debug: bool, config: Path | None) -> None:
    """Tell how good a shared classifier is on everyone's data.

    Computes the AUC over the test rows of many parties on encrypted counts: nobody hands over a row, and the
    aggregator that adds everything up sees ciphertexts and one-time pads only.
    """
    # Both are declared for the help: `_Program.main` has taken --debug out, and `settings.give` reads --config.
