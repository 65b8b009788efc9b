"""Smooth calibration: how far scores are from the share of positive rows near them, without groups.

The share p̂(s) at a score s is Cleveland's local line through labels 0 and 1, as R's ``lowess(s, y, iter = 0)`` of
`rms::val.prob` draws it. Of n rows, the ⌊2n/3⌋ nearest reach as far as h; a row at distance r < 0.999 h weighs
(1 - (r/h)³)³, and 1 below 0.001 h. Between fits that lie 0.01 of all scores' range apart p̂ is straight. Later rounds,
which lowess makes by default, would drop rows far from the curve: with a rare outcome, all positive ones.

    ICI (Eavg)          mean of |p̂(s) - s| over rows             Austin and Steyerberg, Stat. Med. 38 (2019)
    E50, E90, Emax      its median, 0.9 quantile and maximum

p̂ is linear in labels, p̂(s) = Σ l_j(s) y_j, and gives back a straight line. So if rows' labels come about with their own
scores as probabilities, p̂(s) - s has mean 0 and variance v(s) = Σ l_j(s)² s_j (1 - s_j), is about normal, and

    ICI by chance       mean over rows of √(2 v(s)/π)

Rows of weight w count as w rows. With them v(s) = Σ l_j(s)² w_j² s_j (1 - s_j), where Σw² of a bin's rows is taken to
be to their Σw as it is over all rows of the label.

Rows of a bin have its middle as score; each bin then is one weighted point, and p̂ is the same as over rows.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.probabilities import with_rows

_SPAN = 2 / 3  # of all rows, near a fit
_STEP = 0.01  # of the range, between fits
_WHOLE, _NONE, _STEEP = 0.001, 0.999, 0.001  # limits of lowess: of h, of h, and of the range


class SmoothCalibration(NamedTuple):
    """Distances between scores and the smoothed share of positive rows, over rows; each in [0, 1] but by a hair."""

    ici: float
    e50: float
    e90: float
    emax: float
    ici_by_chance: float  # mean ICI of such scores if all were right


def smooth_calibration(histogram: Histogram) -> SmoothCalibration:
    """Compute them, each row at its bin's middle; quantiles are the distance of a row, not between two."""
    usable = with_rows(histogram, "nothing to smooth")
    some = usable.counts > 0
    scores, rows, positives = (each[some] for each in (usable.centres, usable.counts, usable.positives))
    at = _fits(scores)
    # shape (fits, bins): what one row of a bin adds to each fit if it is positive
    weights = np.stack([_line(scores, rows, scores[i]) for i in at])
    smooth = np.interp(scores, scores[at], weights @ positives)
    far = np.abs(smooth - scores)
    # Neighbouring fits weigh rows alike: between them the deviation is straight, as the curve is.
    heavy = usable.spread.sum(axis=1) / np.maximum(usable.sides.sum(axis=1), 1e-300)  # Σw²/Σw of each label
    varied = rows * scores * (1 - scores) * (heavy[0] * (1 - scores) + heavy[1] * scores)
    chance = np.interp(scores, scores[at], np.sqrt(2 / np.pi * (np.square(weights) @ varied)))
    order, total = np.argsort(far), float(rows.sum())
    ranks = np.searchsorted(np.cumsum(rows[order]), np.array([0.5, 0.9]) * total)
    middle, high = far[order[np.minimum(ranks, len(far) - 1)]].tolist()
    return SmoothCalibration(float(far @ rows) / total, middle, high, float(far.max()), float(chance @ rows) / total)


def _fits(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return at which of ascending scores a line is fitted: the last one within a step, or else the next."""
    step, at = _STEP * (scores[-1] - scores[0]), [0]
    while at[-1] < len(scores) - 1:
        within = int(np.searchsorted(scores, scores[at[-1]] + step, side="right")) - 1
        at.append(max(at[-1] + 1, within))
    return np.array(at)


def _line(scores: NDArray[np.float64], rows: NDArray[np.float64], score: float) -> NDArray[np.float64]:
    """Return the weight of a row of each score in the line around one of the scores."""
    distances = np.abs(scores - score)
    order = np.argsort(distances)
    near = max(2.0, np.floor(_SPAN * rows.sum() + 1e-7))
    reach = distances[order[min(int(np.searchsorted(np.cumsum(rows[order]), near)), len(order) - 1)]]
    tricube = (1 - (np.minimum(distances, reach) / (reach or 1.0)) ** 3) ** 3
    weights = np.where(distances <= _WHOLE * reach, 1.0, tricube) * (distances <= _NONE * reach)
    weights /= weights @ rows
    off = scores - (weights * rows) @ scores
    square = float((weights * rows) @ np.square(off))
    if np.sqrt(square) > _STEEP * (scores[-1] - scores[0]):
        weights *= 1 + (score - (weights * rows) @ scores) * off / square
    return np.asarray(weights)
