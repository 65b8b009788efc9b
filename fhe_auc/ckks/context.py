"""The interface of a CKKS backend: one type for the aggregator, one for the parties.

Values are complex numpy arrays over all N/2 slots, in plain units: the scale is the backend's affair. `degree` counts
the factors of the scale in a ciphertext: 1 for what is encrypted, 2 for a product. Nothing is ever rescaled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.ckks import container
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.serialise import encode

Ciphertext: TypeAlias = Any
"""A backend's own ciphertext object; it never leaves the process that made it."""

Slots: TypeAlias = NDArray[np.complex128]


class StoredPublic(NamedTuple):
    """What a public context is made of: parameters, and keys as packed coefficients."""

    parameters: CkksParameters
    public_key: bytes
    relinearisation_key: bytes
    rotation_keys: bytes


class StoredSecret(NamedTuple):
    """What a secret context is made of."""

    parameters: CkksParameters
    secret_key: bytes


class PublicContext(ABC):
    """What the aggregator holds: parameters, public key, evaluation keys. There is no secret key in this type.

    Attributes
    ----------
    parameters : CkksParameters
    fingerprint : bytes
        32 bytes that name parameters and public key; ciphertexts carry it.

    Raises
    ------
    DeserialisationError
        `stored` holds keys that are not of its parameters.
    """

    def __init__(self, stored: StoredPublic) -> None:
        self.parameters = stored.parameters
        self.fingerprint = stored.parameters.fingerprint(stored.public_key)
        self._stored = stored

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.fingerprint.hex()[:16]}>"

    @abstractmethod
    def encrypt(self, values: Slots, degree: int = 1) -> Ciphertext:
        """Return a fresh encryption of `values` under the public key, at scale Δ'^degree."""

    @abstractmethod
    def add(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        """Return the sum of two ciphertexts of the same degree."""

    @abstractmethod
    def multiply(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        """Return the relinearised product of two ciphertexts of degree 1, slot by slot."""

    @abstractmethod
    def multiply_integers(self, ciphertext: Ciphertext, weights: Slots) -> Ciphertext:
        """Return `ciphertext` times real integer `weights`, slot by slot, at unchanged scale.

        Exact where all weights are equal. Otherwise the plaintext is the nearest polynomial with integer
        coefficients, which moves every weight by up to half the number of its coefficients.
        """

    @abstractmethod
    def rotate(self, ciphertext: Ciphertext, step: int) -> Ciphertext:
        """Return the slots shifted left by `step`, cyclically; `step` must be one of ``parameters.rotations``."""

    def load_submission(self, data: bytes) -> Ciphertext:
        """Return the ciphertext in what `SecretContext.encrypt` wrote.

        Raises
        ------
        DeserialisationError
            Damaged, made for another context, or not a ciphertext of these parameters.
        """
        return self._parse_submission(container.open_for("submission", self.fingerprint, data))

    def dump_result(self, ciphertext: Ciphertext) -> bytes:
        """Serialise a ciphertext of degree 2 for `SecretContext.decrypt`."""
        return container.seal("result", self.fingerprint, self._pack_result(ciphertext))

    def to_bytes(self) -> bytes:
        """Serialise parameters, public key and evaluation keys; `fhe_auc.ckks.load_public` reads them."""
        return container.seal("public context", self.fingerprint, encode(self._stored))

    @abstractmethod
    def _parse_submission(self, packed: bytes) -> Ciphertext: ...

    @abstractmethod
    def _pack_result(self, ciphertext: Ciphertext) -> bytes: ...


class SecretContext(ABC):
    """What a party holds: parameters and the secret key, which is never printed, pickled or logged."""

    def __init__(self, stored: StoredSecret, fingerprint: bytes) -> None:
        self.parameters = stored.parameters
        self.fingerprint = fingerprint
        self._stored = stored

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.fingerprint.hex()[:16]} (secret)>"

    def __reduce__(self) -> str:
        raise TypeError("a secret key is not pickled; use to_bytes() and keep the bytes encrypted")

    def encrypt(self, values: Slots) -> bytes:
        """Return `values` encrypted under the secret key at degree 1, serialised, for `load_submission`."""
        return container.seal("submission", self.fingerprint, self._encrypt(values))

    def decrypt(self, data: bytes) -> Slots:
        """Return the slots of a result that `PublicContext.dump_result` wrote.

        Raises
        ------
        DeserialisationError
            Damaged, made for another context, or not a ciphertext of these parameters.
        """
        return self._decrypt(container.open_for("result", self.fingerprint, data))

    def to_bytes(self) -> bytes:
        """Serialise parameters and secret key, in the clear; `fhe_auc.ckks.load_secret` reads them."""
        return container.seal("secret context", self.fingerprint, encode(self._stored))

    @abstractmethod
    def _encrypt(self, values: Slots) -> bytes: ...

    @abstractmethod
    def _decrypt(self, packed: bytes) -> Slots: ...


class KeyPair(NamedTuple):
    """Both halves of a freshly generated context."""

    public: PublicContext
    secret: SecretContext
