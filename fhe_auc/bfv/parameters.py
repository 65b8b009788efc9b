"""BFV parameters: one ring and one ciphertext modulus for several plaintext moduli."""

from __future__ import annotations

import math
from typing import ClassVar

from fhe_auc.base.errors import CapacityError
from fhe_auc.rlwe.parameters import BackendName, Chain, RingParameters
from fhe_auc.rlwe.primes import is_prime

CHAINS: dict[BackendName, tuple[Chain, ...]] = {
    # The first is for plaintext moduli of up to 42 bits, the second for larger ones. Keys take the special prime, which
    # SEAL always has, and nothing else does.
    "tenseal": (Chain(8192, (54, 54, 54), 18), Chain(8192, (49, 49, 49, 49), 18)),
    "openfhe": (Chain(8192, (54, 54, 54), 0), Chain(8192, (52, 52, 52, 52), 0)),
}
"""Chains of the libraries: ciphertexts are added up and multiplied by plaintexts."""

FLOODING_SHARE = 0.7  # of the capacity for noise, what flooding takes at most
LEAST_PLAIN_BITS, MOST_PLAIN_BITS = 17, 50
MAX_PLAIN_MODULI = 8


class BfvParameters(RingParameters, frozen=True, forbid_unknown_fields=True):
    """One BFV parameter set, complete: two sites with equal values compute in the same rings.

    A ciphertext is for one of the plaintext moduli and holds N integers modulo it; one set of keys serves all of them.
    Raises `CapacityError` for other values, or as `RingParameters`.
    """

    plain_moduli: tuple[int, ...]
    """1 to 8 different primes t, 1 modulo 2N, of 17 to 50 bits. Small ones are for experiments, not for planners."""

    scheme: ClassVar[str] = "bfv"
    chains: ClassVar[dict[BackendName, tuple[Chain, ...]]] = CHAINS

    def __post_init__(self) -> None:
        super().__post_init__()
        moduli = self.plain_moduli
        if not 1 <= len(moduli) <= MAX_PLAIN_MODULI or len(set(moduli)) != len(moduli):
            raise CapacityError(f"expected 1 to {MAX_PLAIN_MODULI} plaintext moduli, all different")
        for modulus in moduli:
            if not LEAST_PLAIN_BITS <= modulus.bit_length() <= MOST_PLAIN_BITS:
                raise CapacityError(
                    f"a plaintext modulus must have {LEAST_PLAIN_BITS} to {MOST_PLAIN_BITS} bits, got {modulus}"
                )
            if modulus % (2 * self.ring_dimension) != 1 or not is_prime(modulus):
                raise CapacityError(
                    f"a plaintext modulus must be a prime that is 1 modulo {2 * self.ring_dimension}, got {modulus}"
                )

    @property
    def slots(self) -> int:
        """Integers that a ciphertext holds, N."""
        return self.ring_dimension

    @property
    def capacity_bits(self) -> float:
        """log2 of Q/2t for the largest t: noise below that in every coefficient decrypts."""
        return self.log2_modulus - 1 - math.log2(max(self.plain_moduli))

    @property
    def flooding_bits(self) -> int:
        """b: flooding noise is uniform on [-2^b, 2^b)."""
        return math.floor(self.capacity_bits + math.log2(FLOODING_SHARE))
