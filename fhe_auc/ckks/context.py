"""The interface of a CKKS backend: one type for the aggregator, one for the parties.

Values are complex numpy arrays over all N/2 slots, in plain units: the scale is the backend's affair. `degree` counts
the factors of the scale in a ciphertext: 1 for what is encrypted, 2 for a product. Nothing is ever rescaled.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.rlwe import transparent_ciphertexts, wire_format
from fhe_auc.rlwe.context import BasePublicContext, BaseSecretContext, PublicKeys, SecretKey
from fhe_auc.rlwe.context_factory import ContextFactory
from fhe_auc.rlwe.library import Decryptor, Library
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.seeded import Seeded

Ciphertext: TypeAlias = Any  # a backend's own ciphertext object; it never leaves the process that made it
Slots: TypeAlias = NDArray[np.complex128]  # one value a slot, shape (N/2,), in plain units


class StoredPublic(PublicKeys[CkksParameters], frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a public context is made of."""

    rotation_keys: bytes


StoredSecret: TypeAlias = SecretKey[CkksParameters]


class CkksLibrary(Library[CkksParameters]):
    """What a library offers for CKKS besides."""

    @abstractmethod
    def encoded(self, values: Slots, degree: int) -> Any:
        """Return the plaintext of `values` at scale Δ'^degree; 0 is for integers that multiply."""

    @abstractmethod
    def decoded(self, plaintext: Any) -> Slots:
        """Return the slots of what has been decrypted, one value each."""

    def decrypted(self, words: Words, keys: Decryptor, secret: Words) -> Slots:
        """Return the slots of a ciphertext, decrypted by the library under `keys`."""
        return self.decoded(keys.decrypt(keys.ciphertext(words)))

    @abstractmethod
    def degree(self, ciphertext: Ciphertext) -> int:
        """Return what the library takes a ciphertext's degree to be."""

    @abstractmethod
    def at_degree(self, ciphertext: Ciphertext, degree: int) -> Ciphertext:
        """Return `ciphertext` itself, which the library takes to have this degree from now on."""

    @abstractmethod
    def load_rotation_keys(self, fingerprint: bytes, rotation_keys: bytes) -> Any:
        """Return the packed rotation keys, loaded, of the context `fingerprint`; errors as `evaluator`."""

    @abstractmethod
    def rotate(self, ciphertext: Ciphertext, step: int, rotation_keys: Any) -> Ciphertext:
        """Return the slots shifted left by `step`; KeyError where there is no key."""


class PublicContext(BasePublicContext[CkksParameters]):
    """What the aggregator holds."""

    kind = "public context"
    _stored: StoredPublic
    _scheme: CkksLibrary

    def __init__(self, stored: StoredPublic, scheme: CkksLibrary) -> None:
        super().__init__(stored, scheme)
        self._rotation_keys = self._scheme.load_rotation_keys(self.fingerprint, stored.rotation_keys)

    def encrypt(self, values: Slots, degree: int = 1) -> Ciphertext:
        """Return a fresh encryption of `values`, shape (N/2,), under the public key, at scale Δ'^degree.

        Raises `ValueError`: not one finite value a slot, or a value beyond the modulus.
        """
        plaintext = self._scheme.encoded(checked(values, self.parameters, degree), degree)
        return self._scheme.at_degree(self._evaluator.encrypt(plaintext), degree)

    def add_in_place(self, total: Ciphertext, ciphertext: Ciphertext) -> None:
        """Add `ciphertext` to `total`, of the same degree, which must be the caller's own."""
        self._evaluator.add_in_place(total, ciphertext)

    def multiply(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        """Return the relinearised product of two ciphertexts of degree 1, slot by slot."""
        return self._evaluator.multiply(left, right)

    def multiply_integers(self, ciphertext: Ciphertext, weights: Slots) -> Ciphertext:
        """Return `ciphertext` times integer `weights`, slot by slot, at unchanged scale.

        Exact where all weights are the same real integer. Otherwise the plaintext is the nearest polynomial with
        integer coefficients, which moves every weight by up to half the number of its coefficients.
        """
        product = self._evaluator.multiply_plain(ciphertext, self._scheme.encoded(weights, 0))
        return self._scheme.at_degree(product, self._scheme.degree(ciphertext))

    def rotate(self, ciphertext: Ciphertext, step: int) -> Ciphertext:
        """Return the slots shifted left by `step`, cyclically; `step` must be one of ``parameters.rotations``."""
        return self._scheme.rotate(ciphertext, step, self._rotation_keys)

    def read_submission(self, data: bytes) -> Words:
        """Return the coefficients, of `ciphertext_shape`, in what `SecretContext.encrypt` wrote.

        Adding them up needs no encryption library: see `fhe_auc.rlwe.polynomials.PolynomialSum`. Raises
        `DeserialisationError` for what is damaged, made for another context, or not a ciphertext of these parameters.
        """
        return Seeded(self.ciphertext_shape).expand(wire_format.open_for("submission", self.fingerprint, data))

    def ciphertext(self, words: Words) -> Ciphertext:
        """Return the ciphertext with these coefficients, of `ciphertext_shape` and degree 1: a sum of submissions.

        Raises `DeserialisationError` where its second polynomial is zero, so that it hides nothing.
        """
        transparent_ciphertexts.check(words)
        return self._evaluator.ciphertext(words)

    def load_submission(self, data: bytes) -> Ciphertext:
        """Return the ciphertext of a submission; errors as `read_submission`."""
        return self.ciphertext(self.read_submission(data))

    def dump_result(self, ciphertext: Ciphertext) -> bytes:
        """Serialise a ciphertext of degree 2 for `SecretContext.decrypt`; ValueError for another degree."""
        if self._scheme.degree(ciphertext) != 2:
            raise ValueError("a result is a ciphertext of degree 2")
        packed = self.ciphertext_shape.pack(self._scheme.words(ciphertext))
        return wire_format.seal("result", self.fingerprint, packed)


class SecretContext(BaseSecretContext[CkksParameters]):
    """What a party holds."""

    kind = "secret context"
    _scheme: CkksLibrary

    def encrypt(self, values: Slots, mask: Words | None = None) -> bytes:
        """Return `values`, shape (N/2,), encrypted under the secret key at degree 1, serialised, for `load_submission`.

        `mask`, of the shape `mask_shape`, is added to the ciphertext's first polynomial; None adds nothing. A uniform
        one leaves nothing that could be decrypted, until masks that make up for it have been added.

        Raises `ValueError`: not one finite value a slot, or a value beyond the modulus.
        """
        packed = self._seeded.reseed(self._encrypt(checked(values, self.parameters, 1)), self.secret_words)
        if mask is not None:
            packed = self._seeded.mask(packed, mask)
        return wire_format.seal("submission", self.fingerprint, packed)

    def decrypt(self, data: bytes) -> Slots:
        """Return the slots, shape (N/2,), of a result that `PublicContext.dump_result` wrote.

        Raises `DeserialisationError`: damaged, of another context or parameters, or a ciphertext that hides nothing.
        """
        packed = wire_format.open_for("result", self.fingerprint, data)
        words = transparent_ciphertexts.unpack(self._seeded.whole, packed)
        ciphertext = self._scheme.at_degree(self._decryptor.ciphertext(words), 2)
        return self._scheme.decoded(self._decryptor.decrypt(ciphertext))

    def _encrypt(self, values: Slots) -> Words:
        ciphertext = self._decryptor.encrypt(self._scheme.encoded(values, 1))
        return self._scheme.words(self._scheme.at_degree(ciphertext, 1))


def checked(values: Slots, parameters: CkksParameters, degree: int) -> Slots:
    """Return `values` as a contiguous complex vector, shape (N/2,), that a ciphertext of that degree can hold.

    Raises ValueError where there is not one finite value a slot, or a value beyond the modulus.
    """
    vector = np.ascontiguousarray(values, np.complex128)
    if vector.shape != (parameters.slots,):
        raise ValueError(f"expected one value for each of {parameters.slots} slots, got shape {vector.shape}")
    # Coefficients are at most as large as the largest slot; half the modulus is for either sign.
    if not np.abs(vector).max() < 2.0 ** (parameters.log2_modulus - 1 - degree * parameters.log2_scale):
        raise ValueError("a value is not finite, or larger than the modulus holds")
    return vector


class KeyPair(NamedTuple):
    """Both halves of a freshly generated context."""

    public: PublicContext
    secret: SecretContext


FACTORY = ContextFactory[CkksParameters, KeyPair, PublicContext, SecretContext](
    PublicContext, SecretContext, StoredPublic, StoredSecret, KeyPair
)
