"""What would mend scores in the large: observed over expected events, and the logistic calibration line.

Cox, "Two further applications of a model for binary regression", Biometrika 45 (1958), 562-565: label 1 has probability
expit(a + b·logit(score)); scores that are right have a = 0 and b = 1. A slope b below 1 says that scores are too
extreme. With b held at 1, a is the calibration in the large: above 0, events are more than the scores say.

A bin's rows are taken to have its middle as score. Scores nearer to 0 or 1 than 1e-8, which have no logit or a huge
one, are taken as 1e-8 from there, as the R package CalibrationCurves does; the report says so.

All raise `UndefinedAucError` if there are no positive or no negative rows; `InputError` if edges leave [0, 1].
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.special_functions import expit, root
from fhe_auc.metrics.histogram import Estimate, Histogram, with_both_labels
from fhe_auc.metrics.probabilities import require_probabilities

NEAREST_END = 1e-8  # scores are taken at least so far from 0 and 1, where logits are needed

_STEPS, _SMALL_STEP = 100, 1e-9  # about ten are enough


class CalibrationLine(NamedTuple):
    """Intercept a and slope b of the logistic calibration line, and their standard errors.

    `intercept_off` and `slope_off` say how far the lines go off whose positive rows all have one end of their bin as
    score, and whose negative rows the other: about what bins leave open at most. Infinite where these have no line. In
    the end bins the outer end is the middle: at a score of 0 or 1, which has no logit, one row would show in it.
    """

    intercept: float
    slope: float
    intercept_error: float
    slope_error: float
    intercept_off: float = 0.0
    slope_off: float = 0.0


def observed_expected_ratio(histogram: Histogram) -> tuple[Estimate, float] | None:
    """Compute positive rows over the sum of all scores, and the standard error of its logarithm.

    1 is best, below 1 the scores are too high. The error is √(Σ (label − ratio·score)²)/events, as of any ratio: the
    rows are drawn independently; scores need not be right. None if the mean score is below 1e-8.

    At a horizon expected are the scores of all rows, also of those censored before, and Σ w·label of those that count
    is what Kaplan and Meier (with competing events Aalen and Johansen) observe, times all rows: of each row then
    w·label − ratio·score varies. The error takes the weights as known: so it is too large rather than too small.
    """
    usable = _usable(histogram)
    observed, everybody = float(usable.positives.sum()), usable.counts
    if usable.unknown is not None:
        everybody = usable.real.sum(axis=0) + usable.unknown
    if not float(everybody @ usable.centres) > NEAREST_END * float(everybody.sum()):
        return None
    value, low, high = (
        observed / expected if expected > 0 else np.inf
        for expected in (float(everybody @ s) for s in (usable.centres, usable.edges[1:], usable.edges[:-1]))
    )
    rates = value * usable.centres
    error = _left_over(usable, rates)
    if usable.unknown is not None:
        squares = usable.spread[0].sum() - 2 * usable.positives @ rates + everybody @ np.square(rates)
        error = float(np.sqrt(max(squares, 0.0)))
    return Estimate(value, min(low, value), max(high, value)), error / observed


def _left_over(histogram: Histogram, rates: NDArray[np.float64]) -> float:
    """Return √(Σ (label − rate)²): the standard error of the events, beyond those that the rates tell."""
    return float(np.sqrt(_squares(histogram.spread, rates).sum()))


def _squares(spread: NDArray[np.float64], rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Σ w²(label − rate)² over the rows of each bin, of which Σw² are `spread`."""
    return np.asarray(spread[0] * np.square(1 - rates) + spread[1] * np.square(rates))


def calibration_in_the_large(histogram: Histogram) -> tuple[Estimate, float]:
    """Compute the intercept a with the slope held at 1, and its standard error.

    It falls with every score, so that the range has all rows at their bins' upper, and at their lower edges. The
    standard error is White's, right where the slope is not 1, too: Econometrica 50 (1982), 1-25.
    """
    usable = _usable(histogram)
    value, low, high = (
        intercept(usable, logit(scores)) for scores in (usable.centres, usable.edges[1:], usable.edges[:-1])
    )
    rates = expit(value + logit(usable.centres))
    error = _left_over(usable, rates) / float(usable.counts @ (rates * (1 - rates)))
    return Estimate(value, min(low, value), max(high, value)), error


def intercept(histogram: Histogram, linear: NDArray[np.float64]) -> float:
    """Return the intercept with which as many positive rows are expected as there are."""
    positives, counts = float(histogram.positives.sum()), histogram.counts
    # That of equal scores lies between those of the lowest and the highest score.
    of_all = np.log(positives) - np.log(histogram.negatives.sum())
    ends = of_all - linear.max() - 1, of_all - linear.min() + 1
    return root(lambda a: float(counts @ expit(a + linear)) - positives, *map(float, ends))


def calibration_line(histogram: Histogram) -> CalibrationLine | None:
    """Fit a and b by maximum likelihood, with standard errors: the larger of Fisher's and White's.

    Fisher's are too small where log odds are not linear, White's are by chance where rows are few (Angrist and Pischke,
    Mostly Harmless Econometrics, 2009, section 8.1). With weights they are White's alone, each row's part enlarged by
    its leverage (HC3; Long and Ervin, The American Statistician 54 (2000), 217-224).

    None if a score parts the labels, or nearly does, or all are equal, so that no finite slope is the best one.
    """
    usable = _usable(histogram)
    found = fitted_line(usable.positives, usable.negatives, logit(usable.centres), usable)
    if found is None:
        return None
    lower, upper = logit(usable.edges[:-1]), logit(usable.edges[1:])
    lower[0], upper[-1] = logit(usable.centres[[0, -1]])
    nothing = np.zeros(usable.bins)
    off = np.zeros(2)
    for of_ones, of_zeros in ((upper, lower), (lower, upper)):
        sides = np.append(usable.positives, nothing), np.append(nothing, usable.negatives)
        other = fitted_line(*sides, np.append(of_ones, of_zeros))
        off = np.full(2, np.inf) if other is None else np.maximum(off, np.abs(np.subtract(other[:2], found[:2])))
    return found._replace(intercept_off=float(off[0]), slope_off=float(off[1]))


def _usable(histogram: Histogram) -> Histogram:
    require_probabilities(histogram)
    return with_both_labels(histogram)


def logit(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log odds of scores in [0, 1], kept `NEAREST_END` away from the ends."""
    inside = np.clip(scores, NEAREST_END, 1 - NEAREST_END)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def fitted_line(
    positives: NDArray[np.float64],
    negatives: NDArray[np.float64],
    scores: NDArray[np.float64],
    histogram: Histogram | None = None,
) -> CalibrationLine | None:
    """Fit by Newton's method, from the slope 0; steps too long are halved: the log-likelihood is concave.

    Errors are there where the `histogram` is given.
    """
    of_ones, of_zeros = scores[positives > 0], scores[negatives > 0]
    if of_ones.min() >= of_zeros.max() or of_zeros.min() >= of_ones.max():
        return None
    counts = positives + negatives
    design = np.stack([np.ones(len(scores)), scores], axis=1)

    def loss(line: NDArray[np.float64]) -> float:
        return float(counts @ np.logaddexp(0, design @ line) - positives @ (design @ line))

    line = np.array([np.log(positives.sum()) - np.log(negatives.sum()), 0.0])
    with suppress(np.linalg.LinAlgError):  # noise can leave counts near 0, with which no step is found
        for _ in range(_STEPS):
            rates = expit(design @ line)
            covariance = np.linalg.inv((design.T * (counts * rates * (1 - rates))) @ design)
            step = covariance @ (design.T @ (positives - counts * rates))
            if np.abs(step).max() < _SMALL_STEP:
                errors = np.zeros(2)
                if histogram is not None:
                    spread, fisher = histogram.spread, covariance
                    if histogram.squares is not None:
                        leverage = ((design @ covariance) * design).sum(axis=1) * rates * (1 - rates)
                        own = spread / np.where(histogram.sides > 0, histogram.sides, 1)
                        spread, fisher = spread / (1 - np.minimum(own * leverage, 0.5)) ** 2, 0 * covariance
                    white = covariance @ ((design.T * _squares(spread, rates)) @ design) @ covariance
                    errors = np.sqrt(np.maximum(np.diag(fisher), np.diag(white)))
                return CalibrationLine(float(line[0]), float(line[1]), *errors.tolist())
            before = loss(line)
            while np.abs(step).max() >= _SMALL_STEP and not loss(line + step) <= before:
                step /= 2
            line = line + step
    return None
