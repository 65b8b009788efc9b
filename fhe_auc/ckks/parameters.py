"""CKKS parameters."""

from __future__ import annotations

from typing import ClassVar

from fhe_auc.base.errors import CapacityError
from fhe_auc.rlwe.parameters import BackendName, Chain, RingParameters

CHAINS: dict[BackendName, tuple[Chain, ...]] = {
    # Q fills whole bytes, almost: coefficients travel in whole bytes. The special prime is
    # larger than every other, which keeps key-switching noise at a few bits.
    "tenseal": (Chain(8192, (55, 55, 48), 56), Chain(16384, (56, 56, 56, 56), 60)),
    # The library sets key-switching primes of 60 bits; 52 + 2·51 is the most beside one at 8192.
    "openfhe": (Chain(8192, (52, 51, 51), 60), Chain(16384, (55, 51, 51, 51), 60)),
}
"""All chains in use."""


class CkksParameters(RingParameters, frozen=True, forbid_unknown_fields=True):
    """One CKKS parameter set, complete: two sites with equal values compute in the same rings.

    Ciphertexts have N/2 complex slots. Raises `CapacityError` for other values, or as `RingParameters`.
    """

    log2_scale: float
    """log2 of the effective scale Δ' that counts are encoded with (library scale times fixed-point unit): at least 1,
    and below log2(Q)/2."""
    rotations: tuple[int, ...]
    """Left rotations that evaluation keys exist for: powers of two below N/2, ascending."""

    scheme: ClassVar[str] = "ckks"
    chains: ClassVar[dict[BackendName, tuple[Chain, ...]]] = CHAINS

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.log2_scale < self.log2_modulus / 2:
            raise CapacityError(f"scale 2^{self.log2_scale} does not fit a {self.log2_modulus}-bit modulus")
        possible = [1 << j for j in range(self.slots.bit_length() - 1)]
        if list(self.rotations) != [step for step in possible if step in self.rotations]:
            raise CapacityError(f"rotations must be ascending powers of two below {self.slots}")

    @property
    def slots(self) -> int:
        """Complex slots of a ciphertext, N/2."""
        return self.ring_dimension // 2

    @property
    def scale(self) -> float:
        """Effective scale Δ'."""
        return float(2.0**self.log2_scale)
