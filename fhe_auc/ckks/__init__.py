"""CKKS contexts on OpenFHE and on Microsoft SEAL (through TenSEAL), behind one interface."""

from fhe_auc.ckks.context import Ciphertext, KeyPair, PublicContext, SecretContext, Slots
from fhe_auc.ckks.contexts import generate, load_public, load_secret
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
