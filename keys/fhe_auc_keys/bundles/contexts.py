"""Contexts of whatever scheme, for those who make keys and pass them on, and compute nothing with them."""

from __future__ import annotations

from typing import Any

from fhe_auc import bfv, ckks
from fhe_auc.base.errors import DeserialisationError
from fhe_auc.bfv import BfvParameters
from fhe_auc.bfv.context import FACTORY as BFV_FACTORY
from fhe_auc.ckks import CkksParameters
from fhe_auc.ckks.context import FACTORY as CKKS_FACTORY
from fhe_auc.rlwe import wire_format
from fhe_auc.rlwe.context import BasePublicContext
from fhe_auc.rlwe.context_factory import ContextFactory
from fhe_auc.rlwe.parameters import RingParameters

_FACTORIES: dict[str, ContextFactory[Any, Any, Any, Any]] = {
    CkksParameters.scheme: CKKS_FACTORY,
    BfvParameters.scheme: BFV_FACTORY,
}
_PUBLIC = {each.public.kind: each for each in _FACTORIES.values()}
_SECRET = {each.secret.kind for each in _FACTORIES.values()}


def generate(parameters: RingParameters) -> ckks.KeyPair | bfv.KeyPair:
    """Return a context of the parameters' scheme with fresh keys; errors as `ContextFactory.generate`."""
    pair: ckks.KeyPair | bfv.KeyPair = _FACTORIES[parameters.scheme].generate(parameters)
    return pair


def load_public(data: bytes) -> BasePublicContext[Any]:
    """Return the context that a public context's `to_bytes` wrote; errors as `fhe_auc.ckks.load_public`."""
    kind = wire_format.kind_of(data)
    if kind not in _PUBLIC:
        raise DeserialisationError(f"expected a public context, got a {kind[:40]!r}", field="kind")
    context: BasePublicContext[Any] = _PUBLIC[kind].load_public(data)
    return context


def check_secret(data: bytes, fingerprint: bytes) -> None:
    """Raise `DeserialisationError` unless `data` is a secret context with this fingerprint."""
    kind = wire_format.kind_of(data)
    if kind not in _SECRET:
        raise DeserialisationError(f"expected a secret context, got a {kind[:40]!r}", field="kind")
    wire_format.open_for(kind, fingerprint, data)
