"""CKKS parameters."""

from __future__ import annotations

from typing import ClassVar

from fhe_auc.base.errors import CapacityError
from fhe_auc.rlwe.ring_parameters import BackendName, Chain, RingParameters

CHAINS: dict[BackendName, tuple[Chain, ...]] = {
    # Our own arithmetic takes 56 bits. There are no evaluation keys: SEAL has its special prime nevertheless, as small
    # as it can be.
    "tenseal": (Chain(8192, (56, 56, 56), 18), Chain(16384, (56, 56, 56, 56), 18)),
    "openfhe": (Chain(8192, (56, 55, 55), 0), Chain(16384, (56, 55, 55, 55), 0)),
}
"""All chains in use."""


PRODUCTS = {4: ((0, 1, 3),), 16: ((0, 1, 3), (4, 5, 7))}
"""By the number C of components of a plaintext (`fhe_auc.ckks.encoding`): triples (a, b, c) of those that are filled.

In a square, component a + b is then 2·z_a·z_b alone, and a + c is 2·z_a·z_c. There are no two such triples for C = 8.
"""


class CkksParameters(RingParameters, frozen=True, forbid_unknown_fields=True):
    """One CKKS parameter set, complete: two sites with equal values compute in the same rings.

    Raises `CapacityError` for other values, or as `RingParameters`.
    """

    log2_scale: float
    """log2 of the scale Δ that values are encoded with: at least 1, and below log2(Q)/2."""

    components: int = 4
    """C, of `PRODUCTS`."""

    scheme: ClassVar[str] = "ckks"
    chains: ClassVar[dict[BackendName, tuple[Chain, ...]]] = CHAINS

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.log2_scale < self.log2_modulus / 2:
            raise CapacityError(f"scale 2^{self.log2_scale} does not fit a {self.log2_modulus}-bit modulus")
        if self.components not in PRODUCTS:
            raise CapacityError(f"plaintexts have 4 or 16 components, not {self.components}")

    @property
    def slots(self) -> int:
        """B = N/2C: complex slots of a component (`fhe_auc.ckks.encoding`)."""
        return self.ring_dimension // (2 * self.components)

    @property
    def scale(self) -> float:
        """Δ."""
        return float(2.0**self.log2_scale)

    @property
    def kept(self) -> int:
        """How many primes a result has: one is dropped."""
        return len(self.modulus_bits) - 1
