"""How BFV contexts come to life: with fresh keys, or from bytes."""

from __future__ import annotations

from fhe_auc.bfv.context import KeyPair, PublicContext, SecretContext, StoredPublic, StoredSecret
from fhe_auc.bfv.parameters import BfvParameters
from fhe_auc.rlwe.backends import implementation, stored


def generate(parameters: BfvParameters) -> KeyPair:
    """Return a context with fresh keys, which serve all plaintext moduli."""
    pair: KeyPair = implementation(parameters).generate(parameters)
    return pair


def load_public(data: bytes) -> PublicContext:
    """Return the context that `PublicContext.to_bytes` wrote.

    Raises
    ------
    DeserialisationError
        Damaged, malformed, or a fingerprint that is not that of the parameters and public key inside.
    BackendUnavailableError
        Made with a library that cannot be imported here.
    """
    found = stored(PublicContext.kind, data, StoredPublic)
    context: PublicContext = implementation(found.parameters).load_public(found)
    return context


def load_secret(data: bytes) -> SecretContext:
    """Return the context that `SecretContext.to_bytes` wrote; errors as `load_public`."""
    found = stored(SecretContext.kind, data, StoredSecret)
    context: SecretContext = implementation(found.parameters).load_secret(found)
    return context
