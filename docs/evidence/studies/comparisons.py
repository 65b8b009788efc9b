"""How often two models have a p-value, how far off their standard error is, and whether p is at most what is said.

    OMP_NUM_THREADS=1 python docs/evidence/studies/comparisons.py        # 2 minutes

Sums are in the clear, as those of a session are exact. Errors and p-values are told from DeLong's over rows.
"""

import math
from collections.abc import Iterable
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc, expit
from scipy.stats import rankdata

from fhe_auc.question import thresholds
from fhe_auc.question.analysis import Analysis
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.primes import primes_below
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.tables import show
from fhe_auc_protocols.exact_auc.analysis_sums import AnalysisSums
from fhe_auc_protocols.exact_auc.estimates_from_sums import Reading

REPEATS = 800
MODELS = Analysis(models=("first", "second"))
PRIMES = primes_below(48, 3, 2**13)  # their product is larger than any sum here
KINDS = {"ordinary": 0.7, "nearly alike": 0.185}  # noise on the log odds: correlations of 0.77 and 0.98


def of_rows(labels: NDArray, *scores: NDArray) -> tuple[float, float]:
    """Return DeLong's standard error of the difference of two AUCs, and its p-value, over rows."""
    ranks = [[rankdata(each), rankdata(each[labels]), rankdata(each[~labels])] for each in scores]
    ones = np.subtract(*((every[labels] - own) / (~labels).sum() for every, own, _ in ranks))
    zeros = np.subtract(*((every[~labels] - own) / labels.sum() for every, _, own in ranks))
    error = np.sqrt(ones.var(ddof=1) / len(ones) + zeros.var(ddof=1) / len(zeros))
    return error, erfc(abs(ones.mean()) / error / np.sqrt(2))


def study(grid: str, cells: Iterable[tuple[int, float, str]], repeats: int, gains: list[float]) -> list[str]:
    """Return what is found over rows drawn so often for each cell; the second model is better by some gain."""
    points, modulus, found = thresholds.parse(grid), math.prod(map(int, PRIMES)), []
    sums = AnalysisSums(MODELS, len(points), True)
    for (rows, positive, kind), at in product(cells, range(repeats)):
        random, noise = np.random.default_rng([rows, at]), KINDS[kind]
        labels = random.random(rows) < positive
        signal = random.standard_t(5, rows) + 1.2 * labels - 3
        better = (noise * by * labels for by in (0, gains[at % len(gains)]))
        scores = [expit(signal + noise * random.normal(size=rows) + by) for by in better]
        if labels.sum() < 3:
            continue
        data = PartyData.from_columns("all", labels, dict(zip(MODELS.models, scores, strict=True)), {}, MODELS)
        sketch = sums.sketch(data, points, 10**5, modulus)
        totals = [sums.release.totals(modular.residues(sketch, prime), prime) for prime in PRIMES]
        read = sums.read(modular.centred(totals, PRIMES), 10**5, modulus)
        (each,), (error, p) = Reading(MODELS, read, 3, 0.95).comparisons(), of_rows(labels, *scores)
        found.append((p, each.p_value, each.p_at_most, each.standard_error / error - 1))
    p, told, at_most, off = np.array(found, np.float64).T  # None is not a number there
    shown = ~np.isnan(told)
    sure = ~shown & (p < 0.005)
    line = [f"`{grid}`", f"{1 - shown.mean():.1%}", f"{(at_most < p)[~shown].sum()} of {(~shown).sum():,}"]
    line.append(f"{(at_most[sure] < 0.05).sum()} of {sure.sum():,}")
    if shown.any():
        line += [f"{np.quantile(abs(off[shown]), share):.2%}" for share in (0.5, 0.95)]
        line += [f"{(values[shown] < 0.05).mean():.1%}" for values in (told, p)]
    return line


if __name__ == "__main__":
    cells = list(product((300, 1000, 5000), (0.057, 0.3), KINDS))
    lines = [[f"{each}", *study("hybrid:1500", [each], REPEATS, [0.0])] for each in cells]
    for grid, kind in product(("hybrid:1500", "hybrid:100", "uniform:20"), KINDS):
        own = [each for each in cells if each[2] == kind and each[0] < 5000]
        lines.append([f"{kind}, half of them better", *study(grid, own, REPEATS // 4, [0.0, 0.0, 1.0, 2.0])])
    head = ["rows, positive, models", "thresholds", "no p", "bound below p", "bound < .05 of p < .005"]
    show([*head, "SE off: median", "95 %", "p < .05", "over rows"], [line + [""] * (9 - len(line)) for line in lines])
