"""What a party checks about its own rows before it sends anything.

Thresholds that do not fit the scores make a meaningless AUC that looks like any other: percentages at thresholds from
0 to 1 all lie in the last bin. Nobody else sees the rows, so that each party has to notice by itself. What the messages
say of the rows is for that party's own people, and is never sent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fhe_auc.counts import PartyData
from fhe_auc.errors import InputError

__all__ = ["check_scores"]

_NEARLY_ALL = 0.99  # of a party's rows in one end bin: more likely another column than a classifier's scores
_ROUNDING = 1e-6  # by so much float32 arithmetic, as of a softmax, may leave [0, 1]


def check_scores(data: PartyData, thresholds: NDArray[np.float64]) -> None:
    """Raise `InputError` where a party's scores cannot be what the session's thresholds are for.

    Thresholds within [0, 1], as all named grids are, are for probabilities: no score may lie outside [0, 1], not even
    by a rounding error, since histograms have no bin there. Other thresholds may be for scores of any range, and scores
    may lie beyond them; refused is only a party of which 99 % of the rows, with different scores, lie below the first
    threshold, or at or above the last one. The message names party, column, row, value and range.

    Parameters
    ----------
    data : PartyData
        The party's rows.
    thresholds : ndarray of float64, shape (m,)
        Ascending.
    """
    scores, first, last = data.y_score, thresholds[0], thresholds[-1]
    span = f"from {scores.min():.10g} to {scores.max():.10g}"
    if first >= 0 and last <= 1:
        outside = (scores < 0) | (scores > 1)
        if outside.any():
            row = int(outside.argmax())
            raise InputError(
                f"{data.described}, row {row}: score is {float(scores[row])!r}, but these thresholds are for "
                f"probabilities; this party's scores run {span}: {_remedy(scores)}"
            )
        return
    for beyond, where in (
        (scores < first, f"below the first threshold, {first:g}"),
        (scores >= last, f"at or above the last threshold, {last:g}"),
    ):
        if beyond.mean() >= _NEARLY_ALL and np.ptp(scores[beyond]) > 0:
            raise InputError(
                f"{data.described}: of its rows {100 * beyond.mean():.3g} % lie {where}; its scores run {span}: check "
                "that this is the column of scores, or take thresholds that span them"
            )


def _remedy(scores: NDArray[np.float64]) -> str:
    if scores.min() >= -_ROUNDING and scores.max() <= 1 + _ROUNDING:
        return "if this is a rounding error, clip them to 0 and 1"
    return (
        "check that this is the column of scores; then set the score scale (--score-scale percent or logit), or give "
        "thresholds that span them"
    )
