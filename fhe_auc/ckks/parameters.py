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

FINGERPRINT_BYTES = 32
"""Length of a context's name, a SHA-256."""

MAX_MODULUS_BITS = {4096: 109, 8192: 218, 16384: 438, 32768: 881}
"""Ring dimension to the largest log2(QP) with 128-bit classical security and a ternary secret.

Source: HomomorphicEncryption.org security standard (2018), table 1. Both libraries enforce it as well.
"""


class Chain(msgspec.Struct, frozen=True):
    """A modulus chain for one ring dimension of one backend."""

    ring_dimension: int
    modulus_bits: tuple[int, ...]
    special_bits: int


CHAINS: dict[BackendName, tuple[Chain, ...]] = {
    # All primes just under a whole number of bytes, since coefficients travel in whole bytes. The special prime is
    # larger than every other, which keeps key-switching noise at a few bits.
    "tenseal": (Chain(8192, (56, 56, 48), 58), Chain(16384, (56, 56, 56, 56), 60)),
    # The library sets key-switching primes of 60 bits; 55 + 2·51 is the most it admits beside one at 8192.
    "openfhe": (Chain(8192, (55, 51, 51), 60), Chain(16384, (55, 51, 51, 51), 60)),
}
"""All chains in use. Parameters come from outside as well (keys, manifests): no others reach a library."""


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
        Left rotations that evaluation keys exist for: powers of two, ascending.
    """

    backend: BackendName
    ring_dimension: int
    modulus_bits: tuple[int, ...]
    special_bits: int
    log2_scale: float
    rotations: tuple[int, ...]

    def __post_init__(self) -> None:
        bits = (*self.modulus_bits, self.special_bits)
        unsupported = f"modulus primes of {self.modulus_bits} and {self.special_bits} bits are not supported"
        if not self.modulus_bits or min(bits) < 20 or max(bits) > 60:
            raise CapacityError(unsupported)
        limit = MAX_MODULUS_BITS.get(self.ring_dimension)
        if limit is None:
            raise CapacityError(f"ring dimension {self.ring_dimension} is not one of {sorted(MAX_MODULUS_BITS)}")
        total = self.log2_modulus + self.special_bits
        if total > limit:
            raise CapacityError(
                f"a {total}-bit modulus at ring dimension {self.ring_dimension} is below {SECURITY_BITS}-bit security"
                f" (at most {limit} bits)"
            )
        if Chain(self.ring_dimension, self.modulus_bits, self.special_bits) not in CHAINS[self.backend]:
            raise CapacityError(f"{unsupported} by the {self.backend} backend at ring dimension {self.ring_dimension}")
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
    def log2_modulus(self) -> int:
        """log2 of the ciphertext modulus Q."""
        return sum(self.modulus_bits)

    def polynomial_bytes(self, *more_bits: int) -> int:
        """Return the bytes of a polynomial modulo Q, and modulo primes of so many more bits."""
        return self.ring_dimension * sum(-(-each // 8) for each in (*self.modulus_bits, *more_bits))

    @property
    def submission_bytes(self) -> int:
        """Bytes of a party's ciphertext, without seed and envelope: of one polynomial, the other being the seed's."""
        return self.polynomial_bytes()

    @property
    def scale(self) -> float:
        """Effective scale Δ'."""
        return float(2.0**self.log2_scale)

    def fingerprint(self, public_key_digest: bytes) -> bytes:
        """Return the 32-byte name of a context: these parameters with the public key of that SHA-256."""
        own = hashlib.sha256(encode(self)).digest()
        return hashlib.sha256(b"fhe-auc ckks context\0" + own + public_key_digest).digest()
