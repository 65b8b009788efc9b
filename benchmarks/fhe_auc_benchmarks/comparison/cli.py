"""``fhe-auc compare-protocols``: what each protocol gives and costs, in one table."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from fhe_auc.base import quantities
from fhe_auc.base.extras import require
from fhe_auc.cli import inputs, output

if TYPE_CHECKING:
    from fhe_auc_benchmarks.comparison.measure import Row

_HEAD = ("protocol", "edges", "AUC", "error", "ROC", "PR", "upload", "time", "privacy")
_CHARACTERS = 78  # that a line takes, with its longest words
_NARROW = (0, 1, 3, 4, 5, 6, 8)  # columns, where the terminal is narrow; JSON has all
_NUMBER = re.compile(r"-?[0-9][0-9.e+-]*")
_PROTOCOLS = "verified,histogram-distributed-dp,semi-honest,malicious,dpauc-laplace,dpauc-gaussian,dpauc-rr,fedcurve"


def _list(name: str, default: str, kind: Callable[[str], Any], what: str, **more: Any) -> Callable[..., Any]:
    """Return an option that is split at commas; what comes twice is taken once."""

    def parse(context: click.Context, parameter: click.Parameter, text: str) -> tuple[Any, ...]:
        found = []
        for entry in text.split(","):
            try:
                found.append(kind(entry.strip()))
            except ValueError:
                raise click.BadParameter(f"expected {what}, separated by commas, got {entry.strip()!r}") from None
        return tuple(dict.fromkeys(found))

    return click.option(f"--{name}", **{"metavar": "LIST", "default": default, "callback": parse, **more})


def _size(text: str) -> int | None:
    return None if text == "all" else int(text)


def _name(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _epsilon(text: str) -> float:
    if not 0 < (number := float(text)) < math.inf:
        raise ValueError
    return number


@inputs.command(
    "fhe-auc compare-protocols north.csv south.csv west.csv",
    "fhe-auc compare-protocols all.npz --site-column site --subsample 100,1000,all",
    "fhe-auc compare-protocols *.csv --protocols semi-honest,dpauc-laplace --epsilons 1,2,4,8",
    "fhe-auc compare-protocols *.csv --json | jq '.rows[] | [.method, .error]'",
    name="compare-protocols",
)
@inputs.party_files
@_list("protocols", _PROTOCOLS, _name, "names of protocols", help="Which to compare; fedcurve is quoted.")
@_list("epsilons", "1,8", _epsilon, "positive numbers", help="Budgets of noise; verified is taken without, too.")
@click.option(
    "--delta",
    metavar="D",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=1e-6,
    help="How much of dpauc-gaussian's guarantee may fail.",
)
@_list("thresholds", "25,50,100", int, "whole numbers", help="Numbers of bin edges.")
@_list("subsample", "all", _size, "numbers of rows, or all", help="Draw so many rows, for each number in turn.")
@inputs.whole_number("--runs", 1, default=100, about="Simulated sessions with each budget.")
@inputs.whole_number("--seed", 0, default=0, about="Repeat with it.")
@inputs.backend_option
@output.json_option
def compare(files: inputs.PartyFiles, backend: str | None, as_json: bool, **asked: Any) -> None:
    """Compare protocols on your rows: error, cost, privacy.

    The rows of all parties are pooled here, for scikit-learn to say what is true: use it where they may be. Protocols
    without noise run once. Those with noise give another AUC each time: --runs of them are simulated, with a seeded
    generator that protects nobody; one real session says what they cost. Epsilon is of a row replaced.
    """
    require("benchmark")
    from fhe_auc import ckks
    from fhe_auc.rows.own_checks import left_out
    from fhe_auc_benchmarks.comparison import measure

    chosen = backend and ckks.choose_backend(backend)
    wanted = measure.ProtocolComparison(backend=chosen, sizes=asked.pop("subsample"), **asked)
    wanted.measured()  # refuses before files are read
    parties = files.read()
    for warning in left_out(parties):
        output.print_warning(warning)
    with output.progress("Comparing", unit="measurements") as report:
        rows = measure.compare(parties, wanted, report)
    if not as_json:
        _print(rows)
    else:
        shown = {name: asked[name] for name in ("runs", "delta", "seed")}
        output.print_json({**shown, "rows": [asdict(row) for row in rows]})


def _print(rows: Sequence[Row]) -> None:
    for truth in (row for row in rows if row.method == "scikit-learn"):
        of = f"{truth.rows:,} rows of {truth.parties:,} parties; scikit-learn, on all of them in the clear:"
        output.print_text(output.styled(f"{of} {truth.auc:.6f}", "bold"))
        of_size = [row for row in rows if row.rows == truth.rows and row is not truth]
        for private, whose in ((False, ""), (True, " in dpauc's curves, which end at the outermost ones")):
            of_kind = [row for row in of_size if row.method.startswith("dpauc-") == private]
            known = [row for row in of_kind if not math.isnan(row.threshold_error)]
            if alone := {row.thresholds: f"{_error(row.threshold_error)} at {row.thresholds}" for row in known}:
                output.print_text(f"error that thresholds alone cause{whose}: {', '.join(alone.values())}")
        shown = range(len(_HEAD)) if output.fits(_CHARACTERS, len(_HEAD)) else _NARROW
        header, *lines = (tuple(line[column] for column in shown) for line in (_HEAD, *map(_line, of_size)))
        output.print_table(lines, header=header, numbers=len(header) - 2)
        output.print_text()
    for text in (
        "edges: thresholds, or fedcurve's quantiles. error: mean distance from scikit-learn's AUC (semi-honest rounds "
        "its own). ROC, PR: mean distance from its curves, over all false positive rates, or recalls; -: no curve. "
        "upload, time: of one real session; what a party sends, and all roles one after another.",
        "ε, with chance δ of more, bounds what anybody learns of one row, whatever it is replaced by, the result "
        "included; in dpauc-rr of its label, in ustat-… of its score (-pairs: if no party lies). dpauc has its "
        "published noise, which is more. fedcurve is rebuilt (arXiv 2510.04979), with ε/2 for a row added or removed.",
        "Encryption hides the counts; the result is what it is. Aggregation verified: a lying aggregator is noticed. A "
        "lying party is not: it can enter any rows, and in ustat-pairs read others' scores.",
        *(f"{row.method}, {row.rows:,} rows, {row.thresholds} thresholds: {row.note}" for row in rows if row.note),
        *_warnings(rows),
    ):
        output.print_text(text)


def _warnings(rows: Sequence[Row]) -> list[str]:
    """Return each warning once, as of the first measurement that has it; they may differ in numbers."""
    first: dict[str, str] = {}
    for row in rows:
        where = f"{row.method}, {row.rows:,} rows, {row.thresholds} thresholds"
        for text in row.warnings:
            first.setdefault(_NUMBER.sub("", text), f"warning of {where}, and maybe others: {text}")
    return list(first.values())


def _line(row: Row) -> tuple[output.Cell, ...]:
    sent = quantities.bytes_text(row.upload_bytes_per_party) if row.upload_bytes_per_party else "-"
    took = quantities.seconds_text(row.seconds) if row.seconds else "-"
    errors = (_error(each) for each in (row.error, row.roc_error, row.pr_error))
    auc = "none" if math.isnan(row.auc) else f"{row.auc:.4f}" if row.epsilon else f"{row.auc:.6g}"
    return row.method, str(row.thresholds or "-"), auc, *errors, sent, took, row.privacy


def _error(error: float) -> str:
    return "-" if math.isnan(error) else f"{error:.1e}" if error < 1e-4 else f"{error:.4f}"
