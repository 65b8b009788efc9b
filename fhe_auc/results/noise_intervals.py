"""Intervals and bands of noisy counts, from replicates: rows drawn anew from what was released, and noise from its law.

They cost no privacy: replicates rest on nothing but the released counts.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import UndefinedAucError
from fhe_auc.metrics.histogram import Histogram, with_both_labels
from fhe_auc.metrics.private_curves import CountNoise, RocFit, deviates_to_rates, rates_to_deviates
from fhe_auc.results.intervals import Interval, expit, quantile

RUNS = 400
METHOD = f"{RUNS} replicates of rows and noise"


@dataclass(frozen=True, eq=False)
class Bands:
    """The curves of noisy counts, with pointwise ends, and with simultaneous ends; all of shape (n,).

    With the level's probability the true curve is within pointwise ends at one place, within the others at all.
    """

    fpr: NDArray[np.float64]  # ascending, inside (0, 1)
    tpr: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    lowest: NDArray[np.float64]  # simultaneous
    highest: NDArray[np.float64]
    recall: NDArray[np.float64]  # ascending, inside (0, 1)
    precision: NDArray[np.float64]
    precision_low: NDArray[np.float64]
    precision_high: NDArray[np.float64]
    precision_lowest: NDArray[np.float64]
    precision_highest: NDArray[np.float64]


def resampled(histogram: Histogram, noise: CountNoise, runs: int = RUNS) -> list[Histogram]:
    """Return replicates of noisy counts, the same ones each time; `UndefinedAucError` as of `RocFit.fitted`."""
    usable = with_both_labels(histogram)
    random = np.random.default_rng(zlib.crc32(histogram.sides.tobytes()))
    rows, shares = usable.sides.sum(), usable.sides.ravel() / usable.sides.sum()
    counts = random.multinomial(round(float(rows)), shares, runs) + noise.drawn(random, runs, len(shares))
    return [Histogram(histogram.edges, *each.reshape(2, -1)) for each in counts]


_FPR = np.linspace(0.005, 0.995, 199, dtype=np.float64)


@lru_cache(maxsize=4)  # a histogram is equal to itself alone
def _fits(histogram: Histogram, noise: CountNoise) -> list[RocFit]:
    found = list[RocFit]()
    for each in resampled(histogram, noise):
        try:
            found.append(RocFit.fitted(each, noise))
        except UndefinedAucError:
            continue
    return found


def auc_interval(histogram: Histogram, noise: CountNoise, level: float) -> tuple[float, Interval | None]:
    """Return the standard error of the AUC of `RocFit`, and its interval."""
    value, drawn = RocFit.fitted(histogram, noise).auc, np.array([each.auc for each in _fits(histogram, noise)])
    return float(drawn.std(ddof=1)), _on_logit_scale(value, drawn, level)


def measure_intervals(
    histogram: Histogram, noise: CountNoise, level: float, measure: Callable[[Histogram], Mapping[str, float]]
) -> Mapping[str, Interval]:
    """Return the interval of each measure; none where replicates do not all have it."""
    values, drawn = measure(histogram), [measure(each) for each in resampled(histogram, noise)]
    found = dict[str, Interval]()
    for name, value in values.items():
        if all(name in each for each in drawn):
            reach = quantile(level) * float(np.std([each[name] for each in drawn], ddof=1))
            found[name] = Interval(level, value - reach, value + reach, METHOD)
    return found


def bands(histogram: Histogram, noise: CountNoise, level: float) -> Bands:
    """Return both curves with their bands."""
    own, fits = RocFit.fitted(histogram, noise), _fits(histogram, noise)
    tpr = _ends(own.tpr(_FPR), np.stack([each.tpr(_FPR) for each in fits]), level)
    precision = _ends(own.precision(_FPR), np.stack([each.precision(_FPR) for each in fits]), level)
    return Bands(_FPR, own.tpr(_FPR), *tpr, _FPR, own.precision(_FPR), *precision)


def _ends(value: NDArray[np.float64], drawn: NDArray[np.float64], level: float) -> list[NDArray[np.float64]]:
    centre, others = rates_to_deviates(value), np.stack([rates_to_deviates(each) for each in drawn])
    errors = np.maximum(others.std(axis=0, ddof=1), 1e-9)
    most = float(np.quantile(np.abs((others - centre) / errors).max(axis=1), level))
    return [deviates_to_rates(centre + by * errors) for by in (-quantile(level), quantile(level), -most, most)]


def _on_logit_scale(value: float, drawn: NDArray[np.float64], level: float) -> Interval | None:
    logits = np.log(drawn / (1 - drawn))
    centre, reach = float(np.log(value / (1 - value))), quantile(level) * float(logits.std(ddof=1))
    return Interval(level, expit(centre - reach), expit(centre + reach), METHOD)
