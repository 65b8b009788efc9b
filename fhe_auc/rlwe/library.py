"""What an encryption library offers for a scheme, whichever library it is: layouts, fresh keys, and what keys do.

Plaintexts, ciphertexts and keys are the library's own objects here. How values become plaintexts is the scheme's
affair. The libraries: `openfhe_library` and `seal_library`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from fhe_auc.rlwe.layout import CoefficientLayout
from fhe_auc.rlwe.parameters import RingParameters
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.seeded import Seeded

P = TypeVar("P", bound=RingParameters)


class LoadedKeys(ABC):
    """Keys as the library's objects."""

    @abstractmethod
    def encrypt(self, plaintext: Any) -> Any:
        """Return a fresh encryption: under the public key, or under the secret key if these keys hold that."""

    @abstractmethod
    def ciphertext(self, words: Words) -> Any:
        """Return the ciphertext with these values at the roots of unity, in the shape of submissions."""


class Evaluator(LoadedKeys):
    """What is computed with public keys."""

    @abstractmethod
    def add_in_place(self, total: Any, ciphertext: Any) -> None:
        """Add `ciphertext` to `total`."""

    @abstractmethod
    def multiply(self, left: Any, right: Any) -> Any:
        """Return the relinearised product of two ciphertexts."""

    @abstractmethod
    def multiply_plain(self, ciphertext: Any, plaintext: Any) -> Any:
        """Return `ciphertext` times a plaintext."""


class Decryptor(LoadedKeys):
    """What is done with a secret key."""

    @abstractmethod
    def decrypt(self, ciphertext: Any) -> Any:
        """Return the plaintext."""


class Library(ABC, Generic[P]):
    """A library's context for one scheme, and the layouts of its objects, learned from throw-away ones."""

    parameters: P
    secret_key: CoefficientLayout
    public_key: CoefficientLayout
    submission: CoefficientLayout
    """Of ciphertexts."""

    @abstractmethod
    def fresh_keys(self) -> tuple[tuple[bytes, ...], bytes]:
        """Return fresh keys, packed: those of a public context (`context.PublicKeys`) in order, and the secret key."""

    def _further_keys(self, made: Any) -> tuple[bytes, ...]:
        """Return what else a public context of the scheme holds, packed; `made` are, or make, the library's keys."""
        return ()

    @abstractmethod
    def evaluator(self, fingerprint: bytes, public_key: bytes, relinearisation_key: bytes) -> Evaluator:
        """Return the packed keys, loaded, of the context `fingerprint`; `DeserialisationError` where they are none.

        With an empty relinearisation key it does not multiply ciphertexts.
        """

    @abstractmethod
    def decryptor(self, fingerprint: bytes, secret_key: bytes) -> Decryptor:
        """Return the packed secret key, loaded; errors as `evaluator`."""

    def new_public_key(self, secret_key: bytes) -> bytes:
        """Return a fresh public key of a packed secret key, packed: an encryption of zero, made without the library."""
        seeded = Seeded(self.public_key.polynomials)
        return seeded.encrypt(self.secret_key.polynomials.unpack(secret_key), seeded.half.zeros())

    def expanded_public_key(self, packed: bytes) -> Words:
        """Return both polynomials of a packed public key; `DeserialisationError` where it is none."""
        return Seeded(self.public_key.polynomials).expand(packed)

    @abstractmethod
    def words(self, ciphertext: Any) -> Words:
        """Return both polynomials of a ciphertext that this process has made, as values at the roots of unity."""

    @abstractmethod
    def decrypted(self, words: Words, keys: Decryptor, secret: Words) -> NDArray[Any]:
        """Return the slots of a ciphertext, decrypted under `keys`, which are the key `secret`."""

    def verify_reseeding(self, keys: Decryptor, secret: Words, plaintext: Any) -> None:
        """Check that reseeding an encryption under `keys`, the key `secret`, changes nothing; see `Seeded.verify`."""
        encrypted = self.words(keys.encrypt(plaintext))
        Seeded(self.submission.polynomials).verify(encrypted, secret, lambda words: self.decrypted(words, keys, secret))
