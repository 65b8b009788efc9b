"""CKKS parameters, and the security table they are held to."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from fhe_auc.errors import CapacityError
from fhe_auc.serialise import encode

BackendName = Literal["openfhe", "tenseal"]

SECURITY_BITS = 128
"""Classical security of every parameter set here; nothing below is offered."""

MAX_MODULUS_BITS = {4096: 109, 8192: 218, 16384: 438, 32768: 881}
"""Ring dimension to the largest log2(QP) with 128-bit classical security and a ternary secret.

Source: HomomorphicEncryption.org security standard (2018), table 1. Both libraries enforce it as well.
"""


class CkksParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One CKKS parameter set, complete: two sites with equal values compute in the same rings.

    Attributes
    ----------
    backend : "openfhe" or "tenseal"
        Library; ciphertexts of the two are not interchangeable.
    ring_dimension : int
        N; a ciphertext has N/2 complex slots.
    modulus_bits : tuple of int
        Bits of each prime of the ciphertext modulus Q.
    special_bits : int
        Bits of the key-switching modulus P.
    log2_scale : float
        log2 of the effective scale Δ' that counts are encoded with (library scale times fixed-point unit).
    rotations : tuple of int
        Left rotations that evaluation keys exist for, ascending.
    """

    backend: BackendName
    ring_dimension: int
    modulus_bits: tuple[int, ...]
    special_bits: int
    log2_scale: float
    rotations: tuple[int, ...]

    def __post_init__(self) -> None:
        limit = MAX_MODULUS_BITS.get(self.ring_dimension)
        if limit is None:
            raise CapacityError(f"ring dimension {self.ring_dimension} is not one of {sorted(MAX_MODULUS_BITS)}")
        total = self.log2_modulus + self.special_bits
        if total > limit:
            raise CapacityError(
                f"a {total}-bit modulus at ring dimension {self.ring_dimension} is below {SECURITY_BITS}-bit security"
                f" (at most {limit} bits)"
            )
        if not self.modulus_bits or min(self.modulus_bits) < 20 or max(*self.modulus_bits, self.special_bits) > 60:
            raise CapacityError(f"modulus primes of {self.modulus_bits} and {self.special_bits} bits are not supported")
        if not 1 <= self.log2_scale <= self.log2_modulus / 2:
            raise CapacityError(f"scale 2^{self.log2_scale} does not fit a {self.log2_modulus}-bit modulus")
        if any(not 0 < step < self.slots for step in self.rotations) or list(self.rotations) != sorted(
            set(self.rotations)
        ):
            raise CapacityError(f"rotations {self.rotations} are not ascending steps below {self.slots}")

    @property
    def slots(self) -> int:
        """Complex slots of a ciphertext, N/2."""
        return self.ring_dimension // 2

    @property
    def log2_modulus(self) -> int:
        """log2 of the ciphertext modulus Q."""
        return sum(self.modulus_bits)

    @property
    def scale(self) -> float:
        """Effective scale Δ'."""
        return float(2.0**self.log2_scale)

    def fingerprint(self, public_key: bytes) -> bytes:
        """Return the 32-byte name of the context: these parameters together with this public key."""
        encoded = encode(self)
        return hashlib.sha256(b"fhe-auc ckks context\0" + hashlib.sha256(encoded).digest() + public_key).digest()
