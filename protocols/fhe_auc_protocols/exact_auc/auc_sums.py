"""The sums that an AUC and its standard error are made of, and what they are of them.

With bins ascending in score, p_k and n_k the pooled positive and negative rows of bin k, and P and N those of all bins:

    difference D = Σ p_k·(N_{<k} − N_{>k})      pairs that the model orders rightly, minus those that it orders wrongly
    tie          = Σ p_k·n_k                    pairs of one bin, which count half
    AUC = ½ + D/(2PN)      binning error = tie/(2PN): the AUC of the rows themselves lies within AUC ± binning error

With an interval there are two more, for DeLong's standard error (`fhe_auc.intervals.delong`):

    Q10 = Σ p_k·(N_{<k} − N_{>k})²        Q01 = Σ n_k·(P_{>k} − P_{<k})²

All these numbers are released, as they are. A party puts in its own p_k and n_k.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.counts import Counts
from fhe_auc.errors import ResultCheckError, UndefinedAucError
from fhe_auc.sums.sketch import Sketch
from fhe_auc.sums.terms import Factor, Part, Release, Sum, Term

_POSITIVES, _NEGATIVES = "positives", "negatives"


def auc_release(bins: int, *, interval: bool = False) -> Release:
    """Return what a session with so many bins releases; raise `InputError` unless there is one."""
    positives, negatives = Factor((Part(_POSITIVES),)), Factor((Part(_NEGATIVES),))
    worse_negatives = Factor((Part(_NEGATIVES, "below"), Part(_NEGATIVES, "above", -1)))
    better_positives = Factor((Part(_POSITIVES, "above"), Part(_POSITIVES, "below", -1)))
    sums: tuple[Sum, ...] = (
        Sum("difference", (Term((positives, worse_negatives)),)),
        Sum("ties", (Term((positives, negatives)),)),
        Sum("P", (Term((Factor((Part(_POSITIVES, "total"),)),)),)),
        Sum("N", (Term((Factor((Part(_NEGATIVES, "total"),)),)),)),
    )
    if interval:
        sums += (
            Sum("Q10", (Term((positives, worse_negatives, worse_negatives)),)),
            Sum("Q01", (Term((negatives, better_positives, better_positives)),)),
        )
    return Release(Sketch(((_POSITIVES, bins), (_NEGATIVES, bins))), sums)


def sketch_of(counts: Counts) -> NDArray[np.int64]:
    """Return a party's sketch for `auc_release`, shape (2·bins,)."""
    return np.concatenate([counts.bin_positives, counts.bin_negatives])


def least_modulus(max_rows: int, *, interval: bool) -> int:
    """Return how many values a sum of so many pooled rows can take, the most of any sum.

    The difference lies between ±max_rows²/4. All others are at least 0, Q10 ≤ P·N² and Q01 ≤ N·P², which for P + N rows
    is at most 4·(P + N)³/27.
    """
    return 1 + max(max_rows, 2 * (max_rows**2 // 4), 4 * max_rows**3 // 27 if interval else 0)


class AucOfSums(NamedTuple):
    """What the integers say; Q10 and Q01 only where there is an interval."""

    auc: Fraction
    binning_error: Fraction
    positives: int
    negatives: int
    q10: int | None = None
    q01: int | None = None


def auc_of_sums(sums: Sequence[int], max_rows: int, modulus: int) -> AucOfSums:
    """Return the AUC of the integers of `auc_release`, each known up to multiples of `modulus`.

    Raises
    ------
    ResultCheckError
        They cannot be those of at most `max_rows` rows.
    UndefinedAucError
        The rows have one class only.
    """
    difference = sums[0]
    ties, positives, negatives, *squares = (each % modulus for each in sums[1:])
    pairs = positives * negatives
    if positives + negatives > max_rows:
        raise ResultCheckError(
            f"the result fails its check, so no number is given: the pooled rows are more than max_rows = "
            f"{max_rows:,}, a message is damaged, or the aggregator has not computed what it should",
            check="range",
        )
    of_squares = [square * rows for square, rows in zip(squares, (positives, negatives), strict=False)]
    fits = all(difference**2 <= each <= pairs**2 for each in of_squares)
    if ties > pairs - abs(difference) or not fits:
        raise ResultCheckError(
            "the result fails its check, so no number is given: it is not an AUC; a message is damaged, or the "
            "aggregator has not computed what it should",
            check="range",
        )
    if not pairs:
        missing = "negative" if positives else "positive"
        raise UndefinedAucError(f"the pooled rows hold no {missing} row, so the AUC is undefined; no number is given")
    auc, binning_error = Fraction(1, 2) + Fraction(difference, 2 * pairs), Fraction(ties, 2 * pairs)
    return AucOfSums(auc, binning_error, positives, negatives, *squares)
