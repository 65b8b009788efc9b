"""BFV contexts on OpenFHE and on Microsoft SEAL (through TenSEAL), behind one interface: exact integers modulo primes.

What they share with CKKS contexts (`fhe_auc.ckks`) is `fhe_auc.rlwe`.
"""

from fhe_auc.bfv.context import Ciphertext as Ciphertext
from fhe_auc.bfv.context import Flooded as Flooded
from fhe_auc.bfv.context import KeyPair as KeyPair
from fhe_auc.bfv.context import PublicContext as PublicContext
from fhe_auc.bfv.context import SecretContext as SecretContext
from fhe_auc.bfv.context import generate as generate
from fhe_auc.bfv.context import load_public as load_public
from fhe_auc.bfv.context import load_secret as load_secret
from fhe_auc.bfv.parameters import BfvParameters as BfvParameters
from fhe_auc.rlwe.modular import Residues as Residues
