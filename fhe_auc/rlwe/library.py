"""What an encryption library offers for a scheme, whichever library it is: layouts, fresh keys, and what keys do.

Plaintexts, ciphertexts and keys are the library's own objects here. How values become plaintexts is the scheme's
affair. The libraries: `openfhe_library` and `seal_library`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from fhe_auc.rlwe.layout import CoefficientLayout
from fhe_auc.rlwe.parameters import RingParameters
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.seeded import Seeded

P = TypeVar("P", bound=RingParameters)


class LoadedKey(ABC):
    """A public or a secret key as the library's object."""

    @abstractmethod
    def encrypt(self, plaintext: Any) -> Any:
        """Return a fresh encryption under the key."""


class Library(ABC, Generic[P]):
    """A library's context for one scheme, and the layouts of its objects, learned from throw-away ones."""

    parameters: P
    secret_key: CoefficientLayout
    submission: CoefficientLayout
    """Of ciphertexts."""
    zero: Any
    """The plaintext zero, all that the library encrypts: what is encrypted is added to its ciphertexts."""

    @property
    @abstractmethod
    def public_key(self) -> CoefficientLayout:
        """Layout of the library's public keys."""

    @property
    def public_key_shape(self) -> Polynomials:
        """Shape of public keys, both polynomials."""
        return self.public_key.polynomials

    @abstractmethod
    def new_secret_key(self) -> bytes:
        """Return a fresh secret key, packed."""

    @abstractmethod
    def load_public_key(self, fingerprint: bytes, public_key: bytes) -> LoadedKey:
        """Return the packed key, loaded, of the context `fingerprint`; `DeserialisationError` where it is none."""

    @abstractmethod
    def load_secret_key(self, fingerprint: bytes, secret_key: bytes) -> LoadedKey:
        """Return the packed secret key, loaded; errors as `load_public_key`."""

    def new_public_key(self, secret_key: bytes) -> bytes:
        """Return a fresh public key of a packed secret key, packed: an encryption of zero, made without the library."""
        seeded = Seeded(self.public_key_shape)
        secret = self.secret_key.polynomials.unpack(secret_key)[: len(seeded.half.moduli)]
        return seeded.encrypt(secret, seeded.half.zeros())

    @abstractmethod
    def words(self, ciphertext: Any) -> Words:
        """Return both polynomials of a ciphertext that this process has made, as values at the roots of unity."""

    def verify_reseeding(self, key: LoadedKey, secret: Words) -> None:
        """Check what reseeding takes for granted, on an encryption under `key`, which is `secret`: `Seeded.verify`."""
        Seeded(self.submission.polynomials).verify(self.words(key.encrypt(self.zero)), secret)
