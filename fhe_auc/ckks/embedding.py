"""The canonical embedding of CKKS: N real coefficients of a polynomial, as the N/2 complex slots that they encode to.

    slot j = Σ_k c_k·ξ^(g^j·k)        ξ = exp(iπ/N), g as the library has it

Integer coefficients are encoded exactly, to the last unit, as long as double precision holds them (`EXACT_BITS`).
Arbitrary slots are not: they become the nearest polynomial, and what was rounded off depends on them.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.ckks.context import Slots
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.rlwe.parameters import BackendName

EXACT_BITS = 44
"""Coefficients below 2^44 in absolute value come out exactly; the transforms' errors stay below 2^-4 (a test)."""


_GENERATORS: dict[BackendName, int] = {"openfhe": 5, "tenseal": 3}
"""g, which sets the order of the slots."""


def slots_of(coefficients: ArrayLike, parameters: CkksParameters) -> Slots:
    """Return the slots, shape (N/2,), of a polynomial with these N real coefficients."""
    vector = np.asarray(coefficients, float)
    powers, places = _roots(parameters.ring_dimension, _GENERATORS[parameters.backend])
    everywhere = np.fft.ifft(vector * powers, norm="forward")
    return np.asarray(everywhere[places], complex)


def coefficients_of(slots: Slots, parameters: CkksParameters) -> NDArray[np.float64]:
    """Return the N real coefficients of the polynomial with these N/2 slots."""
    powers, places = _roots(parameters.ring_dimension, _GENERATORS[parameters.backend])
    everywhere = np.empty(2 * len(slots), complex)
    everywhere[places] = slots
    everywhere[len(everywhere) - 1 - places] = np.conj(slots)
    return np.asarray((np.fft.fft(everywhere, norm="forward") / powers).real, float)


@lru_cache(maxsize=4)
def _roots(ring_dimension: int, generator: int) -> tuple[Slots, NDArray[np.int64]]:
    """Return ξ^k, and of each slot the t with g^j = 2t + 1; the conjugate slot's is N - 1 - t."""
    powers = np.exp(1j * np.pi * np.arange(ring_dimension) / ring_dimension)
    exponents = [pow(generator, slot, 2 * ring_dimension) for slot in range(ring_dimension // 2)]
    return powers, (np.array(exponents) - 1) // 2
