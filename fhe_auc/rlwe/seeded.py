"""Ciphertexts and public keys at half their size: of (b, a), under a secret key s, `a` is expanded from a seed.

    b + a·s = m + e + e2        a = ChaCha20(seed)        sent: b, seed

`a` is random and nothing else, so whoever draws a seed may as well send that. The libraries draw their own, a'. With it
and s, b = b' + (a' - a)·s is the same encryption, message and error unchanged, under the `a` of a seed. To that comes
an error e2 of our own (`error_sampling`): a library that repeats e under another `a` would give s away. Both libraries
keep polynomials as values at roots of unity, where products are taken value by value.

A public key is an encryption of zero, made in the same way with b' = a' = 0, whatever the library: e2 is its one error.

A seed is used once: two ciphertexts with the same `a` tell the difference of what they encrypt. (Under different
secrets the same `a` is harmless: `fhe_auc.bfv.joint_keys`.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import BackendUnavailableError, DeserialisationError
from fhe_auc.rlwe.error_sampling import fresh_keys, second_error
from fhe_auc.rlwe.number_theoretic_transform import values_of
from fhe_auc.rlwe.polynomials import Polynomials, Words

SEED_BYTES = 32
VERIFIED = 2.0**32  # coefficients to encrypt for `Seeded.verify`: far above the noise, far below every modulus
_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Seeded:
    """The packed form, b and a seed, of ciphertexts of the shape `whole`: b, then a, each modulo all primes of Q."""

    whole: Polynomials

    @property
    def half(self) -> Polynomials:
        """Shape of b, and of a."""
        return Polynomials(self.whole.ring_dimension, self.whole.moduli[: len(self.whole.moduli) // 2])

    def reseed(
        self, ciphertext: Words, secret: Words, seed: bytes | None = None, message: Words | None = None
    ) -> bytes:
        """Return a fresh encryption under `secret` (of the shape `half`), with a second error and the `a` of a seed.

        The seed is a new one, unless the caller has one that is good for this ciphertext alone. A `message`, given by
        its coefficients, of the shape `half`, is added to what is encrypted.
        """
        half = self.half
        b, a = (each.copy() for each in np.split(ciphertext, 2))
        added = [] if message is None else [message]
        keys = fresh_keys(secret, b, *added)
        seed = keys.seed if seed is None else seed
        half.subtract_in_place(a, half.uniform(seed))
        half.add_in_place(b, half.multiply(a, secret))
        small = second_error(half, keys.error)
        for each in added:
            half.add_in_place(small, each)
        half.add_in_place(b, values_of(half, small))
        return half.pack(b) + seed

    def verify(self, ciphertext: Words, secret: Words, decrypt: Callable[[Words], NDArray[Any]]) -> None:
        """Check that what is reseeded decrypts as before: that the library keeps polynomials as is supposed here.

        Raises `BackendUnavailableError` if it does not.
        """
        reseeded = self.expand(self.reseed(ciphertext, secret))
        before, after = (np.asarray(decrypt(each), complex) for each in (ciphertext, reseeded))
        if not np.abs(after - before).max() <= _TOLERANCE * np.abs(before).max():
            raise BackendUnavailableError(
                "this version of the encryption library keeps ciphertexts or keys in a way that fhe-auc does not know; "
                "install one that fhe-auc asks for"
            )

    def mask(self, packed: bytes, mask: Words) -> bytes:
        """Return the packed form with `mask`, of the shape `half`, added to b."""
        half = self.half
        b = half.unpack(packed[: half.packed_size])
        half.add_in_place(b, mask)
        return half.pack(b) + packed[half.packed_size :]

    def expand(self, packed: bytes) -> Words:
        """Return both polynomials of a packed form; errors as `Polynomials.unpack`."""
        half = self.half
        if len(packed) != half.packed_size + SEED_BYTES:
            raise DeserialisationError(
                f"expected {half.packed_size + SEED_BYTES} bytes of coefficients and seed, got {len(packed)}"
            )
        whole = np.empty(self.whole.shape, np.uint64)
        half.unpack(memoryview(packed)[: half.packed_size], whole[: len(half.moduli)])
        half.uniform(packed[half.packed_size :], whole[len(half.moduli) :])
        return whole
