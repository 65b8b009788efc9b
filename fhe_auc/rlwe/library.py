"""What an encryption library does here, whichever it is: secret keys, encryptions of zero, and CKKS squares.

Values are added to these in words, the same on every library. Its objects, plaintexts, ciphertexts and keys, stay
inside. The libraries: `openfhe_library` and `seal_library`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from fhe_auc.base.errors import BackendUnavailableError, CapacityError
from fhe_auc.rlwe.layout import CoefficientLayout
from fhe_auc.rlwe.parameters import RingParameters
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.seeded import SEED_BYTES, Seeded

P = TypeVar("P", bound=RingParameters)
Zeros: TypeAlias = Callable[[], Words]
"""Returns a fresh encryption of zero: both polynomials, as values at the roots of unity."""


class Library(ABC, Generic[P]):
    """A library's context for one scheme, and the layouts of its objects, learned from throw-away ones.

    Of several plaintext moduli it has the first: keys and encryptions of zero do not depend on it. Raises
    `BackendUnavailableError` as `Seeded.verify`, and `CapacityError` where the library has another ring or modulus.
    """

    def __init__(self, parameters: P) -> None:
        self.parameters = parameters
        secret_key, public_key = self._new_keys()
        self.secret_key, self.public_key = self._layout(secret_key), self._layout(public_key)
        found = tuple(round(math.log2(modulus)) for modulus in self.secret_key.polynomials.moduli)
        wanted, more = parameters.modulus_bits, bool(parameters.special_bits)  # of which SEAL's secret keys know
        if found[: len(wanted)] != wanted or len(found) > len(wanted) + more:
            raise CapacityError(f"the library has chosen primes of {found} bits, not those that the parameters say")
        zero = self._encrypted_zero(secret_key, secret=True)
        self.submission = self._layout(zero())
        """Of ciphertexts."""
        secret = self.secret_key.words(self._saved(secret_key))[: len(parameters.modulus_bits)]
        Seeded(self.submission.polynomials).verify(self.submission.words(self._saved(zero())), secret)

    @property
    def public_key_shape(self) -> Polynomials:
        """Shape of public keys, both polynomials; under CKKS modulo Q alone, as no library ever loads the key."""
        return (self.submission if self.parameters.scheme == "ckks" else self.public_key).polynomials

    def new_secret_key(self) -> bytes:
        """Return a fresh secret key, packed."""
        secret_key, _ = self._new_keys()
        return self.secret_key.polynomials.pack(self.secret_key.words(self._saved(secret_key)))

    def new_public_key(self, secret_key: bytes) -> bytes:
        """Return a fresh public key of a packed secret key, packed: an encryption of zero, made without the library."""
        seeded = Seeded(self.public_key_shape)
        secret = self.secret_key.polynomials.unpack(secret_key)[: len(seeded.half.moduli)]
        return seeded.encrypt(secret, seeded.half.zeros())

    def zeros(self, public_key: bytes) -> Zeros:
        """Return what encrypts zero under a packed public key; `DeserialisationError` where it is none."""
        words = Seeded(self.public_key.polynomials).expand(public_key)
        return self._zeros(self.public_key.raw(words), secret=False)

    def secret_zeros(self, secret_key: bytes) -> Zeros:
        """Return the same for a packed secret key."""
        return self._zeros(self.secret_key.raw(self.secret_key.polynomials.unpack(secret_key)), secret=True)

    def square(self, words: Words) -> Words:
        """Return the library's product of a CKKS ciphertext with itself, not relinearised.

        Three polynomials, as values at the roots of unity. Raises `BackendUnavailableError` as `verify_square`, at
        first use.
        """
        return self._product.words(self._saved(self._squared(self.submission.raw(words))))

    def verify_square(self, ciphertext: Words, square: Words) -> None:
        """Check that the library's square of a ciphertext is its polynomials' products, in the order of powers of s.

        Raises `BackendUnavailableError` if it is not.
        """
        half = Seeded(self.submission.polynomials).half
        b, a = np.split(ciphertext, 2)
        middle = half.multiply(a, b)
        half.add_in_place(middle, middle.copy())
        if not np.array_equal(square, np.concatenate([half.multiply(b, b), middle, half.multiply(a, a)])):
            raise BackendUnavailableError(
                "this version of the encryption library multiplies ciphertexts in a way that fhe-auc does not know; "
                "install one that fhe-auc asks for"
            )

    def _zeros(self, key: bytes, *, secret: bool) -> Zeros:
        encrypted_zero = self._encrypted_zero(self._parsed_key(key, secret=secret), secret=secret)
        return lambda: self.submission.words(self._saved(encrypted_zero()))

    @cached_property
    def _product(self) -> CoefficientLayout:
        """Layout of products, learned from that of a ciphertext of any kind but a transparent one."""
        words = self.submission.polynomials.uniform(bytes(SEED_BYTES))
        square = self._squared(self.submission.raw(words))
        layout = self._layout(square)
        self.verify_square(words, layout.words(self._saved(square)))
        return layout

    @abstractmethod
    def _new_keys(self) -> tuple[Any, Any]:
        """Return a fresh secret key, and a public key of it."""

    @abstractmethod
    def _encrypted_zero(self, key: Any, *, secret: bool) -> Callable[[], Any]:
        """Return what makes fresh encryptions of zero under a secret or a public key."""

    @abstractmethod
    def _parsed_key(self, raw: bytes, *, secret: bool) -> Any:
        """Return a secret or a public key from what a `CoefficientLayout` made; `DeserialisationError` else."""

    @abstractmethod
    def _squared(self, raw: bytes) -> Any:
        """Return the product with itself of a CKKS ciphertext from what a `CoefficientLayout` made."""

    @abstractmethod
    def _saved(self, item: Any) -> bytes:
        """Return the library's serialisation of a key or a ciphertext."""

    @abstractmethod
    def _layout(self, item: Any) -> CoefficientLayout:
        """Return the layout of objects like `item`."""
