"""Which encryption libraries this interpreter can import, and how contexts come to life on them."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from types import ModuleType
from typing import TypeVar

from fhe_auc.ckks import container
from fhe_auc.ckks.context import KeyPair, PublicContext, SecretContext, StoredPublic, StoredSecret
from fhe_auc.ckks.parameters import BackendName, CkksParameters
from fhe_auc.errors import BackendUnavailableError, DeserialisationError
from fhe_auc.serialise import decode

Stored = TypeVar("Stored", StoredPublic, StoredSecret)

BACKENDS: tuple[BackendName, ...] = ("openfhe", "tenseal")
"""All backends, the preferred one first."""


def _backend(name: BackendName) -> ModuleType:
    return importlib.import_module(f"fhe_auc.ckks.{name}_backend")


@cache
def available_backends() -> tuple[BackendName, ...]:
    """Return the backends that can be imported, the preferred one first."""
    found = []
    for name in BACKENDS:
        try:
            _backend(name)
        except (ImportError, OSError):
            # OpenFHE's wheel is tagged for every Python and holds one CPython's binary: it installs, and fails here.
            continue
        found.append(name)
    return tuple(found)


def choose_backend(name: str | None = None) -> BackendName:
    """Return `name`, or the preferred backend there is.

    Raises
    ------
    BackendUnavailableError
        Unknown name, or a library that cannot be imported here.
    """
    available = available_backends()
    if name is None and available:
        return available[0]
    for backend in available:
        if backend == name:
            return backend
    here = f"{', '.join(available) or 'none'} on Python {sys.version_info.major}.{sys.version_info.minor}"
    if name in BACKENDS:
        raise BackendUnavailableError(f"backend {name!r} cannot be imported here (available: {here})")
    raise BackendUnavailableError(f"unknown backend {name!r} (available: {here})")


def generate(parameters: CkksParameters) -> KeyPair:
    """Return a context with fresh keys: exactly the rotation keys that `parameters` names."""
    pair: KeyPair = _backend(choose_backend(parameters.backend)).generate(parameters)
    return pair


def _stored(kind: str, data: bytes, shape: type[Stored]) -> Stored:
    """Return what the container `data` of a context holds, if it is what the container's fingerprint names."""
    fingerprint, payload = container.open_any(kind, data)
    stored = decode(payload, shape, kind)
    if stored.fingerprint != fingerprint:
        raise DeserialisationError(f"the {kind} does not match its fingerprint", field="fingerprint")
    return stored


def load_public(data: bytes) -> PublicContext:
    """Return the context that `PublicContext.to_bytes` wrote.

    Raises
    ------
    DeserialisationError
        Damaged, malformed, or a fingerprint that is not that of the parameters and public key inside.
    BackendUnavailableError
        Made with a library that cannot be imported here.
    """
    stored = _stored("public context", data, StoredPublic)
    context: PublicContext = _backend(choose_backend(stored.parameters.backend)).load_public(stored)
    return context


def load_secret(data: bytes) -> SecretContext:
    """Return the context that `SecretContext.to_bytes` wrote; errors as `load_public`."""
    stored = _stored("secret context", data, StoredSecret)
    context: SecretContext = _backend(choose_backend(stored.parameters.backend)).load_secret(stored)
    return context
