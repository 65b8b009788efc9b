"""How often DeLong's interval, from binned rows, holds the AUC of the distribution that the rows are drawn from.

    python docs/evidence/studies/intervals.py [--studies 2000]

Scores are the normal distribution function of x/2, where x is normal with variance 1; its mean is 0 for negative rows,
and for positive ones what the AUC asks for. Each study draws its rows anew. Its interval comes from the sums over bins
that a session releases: that encrypted ones are the same is what the tests of `exact` and `verified` say. The last
columns are the share of studies without an interval, which count as missing the AUC, and the largest relative
difference of the standard error to DeLong's on the rows.

A second table is of prediction intervals: how often that of all sites but one holds the AUC of a further site, whose
logit is drawn with standard deviation tau around that of 0.8. Each site has a share of positive rows, the same for all.
"""

import argparse
import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice, product

import numpy as np
from scipy.stats import norm

from fhe_auc.question import thresholds
from fhe_auc.results.heterogeneity import SiteSummary, UsableSites, random_effects
from fhe_auc.results.intervals import DELONG, expit, of_bins, on_logit_scale
from fhe_auc.rows.counts import count
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.tables import show

CASES = ((100, 0.02), (100, 0.05), *((rows, share) for rows in (100, 300, 1000, 10_000) for share in (0.1, 0.5)))
SITES = ((5, 200, 0.2, 0.2), (10, 200, 0.2, 0.5), (10, 500, 0.1, 0.3), (20, 60, 0.15, 0.3))
AUCS = (0.6, 0.75, 0.85, 0.95)


def of_rows(y_true: np.ndarray, *scores: np.ndarray) -> float:
    """Return DeLong's standard error of an AUC, or of the difference of two, from the rows' placements."""
    variance = 0.0
    for side in (y_true, ~y_true):
        placed = []
        for each in scores:
            ascending, own = np.sort(each[~side]), each[side]
            ranks = np.searchsorted(ascending, own, "left") + np.searchsorted(ascending, own, "right")
            placed.append(ranks / (2 * len(ascending)))
        variance += np.subtract.reduce(placed).var(ddof=1) / side.sum()
    return float(np.sqrt(variance))


def binned(rng: np.random.Generator, y_true: np.ndarray, auc: float, grid: np.ndarray) -> tuple:
    """Draw scores; return them, and AUC and standard error from the sums over bins."""
    y_score = norm.cdf((rng.normal(size=len(y_true)) + y_true * (math.sqrt(2) * norm.ppf(auc))) / 2)
    counts = count(PartyData.from_arrays("all", y_true, y_score), grid)
    return y_score, *of_bins(counts.bin_positives, counts.bin_negatives)


def measure(rows: int, share: float, auc: float, studies: int, grid: np.ndarray) -> list[object]:
    """Return how often the interval holds the AUC, how often there is none, how far off the error is at most."""
    rng, found = np.random.default_rng((rows, int(100 * share), int(100 * auc))), []
    y_true = np.arange(rows) < round(share * rows)
    for _ in range(studies):
        y_score, estimate, error = binned(rng, y_true, auc, grid)
        interval = None if error is None else on_logit_scale(estimate, error, 0.95, DELONG)
        exact = of_rows(y_true, y_score)
        off = abs(error - exact) / exact if error and exact else 0.0
        found.append((interval is not None and interval.low <= auc <= interval.high, interval is None, off))
    held, none, off = zip(*found, strict=True)
    return [f"{np.mean(held):.1%}", f"{np.mean(none):.1%}", f"{max(off):.2%}"]


def of_new_site(sites: int, rows: int, share: float, tau: float, grid: np.ndarray) -> Iterator[bool]:
    """Yield for each study with a prediction interval whether it holds a further site's AUC."""
    rng = np.random.default_rng((sites, rows))
    y_true = np.arange(rows) < round(share * rows)
    while True:
        entries = []
        for _ in range(sites):
            _, auc, error = binned(rng, y_true, expit(rng.normal(math.log(4), tau)), grid)
            if error and 0 < auc < 1:
                weight, theta = (float(auc * (1 - auc)) / error) ** 2, math.log(auc / (1 - auc))
                entries.append((1, weight, weight * theta, weight * theta**2, weight**2, theta, theta**2))
        usable, *sums = map(Fraction, np.sum(entries, axis=0))
        empty = SiteSummary(model="", within=None, both_classes=sites, one_class=0, usable=int(usable))
        if (found := random_effects(empty, UsableSites(int(usable), *sums), 0.95).prediction) is not None:
            new = expit(rng.normal(math.log(4), tau))
            yield found.low <= new <= found.high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    arguments = parser.parse_args()
    grid = thresholds.parse("hybrid:1000")
    show(
        ["rows", "positive", "AUC", "holds the AUC", "no interval", "SE off by at most"],
        (
            [f"{rows:,}", f"{round(share * rows):,}", auc, *measure(rows, share, auc, arguments.studies, grid)]
            for (rows, share), auc in product(CASES, AUCS)
        ),
    )
    held = (np.mean(list(islice(of_new_site(*each, grid), arguments.studies))) for each in SITES)
    body = ([n, rows, f"{share:.0%}", tau, f"{of:.1%}"] for (n, rows, share, tau), of in zip(SITES, held, strict=True))
    show(["sites", "rows each", "positive", "tau", "holds the AUC of a new site"], body)


if __name__ == "__main__":
    main()
