"""The aggregator's randomness: blinding multipliers and flooding noise.

Both come from `secrets`, the noise through a ChaCha20 key stream. CKKS blinding is a blur, not a theorem: it hides the
size of num and den among the multipliers that would fit (docs/security/blinding.md).
"""

from __future__ import annotations

import math
import secrets

import numpy as np
from scipy.special import ndtri

from fhe_auc.ckks import Slots
from fhe_auc.keystream import UNIFORM_BITS, KeyStream
from fhe_auc_protocols.blinded_auc.plan import MULTIPLIER_RANGE_BITS

_LAYER_BITS = 40
_FILLED_BITS = 50  # a layer as small as that ends in no zeros: a double holds 53 bits


def multiplier(blinding_bits: int) -> int:
    """Return a fresh blinding multiplier: an integer, log-uniform in [2^(blinding_bits-16), 2^blinding_bits]."""
    fraction = secrets.randbits(UNIFORM_BITS) / 2**UNIFORM_BITS
    return round(math.pow(2, blinding_bits - MULTIPLIER_RANGE_BITS * fraction))


def symmetric_integer(bound: float) -> int:
    """Return a fresh integer, uniform on all integers of absolute value at most `bound`."""
    limit = int(bound)
    return secrets.randbelow(2 * limit + 1) - limit


def flooding_layers(slots: int, standard_deviation: float, *, unit: float) -> list[Slots]:
    """Return vectors of complex Gaussian noise over all slots, to be encoded and added one after the other.

    Parameters
    ----------
    slots : int
    standard_deviation : float
        Of all layers together: E|z|² is its square.
    unit : float
        What one unit of the encoded integer coefficients is worth. Encoded from double precision, a layer's
        coefficients end in zeros; so layer follows layer, each 2^40 times smaller, until the lowest bits are filled.
    """
    layers = [_gaussian(slots, standard_deviation)]
    while standard_deviation > 2.0**_FILLED_BITS * unit:
        standard_deviation *= 2.0**-_LAYER_BITS
        layers.append(_gaussian(slots, standard_deviation))
    return layers


def _gaussian(slots: int, standard_deviation: float) -> Slots:
    stream = KeyStream(secrets.token_bytes(32))
    real, imaginary = ndtri(stream.fractions(2, slots)) * (standard_deviation / np.sqrt(2))
    return np.asarray(real + 1j * imaginary)
