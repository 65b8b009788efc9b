"""What the contexts of every scheme have in common: what they are stored as, their names, and what they never do."""

from __future__ import annotations

import hashlib
from typing import ClassVar, Generic

import msgspec

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import encode
from fhe_auc.rlwe import wire_format
from fhe_auc.rlwe.library import Library, P
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.seeded import Seeded


class PublicKeys(msgspec.Struct, Generic[P], frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a public context is made of: parameters, and the public key as packed coefficients and a seed."""

    parameters: P
    public_key: bytes

    @property
    def digest(self) -> bytes:
        """SHA-256 of the public key: whoever swaps it makes another context."""
        return hashlib.sha256(self.public_key).digest()

    @property
    def fingerprint(self) -> bytes:
        """Name of the context, 32 bytes."""
        return self.parameters.fingerprint(self.digest)


class SecretKey(msgspec.Struct, Generic[P], frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a secret context is made of."""

    parameters: P
    public_keys_digest: bytes  # `PublicKeys.digest`
    secret_key: bytes
    checksum: bytes  # SHA-256 of the secret key, whose damage would show nowhere else

    def __repr__(self) -> str:
        return "SecretKey(...)"

    @property
    def fingerprint(self) -> bytes:
        """Name of the context, 32 bytes."""
        return self.parameters.fingerprint(self.public_keys_digest)


class _BaseContext(Generic[P]):
    """Parameters and keys, with a name of 32 bytes: `stored`, and what the backend's `scheme` makes of it."""

    kind: ClassVar[str]
    """What its container says it is."""

    _not_pickled: ClassVar[str]
    _stored: PublicKeys[P] | SecretKey[P]

    def __init__(self, stored: PublicKeys[P] | SecretKey[P], scheme: Library[P]) -> None:
        self.parameters = stored.parameters
        self.fingerprint = stored.fingerprint
        self._stored, self._scheme = stored, scheme

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.fingerprint.hex()[:16]}>"

    def __reduce__(self) -> str:
        raise TypeError(self._not_pickled)

    def to_bytes(self) -> bytes:
        """Serialise parameters and keys, a secret one in the clear; `load_public` or `load_secret` reads them."""
        return wire_format.seal(self.kind, self.fingerprint, encode(self._stored))


class BasePublicContext(_BaseContext[P]):
    """What the aggregator holds: parameters and public key. There are no evaluation keys, and no secret key.

    Its `fingerprint`, which ciphertexts carry, names them both. `ciphertext_shape` is the shape of a submission: both
    polynomials, modulo all primes of Q.
    """

    _not_pickled = "a context is not pickled, which the libraries' objects do not survive; send to_bytes()"

    def __init__(self, stored: PublicKeys[P], scheme: Library[P]) -> None:
        super().__init__(stored, scheme)
        self.ciphertext_shape = scheme.submission.polynomials


class BaseSecretContext(_BaseContext[P]):
    """What a party holds: parameters and the secret key, which is never printed, pickled or logged.

    `mask_shape` is the shape of a ciphertext's first polynomial, modulo all primes of Q. Raises `DeserialisationError`:
    the key is damaged, or of other parameters.
    """

    _not_pickled = "a secret key is not pickled; use to_bytes() and keep the bytes encrypted"
    _stored: SecretKey[P]

    def __init__(self, stored: SecretKey[P], scheme: Library[P]) -> None:
        super().__init__(stored, scheme)
        self._seeded = Seeded(scheme.submission.polynomials)
        self.mask_shape = self._seeded.half
        if hashlib.sha256(stored.secret_key).digest() != stored.checksum:
            raise DeserialisationError(f"the {self.kind} is damaged (checksum mismatch)", field="checksum")
        words = scheme.secret_key.polynomials.unpack(stored.secret_key)
        self.secret_words: Words = words[: len(self.parameters.modulus_bits)]  # SEAL has the special prime's as well
        """The secret key itself, as values at the roots of unity modulo all primes of Q."""

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]} (secret)>"
