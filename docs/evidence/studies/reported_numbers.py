"""How often the report's intervals hold what is true, and how far off the standard error of a comparison is.

    OMP_NUM_THREADS=1 python docs/evidence/studies/reported_numbers.py        # 20 minutes; --repeats 200: 2 minutes

Counts are in the clear, as those of a session are exact. First table: scores are the true risk, with normal log odds;
counts at `hybrid:1000`, of which the report's intervals are, whatever it hides. Second table: binormal scores of two
models with this correlation within each label; standard errors against DeLong's over rows (as `comparisons` of
`verified` and `exact` have them), at quantile thresholds of both models' scores, at `hybrid:1000`, and of scores that
are rounded; "half imputed": half of the second model's rows have one score. "Shown" have a p-value.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm

from fhe_auc.metrics import Histogram
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.report_card import ReportCard, report_card
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.primes import primes_below
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.tables import show
from fhe_auc_protocols.exact_auc.analysis_sums import AnalysisSums
from fhe_auc_protocols.exact_auc.estimates_from_sums import Reading
from intervals import of_rows

GRID = thresholds.resolve("hybrid:1000")
DECIMALS = np.arange(1001) / 1000
EDGES = np.append(GRID, 1.0)
STUDIES = (
    *((300, -0.9, 4.2), (500, -2.0, 1.5), (1000, -3.0, 1.2)),
    *((2000, -3.0, 1.2), (20_000, -4.0, 1.0), (20_000, -6.2, 1.0)),
)
"""Rows, and mean and deviation of the log odds."""

TRUE = {"observed_expected_ratio": 1.0, "calibration_in_the_large": 0.0}
TRUE |= {"calibration_slope": 1.0, "calibration_intercept": 0.0}
AUCS = (0.6, 0.8, 0.9, 0.97, 0.995)
OF_SCORES = ("roc_auc", "average_precision", "brier")
MODELS = Analysis(models=("first", "second"))
PRIMES = primes_below(48, 3, 2**13)  # their product is larger than any sum here


def drawn(random: np.random.Generator, rows: int, mean: float, deviation: float) -> PartyData:
    """Return rows whose scores are their risks."""
    scores = expit(random.normal(mean, deviation, rows))
    return PartyData.from_arrays("all", random.random(rows) < scores, scores)


def held(card: ReportCard, true: dict[str, float]) -> Iterator[tuple[str, bool]]:
    """Yield, for each interval, whether it holds what is true."""
    for each in (*card.calibration_measures, *card.measures):
        if each.interval is not None:
            yield each.name, each.interval.low <= true[each.name] <= each.interval.high


def coverage(
    rows: int, mean: float, deviation: float, repeats: int, names: Sequence[str] = (*TRUE, *OF_SCORES)
) -> list[str]:
    """Return how often intervals of these names hold what is true: of scores, what 4·10⁶ rows have."""
    random, found = np.random.default_rng(rows), defaultdict(list)
    many = drawn(random, 4 * 10**6, mean, deviation)
    card = report_card(Histogram.from_rows(many, EDGES))
    of_many = {each.name: each.estimate.value for each in card.measures}
    for _ in range(repeats):
        data = drawn(random, rows, mean, deviation)
        if min(data.y_true.sum(), (~data.y_true).sum()) < 10:
            continue
        for name, right in held(report_card(Histogram.from_rows(data, EDGES)), of_many | TRUE):
            found[name].append(right)
    cells = [f"{100 * np.mean(found[name]):.1f} %" for name in names]
    return [f"{rows:,}", f"{100 * many.y_true.mean():.2g} %", f"{of_many['roc_auc']:.2f}", *cells]


def off_by(labels: NDArray, scores: Sequence[NDArray], grid: NDArray, *, rounded: bool = False) -> Iterator[tuple]:
    """Yield by how much the standard error of a comparison is off, and whether it has a p-value; if it has an error."""
    error, (found,) = of_rows(labels, *scores), reading(labels, scores, grid, rounded=rounded).comparisons()
    if error and found.standard_error is not None:
        yield abs(found.standard_error / error - 1), not found.missing


def reading(
    labels: NDArray, scores: Sequence[NDArray], grid: NDArray, *, rounded: bool = False, patients: NDArray | None = None
) -> Reading:
    """Return what a session says of these rows; by patients where these are given."""
    models = MODELS.models[: len(scores)]
    analysis = Analysis(models=models) if patients is None else Analysis(models=models, cluster="patient")
    columns = dict(zip(models, scores, strict=True))
    data = PartyData.from_columns("all", labels, columns, {}, analysis, clusters=patients)
    sums = AnalysisSums(analysis, len(grid), True)
    modulus = int(np.prod([int(prime) for prime in PRIMES], dtype=object))
    sketch = sums.sketch(data, grid, 10**5, modulus)
    totals = [sums.release.totals(modular.residues(sketch, prime), prime) for prime in PRIMES]
    read = sums.read(modular.centred(totals, PRIMES), 10**5, modulus)
    return Reading(analysis, read, 3, 0.95, rounded=rounded)


def paired(rows: int, repeats: int) -> Iterator[list[object]]:
    random, tried = np.random.default_rng(rows), defaultdict(list)
    for positive, auc, correlation in product((0.02, 0.1, 0.3, 0.5), AUCS, (0.5, 0.86, 0.95, 0.99)):
        for _ in range(max(1, repeats // 100) if rows * positive >= 3 else 0):
            labels = np.arange(rows) < round(rows * positive)
            both = random.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], rows).T
            scores = expit(both + np.sqrt(2) * norm.ppf(auc) * labels - 1.5)
            of_half = np.where(random.random(rows) < 0.5, expit(-1.5), scores[1])
            for name, grid, models in (
                ("quantile:1000", own_grid(scores), scores),
                ("hybrid:1000", GRID, scores),
                ("round_scores=3", DECIMALS, scores.round(3)),
                ("round_scores=3, half imputed", DECIMALS, np.round([scores[0], of_half], 3)),
            ):
                tried[name] += off_by(labels, list(models), grid, rounded=grid is DECIMALS)
    for name, each in tried.items():
        errors, told = map(np.array, zip(*each, strict=True))
        of_all = f"{len(errors):,}", f"{100 * np.mean(errors > 0.04):.1f} %", f"{100 * told.mean():.0f} %"
        of_shown = f"{100 * np.mean(errors[told] > 0.04):.1f} %", f"{100 * errors[told].max():.0f} %"
        yield [f"{rows:,}", f"`{name}`", *of_all, *of_shown]


def own_grid(scores: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.unique(np.quantile(scores, np.linspace(0, 1, 1000), method="lower"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=2000)
    arguments = parser.parse_args()
    show(["rows", "positive", "AUC", *TRUE, *OF_SCORES], (coverage(*each, arguments.repeats) for each in STUDIES))
    head = ["rows", "thresholds", "comparisons", "off by more than 4 %", "shown", "of these more than 4 %"]
    show(
        [*head, "worst shown"],
        (row for rows in (24, 60, 200, 1000, 5000) for row in paired(rows, arguments.repeats // 2)),
    )
