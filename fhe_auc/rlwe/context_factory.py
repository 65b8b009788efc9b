"""How contexts come to life, with fresh keys or from bytes: the same for every scheme and library."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, TypeVar

from fhe_auc.errors import DeserialisationError
from fhe_auc.rlwe import container
from fhe_auc.rlwe.backends import choose_backend
from fhe_auc.rlwe.context import P, PublicKeys, SecretKey
from fhe_auc.rlwe.parameters import RingParameters
from fhe_auc.serialise import decode

Pair = TypeVar("Pair")
Public = TypeVar("Public")
Secret = TypeVar("Secret")
Stored = TypeVar("Stored", bound="PublicKeys[Any] | SecretKey[Any]")


@dataclass(frozen=True)
class ContextFactory(Generic[P, Pair, Public, Secret]):
    """The contexts of one scheme.

    Attributes
    ----------
    public_kind, secret_kind : str
        What containers of its contexts say they are.
    public_keys, secret_key : type
        What such contexts are stored as.
    pair : callable
        Makes a pair of a public and a secret context.
    """

    public_kind: str
    public_keys: type[PublicKeys[P]]
    secret_kind: str
    secret_key: type[SecretKey[P]]
    pair: Callable[[Public, Secret], Pair]

    def generate(self, parameters: P) -> Pair:
        """Return a context with fresh keys: exactly the keys that `parameters` call for.

        Raises
        ------
        BackendUnavailableError
            The parameters' library cannot be imported here.
        """
        backend = _backend(parameters)
        stored, secret_key = backend.fresh_keys(parameters)
        secret = self.secret_key(parameters, hashlib.sha256(stored.public_key).digest(), secret_key)
        return self.pair(backend.load_public(stored), backend.load_secret(secret))

    def load_public(self, data: bytes) -> Public:
        """Return the context that `PublicContext.to_bytes` wrote.

        Raises
        ------
        DeserialisationError
            Damaged, malformed, or a fingerprint that is not that of the parameters and public key inside.
        BackendUnavailableError
            Made with a library that cannot be imported here.
        """
        stored = _opened(self.public_kind, data, self.public_keys)
        context: Public = _backend(stored.parameters).load_public(stored)
        return context

    def load_secret(self, data: bytes) -> Secret:
        """Return the context that `SecretContext.to_bytes` wrote; errors as `load_public`."""
        stored = _opened(self.secret_kind, data, self.secret_key)
        context: Secret = _backend(stored.parameters).load_secret(stored)
        return context


def _backend(parameters: RingParameters) -> ModuleType:
    """Return the module of the parameters' scheme for the parameters' library; errors as `choose_backend`."""
    return importlib.import_module(f"fhe_auc.{parameters.scheme}.{choose_backend(parameters.backend)}_backend")


def _opened(kind: str, data: bytes, shape: type[Stored]) -> Stored:
    """Return what the container `data` of a context holds; errors as `ContextFactory.load_public`."""
    fingerprint, payload = container.open_any(kind, data)
    found = decode(payload, shape, kind)
    if found.fingerprint != fingerprint:
        raise DeserialisationError(f"the {kind} does not match its fingerprint", field="fingerprint")
    return found
