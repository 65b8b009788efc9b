"""What the contexts of every scheme have in common: what they are stored as, their names, and how they come to life."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.rlwe import wire_format
from fhe_auc.rlwe.backends import library_for
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
    """Parameters and keys, with a name of 32 bytes."""

    kind: ClassVar[str]
    """What its container says it is."""

    _not_pickled: ClassVar[str]
    _stored: PublicKeys[P] | SecretKey[P]

    def __init__(self, stored: PublicKeys[P] | SecretKey[P]) -> None:
        self.parameters = stored.parameters
        self.fingerprint = stored.fingerprint
        self._stored = stored

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

    def __init__(self, stored: PublicKeys[P], library: Library[P]) -> None:
        super().__init__(stored)
        self.ciphertext_shape = library.submission.polynomials


class BaseSecretContext(_BaseContext[P]):
    """What a party holds: parameters and the secret key, which is never printed, pickled or logged.

    `mask_shape` is the shape of a ciphertext's first polynomial, modulo all primes of Q. Raises `DeserialisationError`:
    the key is damaged, or of other parameters.
    """

    _not_pickled = "a secret key is not pickled; use to_bytes() and keep the bytes encrypted"
    _stored: SecretKey[P]

    def __init__(self, stored: SecretKey[P], library: Library[P]) -> None:
        super().__init__(stored)
        self._seeded = Seeded(library.submission.polynomials)
        self.mask_shape = self._seeded.half
        if hashlib.sha256(stored.secret_key).digest() != stored.checksum:
            raise DeserialisationError(f"the {self.kind} is damaged (checksum mismatch)", field="checksum")
        words = library.secret_key.polynomials.unpack(stored.secret_key)
        self.secret_words: Words = words[: len(self.parameters.modulus_bits)]  # SEAL has the special prime's as well
        """The secret key itself, as values at the roots of unity modulo all primes of Q."""

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]} (secret)>"


Pair = TypeVar("Pair")
Public = TypeVar("Public", bound=BasePublicContext[Any])
Secret = TypeVar("Secret", bound=BaseSecretContext[Any])
Stored = TypeVar("Stored", bound="PublicKeys[Any] | SecretKey[Any]")


@dataclass(frozen=True)
class ContextFactory(Generic[P, Pair, Public, Secret]):
    """The contexts of one scheme: their types, what they are stored as, and what makes a pair of them."""

    public: type[Public]
    secret: type[Secret]
    public_keys: type[PublicKeys[P]]
    secret_key: type[SecretKey[P]]
    pair: Callable[[Public, Secret], Pair]
    # In one process a key holder checks what it seals, an aggregator what it opens, and thousands of parties may play.
    _in_use: WeakValueDictionary[bytes, Secret] = field(default_factory=WeakValueDictionary, repr=False)
    _public_in_use: WeakValueDictionary[bytes, Public] = field(default_factory=WeakValueDictionary, repr=False)

    def generate(self, parameters: P) -> Pair:
        """Return a context with fresh keys: exactly the keys that `parameters` call for.

        Raises `BackendUnavailableError` where the parameters' library cannot be imported here.
        """
        library = library_for(parameters)
        secret_key = library.new_secret_key()
        stored = self.public_keys(parameters, library.new_public_key(secret_key))
        secret = self.secret_key(parameters, stored.digest, secret_key, hashlib.sha256(secret_key).digest())
        return self.pair(self._loaded(stored), self.secret(secret, library))

    def load_public(self, data: bytes) -> Public:
        """Return the context that `PublicContext.to_bytes` wrote; as long as somebody uses it, the same one.

        Raises `DeserialisationError` where it is damaged, malformed, or has a fingerprint that is not that of the
        parameters and keys inside; `BackendUnavailableError` as `generate`.
        """
        return self._loaded(_opened(self.public.kind, data, self.public_keys))

    def _loaded(self, stored: PublicKeys[P]) -> Public:
        found = self._public_in_use.get(stored.fingerprint)  # SHA-256 of all that is stored
        if found is None:
            found = self.public(stored, library_for(stored.parameters))
            self._public_in_use[found.fingerprint] = found
        return found

    def load_secret(self, data: bytes) -> Secret:
        """Return the context that `SecretContext.to_bytes` wrote; as `load_public`."""
        digest = hashlib.sha256(data).digest()
        found = self._in_use.get(digest)
        if found is None:
            stored = _opened(self.secret.kind, data, self.secret_key)
            self._in_use[digest] = found = self.secret(stored, library_for(stored.parameters))
        return found


def _opened(kind: str, data: bytes, shape: type[Stored]) -> Stored:
    """Return what the container `data` of a context holds; errors as `ContextFactory.load_public`."""
    fingerprint, payload = wire_format.open_any(kind, data)
    found = decode(payload, shape, kind)
    if found.fingerprint != fingerprint:
        raise DeserialisationError(f"the {kind} does not match its fingerprint", field="fingerprint")
    return found
