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
from fhe_auc.rlwe.parameters import RingParameters
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
    stored_as: ClassVar[Any]
    """`PublicKeys` or `SecretKey` of its parameters."""

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
Context = TypeVar("Context", bound="BasePublicContext[Any] | BaseSecretContext[Any]")


@dataclass(frozen=True)
class ContextFactory(Generic[Pair, Public, Secret]):
    """The contexts of one scheme: their types, and what makes a pair of them."""

    public: type[Public]
    secret: type[Secret]
    pair: Callable[[Public, Secret], Pair]
    # In one process a key holder checks what it seals, an aggregator what it opens, and thousands of parties may play.
    _in_use: WeakValueDictionary[tuple[str, bytes], Any] = field(default_factory=WeakValueDictionary, repr=False)

    def generate(self, parameters: RingParameters) -> Pair:
        """Return a context with fresh keys: exactly the keys that `parameters` call for.

        Raises `BackendUnavailableError` where the parameters' library cannot be imported here.
        """
        library = library_for(parameters)
        secret_key = library.new_secret_key()
        stored = self.public.stored_as(parameters, library.new_public_key(secret_key))
        checksum = hashlib.sha256(secret_key).digest()
        secret = self.secret.stored_as(parameters, stored.digest, secret_key, checksum)
        public = self.public(stored, library)
        self._in_use[_name(public, public.to_bytes())] = public
        return self.pair(public, self.secret(secret, library))

    def load_public(self, data: bytes) -> Public:
        """Return the context that `PublicContext.to_bytes` wrote; as long as somebody uses it, the same one.

        Raises `DeserialisationError` where it is damaged, malformed, or has a fingerprint that is not that of the
        parameters and keys inside; `BackendUnavailableError` as `generate`.
        """
        return self._loaded(self.public, data)

    def load_secret(self, data: bytes) -> Secret:
        """Return the context that `SecretContext.to_bytes` wrote; as `load_public`."""
        return self._loaded(self.secret, data)

    def _loaded(self, of: type[Context], data: bytes) -> Context:
        found: Context | None = self._in_use.get(_name(of, data))
        if found is None:
            fingerprint, payload = wire_format.open_any(of.kind, data)
            stored = decode(payload, of.stored_as, of.kind)
            if stored.fingerprint != fingerprint:
                raise DeserialisationError(f"the {of.kind} does not match its fingerprint", field="fingerprint")
            self._in_use[_name(of, data)] = found = of(stored, library_for(stored.parameters))
        return found


def _name(of: Any, data: bytes) -> tuple[str, bytes]:
    """Return what nothing but these bytes of a context of this kind has."""
    return of.kind, hashlib.sha256(data).digest()
