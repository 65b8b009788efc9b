"""The sums that an AUC is made of, and what it is of them.

With bins ascending in score, p_k and n_k the pooled positive and negative rows of bin k, and P and N those of all bins:

    difference D = Σ p_k·(N_{<k} − N_{>k})      pairs that the model orders rightly, minus those that it orders wrongly
    tie          = Σ p_k·n_k                    pairs of one bin, which count half
    AUC = ½ + D/(2PN)      half-width = tie/(2PN): the AUC of the rows themselves lies within AUC ± half-width

All four numbers are released, as they are. A party puts in its own p_k and n_k.
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


def auc_release(bins: int) -> Release:
    """Return what a session with so many bins releases; raise `InputError` unless there is one."""
    positives = Factor((Part(_POSITIVES),))
    below_minus_above = Factor((Part(_NEGATIVES, "below"), Part(_NEGATIVES, "above", -1)))
    return Release(
        Sketch(((_POSITIVES, bins), (_NEGATIVES, bins))),
        (
            Sum("difference", (Term((positives, below_minus_above)),)),
            Sum("ties", (Term((positives, Factor((Part(_NEGATIVES),)))),)),
            Sum("P", (Term((Factor((Part(_POSITIVES, "total"),)),)),)),
            Sum("N", (Term((Factor((Part(_NEGATIVES, "total"),)),)),)),
        ),
    )


def sketch_of(counts: Counts) -> NDArray[np.int64]:
    """Return a party's sketch for `auc_release`, shape (2·bins,)."""
    return np.concatenate([counts.bin_positives, counts.bin_negatives])


def largest_sum(max_rows: int) -> int:
    """Return A: no sum of so many pooled rows is larger in absolute value."""
    return max(max_rows, max_rows**2 // 4)


class AucOfSums(NamedTuple):
    """What the four integers say."""

    auc: Fraction
    half_width: Fraction
    positives: int
    negatives: int


def auc_of_sums(sums: Sequence[int], max_rows: int) -> AucOfSums:
    """Return the AUC of difference, ties, P and N.

    Raises
    ------
    ResultCheckError
        They cannot be those of at most `max_rows` rows.
    UndefinedAucError
        The rows have one class only.
    """
    difference, ties, positives, negatives = sums
    pairs = positives * negatives
    if min(positives, negatives) < 0 or positives + negatives > max_rows:
        raise ResultCheckError(
            f"the result fails its check, so no number is given: the pooled rows are more than max_rows = "
            f"{max_rows:,}, a message is damaged, or the aggregator has not computed what it should",
            check="range",
        )
    if not 0 <= ties <= pairs - abs(difference):
        raise ResultCheckError(
            "the result fails its check, so no number is given: it is not an AUC; a message is damaged, or the "
            "aggregator has not computed what it should",
            check="range",
        )
    if not pairs:
        missing = "negative" if positives else "positive"
        raise UndefinedAucError(f"the pooled rows hold no {missing} row, so the AUC is undefined; no number is given")
    return AucOfSums(Fraction(1, 2) + Fraction(difference, 2 * pairs), Fraction(ties, 2 * pairs), positives, negatives)
