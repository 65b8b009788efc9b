"""BFV contexts on OpenFHE and on Microsoft SEAL (through TenSEAL), behind one interface: exact integers modulo primes.

What they share with CKKS contexts (`fhe_auc.ckks`) is `fhe_auc.rlwe`.
"""

from fhe_auc.bfv.context import Ciphertext, KeyPair, PublicContext, Residues, SecretContext
from fhe_auc.bfv.contexts import generate, load_public, load_secret
from fhe_auc.bfv.parameters import BfvParameters

__all__ = [
    "BfvParameters",
    "Ciphertext",
    "KeyPair",
    "PublicContext",
    "Residues",
    "SecretContext",
    "generate",
    "load_public",
    "load_secret",
]
