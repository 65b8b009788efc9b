"""What parameters of every scheme have in common: ring, moduli, the security table they are held to, and the library.

Which encryption libraries this interpreter can import is found out here; none is imported but the one that is used.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from functools import cache
from typing import ClassVar, Literal

import msgspec

from fhe_auc.base.errors import BackendUnavailableError, CapacityError
from fhe_auc.base.serialise import encode

BackendName = Literal["openfhe", "tenseal"]
BACKENDS: tuple[BackendName, ...] = ("openfhe", "tenseal")  # all backends, the preferred one first
LIBRARIES: dict[BackendName, str] = {"openfhe": "fhe_auc.rlwe.openfhe_library", "tenseal": "fhe_auc.rlwe.seal_library"}
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


KEY_CHAIN = Chain(8192, (50, 50, 50), 18)  # of contexts of which keys alone are taken, whatever their modulus


class RingParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ring and the moduli of one set; `CapacityError` if they are below 128-bit security, or not of `chains`."""

    backend: BackendName
    """Library; ciphertexts of the two are not interchangeable."""
    ring_dimension: int
    """N, coefficients of a polynomial: one of `MAX_MODULUS_BITS`."""
    modulus_bits: tuple[int, ...]
    """Bits of each prime of the ciphertext modulus Q, 20 to 60."""
    special_bits: int
    """Bits of the special prime P that SEAL has, at most 60; 0 where there is none. Nothing is published modulo it."""

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
        total = sum(self.modulus_bits) + self.special_bits
        if total > limit:
            raise CapacityError(
                f"a {total}-bit modulus at ring dimension {self.ring_dimension} is below {SECURITY_BITS}-bit security"
                f" (at most {limit} bits)"
            )
        if self.chain not in self.chains[self.backend]:
            raise CapacityError(f"{unsupported} by the {self.backend} backend at ring dimension {self.ring_dimension}")

    @property
    def chain(self) -> Chain:
        """All but what a scheme has of its own."""
        return Chain(self.ring_dimension, self.modulus_bits, self.special_bits)

    @property
    def own_moduli(self) -> tuple[int, ...]:
        """The primes of Q where the scheme has its own, whatever the library; none where the library chooses them."""
        return ()

    @property
    def log2_modulus(self) -> int:
        """log2 of the ciphertext modulus Q."""
        return sum(self.modulus_bits)

    @property
    def submission_bytes(self) -> int:
        """Bytes of a party's ciphertext, without seed and envelope: of one polynomial, the other being the seed's."""
        return sum(-(-self.ring_dimension * bits // 8) for bits in self.modulus_bits)

    def fingerprint(self, keys_digest: bytes) -> bytes:
        """Return the 32-byte name of a context: these parameters with the public keys of that SHA-256."""
        own = hashlib.sha256(encode(self)).digest()
        return hashlib.sha256(f"fhe-auc {self.scheme} context\0".encode() + own + keys_digest).digest()


@cache
def _why_not(name: BackendName) -> str | None:
    """Return why a library cannot be imported here, or None where it can."""
    try:
        importlib.import_module(LIBRARIES[name])
    except (ImportError, OSError) as error:
        # OpenFHE's wheel is tagged for every Python and holds one CPython's binary: it installs, and fails here.
        return str(error)
    return None


def available_backends() -> tuple[BackendName, ...]:
    """Return the backends that can be imported, the preferred one first."""
    return tuple(name for name in BACKENDS if _why_not(name) is None)


def choose_backend(name: str | None = None) -> BackendName:
    """Return `name`, or the preferred backend there is; no other library is imported.

    Raises `BackendUnavailableError` for an unknown name, or a library that cannot be imported here.
    """
    for backend in BACKENDS:
        if name in (None, backend) and _why_not(backend) is None:
            return backend
    available = ", ".join(available_backends()) or "none"
    here = f"(available: {available} on Python {sys.version_info.major}.{sys.version_info.minor})"
    for backend in BACKENDS:
        if name == backend:
            raise BackendUnavailableError(f"backend {name!r} cannot be imported here {here}: {_why_not(backend)}")
    raise BackendUnavailableError(f"unknown backend {name!r} {here}")
