"""One-time pads, a party's own, from its seed.

With a pad, uniform and used once, a vector is as secret as with any encryption, in as many bytes as it has in the
clear. Two vectors under the same pad tell their difference.
"""

from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues

_LABEL = b"fhe-auc pad 1\0"


def pad(seed: bytes, session: bytes, party: int, prime: int, modulus: int, size: int) -> Residues:
    """Return the pad of one party for one prime, shape (size,), uniform in [0, modulus).

    The `seed`, 32 bytes (`InputError` for another length), is known to the party and to the role that opens. `session`
    is the session's random id, which is known before the opening is made. `party` and `prime` are indices, `modulus` is
    the prime itself.
    """
    return modular.uniform(KeyStream(derived_key(seed, session, _LABEL, party, prime)), modulus, size)
