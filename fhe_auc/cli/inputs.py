"""Options that several commands share: each decorates a command, which receives a keyword argument of its name."""

from __future__ import annotations

import contextlib
import functools
import os
import pkgutil
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from click.core import ParameterSource

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import require_writable
from fhe_auc.ckks import BACKENDS
from fhe_auc.question.analysis import DEFAULT_MIN_CELL, MOST_MIN_CELL, Analysis, Questions, levels_of, names_in
from fhe_auc.results.intervals import DEFAULT_LEVEL
from fhe_auc.rows.party_data import DEFAULT_SCALE, SCALES
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS

if TYPE_CHECKING:
    from fhe_auc.rows.party_data import PartyData
    from fhe_auc.rows.party_files import FileEntries


Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class PartyFiles:
    """The parties' files, and the names of the columns to read; without a site column each file is one party."""

    paths: tuple[Path, ...]  # ``.csv``, ``.parquet`` or ``.npz``
    site_column: str | None
    label_column: str
    score_column: str
    entries: FileEntries

    @property
    def result(self) -> Path | None:
        """The one result of a session that is given in their place; `InputError` beside others; None: there is none."""
        found = [path for path in self.paths if path.suffix.lower() == ".json"]
        if found and len(self.paths) > 1:
            raise InputError(f"{str(found[0])!r} is a session's result: give it alone", file=str(found[0]))
        return found[0] if found else None

    def read(self) -> list[PartyData]:
        """Read the parties; raise `InputError` as `fhe_auc.rows.party_files.read_for` does."""
        return self.read_for(Questions(score_columns=()))[0]

    def read_for(self, questions: Questions) -> tuple[list[PartyData], Analysis]:
        """Read the parties for these questions (no columns of scores: that of the files); errors as `read`."""
        from fhe_auc.rows.party_files import read_for

        if questions.score_columns and given("score_column"):
            raise InputError("--score-column and --score-columns contradict each other")
        if not questions.score_columns:
            questions = replace(questions, score_columns=(self.score_column,))
        return read_for(
            questions, self.paths, site_column=self.site_column, label_column=self.label_column, entries=self.entries
        )


def gathered(name: str, kind: type | str, *options: Decorator) -> Decorator:
    """Decorate a command: it takes these options, and receives their values as one argument, of the class `kind`.

    The options have the names of its fields. A class that takes long to load is given as ``"module:Class"``.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_gathered(*args: Any, **values: Any) -> Any:
            made = pkgutil.resolve_name(kind) if isinstance(kind, str) else kind
            own = {each.name: values.pop(each.name) for each in fields(made) if each.name in values}
            return command(*args, **{name: made(**own)}, **values)

        decorated: Callable[..., Any] = with_gathered
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


score_scale_option = click.option(
    "--score-scale",
    type=click.Choice(SCALES),
    default=DEFAULT_SCALE,
    help="What scores are. Logits (log-odds) and percentages are turned into probabilities, which calibration needs; "
    "AUCs are of any numbers.",
)

text_options = gathered(
    "form",
    "fhe_auc.rows.csv_files:TextFormat",
    click.option(
        "--delimiter", metavar="CHAR", help="Between columns of text files. Default: , ; | or tab, whichever fits."
    ),
    click.option(
        "--decimal", type=click.Choice([".", ","]), default=".", help="Decimal mark of numbers in text files."
    ),
    click.option("--encoding", metavar="NAME", default="utf-8", help="Of text files: windows-1252, utf-16, …"),
)

entry_options = gathered(
    "entries",
    "fhe_auc.rows.party_files:FileEntries",
    click.option(
        "--positive-label", metavar="TEXT", help="The label that counts as 1, where labels are not 0 and 1: yes, say."
    ),
    click.option(
        "--drop-missing", is_flag=True, help="Leave out rows with a missing entry, and say how many. Default: refuse."
    ),
    score_scale_option,
    text_options,
)

party_files = gathered(
    "files",
    PartyFiles,
    click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)),
    click.option(
        "--site-column", metavar="NAME", help="Column that names each row's party. Default: each file is one party."
    ),
    click.option("--label-column", metavar="NAME", default="y_true", help="Column of labels, 0 or 1."),
    click.option(
        "--score-column",
        metavar="NAME",
        default="y_score",
        help="Column of the classifier's scores; higher means likelier 1.",
    ),
    entry_options,
)


def out_file_options(about: str) -> Decorator:
    """Decorate a command: it receives ``out``, a path, and ``force``; `about` is the help on ``--out``."""
    out = click.option("--out", metavar="FILE", type=click.Path(path_type=Path), required=True, help=about)
    force = click.option("--force", is_flag=True, help="Overwrite it if it is there.")
    return lambda command: out(force(command))


def plot_option(about: str) -> Decorator:
    """Decorate a command: it receives ``plot``, a path; `about` is what is drawn."""
    return click.option(
        "--plot", metavar="FILE", type=click.Path(path_type=Path), help=f"Save {about}: .png, .pdf or .svg."
    )


def check_out_file(path: Path, *, force: bool) -> None:
    """Raise `InputError` where the file should not, or cannot, be written, before anything expensive starts."""
    require_writable(path, "file")
    if os.path.lexists(path) and not force:
        raise InputError(f"file {str(path)!r} is there already; choose another --out, or say --force", file=str(path))


def whole_number(
    name: str, least: int, most: int | None = None, *, about: str, default: int | None = None
) -> Decorator:
    """Return an option that takes an integer from `least` to `most`; `about` is its help."""
    return click.option(name, metavar="N", type=click.IntRange(least, most), default=default, help=about)


backend_option = click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    help="Encryption library. Default: openfhe where it can be imported, else tenseal (of `plan`: both).",
)

max_rows_option = whole_number(
    "--max-rows",
    2,
    default=DEFAULT_MAX_ROWS,
    about="Most rows of all parties together; more are refused. Intervals of up to 196,607 rows "
    "(two models: 24,575) take 40 to 50 % less upload than those of more.",
)

setup_options = (
    backend_option,
    click.option(
        "--keys",
        type=click.Choice(("sealed", "helper")),
        help="Who can decrypt: each party, to which a key holder seals the secret key (default); or a helper in their "
        "place, which --epsilon needs.",
    ),
    max_rows_option,
)
"""For `gathered`, as a `fhe_auc.session.protocol.Setup`."""

min_parties_option = whole_number(
    "--min-parties",
    1,
    about="Go on without sites that do not answer, as long as N do: of exact, verified and histograms with a helper. "
    "Default: all have to.",
)


def interval_options(about: str, about_none: str) -> Decorator:
    """Decorate a command: it receives ``interval``, the level, or None for none; the texts are the options' help."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--interval", type=click.FloatRange(0.5, 0.9999), default=DEFAULT_LEVEL, help=about)
        @click.option("--no-interval", is_flag=True, help=about_none)
        @functools.wraps(command)
        def with_interval(*args: Any, interval: float, no_interval: bool, **others: Any) -> Any:
            if no_interval and given("interval"):
                raise InputError("--interval and --no-interval contradict each other")
            return command(*args, interval=None if no_interval else interval, **others)

        return with_interval

    return decorate


def _names(text: str | None) -> tuple[str, ...]:
    return () if text is None else names_in(text)


def _levels(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    try:
        return levels_of(values)
    except InputError as error:
        raise click.BadParameter(str(error)) from None


by_option = click.option(
    "--by",
    metavar="NAME[=LEVEL,LEVEL]",
    multiple=True,
    callback=_levels,
    help="AUCs for groups of rows too: by each level of this column (also NAME,NAME, or several times). Levels are "
    "public; between machines all are named. Categories only: cut numbers into bands first.",
)
"""The command receives ``by``, a dict: levels of each variable, none where they are to be found."""

heterogeneity_option = click.option(
    "--heterogeneity",
    is_flag=True,
    help="Also how far sites differ: the AUC within sites, and the prediction interval of a new one. Five parties at "
    "least. Parties learn sums over all sites: who knows all but three can work out these three's AUCs.",
)

cluster_option = click.option(
    "--cluster",
    metavar="NAME",
    default="",
    help="Column that names each row's patient, where patients have several rows, all of one site: intervals and p "
    "then take patients as independent, not rows (Obuchowski 1997). Parties learn how many patients there are.",
)


def score_columns_option(about: str) -> Decorator:
    """Decorate a command: it receives ``score_columns``, names, none where there is one model; `about` is the help."""
    return click.option(
        "--score-columns", metavar="NAME,NAME", callback=lambda ctx, param, value: _names(value), help=about
    )


question_options = gathered(
    "questions",
    Questions,
    score_columns_option(
        "Columns of several models' scores. Further models are compared with the first one (paired DeLong)."
    ),
    by_option,
    click.option(
        "--classes",
        metavar="NAME,NAME,NAME",
        callback=lambda ctx, param, value: _names(value),
        help="Labels, where there are three or more; --score-columns then are those of the classes, in this order. "
        "Each class from the others, pairs, and their average (Hand and Till).",
    ),
    click.option(
        "--cross-groups", is_flag=True, help="With --by: positives of each group from negatives of each other (xAUC)."
    ),
    heterogeneity_option,
    cluster_option,
    click.option("--each-pair", is_flag=True, help="Compare each model with each other one, not with the first alone."),
    whole_number(
        "--min-cell",
        1,
        MOST_MIN_CELL,
        default=DEFAULT_MIN_CELL,
        about="Groups with fewer positive or negative rows are not shown; 1 shows all.",
    ),
)


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


protocol_options = click.option(
    "-o",
    "--option",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_parsed,
    help="An option of the protocol, such as tolerance=1e-5 of malicious; `fhe-auc protocols NAME` lists them.",
)
"""The command receives ``options``, a dict."""


def given(name: str) -> bool:
    """Return whether the running command's parameter was given, or has its default."""
    return click.get_current_context().get_parameter_source(name) is not ParameterSource.DEFAULT


def refuse_beside_a_result(known: Container[str]) -> None:
    """Raise `InputError` for an option of the running command, typed, that is not `known`: a result has set it."""
    context = click.get_current_context()
    for param in context.command.params:
        typed = context.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
        if param.param_type_name == "option" and param.name not in known and typed:
            raise InputError(f"{param.opts[0]} does not go with a session's result, which says what was asked")


def with_flags(options: Mapping[str, int | float | str], **flags: int | float | str | None) -> dict[str, Any]:
    """Return the protocol's options with flags of their own that were given; raise `InputError` for one given twice."""
    set_by_flag = {name: value for name, value in flags.items() if value is not None}
    if twice := sorted(options.keys() & set_by_flag):
        raise InputError(f"{twice[0]} is given twice, as --{twice[0].replace('_', '-')} and with -o")
    return {**options, **set_by_flag}
