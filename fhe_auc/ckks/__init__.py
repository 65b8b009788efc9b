"""CKKS contexts on OpenFHE and on Microsoft SEAL (through TenSEAL), behind one interface."""

from fhe_auc.ckks.context import FACTORY, Ciphertext, KeyPair, PublicContext, SecretContext, Slots
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.rlwe.backends import BACKENDS, available_backends, choose_backend
from fhe_auc.rlwe.parameters import SECURITY_BITS, BackendName

__all__ = [
    "BACKENDS",
    "SECURITY_BITS",
    "BackendName",
    "Ciphertext",
    "CkksParameters",
    "KeyPair",
    "PublicContext",
    "SecretContext",
    "Slots",
    "available_backends",
    "choose_backend",
    "generate",
    "load_public",
    "load_secret",
]

generate, load_public, load_secret = FACTORY.generate, FACTORY.load_public, FACTORY.load_secret
