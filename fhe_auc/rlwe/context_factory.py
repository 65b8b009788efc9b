"""How contexts come to life, with fresh keys or from bytes: the same for every scheme and library."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import decode
from fhe_auc.rlwe import wire_format
from fhe_auc.rlwe.backends import choose_backend
from fhe_auc.rlwe.context import BasePublicContext, BaseSecretContext, PublicKeys, SecretKey
from fhe_auc.rlwe.library import P
from fhe_auc.rlwe.parameters import RingParameters

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
        scheme = library_for(parameters)
        secret_key = scheme.new_secret_key()
        stored = self.public_keys(parameters, scheme.new_public_key(secret_key))
        secret = self.secret_key(parameters, stored.digest, secret_key, hashlib.sha256(secret_key).digest())
        return self.pair(self._loaded(stored), self.secret(secret, scheme))

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


@lru_cache(maxsize=8)
def library_for(parameters: RingParameters) -> Any:
    """Return the parameters' library, a `Library`; errors as of its `Scheme`, and as `choose_backend`."""
    backend = choose_backend(parameters.backend)
    return importlib.import_module(f"fhe_auc.{parameters.scheme}.{backend}_backend").Scheme(parameters)


def _opened(kind: str, data: bytes, shape: type[Stored]) -> Stored:
    """Return what the container `data` of a context holds; errors as `ContextFactory.load_public`."""
    fingerprint, payload = wire_format.open_any(kind, data)
    found = decode(payload, shape, kind)
    if found.fingerprint != fingerprint:
        raise DeserialisationError(f"the {kind} does not match its fingerprint", field="fingerprint")
    return found
