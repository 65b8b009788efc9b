"""BFV contexts on OpenFHE and on Microsoft SEAL (through TenSEAL), behind one interface: exact integers modulo primes.

What they share with CKKS contexts (`fhe_auc.ckks`) is `fhe_auc.rlwe`.
"""

from fhe_auc.bfv.context import FACTORY, Ciphertext, KeyPair, PublicContext, SecretContext
from fhe_auc.bfv.parameters import BfvParameters
from fhe_auc.rlwe.modular import Residues

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

generate, load_public, load_secret = FACTORY.generate, FACTORY.load_public, FACTORY.load_secret
