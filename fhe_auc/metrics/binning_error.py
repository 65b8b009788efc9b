"""How far the AUC over bins of scores may be from that of the rows, and who widens what by it.

With p_k and n_k the positive and negative rows of bin k, P and N the totals, the AUC of the rows (ties counted half) is
from that over bins at most

    Σ p_k·n_k / (2·P·N)                     [FCE] lemma 3; with quantiles for bins and smooth scores it falls as 1/B²

away: only pairs of rows inside one bin are undecided, and each of them counts half over bins. A bin that can hold one
score alone leaves nothing open, as its rows are tied by the model.

- `Trapezoid.binning_error`, of exact counts, is what sessions give (`Evaluation.binning_error`); of `exact` and
  `verified` it is over pairs whose scores differ (`fhe_auc_protocols.exact_auc.tie_sums`).
- `fhe_auc.metrics.ranking.roc_auc_score`, of a histogram, has it as half of its range, as other metrics have theirs.
- Confidence intervals are widened by it (`fhe_auc.results.intervals.widened`), a difference of two models has none
  (`MOST_OFF`, `LEAST_TOLD` in `fhe_auc.results.delong`), and from a share `TELLING` of the standard error on a warning
  says how large it is.

[FCE] Cormode, Markov, "Federated Calibration and Evaluation of Binary Classifiers", PVLDB 16(11) 2023, arXiv
2210.12526.
"""

import math

TELLING = 0.25  # up to this share of the standard error, a binning error is not worth a word
WIDENED = ", widened by the binning error"  # at the end of the name of an interval's method


def binning_error(undecided: float, pairs: float) -> float:
    """Return the bound, in [0, 1/2], where so many of all pairs of a positive and a negative row share a bin."""
    return undecided / (2 * pairs)


def outward(ends: tuple[float, float], off: float, within: tuple[float, float]) -> tuple[float, float] | None:
    """Return an interval's ends moved outward by a binning error, but not beyond `within`; None if it is infinite.

    That is for one larger than the standard error only: a smaller one hardly moves the interval, and is a bound that
    seldom is reached.
    """
    if not math.isfinite(off):
        return None
    return max(within[0], ends[0] - off), min(within[1], ends[1] + off)
