"""AUC of rows that are weighted, or followed up until a horizon: from the definitions over rows, pair by pair.

The oracle of weights and follow-up times; riskRegression's numbers are in tests/support/follow_up_sets. At a horizon t

    cases       rows with the event by t
    controls    rows followed up beyond t, or with a competing event by t: the second definition of Blanche, Dartigues
                and Jacqmin-Gadda, Statistics in Medicine 32 (2013), 5381-5397, section 2.2
    weights     1/G(T−) of a row whose time T is up to t, 1/G(t) of one beyond; rows censored by t have none
    G           Kaplan and Meier's curve of censoring, on one day events before censorings

Standard errors are those of influence functions. That of a row is w·(u − a)/2P, u the share of the other label's
weights on its right side less that on its wrong side, a = 2·AUC − 1, P the weights of its label.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
CENSORED, EVENT = 0, 1


class Estimate(NamedTuple):
    """An AUC, its standard error, and effective rows: of cases and controls, (Σw)²/Σw²."""

    auc: float
    error: float
    effective: tuple[float, float]
    influence: Numbers
    """Of each row: its estimate's share of the AUC less the truth."""


class Curve(NamedTuple):
    """Kaplan and Meier's curve of censoring: at each distinct time, ascending."""

    times: Numbers
    after: Numbers  # G there, and until the next time

    def before(self, times: Numbers) -> Numbers:
        """Return G just before each of these."""
        return np.append(1.0, self.after)[np.searchsorted(self.times, times, side="left")]

    def at(self, times: Numbers) -> Numbers:
        """Return G at each of these."""
        return np.append(1.0, self.after)[np.searchsorted(self.times, times, side="right")]


def censoring_curve(times: Numbers, events: NDArray[np.int64]) -> Curve:
    distinct = np.unique(times)
    censored = np.array([np.sum((times == each) & (events == CENSORED)) for each in distinct])
    at_risk = np.array([np.sum(times > each) for each in distinct]) + censored  # less those with an event then
    left = np.where(censored > 0, 1 - censored / np.maximum(at_risk, 1), 1.0)
    return Curve(distinct, np.cumprod(left))


def weighted_auc(labels: NDArray[np.bool_], scores: Numbers, weights: Numbers | None = None) -> Estimate:
    """Return the AUC of rows with these weights, and its standard error with the weights taken as known.

    With effective rows n of a label for n/(n − 1): with weights of 1, exactly DeLong's.
    """
    labels = np.asarray(labels, bool)
    weights = np.ones(len(labels)) if weights is None else np.asarray(weights, float)
    influence, worth = np.zeros(len(labels)), {}
    for label in (True, False):
        own, others = labels == label, labels != label
        beaten = _summed(scores[own], scores[others], weights[others]) / weights[others].sum()
        worth[label] = beaten if label else -beaten
    a = float(np.average(worth[True], weights=weights[labels]))
    variance, effective = 0.0, []
    for label in (True, False):
        w = weights[labels == label]
        influence[labels == label] = w * (worth[label] - a) / (2 * w.sum())
        n = w.sum() ** 2 / np.sum(w**2)
        effective.append(float(n))
        variance += float(np.sum(influence[labels == label] ** 2)) * n / (n - 1)
    return Estimate((1 + a) / 2, variance**0.5, (effective[0], effective[1]), influence)


def auc_at(
    scores: Numbers, times: Numbers, events: NDArray[np.int64], horizon: float, *, lagged: bool = True
) -> Estimate:
    """Return AUC(t), weights taken as known. `lagged` off: G(T) for G(T−), as scikit-survival has it."""
    labels, weights = at_horizon(times, events, horizon, lagged=lagged)
    counts = weights > 0
    found = weighted_auc(labels[counts], scores[counts], weights[counts])
    influence = np.zeros(len(times))
    influence[counts] = found.influence
    return found._replace(influence=influence)


def at_horizon(
    times: Numbers, events: NDArray[np.int64], horizon: float, *, lagged: bool = True
) -> tuple[NDArray[np.bool_], Numbers]:
    """Return each row's label and weight at a horizon: 0 where it was censored by then."""
    curve = censoring_curve(times, events)
    ended = (times <= horizon) & (events != CENSORED)
    shares = curve.before(times) if lagged else curve.at(times)
    weights = np.where(ended, 1 / np.where(ended, shares, 1), 0.0)
    beyond = times > horizon
    weights[beyond] = 1 / curve.at(np.array([horizon]))[0]
    return (times <= horizon) & (events == EVENT), weights


def _summed(scores: Numbers, others: Numbers, weights: Numbers) -> Numbers:
    """Return for each score the weights of others below it less those above."""
    order = np.argsort(others, kind="stable")
    below = np.append(0.0, np.cumsum(weights[order]))
    left, right = (np.searchsorted(others[order], scores, side) for side in ("left", "right"))
    return below[left] + below[right] - below[-1]
