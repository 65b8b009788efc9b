"""The aggregator's blinding: one secret multiplier r a session, from `secrets`.

CKKS blinding is a blur, not a theorem: it hides the size of num and den among the multipliers that would fit
(docs/security/ckks.md). Flooding: `fhe_auc.ckks.context`.
"""

import secrets
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.rlwe.ring_parameters import DEFAULT_FLOODING_BITS

BLINDING_BITS = 34  # ρ: a session's multiplier lies in [2^(ρ-16), 2^ρ]
MULTIPLIER_RANGE_BITS = 16
LEAST_MULTIPLIER = 2.0 ** (BLINDING_BITS - MULTIPLIER_RANGE_BITS)
FLOODED_BITS = DEFAULT_FLOODING_BITS + BLINDING_BITS + 2
"""b: flooding is uniform on [-2^b, 2^b); with λ = 40, `fhe_auc.ckks.context` has the distance."""

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23)
"""The only prime factors of multipliers. With so many small divisors, r·den has many: each could be the true r."""


RandomBits: TypeAlias = Callable[[int], int]
"""Returns so many random bits, as an integer: `secrets.randbits`, and nothing else where it protects someone."""


def multiplier(blinding_bits: int, draw: RandomBits = secrets.randbits) -> int:
    """Return a fresh blinding multiplier: uniform on the 23-smooth integers in [2^(blinding_bits-16), 2^blinding_bits].

    Uniform on this list (3·10⁵ integers for 34 bits, 4·10⁶ for 50), so that no r that may stand behind r·den is
    likelier than another. A log-uniform number, rounded to the list, would favour small r, which have fewer divisors,
    and those at gaps of the list: the likeliest r is then the true one two to four times as often. Each has its
    probability to within 2^-41 of itself. The least random number gives the largest r, the greatest the smallest.
    """
    integers = _multipliers(blinding_bits)
    return int(integers[-1 - (draw(64) * len(integers) >> 64)])


@lru_cache(maxsize=1)
def _multipliers(blinding_bits: int) -> NDArray[np.int64]:
    integers = smooth_integers(PRIMES, 1 << blinding_bits)
    return integers[integers >= 1 << (blinding_bits - MULTIPLIER_RANGE_BITS)]


def smooth_integers(primes: tuple[int, ...], most: int) -> NDArray[np.int64]:
    """Return the integers from 1 to `most`, below 2^62, that have no other prime factors; ascending."""
    found: NDArray[np.int64] = np.ones(1, np.int64)
    for prime in primes:
        power = found
        while len(power := power[power <= most // prime] * prime):
            found = np.concatenate([found, power])
    return np.sort(found)
