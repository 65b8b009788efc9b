"""Ciphertexts and public keys at half their size: of (b, a), under a secret key s, `a` is expanded from a seed.

    b + a·s = m + e + e2        a = ChaCha20(seed)        sent: b, seed

`a` is random and nothing else, so whoever draws a seed may as well send that. The libraries draw their own, a'. With it
and s, b = b' + (a' - a)·s is the same encryption, message and error unchanged, under the `a` of a seed. To that comes
an error e2 of our own (`error_sampling`): a library that repeats e under another `a` would give s away. Both libraries
keep polynomials as values at roots of unity, where products are taken value by value.

Without a library, b = m + e2 - a·s is an encryption as well, of which e2 is the one error: public keys are made so,
encryptions of zero, and all that is encrypted under BFV's secret keys.

A seed is used once: two ciphertexts with the same `a` tell the difference of what they encrypt.
"""

from dataclasses import dataclass

import numpy as np

from fhe_auc.base.errors import BackendUnavailableError, DeserialisationError
from fhe_auc.rlwe.error_sampling import fresh_keys, second_error
from fhe_auc.rlwe.number_theoretic_transform import coefficients_of, values_of
from fhe_auc.rlwe.polynomials import Polynomials, Words

SEED_BYTES = 32
_LARGEST_ERROR = 2**10  # more than any encryption has, and far below every modulus


@dataclass(frozen=True)
class Seeded:
    """The packed form, b and a seed, of ciphertexts of the shape `whole`: b, then a, each modulo all primes of Q."""

    whole: Polynomials

    @property
    def half(self) -> Polynomials:
        """Shape of b, and of a."""
        return Polynomials(self.whole.ring_dimension, self.whole.moduli[: len(self.whole.moduli) // 2])

    def encrypt(self, secret: Words, message: Words) -> bytes:
        """Return a fresh encryption under `secret` of what has the coefficients `message`, both of the shape `half`."""
        half = self.half
        keys = fresh_keys(secret, message)
        small = second_error(half, keys.error)
        half.add_in_place(small, message)
        b = values_of(half, small)
        half.subtract_in_place(b, half.multiply(half.uniform(keys.seed), secret))
        return half.pack(b) + keys.seed

    def reseed(self, ciphertext: Words, secret: Words) -> bytes:
        """Return a fresh encryption under `secret` (of the shape `half`), a second error and a fresh seed's `a`."""
        half = self.half
        b, a = (each.copy() for each in np.split(ciphertext, 2))
        keys = fresh_keys(secret, b)
        half.subtract_in_place(a, half.uniform(keys.seed))
        half.add_in_place(b, half.multiply(a, secret))
        half.add_in_place(b, values_of(half, second_error(half, keys.error)))
        return half.pack(b) + keys.seed

    def verify(self, ciphertext: Words, secret: Words) -> None:
        """Check that an encryption of zero is one after reseeding: that the library keeps polynomials as supposed here.

        Raises `BackendUnavailableError` if it is not.
        """
        half = self.half
        b, a = np.split(self.expand(self.reseed(ciphertext, secret)), 2)
        half.add_in_place(b, half.multiply(a, secret))
        error = coefficients_of(half, b)
        if not np.minimum(error, np.array(half.moduli, np.uint64)[:, None] - error).max() < _LARGEST_ERROR:
            raise BackendUnavailableError(
                "this version of the encryption library keeps ciphertexts or keys in a way that fhe-auc does not know; "
                "install one that fhe-auc asks for"
            )

    def expand(self, packed: bytes | memoryview, into: Words | None = None) -> Words:
        """Return both polynomials of a packed form, written `into` an array of their shape if there is one.

        Errors as `Polynomials.unpack`.
        """
        half = self.half
        if len(packed) != half.packed_size + SEED_BYTES:
            raise DeserialisationError(
                f"expected {half.packed_size + SEED_BYTES} bytes of coefficients and seed, got {len(packed)}"
            )
        whole = np.empty(self.whole.shape, np.uint64) if into is None else into
        half.unpack(memoryview(packed)[: half.packed_size], whole[: len(half.moduli)])
        half.uniform(bytes(packed[half.packed_size :]), whole[len(half.moduli) :])
        return whole
