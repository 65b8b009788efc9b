"""SIMULATED U-statistics under local differential privacy, for experiments: fast, seeded, and protecting nobody.

[USTAT] is cited in `fhe_auc_protocols.u_statistics`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from fhe_auc.errors import InputError
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.exact_sampling import Source
from fhe_auc_protocols.option_values import checked_epsilon
from fhe_auc_protocols.u_statistics.kernels import Floats, Kernel
from fhe_auc_protocols.u_statistics.krr import RandomisedResponse
from fhe_auc_protocols.u_statistics.pairs import PairStep, ValueResponse, Zetas

__all__ = ["IdealResponse", "all_pairs", "composed_epsilon", "krr_counts", "zetas"]


def krr_counts(response: RandomisedResponse, counts: ArrayLike, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the counts of reports of so many users with each value, both shape (k,); in O(k) draws.

    Users of one value are exchangeable: how many keep it is binomial, the replaced ones are spread uniformly. The
    distribution is that of counting `RandomisedResponse.randomise`.
    """
    numbers = np.asarray(counts, np.int64)
    replaced = generator.binomial(numbers, response.beta)
    spread = generator.multinomial(int(replaced.sum()), np.full(response.k, 1 / response.k))
    return np.asarray(numbers - replaced + spread, np.int64)


class IdealResponse(PairStep):
    """Ideal functionality: a trusted third draws one entry of `ValueResponse`'s table for each pair."""

    def __init__(self, kernel: Kernel, response: ValueResponse, source: Source) -> None:
        self._kernel, self._response, self._source = kernel, response, source

    @property
    def noise_variance(self) -> float:
        """Largest variance of an answer, given the kernel's value."""
        return self._response.noise_variance

    def noisy(self, first: Floats, second: Floats) -> Floats:
        """Return the unbiased estimate from each pair's response."""
        response = self._response
        drawn = response.table[exact_sampling.integers(self._source, len(response.table), len(first))]
        answers = (response.index(self._kernel.clipped(first, second)) + drawn) % len(response.values)
        return response.unbiased(answers)


def zetas(shares: ArrayLike, matrix: Floats) -> Zetas:
    """Return both from the probability of each of k values and the kernel's matrix."""
    p = np.asarray(shares, float)
    conditional = matrix @ p
    mean = p @ conditional
    return Zetas(float(p @ conditional**2 - mean**2), float(p @ matrix**2 @ p - mean**2))


def composed_epsilon(epsilon: float, delta: float, times: int) -> float:
    """Return ε₀ such that `times` uses of an ε₀-private step are (ε, δ)-private by advanced composition.

    ε = √(2·times·ln(1/δ))·ε₀ + times·ε₀·(e^ε₀ - 1): Dwork, Rothblum, Vadhan, "Boosting and Differential Privacy", FOCS
    2010, theorem III.3.
    """
    epsilon = checked_epsilon(epsilon)
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, got {delta:g}")

    def excess(step: float) -> float:
        return math.sqrt(2 * times * math.log(1 / delta)) * step + times * step * math.expm1(step) - epsilon

    return float(brentq(excess, 0.0, epsilon, xtol=1e-300, rtol=1e-12))


def all_pairs(
    u_statistic: float, users: int, epsilon: float, delta: float, generator: np.random.Generator, width: float = 1.0
) -> float:
    """Return an estimate from all n(n-1)/2 pairs under advanced composition, (ε, δ)-DP: the foil of `pairs`.

    A user is in n - 1 pairs. The sum of N Laplace variables is the difference of two Gamma(N) variables: drawn as such,
    the exact statistic and two draws are all that it takes.
    """
    number = users * (users - 1) // 2
    scale = width / composed_epsilon(epsilon, delta, users - 1)
    noise = generator.gamma(number, scale) - generator.gamma(number, scale)
    return u_statistic + float(noise) / number
