"""``fhe-auc ustat``: a statistic of pairs of rows under local differential privacy."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fhe_auc.base.extras import require
from fhe_auc.cli import inputs, output

if TYPE_CHECKING:
    from fhe_auc.rows.party_data import PartyData
    from fhe_auc.rows.party_files import Entries
    from fhe_auc_protocols.u_statistics.kernels import Floats
    from fhe_auc_protocols.u_statistics.statistics import UStatisticResult

_OPENDP = ("pairs", "ideal-laplace")  # method and step whose noise it draws

_MEANING = {
    "kendall": "Kendall's tau-a: ties count 0",
    "gini": "Gini's mean difference",
    "renyi2": "collision probability: two rows are equal",
    "auc": "area under the ROC curve, ties half",
}
_BOUND = {
    "krr": "by theorem 1, whatever the data",
    "hierarchy": "by theorem 3's formula; levels are nearly independent, as it asks",
    "pairs": "by theorem 5, whatever the data",
}
_DERIVED = {"tau_b": "Kendall's tau-b, ties left out", "entropy": "Rényi's entropy of order 2, in nats"}


def _numbers(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[float, ...], ...]:
    try:
        return tuple(tuple(float(entry) for entry in text.split(",")) for text in texts)
    except ValueError:
        raise click.BadParameter(f"expected numbers with commas between, got {', '.join(map(repr, texts))}") from None


@click.command(
    epilog=output.examples(
        "fhe-auc ustat ratings.csv --statistic kendall --column room --column clean --values 0,1,2,3,4,5 --epsilon 1",
        "fhe-auc ustat income.parquet --statistic gini --column euro --range 0 200000 --epsilon 2",
        "fhe-auc ustat income.parquet --statistic gini --column euro --range 0 200000 --epsilon 2 --method pairs",
        "fhe-auc ustat visits.csv --statistic renyi2 --column ward --values 1,2,3,4,5,6,7 --epsilon 1",
        "fhe-auc ustat north.csv south.csv --statistic auc --method hierarchy --alpha 10 --epsilon 4 --json",
    )
)
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--statistic", type=click.Choice(tuple(_MEANING)), required=True, help="What to estimate, over all pairs of rows."
)
@click.option(
    "--method",
    type=click.Choice(("krr", "hierarchy", "pairs")),
    default="krr",
    help="krr: randomised response; hierarchy: one-bit reports, AUC only; pairs: a two-party step of two users.",
)
@click.option("--epsilon", metavar="E", type=float, required=True, help="Privacy budget of a row, 0.000001 to 32.")
@click.option(
    "--column", "columns", metavar="NAME", multiple=True, help="Column of numbers; kendall takes two. Not for auc."
)
@click.option("--label-column", metavar="NAME", default="y_true", help="For auc: labels, 0 or 1.")
@click.option("--score-column", metavar="NAME", default="y_score", help="For auc: scores.")
@inputs.entry_options
@click.option(
    "--values",
    metavar="A,B,...",
    multiple=True,
    callback=_numbers,
    help="All values that a row may have, ascending; once, or for each column. Public: not taken from the files.",
)
@click.option(
    "--range",
    "ranges",
    metavar="LOW HIGH",
    nargs=2,
    type=float,
    multiple=True,
    help="Instead of values; what lies outside is moved to an end. Default for auc: 0 1.",
)
@click.option(
    "--bins", metavar="K", type=click.IntRange(min=2), help="krr: bins of a range. Default: by the rule of the paper."
)
@click.option("--alpha", metavar="N", type=click.IntRange(min=1), help="hierarchy: 2^N bins of the range. Default: 10.")
@click.option(
    "--pairings", metavar="P", type=click.IntRange(min=1), help="pairs: random pairings, fewer than rows. Default: 1."
)
@click.option(
    "--step",
    type=click.Choice(("ideal-laplace", "bfv")),
    default="ideal-laplace",
    help="pairs: simulate the two-party step, or run it on BFV ciphertexts (slow; needs --values).",
)
@click.option(
    "--exact", is_flag=True, help="Print the value without noise beside it, and so give up the rows' privacy."
)
@click.option("--seed", metavar="N", type=click.IntRange(min=0), help="Repeat with it; then nothing is private.")
@output.json_option
def ustat(
    paths: tuple[Path, ...],
    columns: tuple[str, ...],
    label_column: str,
    score_column: str,
    entries: Entries,
    exact: bool,
    seed: int | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Estimate a statistic of pairs of rows; each row is a user who trusts nobody with it.

    Every row of the files is randomised as its user's device would do it, and the statistic is estimated from the
    reports: local differential privacy (Bell, Bellet, Gascón, Kulkarni, AISTATS 2020). Labels of auc are public. To
    evaluate across sites, see the protocols ustat-krr and ustat-hierarchy of `fhe-auc evaluate`.
    """
    from fhe_auc.base.errors import InputError
    from fhe_auc_protocols.u_statistics.statistics import RandomSources, Setting, run, without_noise

    setting = Setting(**chosen)  # the other options are its fields
    if seed is not None and setting.step == "bfv":
        raise InputError("step bfv draws from the operating system only: leave out --seed")
    if (exact and setting.name == "kendall") or (seed is None and (setting.method, setting.step) == _OPENDP):
        require("dp")
    rows = _rows(paths, setting.name, columns, label_column, score_column, entries)
    using = RandomSources.secure() if seed is None else RandomSources.seeded_experiment(seed)
    with output.progress("Users") as report:
        result = run(setting, rows, using, lambda done, total: report("reports", done, total))
    truth = without_noise(setting.name, rows) if exact else {}
    if seed is not None:
        output.print_warning("--seed is for experiments: with known randomness nothing is private")
    if exact:
        output.print_warning("--exact prints a value without noise: it is not private")
    if as_json:
        output.print_json({**asdict(result), **({"exact": truth} if exact else {})})
        return
    _print(result, truth)


def _rows(
    paths: tuple[Path, ...],
    statistic: str,
    columns: tuple[str, ...],
    label_column: str,
    score_column: str,
    entries: Entries,
) -> Floats:
    import numpy as np

    from fhe_auc.base.errors import InputError
    from fhe_auc.rows.party_files import read_columns, read_parties

    if statistic == "auc":
        if columns:
            raise InputError("--column is not for auc: name --label-column and --score-column")
        parties: list[PartyData] = read_parties(
            paths, label_column=label_column, score_column=score_column, entries=entries
        )
        if dropped := sum(data.dropped for data in parties):
            output.print_warning(f"{dropped:,} rows with a missing entry were left out")
        return np.concatenate([np.stack([data.y_score, data.y_true], axis=1) for data in parties])
    for name in ("positive_label", "drop_missing", "score_scale"):
        if inputs.given(name):
            raise InputError(f"--{name.replace('_', '-')} is for auc")
    wanted = 2 if statistic == "kendall" else 1
    if len(columns) != wanted:
        raise InputError(f"{statistic} takes {wanted} of --column, got {len(columns)}")
    return read_columns(paths, columns, entries.form)


def _print(result: UStatisticResult, truth: dict[str, float]) -> None:
    rows: list[tuple[output.Cell, ...]] = [
        (
            output.styled(result.statistic, "bold"),
            output.styled(f"{result.estimate:.6g}", "bold"),
            f"{_MEANING[result.statistic]}; standard error about {result.standard_error:.2g}",
        ),
        *((f"  {name}", f"{value:.6g}", _DERIVED[name]) for name, value in result.derived.items()),
    ]
    rows += [(f"  exact {name}", f"{value:.6g}", "without noise: not private") for name, value in truth.items()]
    rows += [
        ("users", f"{result.users:,}", "rows of the files"),
        ("method", result.method, ", ".join(f"{name} {_short(value)}" for name, value in result.settings.items())),
        ("epsilon", f"{result.epsilon:g}", "privacy budget of one row, spent by this run"),
    ]
    if not math.isnan(result.error_bound):
        bound = f"root mean squared error {_BOUND[result.method]}"
        if "undecided by bins" in result.settings:
            bound += "; with what bins leave undecided, estimated"
        rows.append(("error bound", f"{result.error_bound:.2g}", bound))
    output.print_table(rows)
    for note in result.notes:
        output.print_text(output.styled(f"note: {note}", "yellow"))


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
