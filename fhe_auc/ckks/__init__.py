"""CKKS contexts on OpenFHE and on Microsoft SEAL (through TenSEAL), behind one interface."""

from fhe_auc.ckks.context import KeyPair as KeyPair
from fhe_auc.ckks.context import PublicContext as PublicContext
from fhe_auc.ckks.context import SecretContext as SecretContext
from fhe_auc.ckks.context import generate as generate
from fhe_auc.ckks.context import load_public as load_public
from fhe_auc.ckks.context import load_secret as load_secret
from fhe_auc.ckks.encoding import Slots as Slots
from fhe_auc.ckks.parameters import CkksParameters as CkksParameters
from fhe_auc.rlwe.ring_parameters import BACKENDS as BACKENDS
from fhe_auc.rlwe.ring_parameters import SECURITY_BITS as SECURITY_BITS
from fhe_auc.rlwe.ring_parameters import BackendName as BackendName
from fhe_auc.rlwe.ring_parameters import available_backends as available_backends
from fhe_auc.rlwe.ring_parameters import choose_backend as choose_backend
