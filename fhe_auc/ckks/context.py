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
from fhe_auc.rlwe import container
from fhe_auc.rlwe.context import BasePublicContext, BaseSecretContext, PublicKeys, SecretKey
from fhe_auc.rlwe.context_factory import ContextFactory
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.seeded import Seeded

Ciphertext: TypeAlias = Any
"""A backend's own ciphertext object; it never leaves the process that made it."""

Slots: TypeAlias = NDArray[np.complex128]


class StoredPublic(PublicKeys[CkksParameters], frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a public context is made of."""

    rotation_keys: bytes


StoredSecret: TypeAlias = SecretKey[CkksParameters]


class PublicContext(BasePublicContext[CkksParameters]):
    """What the aggregator holds, on one of the libraries."""

    kind = "public context"
    _stored: StoredPublic

    def encrypt(self, values: Slots, degree: int = 1) -> Ciphertext:
        """Return a fresh encryption of `values` under the public key, at scale Δ'^degree.

        Raises
        ------
        ValueError
            Not one finite value a slot, or a value beyond the modulus.
        """
        return self._encrypt(checked(values, self.parameters, degree), degree)

    @abstractmethod
    def add_in_place(self, total: Ciphertext, ciphertext: Ciphertext) -> None:
        """Add `ciphertext` to `total`, of the same degree, which must be the caller's own."""

    @abstractmethod
    def multiply(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        """Return the relinearised product of two ciphertexts of degree 1, slot by slot."""

    @abstractmethod
    def multiply_integers(self, ciphertext: Ciphertext, weights: Slots) -> Ciphertext:
        """Return `ciphertext` times integer `weights`, slot by slot, at unchanged scale.

        Exact where all weights are the same real integer. Otherwise the plaintext is the nearest polynomial with
        integer coefficients, which moves every weight by up to half the number of its coefficients.
        """

    @abstractmethod
    def raised(self, ciphertext: Ciphertext) -> Ciphertext:
        """Return the same values at degree 2, for `dump_result`, from degree 1; the noise gets Δ' times as large."""

    @abstractmethod
    def rotate(self, ciphertext: Ciphertext, step: int) -> Ciphertext:
        """Return the slots shifted left by `step`, cyclically; `step` must be one of ``parameters.rotations``."""

    def read_submission(self, data: bytes) -> Words:
        """Return the coefficients, of `ciphertext_shape`, in what `SecretContext.encrypt` wrote.

        Adding them up needs no encryption library: see `fhe_auc.rlwe.polynomials.Sum`.

        Raises
        ------
        DeserialisationError
            Damaged, made for another context, or not a ciphertext of these parameters.
        """
        return Seeded(self.ciphertext_shape).expand(container.open_for("submission", self.fingerprint, data))

    @abstractmethod
    def ciphertext(self, words: Words) -> Ciphertext:
        """Return the ciphertext with these coefficients, of `ciphertext_shape` and degree 1."""

    def load_submission(self, data: bytes) -> Ciphertext:
        """Return the ciphertext of a submission; errors as `read_submission`."""
        return self.ciphertext(self.read_submission(data))

    def dump_result(self, ciphertext: Ciphertext) -> bytes:
        """Serialise a ciphertext of degree 2 for `SecretContext.decrypt`; ValueError for another degree."""
        if self._degree(ciphertext) != 2:
            raise ValueError("a result is a ciphertext of degree 2")
        return container.seal("result", self.fingerprint, self._pack_result(ciphertext))

    @abstractmethod
    def _encrypt(self, values: Slots, degree: int) -> Ciphertext: ...

    @abstractmethod
    def _degree(self, ciphertext: Ciphertext) -> int: ...

    @abstractmethod
    def _pack_result(self, ciphertext: Ciphertext) -> bytes: ...


class SecretContext(BaseSecretContext[CkksParameters]):
    """What a party holds, on one of the libraries."""

    kind = "secret context"

    def encrypt(self, values: Slots, mask: Words | None = None) -> bytes:
        """Return `values` encrypted under the secret key at degree 1, serialised, for `load_submission`.

        Parameters
        ----------
        values : ndarray of complex128, shape (N/2,)
        mask : ndarray of uint64, optional
            Added to the ciphertext's first polynomial, of the shape `mask_shape`. A uniform one leaves nothing that
            could be decrypted, until masks that make up for it have been added.

        Raises
        ------
        ValueError
            Not one finite value a slot, or a value beyond the modulus.
        """
        packed = self._seeded.reseed(self._encrypt(checked(values, self.parameters, 1)), self.secret_words)
        if mask is not None:
            packed = self._seeded.mask(packed, mask)
        return container.seal("submission", self.fingerprint, packed)

    def decrypt(self, data: bytes) -> Slots:
        """Return the slots of a result that `PublicContext.dump_result` wrote.

        Raises
        ------
        DeserialisationError
            Damaged, made for another context, or not a ciphertext of these parameters.
        """
        return self._decrypt(container.open_for("result", self.fingerprint, data))

    @abstractmethod
    def _encrypt(self, values: Slots) -> Words:
        """Return the coefficients of a fresh encryption under the secret key."""

    @abstractmethod
    def _decrypt(self, packed: bytes) -> Slots: ...


def checked(values: Slots, parameters: CkksParameters, degree: int) -> Slots:
    """Return `values` as a contiguous complex vector that a ciphertext can hold.

    Raises
    ------
    ValueError
        Not one finite value a slot, or a value beyond the modulus.
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
    PublicContext.kind, StoredPublic, SecretContext.kind, StoredSecret, KeyPair
)
