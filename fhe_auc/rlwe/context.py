"""Contexts of every scheme: keys, the library that makes them, what they are stored as, and how they come to life.

An encryption library, OpenFHE or SEAL, makes secret keys. All else is done in words, the same on every library. Its
objects stay inside.

Only coefficients travel, and a library's parser sees no foreign bytes. Both libraries serialise an object as a header
(parameters, sizes, pointers) around long runs of 64-bit coefficients, which are found in it. Every coefficient takes
only the bits that its modulus needs (`fhe_auc.rlwe.polynomials`).
"""

from __future__ import annotations

import hashlib
import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from fhe_auc.base.errors import BackendUnavailableError, CapacityError, DeserialisationError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.rlwe.ciphertexts import Seeded, unwrap, wrap
from fhe_auc.rlwe.modular import Signed, signed
from fhe_auc.rlwe.polynomials import Polynomials, Words, coefficients_of, values_of
from fhe_auc.rlwe.ring_parameters import KEY_CHAIN, LIBRARIES, BackendName, Chain, RingParameters, choose_backend

P = TypeVar("P", bound=RingParameters)


Rows: TypeAlias = list[tuple[int, Words]]
"""One polynomial modulo one prime, after the other: the prime, and the coefficients in words, shape (N,)."""


class Library(ABC):
    """A library's context for one chain: of CKKS whatever the scheme.

    Raises `BackendUnavailableError` where it keeps keys in a way that is not known here, and `CapacityError` where it
    has another ring or modulus.
    """

    def __init__(self, chain: Chain) -> None:
        self.chain = chain

    @cached_property
    def moduli(self) -> tuple[int, ...]:
        """Primes of its secret keys, those of Q first; as a throw-away key says."""
        return self.drawn()[0]

    def drawn(self) -> tuple[tuple[int, ...], Signed]:
        """Return the primes of a fresh secret key, and its coefficients, shape (N,)."""
        moduli, rows = zip(*self._new_key(), strict=True)
        found = tuple(round(math.log2(modulus)) for modulus in moduli)
        wanted, more = self.chain.modulus_bits, bool(self.chain.special_bits)  # of which SEAL's keys know
        if found[: len(wanted)] != wanted or len(found) > len(wanted) + more:
            raise CapacityError(f"the library has chosen primes of {found} bits, not those that the parameters say")
        first = Polynomials(self.chain.ring_dimension, moduli[:1])
        ternary = signed(coefficients_of(first, np.array(rows[:1], np.uint64))[0], moduli[0])
        if np.abs(ternary).max() > 1:
            raise BackendUnavailableError(
                "this version of the encryption library keeps ciphertexts or keys in a way that fhe-auc does not know; "
                "install one that fhe-auc asks for"
            )
        return moduli, ternary

    @abstractmethod
    def _new_key(self) -> Rows:
        """Return a fresh secret key, as the library's serialisation has it: values at the roots of -1."""


def shapes_of(parameters: RingParameters) -> tuple[Polynomials, Polynomials]:
    """Return the shapes of secret keys and of ciphertexts; errors as `library_for`, which own primes do not take."""
    own, size = parameters.own_moduli, parameters.ring_dimension
    of_keys = own or library_for(parameters).moduli
    return Polynomials(size, of_keys), Polynomials(size, 2 * of_keys[: len(parameters.modulus_bits)])


def new_secret_key(parameters: RingParameters) -> bytes:
    """Return a fresh secret key, packed: a ternary polynomial that the library has drawn; errors as `library_for`."""
    (shape, _), (_, ternary) = shapes_of(parameters), library_for(parameters).drawn()
    return shape.pack(values_of(shape, ternary))


def new_public_key(parameters: RingParameters, secret_key: bytes) -> bytes:
    """Return a fresh public key of a packed secret key, packed: an encryption of zero, made without the library."""
    key_shape, ciphertext_shape = shapes_of(parameters)
    seeded = Seeded(ciphertext_shape)
    zero = seeded.half.zeros()
    return seeded.encrypt(key_shape.unpack(secret_key)[: len(zero)], zero, zero[:0])


def library_for(parameters: RingParameters) -> Library:
    """Return the library that draws keys, and chooses the primes unless they are the scheme's own.

    Errors as of it, and as `choose_backend`.
    """
    return _library(choose_backend(parameters.backend), KEY_CHAIN if parameters.own_moduli else parameters.chain)


@lru_cache(maxsize=8)
def _library(backend: BackendName, chain: Chain) -> Library:
    made: Library = importlib.import_module(LIBRARIES[backend]).Scheme(chain)
    return made


class PublicKeys(msgspec.Struct, Generic[P], frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a public context is made of: parameters, and the public key as packed coefficients and a seed."""

    parameters: P
    public_key: bytes

    @property
    def public_keys_digest(self) -> bytes:
        """SHA-256 of the public key: whoever swaps it makes another context."""
        return hashlib.sha256(self.public_key).digest()


class SecretKey(msgspec.Struct, Generic[P], frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a secret context is made of."""

    parameters: P
    public_keys_digest: bytes  # of `PublicKeys`
    secret_key: bytes
    checksum: bytes  # SHA-256 of the secret key, whose damage would show nowhere else

    def __repr__(self) -> str:
        return "SecretKey(...)"


class _BaseContext(Generic[P]):
    """Parameters and keys, with a name of 32 bytes."""

    kind: ClassVar[str]
    """What its container says it is."""
    stored_as: ClassVar[Any]
    """`PublicKeys` or `SecretKey` of its parameters."""

    _not_pickled: ClassVar[str]

    def __init__(self, stored: PublicKeys[P] | SecretKey[P]) -> None:
        self.parameters, self._stored = stored.parameters, stored
        self.fingerprint = stored.parameters.fingerprint(stored.public_keys_digest)
        self._key_shape, self.ciphertext_shape = shapes_of(stored.parameters)
        self._seeded = Seeded(self.ciphertext_shape)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.fingerprint.hex()[:16]}>"

    def __reduce__(self) -> str:
        raise TypeError(self._not_pickled)

    def to_bytes(self) -> bytes:
        """Serialise parameters and keys, a secret one in the clear; `load_public` or `load_secret` reads them."""
        return wrap(self.kind, self.fingerprint, encode(self._stored))


class BasePublicContext(_BaseContext[P]):
    """What the aggregator holds: parameters and public key. There are no evaluation keys, and no secret key.

    Its `fingerprint`, which ciphertexts carry, names them both. `ciphertext_shape` is the shape of a submission: both
    polynomials, modulo all primes of Q. Raises `DeserialisationError`: `stored` has a key of other parameters.
    """

    _not_pickled = "a context is not pickled, which the libraries' objects do not survive; send to_bytes()"

    def __init__(self, stored: PublicKeys[P]) -> None:
        super().__init__(stored)
        self._public_key = np.split(self._seeded.expand(stored.public_key), 2)


class BaseSecretContext(_BaseContext[P]):
    """What a party holds: parameters and the secret key, which is never printed, pickled or logged.

    `mask_shape` is the shape of a ciphertext's first polynomial, modulo all primes of Q. Raises `DeserialisationError`:
    the key is damaged, or of other parameters.
    """

    _not_pickled = "a secret key is not pickled; use to_bytes() and keep the bytes encrypted"

    def __init__(self, stored: SecretKey[P]) -> None:
        super().__init__(stored)
        self.mask_shape = self._seeded.half
        if hashlib.sha256(stored.secret_key).digest() != stored.checksum:
            raise DeserialisationError(f"the {self.kind} is damaged (checksum mismatch)", field="checksum")
        words = self._key_shape.unpack(stored.secret_key)
        self.secret_words: Words = words[: len(self.parameters.modulus_bits)]
        """The secret key itself, as values at the roots of unity modulo all primes of Q: SEAL's has one prime more."""

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]} (secret)>"


Pair = TypeVar("Pair")
Public = TypeVar("Public", bound=BasePublicContext[Any])
Secret = TypeVar("Secret", bound=BaseSecretContext[Any])
Context = TypeVar("Context", bound="BasePublicContext[Any] | BaseSecretContext[Any]")


# In one process a key holder checks what it seals, an aggregator what it opens, and thousands of parties may play.
_IN_USE: WeakValueDictionary[tuple[str, bytes], Any] = WeakValueDictionary()


def generated(
    pair: Callable[[Public, Secret], Pair], public: type[Public], secret: type[Secret], parameters: RingParameters
) -> Pair:
    """Return both contexts of a scheme with fresh keys: exactly the keys that `parameters` call for.

    Raises `BackendUnavailableError` where the parameters' library cannot be imported here.
    """
    secret_key = new_secret_key(parameters)
    keys = public.stored_as(parameters, new_public_key(parameters, secret_key))
    checksum = hashlib.sha256(secret_key).digest()
    own = public(keys)
    _IN_USE[_name(public, own.to_bytes())] = own
    return pair(own, secret(secret.stored_as(parameters, keys.public_keys_digest, secret_key, checksum)))


def loaded(of: type[Context], data: bytes) -> Context:
    """Return the context that `to_bytes` of this type wrote; as long as somebody uses it, the same one.

    Raises `DeserialisationError` where it is damaged, malformed, or has a fingerprint that is not that of the
    parameters and keys inside; `BackendUnavailableError` as `generated`.
    """
    found: Context | None = _IN_USE.get(_name(of, data))
    if found is None:
        fingerprint, payload = unwrap(of.kind, data)
        stored = decode(payload, of.stored_as, of.kind)
        if stored.parameters.fingerprint(stored.public_keys_digest) != fingerprint:
            raise DeserialisationError(f"the {of.kind} does not match its fingerprint", field="fingerprint")
        _IN_USE[_name(of, data)] = found = of(stored)
    return found


def _name(of: type[Context], data: bytes) -> tuple[str, bytes]:
    """Return what nothing but these bytes of a context of this kind has."""
    return of.kind, hashlib.sha256(data).digest()
