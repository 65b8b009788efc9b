"""What parameters of every scheme have in common: the ring, the moduli, and the security table they are held to."""

from __future__ import annotations

import hashlib
from typing import ClassVar, Literal

import msgspec

from fhe_auc.base.errors import CapacityError
from fhe_auc.base.serialise import encode

BackendName = Literal["openfhe", "tenseal"]
SECURITY_BITS = 128  # classical security of every parameter set here; nothing below is offered
DEFAULT_FLOODING_BITS = 40  # by so many, noise that is added outweighs what it hides
FINGERPRINT_BYTES = 32  # length of a context's name, a SHA-256
MAX_MODULUS_BITS = {4096: 106, 8192: 214, 16384: 430, 32768: 868}
"""Ring dimension to the largest log2(QP) with 128-bit classical security and a ternary secret.

Source: Bossuat et al., "Security Guidelines for Implementing Homomorphic Encryption" (2024), table 5.2,
https://eprint.iacr.org/2024/463. Both libraries enforce the larger numbers of the standard of 2018.
"""


class Chain(msgspec.Struct, frozen=True):
    """A modulus chain for one ring dimension of one backend."""

    ring_dimension: int
    modulus_bits: tuple[int, ...]
    special_bits: int


class RingParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ring and the moduli of one set; `CapacityError` if they are below 128-bit security, or not of `chains`."""

    backend: BackendName
    """Library; ciphertexts of the two are not interchangeable."""
    ring_dimension: int
    """N, coefficients of a polynomial: one of `MAX_MODULUS_BITS`."""
    modulus_bits: tuple[int, ...]
    """Bits of each prime of the ciphertext modulus Q, 20 to 60."""
    special_bits: int
    """Bits of the special prime P that SEAL's keys have, at most 60; 0 where there is none. Nothing here needs it."""

    scheme: ClassVar[str]
    chains: ClassVar[dict[BackendName, tuple[Chain, ...]]]
    """All chains in use. Parameters come from outside as well (keys, manifests): no others reach a library."""

    def __post_init__(self) -> None:
        unsupported = f"modulus primes of {self.modulus_bits} and {self.special_bits} bits are not supported"
        if not self.modulus_bits or min(self.modulus_bits) < 20 or max(*self.modulus_bits, self.special_bits) > 60:
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
        if Chain(self.ring_dimension, self.modulus_bits, self.special_bits) not in self.chains[self.backend]:
            raise CapacityError(f"{unsupported} by the {self.backend} backend at ring dimension {self.ring_dimension}")

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

    def fingerprint(self, keys_digest: bytes) -> bytes:
        """Return the 32-byte name of a context: these parameters with the public keys of that SHA-256."""
        own = hashlib.sha256(encode(self)).digest()
        return hashlib.sha256(f"fhe-auc {self.scheme} context\0".encode() + own + keys_digest).digest()
