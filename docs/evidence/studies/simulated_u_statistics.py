"""SIMULATED U-statistics under local differential privacy, for experiments: fast, seeded, and protecting nobody.

[USTAT] is cited in `fhe_auc_protocols.u_statistics`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.exact_sampling import Source
from fhe_auc_protocols.u_statistics.kernels import Floats, Kernel
from fhe_auc_protocols.u_statistics.krr import RandomisedResponse
from fhe_auc_protocols.u_statistics.pairs import PairStep, ValueResponse, Zetas

__all__ = ["IdealResponse", "krr_counts", "zetas"]


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
