"""Options that several commands share, so that they are called and mean the same everywhere."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from fhe_auc.ckks import BACKENDS
from fhe_auc.errors import InputError
from fhe_auc.protocol import DEFAULT_MAX_ROWS, DEFAULT_MIN_ROWS
from fhe_auc.thresholds import MAX_PLACES

if TYPE_CHECKING:
    from fhe_auc.counts import PartyData


@dataclass(frozen=True)
class PartyFiles:
    """The parties' files and the columns to read, as given on the command line.

    Attributes
    ----------
    paths : tuple of Path
        ``.csv``, ``.parquet`` or ``.npz``.
    site_column : str or None
        Column that names the party of a row; None: each file is one party.
    label_column, score_column : str
        Names of the other two columns.
    """

    paths: tuple[Path, ...]
    site_column: str | None
    label_column: str
    score_column: str

    def read(self) -> list[PartyData]:
        """Read the parties; raise `InputError` as `fhe_auc.tables.read_parties` does."""
        from fhe_auc.tables import read_parties

        return read_parties(
            self.paths,
            site_column=self.site_column,
            label_column=self.label_column,
            score_column=self.score_column,
        )


def party_files(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command that takes FILE…: it receives one keyword argument ``files``, a `PartyFiles`."""

    @click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
    @click.option(
        "--site-column", metavar="NAME", help="Column that names each row's party. Default: each file is one party."
    )
    @click.option(
        "--label-column", metavar="NAME", default="y_true", show_default=True, help="Column of labels, 0 or 1."
    )
    @click.option(
        "--score-column",
        metavar="NAME",
        default="y_score",
        show_default=True,
        help="Column of the classifier's scores; higher means likelier 1.",
    )
    @functools.wraps(command)
    def with_files(
        *args: Any,
        paths: tuple[Path, ...],
        site_column: str | None,
        label_column: str,
        score_column: str,
        **options: Any,
    ) -> Any:
        return command(*args, files=PartyFiles(paths, site_column, label_column, score_column), **options)

    return with_files


protocol_option = click.option(
    "--protocol", metavar="NAME", default="semi-honest", show_default=True, help="See `fhe-auc protocols`."
)
"""Decorator: the command receives ``protocol``."""

thresholds_option = click.option(
    "--thresholds",
    metavar="SPEC",
    default="hybrid:1000",
    show_default=True,
    help="Decision points: hybrid:SIZE (dense near 0 and 1), uniform:SIZE, dpauc:SIZE (dense near 0), "
    "a .npy, .txt or .csv file of numbers; or quantile:SIZE, for which a session before finds points with about "
    "equally many rows between them: parties see the pooled scores, and everybody the points.",
)
"""Decorator: the command receives ``thresholds``, not yet parsed."""

backend_option = click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    help="Encryption library. Default: openfhe where it can be imported, else tenseal (of `plan`: both).",
)
"""Decorator: the command receives ``backend``, or None."""

release_digits_option = click.option(
    "--release-digits",
    metavar="N",
    type=click.IntRange(1, 6),
    help="Let the parties learn the AUC to N decimals only. Default: all.",
)
"""Decorator: the command receives ``release_digits``, or None."""

round_scores_option = click.option(
    "--round-scores",
    metavar="N",
    type=click.IntRange(1, MAX_PLACES),
    help="With --protocol exact or verified: parties round scores to N decimals (as numpy does, halves to the even "
    "digit), and every rounded score is a threshold, so that the AUC is exactly that of the rounded scores.",
)
"""Decorator: the command receives ``round_scores``, or None."""


def _parsed(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, int | float | str]:
    """Return NAME=VALUE pairs, numbers as numbers."""
    found: dict[str, int | float | str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise click.BadParameter(f"expected NAME=VALUE, got {text!r}")
        if name in found:
            raise click.BadParameter(f"{name!r} is given twice")
        found[name] = value
        for kind in (float, int):
            with contextlib.suppress(ValueError):
                found[name] = kind(value)
    return found


def given(name: str) -> bool:
    """Return whether the running command's parameter was given, or has its default."""
    return click.get_current_context().get_parameter_source(name) is not ParameterSource.DEFAULT


def with_flags(options: Mapping[str, int | float | str], **flags: int | float | None) -> dict[str, Any]:
    """Return the protocol's options, with those that have a flag of their own and were given.

    Raises
    ------
    InputError
        One is given twice.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    if twice := sorted(options.keys() & given):
        raise InputError(f"{twice[0]} is given twice, as --{twice[0].replace('_', '-')} and with -o")
    return {**options, **given}


protocol_options = click.option(
    "-o",
    "--option",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_parsed,
    help="An option of the protocol, such as executions=2 of malicious; `fhe-auc protocols` lists them.",
)
"""Decorator: the command receives ``options``, a dict."""


def key_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command: it receives ``keys`` and ``smudging_bits`` (None: the default)."""
    who = click.option(
        "--keys",
        type=click.Choice(("sealed", "joint")),
        default="sealed",
        show_default=True,
        help="Who can decrypt: each party, to which a key holder seals the secret key, or only all parties together.",
    )
    noise = click.option(
        "--smudging-bits",
        metavar="N",
        type=click.IntRange(30, 80),
        help="With joint keys: a party's noise on its partial decryption is 2^N times what it hides; in exact "
        "protocols that much at least. Default: 40.",
    )
    return who(noise(command))


min_parties_option = click.option(
    "--min-parties",
    metavar="N",
    type=click.IntRange(min=1),
    help="Go on without sites that do not answer, as long as N do. Default: all have to.",
)
"""Decorator: the command receives ``min_parties`` (None: all)."""


max_rows = click.option(
    "--max-rows",
    metavar="N",
    type=click.IntRange(min=2),
    default=DEFAULT_MAX_ROWS,
    show_default=True,
    help="Most rows of all parties together; beyond it the result may be refused.",
)
"""Decorator: the command receives ``max_rows``, a public bound on the pooled rows."""


def row_bounds(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command: it receives ``max_rows`` and ``min_rows``, public bounds on the pooled rows."""
    least = click.option(
        "--min-rows",
        metavar="N",
        type=click.IntRange(min=2),
        default=DEFAULT_MIN_ROWS,
        show_default=True,
        help="Fewest rows of all parties together for which the stated precision must hold. What is computed in "
        "integers holds for any.",
    )
    return max_rows(least(command))
