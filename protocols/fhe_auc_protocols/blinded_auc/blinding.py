"""The aggregator's blinding: one secret multiplier r a session, from `secrets`.

CKKS blinding is a blur, not a theorem: it hides the size of num and den among the multipliers that would fit
(docs/security/protocol.md). Flooding noise: `fhe_auc.ckks.flooding`.
"""

import math
import secrets
from typing import Protocol

from fhe_auc.base.keystream import UNIFORM_BITS
from fhe_auc_protocols.blinded_auc.plan import MULTIPLIER_RANGE_BITS


class BlindingRandomness(Protocol):
    """Where secret numbers come from: the module `secrets`, and nothing else where it protects someone."""

    def randbits(self, k: int, /) -> int:
        """Return an integer of k random bits: uniform on [0, 2^k)."""


def multiplier(blinding_bits: int, randomness: BlindingRandomness = secrets) -> int:
    """Return a fresh blinding multiplier: an integer, log-uniform in [2^(blinding_bits-16), 2^blinding_bits]."""
    fraction = randomness.randbits(UNIFORM_BITS) / 2**UNIFORM_BITS
    return round(math.pow(2, blinding_bits - MULTIPLIER_RANGE_BITS * fraction))
