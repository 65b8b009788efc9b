"""How often two models have a p-value, how far off their standard error is, and whether p is at most what is said.

    OMP_NUM_THREADS=1 python docs/evidence/studies/comparisons.py        # 5 minutes; --repeats 50: 20 seconds

Sums are in the clear, as those of a session are exact. Errors and p-values are told from DeLong's over rows.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from functools import cache
from itertools import product

import numpy as np
from scipy.special import erfc, expit
from scipy.stats import rankdata

from fhe_auc.question import thresholds
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.estimates import Comparison
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.primes import primes_below
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.tables import show
from fhe_auc_protocols.exact_auc.analysis_sums import AnalysisSums
from fhe_auc_protocols.exact_auc.estimates_from_sums import Reading

MODELS = Analysis(models=("first", "second"))
PRIMES = primes_below(48, 3, 2**13)  # their product is larger than any sum here
KINDS = {"ordinary": 0.7, "nearly alike": 0.185}  # noise on the log odds: correlations of 0.77 and 0.98
NDArray = np.ndarray
Cell = tuple[int, float, str]


def of_rows(labels: NDArray, *scores: NDArray) -> tuple[float, float]:
    """Return the difference of two AUCs, and DeLong's standard error, over rows."""
    ranks = [[rankdata(each), rankdata(each[labels]), rankdata(each[~labels])] for each in scores]
    ones = np.subtract(*((every[labels] - own) / (~labels).sum() for every, own, _ in ranks))
    zeros = np.subtract(*((every[~labels] - own) / labels.sum() for every, _, own in ranks))
    return float(-ones.mean()), float(np.sqrt(ones.var(ddof=1) / len(ones) + zeros.var(ddof=1) / len(zeros)))


def drawn(random: np.random.Generator, rows: int, positive: float, noise: float, gain: float) -> list[NDArray]:
    """Return labels and the scores of two models, the second of which is better by so much."""
    labels = random.random(rows) < positive
    signal = random.standard_t(5, rows) + 1.2 * labels
    return [labels, *(expit(signal + noise * random.normal(size=rows) + by * labels - 3) for by in (0, gain))]


@cache
def asked(grid: str) -> tuple[NDArray, AnalysisSums]:
    return (points := thresholds.parse(grid)), AnalysisSums(MODELS, len(points), True)


def compared(labels: NDArray, first: NDArray, second: NDArray, grid: str) -> Comparison:
    """Return what a session at this grid says."""
    (points, sums), modulus = asked(grid), math.prod(map(int, PRIMES))
    data = PartyData.from_columns("all", labels, {"first": first, "second": second}, {}, MODELS)
    sketch = sums.sketch(data, points, 10**5, modulus)
    totals = [sums.release.totals(modular.residues(sketch, prime), prime) for prime in PRIMES]
    read = sums.read(modular.centred(totals, PRIMES), 10**5, modulus)
    return Reading(MODELS, read, 3, 0.95).comparisons()[0]


def study(grid: str, cells: Iterable[Cell], repeats: int, gains: tuple[float, ...]) -> list[str]:
    """Return what is found over rows drawn so often for each cell."""
    found = []
    for (rows, positive, kind), at in product(cells, range(repeats)):
        random = np.random.default_rng([rows, at])
        labels, *scores = drawn(random, rows, positive, KINDS[kind], KINDS[kind] * gains[at % len(gains)])
        if 3 <= labels.sum() <= rows - 3:
            each, (difference, error) = compared(labels, *scores, grid), of_rows(labels, *scores)
            p = erfc(abs(difference) / error / np.sqrt(2))
            values = each.p_value, each.p_at_most, (each.standard_error or np.nan) / error - 1
            found.append([p, *(np.nan if value is None else value for value in values)])
    p, told, at_most, off = np.array(found).T
    shown, off = ~np.isnan(told), abs(off)
    sure = ~shown & (p < 0.005)
    errors = f"{np.median(off[shown]):.2%}, {np.quantile(off[shown], 0.95):.2%}" if shown.any() else ""
    significant = f"{(told[shown] < 0.05).mean():.1%}, {(p[shown] < 0.05).mean():.1%}" if shown.any() else ""
    half = f"{np.mean(at_most[sure] < 0.05):.0%} of {sure.sum():,}" if sure.any() else ""
    return [
        f"`{grid}`",
        f"{1 - shown.mean():.1%}",
        errors,
        significant,
        f"{(at_most < p)[~shown].sum()} of {(~shown).sum():,}",
        half,
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=1000)
    repeats = parser.parse_args().repeats
    cells = list(product((300, 1000, 5000), (0.057, 0.3), KINDS))
    lines = [
        [f"{rows:,}, {of:.1%}, {kind}", *study("hybrid:1500", [(rows, of, kind)], repeats, (0.0,))]
        for rows, of, kind in cells
    ]
    for grid, kind in product(("hybrid:1500", "hybrid:100", "uniform:20"), KINDS):
        own = [each for each in cells if each[2] == kind and each[0] < 5000]
        lines.append([f"{kind}, half of them better", *study(grid, own, repeats // 4, (0.0, 0.0, 1.0, 2.0))])
    head = ["rows, positive, models", "thresholds", "no p", "SE off: median, 95 %", "p < .05, over rows"]
    show([*head, "bound below p", "bound < .05 of p < .005"], lines)
