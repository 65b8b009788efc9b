"""How often DeLong's interval, from binned rows, holds the AUC of the distribution that the rows are drawn from.

    python -m fhe_auc_benchmarks.studies.intervals [--studies 2000] [--grid hybrid:1000]

Scores are the normal distribution function of x/2, where x is normal with variance 1; its mean is 0 for negative rows,
and for positive ones what the AUC asks for. Each study draws its rows anew. Its interval comes from the sums over bins
that a session releases: that encrypted ones are the same is what the tests of `exact` and `verified` say. The last
columns are the share of studies without an interval, which count as missing the AUC, and the largest relative
difference of the standard error to DeLong's on the rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from scipy.stats import norm

from fhe_auc import thresholds
from fhe_auc.counts import PartyData, count
from fhe_auc.intervals import DELONG, of_bins, on_logit_scale

ROWS = (100, 300, 1000, 10_000)
SHARES = (0.1, 0.5)
AUCS = (0.6, 0.75, 0.85, 0.95)


def of_rows(y_true: np.ndarray, y_score: np.ndarray) -> float:
    """Return DeLong's standard error from the rows' placements."""
    sides = y_score[y_true], y_score[~y_true]
    spread = 0.0
    for side, other in (sides, sides[::-1]):
        ascending = np.sort(other)
        placed = np.searchsorted(ascending, side, "left") + np.searchsorted(ascending, side, "right")
        spread += (placed / (2 * len(other))).var(ddof=1) / len(side)
    return float(np.sqrt(spread))


def measure(rows: int, share: float, auc: float, studies: int, grid: np.ndarray) -> Iterator[tuple[bool, bool, float]]:
    """Yield for each study: whether the interval holds the AUC, whether there is one, how far off the error is."""
    rng = np.random.default_rng((rows, int(100 * share), int(100 * auc)))
    y_true = np.arange(rows) < round(share * rows)
    for _ in range(studies):
        y_score = norm.cdf((rng.normal(size=rows) + y_true * np.sqrt(2) * norm.ppf(auc)) / 2)
        counts = count(PartyData.from_arrays("all", y_true, y_score), grid)
        found, error = of_bins(counts.bin_positives, counts.bin_negatives)
        interval = None if error is None else on_logit_scale(found, error, 0.95, DELONG)
        exact = of_rows(y_true, y_score)
        off = abs(error - exact) / exact if error and exact else 0.0
        yield interval is not None and interval.low <= auc <= interval.high, interval is not None, off


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--grid", default="hybrid:1000")
    arguments = parser.parse_args()
    grid = thresholds.parse(arguments.grid)
    print("| rows | positive | AUC | holds the AUC | no interval | SE off by at most |\n" + "| --- " * 6 + "|")
    for rows in ROWS:
        for share in SHARES:
            for auc in AUCS:
                held, there, off = zip(*measure(rows, share, auc, arguments.studies, grid), strict=True)
                print(
                    f"| {rows:,} | {round(share * rows):,} | {auc} | {np.mean(held):.1%} | {1 - np.mean(there):.1%} "
                    f"| {max(off):.2%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
