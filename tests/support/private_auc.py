"""A trusted curator's noise on a private AUC, and an audit of the privacy of its releases."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fhe_auc.question import thresholds
from fhe_auc_benchmarks.comparison import simulated_private_auc
from fhe_auc_benchmarks.comparison.simulated_private_auc import NoiselessRelease, budget, releases
from fhe_auc_protocols.exact_auc.epsilon_noise import Privacy

GRID = thresholds.parse("hybrid:4000")
UNITS = ("row", "label")
_SEPARATION = math.sqrt(2) * float(stats.norm.ppf(0.8))  # of two normal laws: an AUC of 0.8


def rows_of(size: int, prevalence: float, random: np.random.Generator) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return labels and scores: so many rows, binormal logits with an AUC of 0.8, that share of positives exactly."""
    labels = np.zeros(size, np.bool_)
    labels[: round(prevalence * size)] = True
    logits = random.normal(size=size) + _SEPARATION * labels - 1
    return labels, 1 / (1 + np.exp(-logits))


def with_curator(
    pool: NoiselessRelease, privacy: Privacy, *, runs: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Return the same of a trusted curator who adds the noise of all shares at once; drawn by scipy, for comparison."""
    parties, noise = len(privacy.rows), []
    for _, _, grain, scale, _ in privacy.channels:
        law = stats.nbinom(parties / privacy.shares, -np.expm1(-1 / float(scale)))
        steps = law.rvs(runs, random_state=random) - law.rvs(runs, random_state=random)
        noise.append(grain * steps + random.integers(0, grain, (runs, parties)).sum(axis=1))
    return np.asarray(simulated_private_auc.exact(pool, privacy) + np.column_stack(noise))


def least_epsilon(
    of_pool: Callable[[int], NDArray[np.int64]], of_neighbour: Callable[[int], NDArray[np.int64]], runs: int
) -> float:
    """Return what epsilon is at least, with 99 % confidence, of so many releases of either pool, in two numbers.

    On half of them the event is chosen, D' and P' beyond a quantile each, that tells the pools apart best; on the other
    half its probabilities are bounded (Clopper and Pearson).
    """
    chosen, tested = ([draw(runs // 2) for draw in (of_pool, of_neighbour)] for _ in range(2))
    both = np.concatenate(chosen)
    places = [np.unique(np.quantile(both[:, column], np.linspace(0.002, 0.998, 120))) for column in (0, 1)]
    best, event = -math.inf, None
    for d, p, up, more in product(places[0], [-math.inf, *places[1]], (1, -1), (1, -1)):

        def inside(released: NDArray[np.int64], d: float = d, p: float = p, up: int = up, more: int = more) -> float:
            return float(((up * released[:, 0] >= up * d) & (more * released[:, 1] >= more * p)).mean())

        likely, seldom = (inside(each) for each in chosen)
        if likely <= seldom or seldom < 0.002:
            continue
        surely = math.log(likely / seldom) - 3 / math.sqrt(seldom * runs / 2)
        if surely > best:
            best, event = surely, inside
    if event is None:
        return 0.0
    half = len(tested[0])
    hits = [round(half * event(each)) for each in tested]
    low = stats.beta.ppf(0.005, hits[0], half - hits[0] + 1)
    high = stats.beta.ppf(0.995, hits[1] + 1, half - hits[1])
    return max(0.0, float(math.log(low / high)))


def audit(unit: str, what: str, runs: int, random: np.random.Generator, *, halved: bool = False) -> float:
    """Return `least_epsilon` of the worst pools of 12 rows, with the shares of those alone who are needed; ε = 1."""
    size = 12
    pools = {  # a row at the lower end
        "label flipped": (NoiselessRelease(0, 6, size), NoiselessRelease(-(size - 1), 7, size)),
        "replaced, same label": (NoiselessRelease(size - 1, 1, size), NoiselessRelease(-(size - 1), 1, size)),
        "replaced, other label": (NoiselessRelease(0, 6, size), NoiselessRelease(-(size - 1), 7, size)),
    }
    privacy = budget(size, 4, 1.0, unit)
    told = budget(size, 4, 2.0, unit) if halved else privacy

    def draw(pool: NoiselessRelease, runs: int) -> NDArray[np.int64]:
        released = releases(pool, told, runs=runs, random=random, parties=told.shares)
        return released[:, [not each.ties for each in told.channels]]

    draws = [partial(draw, pool) for pool in pools[what]]
    return max(least_epsilon(*draws, runs), least_epsilon(*reversed(draws), runs))
