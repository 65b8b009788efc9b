"""The aggregator's randomness: blinding multipliers and flooding noise.

Both come from `secrets`, the noise through a ChaCha20 key stream. CKKS blinding is a blur, not a theorem: it hides the
size of num and den among the multipliers that would fit (README, what parties learn).
"""

from __future__ import annotations

import math
import secrets

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from scipy.special import ndtri

from fhe_auc.ckks import Slots
from fhe_auc.planner import MULTIPLIER_RANGE_BITS

_UNIFORM_BITS = 52  # one less than a double holds: (n + ½)/2^52 is exact, and never 0 or 1
_SECOND_LAYER_BITS = 40


def multiplier(blinding_bits: int) -> int:
    """Return a fresh blinding multiplier: an integer, log-uniform in [2^(blinding_bits-16), 2^blinding_bits]."""
    fraction = secrets.randbits(_UNIFORM_BITS) / 2**_UNIFORM_BITS
    return round(math.pow(2, blinding_bits - MULTIPLIER_RANGE_BITS * fraction))


def symmetric_integer(bound: float) -> int:
    """Return a fresh integer, uniform on all integers of absolute value at most `bound`."""
    limit = int(bound)
    return secrets.randbelow(2 * limit + 1) - limit


def flooding_layers(slots: int, standard_deviation: float) -> tuple[Slots, Slots]:
    """Return two vectors of complex Gaussian noise over all slots, to be encrypted and added one after the other.

    The first has E|z|² = standard_deviation². Encoded from double precision, its coefficients end in zeros; the second
    layer, 2^40 times smaller, fills the low bits.
    """
    return _gaussian(slots, standard_deviation), _gaussian(slots, standard_deviation * 2.0**-_SECOND_LAYER_BITS)


def _gaussian(slots: int, standard_deviation: float) -> Slots:
    stream = Cipher(algorithms.ChaCha20(secrets.token_bytes(32), bytes(16)), mode=None).encryptor()
    words = np.frombuffer(stream.update(bytes(16 * slots)), "<u8").reshape(2, slots)
    uniform = ((words >> (64 - _UNIFORM_BITS)) + 0.5) / 2.0**_UNIFORM_BITS
    real, imaginary = ndtri(uniform) * (standard_deviation / np.sqrt(2))
    return np.asarray(real + 1j * imaginary)
