"""Options that several commands share: each decorates a command, which receives a keyword argument of its name.

`HEADINGS` says where each stands in the help of a `command`. Long stories are told by pages of the documents.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import pkgutil
import re
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from click.core import ParameterSource

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import require_writable
from fhe_auc.base.names import names_in
from fhe_auc.ckks import BACKENDS
from fhe_auc.cli import output
from fhe_auc.question import follow_up
from fhe_auc.question.analysis import DEFAULT_MIN_CELL, MOST_MIN_CELL, Analysis, Questions, levels_of
from fhe_auc.question.weights import weights_of
from fhe_auc.results.intervals import DEFAULT_LEVEL
from fhe_auc.rows.party_data import DEFAULT_SCALE, SCALES
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS, DEFAULT_MIN_ROWS, Setup

if TYPE_CHECKING:
    from fhe_auc.rows.party_data import PartyData
    from fhe_auc.rows.party_files import FileEntries


Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

HEADINGS = {
    "Options": (
        *("label_column", "score_column", "site_column", "score_columns", "by", "cluster", "interval", "thresholds"),
        *("asked_thresholds", "plot", "out", "protocol", "epsilon", "as_json"),
    ),
    "Input": ("query", "sheet", "positive_label", "drop_missing", "score_scale", "delimiter", "decimal", "encoding"),
    "Question": (
        *("classes", "cross_groups", "each_pair", "heterogeneity", "min_cell", "round_scores"),
        *("weight_column", "time_column", "event_column", "horizon", "time_grid"),
        *("cost_ratio", "alert_rate", "bootstrap"),
    ),
    "Output": ("brief", "costs", "title", "pdf", "table", "force"),
    "Trust and cryptography": ("keys", "epsilon_unit", "backend", "max_rows", "min_rows", "options", "flower"),
}
"""Headings of a command's help, and the options below each; those of one command alone stand below the first."""

PATH = click.Path(path_type=Path)
_WIDEST = 24  # characters of an option's name and value, beside which its help stands


class _Command(click.Command):
    """A command whose help has its options below `HEADINGS`, usual ones first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them."""
        options = (param for param in self.get_params(ctx) if isinstance(param, click.Option))
        lines = {param.name: line for param in options if (line := param.get_help_record(ctx))}
        below = {title: [lines.pop(name) for name in names if name in lines] for title, names in HEADINGS.items()}
        below["Options"] += lines.values()
        for title, rows in below.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=_WIDEST)


def command(*examples: str, name: str | None = None) -> Callable[[Callable[..., Any]], click.Command]:
    """Decorate a function that becomes a command, with example calls below its help."""
    return click.command(name, cls=_Command, epilog=output.examples(*examples))


def option(usage: str, about: str, *, name: str | None = None, **more: Any) -> Decorator:
    """Return an option of this usage, "--name VALUE", or "--name" for a flag; `about` is its help."""
    words = usage.split()
    value = None if words[-1].startswith("-") else words.pop()
    names = words if name is None else [*words, name]
    flag = value is None or None  # told that it is no flag, click takes a value that begins with "-" for an option
    return click.option(*names, metavar=value, is_flag=flag, help=about, **more)


def _text(usage: str, about: str, **more: Any) -> Decorator:
    return option(usage, about, default="", show_default=False, **more)


def gathered(name: str, make: Callable[..., Any] | str, *options: Decorator) -> Decorator:
    """Decorate a command: it takes these options, and receives what `make` makes of their values as one argument.

    The options have the names of its parameters. What takes long to load is given as ``"module:name"``.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_gathered(*args: Any, **values: Any) -> Any:
            made = pkgutil.resolve_name(make) if isinstance(make, str) else make
            own = {each: values.pop(each) for each in inspect.signature(made).parameters if each in values}
            return command(*args, **{name: made(**own)}, **values)

        decorated: Callable[..., Any] = with_gathered
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


@dataclass(frozen=True)
class PartyFiles:
    """The parties' files, and the names of the columns to read; without a site column each file is one party."""

    paths: tuple[str, ...]  # or databases' addresses, which a `Path` would change
    site_column: str | None
    label_column: str
    score_column: str
    entries: FileEntries

    @property
    def result(self) -> Path | None:
        """The one result of a session that is given in their place; `InputError` beside others; None: there is none."""
        found = [path for path in self.paths if path.lower().endswith(".json")]
        if found and len(self.paths) > 1:
            raise InputError(f"{found[0]!r} is a session's result: give it alone", file=found[0])
        return Path(found[0]) if found else None

    def read(self) -> list[PartyData]:
        """Read the parties; raise `InputError` as `fhe_auc.rows.party_files.read_for` does."""
        return self.read_for(Questions(score_columns=()))[0]

    def read_for(self, questions: Questions) -> tuple[list[PartyData], Analysis]:
        """Read the parties for these questions (no columns of scores: that of the files); errors as `read`."""
        from fhe_auc.rows.party_files import read_for

        if given("score_columns") and given("score_column"):
            raise InputError("--score-column and --score-columns contradict each other")
        if not questions.score_columns:
            questions = replace(questions, score_columns=(self.score_column,))
        try:
            return read_for(
                questions,
                self.paths,
                site_column=self.site_column,
                label_column=self.label_column,
                entries=self.entries,
            )
        except InputError as error:
            cut = (*questions.score_columns, *questions.by) if given("score_columns") else questions.by
            if error.column in cut and re.search('there is no column .*"', str(error)):  # a name that the table has
                told = "what has a comma or an equals sign of its own stands within quotes: --by '\"a, b\"'"
                raise InputError(f"{error}; {told}", column=error.column) from None
            if error.column == self.score_column and "," in self.score_column:
                raise InputError(f"{error}; --score-columns takes several columns", column=error.column) from None
            if given("by") or given("score_columns"):  # what stands behind a blank is taken for a file
                loose = [Path(path) for path in self.paths if str(Path(path)) == error.file]
                if loose and not loose[0].suffix and not loose[0].exists():
                    raise InputError(f"{error}; names of columns are joined by commas: A,B", file=error.file) from None
            raise


score_scale_option = option(
    "--score-scale SCALE",
    "Of scores: probability (default), logit, or percent.",
    type=click.Choice(SCALES),
    default=DEFAULT_SCALE,
    show_default=False,
)

text_options = gathered(
    "form",
    "fhe_auc.rows.csv_files:TextFormat",
    option("--delimiter CHAR", "Between columns. Default: , ; | or tab, what fits."),
    option("--decimal MARK", "Decimal mark of text: . or ,", type=click.Choice([".", ","]), default="."),
    option("--encoding NAME", "Of text: windows-1252, utf-16, …", default="utf-8"),
)

party_files = gathered(
    "files",
    PartyFiles,
    click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=str),
    option("--site-column NAME", "Column of each row's party. Default: a file each."),
    option("--label-column NAME", "Column of labels, 0 or 1.", default="y_true"),
    option("--score-column NAME", "Scores; label 1 has higher ones.", default="y_score"),
    gathered(
        "entries",
        "fhe_auc.rows.party_files:FileEntries",
        option("--query SELECT", "Rows of a database, where FILE is its address."),
        option("--sheet NAME", "Sheet of a workbook, where it has several."),
        option("--positive-label TEXT", "The label that counts as 1, where it is not 1."),
        option("--drop-missing", "Leave out rows with missing entries, not refuse."),
        score_scale_option,
        text_options,
    ),
)


def out_file_options(about: str) -> Decorator:
    """Decorate a command: it receives ``out``, a path, and ``force``; `about` is the help on ``--out``."""
    out = option("--out FILE", about, type=PATH, required=True)
    force = option("--force", "Overwrite it if it is there.")
    return lambda command: out(force(command))


def check_out_file(path: Path, *, force: bool, suffix: str | None = None) -> None:
    """Raise `InputError` where the file should not, or cannot, be written, before anything expensive starts."""
    if suffix is not None and path.suffix.lower() != suffix:
        raise InputError(f"file {str(path)!r}: its name must end in {suffix}", file=str(path))
    require_writable(path, "file")
    if os.path.lexists(path) and not force:
        raise InputError(f"file {str(path)!r} is there already; choose another --out, or say --force", file=str(path))


def whole_number(
    name: str, least: int, most: int | None = None, *, about: str, default: int | None = None
) -> Decorator:
    """Return an option that takes an integer from `least` to `most`; `about` is its help."""
    return option(f"{name} N", about, type=click.IntRange(least, most), default=default)


backend_option = option("--backend NAME", f"Encryption library: {' or '.join(BACKENDS)}.", type=click.Choice(BACKENDS))

setup_options = gathered(
    "setup",
    Setup,
    backend_option,
    option("--keys WHO", "Who decrypts: each party (sealed), or helper.", type=click.Choice(("sealed", "helper"))),
    whole_number("--max-rows", 2, default=DEFAULT_MAX_ROWS, about="Most rows in all; fewer need less upload."),
    whole_number("--min-rows", 2, default=DEFAULT_MIN_ROWS, about="Fewest rows for which CKKS must be precise."),
)
"""The command receives ``setup``."""


def _level(context: click.Context, parameter: click.Parameter, text: str) -> float | None:
    return None if text == "none" else click.FloatRange(0.5, 0.9999)(text, parameter, context)


interval_option = option("--interval LEVEL", "Confidence level, or none.", default=str(DEFAULT_LEVEL), callback=_level)
"""The command receives ``interval``, the level, or None for none."""


def _names(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[str, ...]:
    return () if text is None else names_in(text)


def _levels(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    try:
        return levels_of(values)
    except InputError as error:
        raise click.BadParameter(str(error)) from None


by_option = option(
    "--by A,B",
    "AUCs by group too, of columns of categories; A=LOW,MID,HIGH says which levels, and their order.",
    multiple=True,
    callback=_levels,
)
"""The command receives ``by``, a dict: levels of each variable, none where they are to be found."""

heterogeneity_option = option(
    "--heterogeneity", "How far sites differ, five at least: who knows all but three can work out these three's AUCs."
)

cluster_option = _text(
    "--cluster NAME",
    "Column of patient ids: patients are independent then, not rows; parties learn how many patients there are.",
)


def score_columns_option(about: str) -> Decorator:
    """Decorate a command: it receives ``score_columns``, names, none where there is one model; `about` is the help."""
    return option("--score-columns A,B", about, callback=_names)


def _follow_up(time_column: str, event_column: str, horizon: tuple[float, ...], time_grid: str) -> Any:
    event, codes = follow_up.events_of(event_column)
    labels = ["--" + name.replace("_", "-") for name in ("label_column", "positive_label") if given(name)]
    return follow_up.follow_up_of(
        time_column, event, horizon, time_grid, codes=codes, beside=" and ".join(labels), names=follow_up.OPTIONS
    )


def numbers(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[float, ...]:
    """Return the numbers of an option that may be given several times, with commas between them."""
    try:
        return tuple(float(number) for text in texts for number in text.split(","))
    except ValueError as error:
        raise click.BadParameter(f"{error}; give numbers, as in 0.05,0.1") from None


weight_options = (
    gathered(
        "weights",
        weights_of,
        _text("--weight-column N=M", "Column N of weights, none above M, which is public.", name="weight_column"),
    ),
    gathered(
        "follow_up",
        _follow_up,
        _text("--time-column NAME", "Column of follow-up times, in place of labels."),
        _text("--event-column NAME", "What ended them: 1 event, 0 censored; or NAME=2,1."),
        option("--horizon T,T", "Times by which events count.", multiple=True, callback=numbers),
        _text("--time-grid STEP", "Of times: days, weeks, months, or a number."),
    ),
)
"""The command receives ``weights`` and ``follow_up``."""

_QUESTIONS = (
    score_columns_option("Several models, each compared with the first."),
    by_option,
    option("--classes A,B,C", "Labels of several classes; --score-columns are theirs.", callback=_names),
    option("--cross-groups", "With --by: events of one group, others of another."),
    heterogeneity_option,
    cluster_option,
    option("--each-pair", "Compare each two models, not each with the first."),
    whole_number(
        *("--min-cell", 1, MOST_MIN_CELL), default=DEFAULT_MIN_CELL, about="Hide groups with fewer rows of a label."
    ),
)
question_options = gathered("questions", Questions, *_QUESTIONS)
weighed_question_options = gathered("questions", Questions, *_QUESTIONS, *weight_options)


def _parsed(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, bool | int | float | str]:
    """Return NAME=VALUE pairs, numbers as numbers, true and false as such."""
    found: dict[str, bool | int | float | str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise click.BadParameter(f"expected NAME=VALUE, got {text!r}")
        if name in found:
            raise click.BadParameter(f"{name!r} is given twice")
        found[name] = {"true": True, "false": False}.get(value.lower(), value)
        for kind in (float, int):
            with contextlib.suppress(ValueError):
                found[name] = kind(value)
    return found


protocol_options = option(
    "-o --option NAME=VALUE",
    "Of the protocol: see `fhe-auc protocols NAME`.",
    name="options",
    multiple=True,
    callback=_parsed,
)
"""The command receives ``options``, a dict."""


def given(name: str) -> bool:
    """Return whether the running command's parameter was given, or has its default."""
    source = click.get_current_context().get_parameter_source(name)
    return source not in (None, ParameterSource.DEFAULT)


def refuse_beside_a_result(known: Container[str]) -> None:
    """Raise `InputError` for an option of the running command, typed, that is not `known`: a result has set it."""
    context = click.get_current_context()
    for param in context.command.params:
        typed = context.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
        if param.param_type_name == "option" and param.name not in known and typed:
            raise InputError(f"{param.opts[0]} does not go with a session's result, which says what was asked")
