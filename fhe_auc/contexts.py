"""Contexts of whatever scheme, for those who make keys and pass them on, and compute nothing with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fhe_auc import bfv, ckks
from fhe_auc.bfv import BfvParameters
from fhe_auc.ckks import CkksParameters
from fhe_auc.errors import DeserialisationError
from fhe_auc.rlwe import container
from fhe_auc.rlwe.context import BasePublicContext
from fhe_auc.rlwe.parameters import RingParameters

_PUBLIC: dict[str, Callable[[bytes], BasePublicContext[Any]]] = {
    ckks.PublicContext.kind: ckks.load_public,
    bfv.PublicContext.kind: bfv.load_public,
}
_SECRET = ckks.SecretContext.kind, bfv.SecretContext.kind


def generate(parameters: RingParameters) -> ckks.KeyPair | bfv.KeyPair:
    """Return a context of the parameters' scheme with fresh keys."""
    if isinstance(parameters, CkksParameters):
        return ckks.generate(parameters)
    if isinstance(parameters, BfvParameters):
        return bfv.generate(parameters)
    raise TypeError(f"parameters of an unknown scheme: {type(parameters).__name__}")


def load_public(data: bytes) -> BasePublicContext[Any]:
    """Return the context that a public context's `to_bytes` wrote; errors as `fhe_auc.ckks.load_public`."""
    kind = container.kind_of(data)
    if kind not in _PUBLIC:
        raise DeserialisationError(f"expected a public context, got a {kind[:40]!r}", field="kind")
    return _PUBLIC[kind](data)


def check_secret(data: bytes, fingerprint: bytes) -> None:
    """Raise `DeserialisationError` unless `data` is a secret context with this fingerprint."""
    kind = container.kind_of(data)
    if kind not in _SECRET:
        raise DeserialisationError(f"expected a secret context, got a {kind[:40]!r}", field="kind")
    container.open_for(kind, fingerprint, data)
