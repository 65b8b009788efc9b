"""Partial decryption under joint BFV keys: each party decrypts with its share, all together see the result.

    party i    d_i = c1·s_i + noise           of a result (c0, c1), the noise uniform on [-2^c, 2^c)
    all        c0 + Σ d_i                     decrypts to the result

The noise hides, as flooding does (`fhe_auc.bfv.flooding`), the noise of the result that could tell a party's share.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fhe_auc.bfv import slots
from fhe_auc.bfv.context import kind_of
from fhe_auc.bfv.flooding import uniform_noise
from fhe_auc.bfv.openfhe_joint_keys import JointSetup, JointShare
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.polynomials import Words


def partial_decryption(share: JointShare, result: bytes, prime: int, smudging_exponent: int) -> bytes:
    """Return a party's partial decryption of a result: one polynomial, of the shape `JointSetup.submission_part`.

    `prime` is the index of the plaintext modulus, `smudging_exponent` is c, of the noise to add. Raises
    `DeserialisationError` where `result` is none of these parameters for that prime.
    """
    setup, half = share.setup, share.setup.submission_part
    _, second = setup.split_result(kind_of("result", setup.parameters, prime), result)
    partial = half.multiply(second, share.secret_words)
    half.add_in_place(partial, uniform_noise(half, smudging_exponent))
    return half.pack(partial)


def fuse(setup: JointSetup, result: bytes, prime: int, partials: Iterable[Words]) -> Residues:
    """Return the slots of a result from all parties' partial decryptions (unpacked), each once and none left out.

    Raises `DeserialisationError` where `result` is none of these parameters for that prime.
    """
    phase, _ = np.split(setup.fused(kind_of("result", setup.parameters, prime), result, partials), 2)
    return slots.decrypted(setup.submission_part, setup.parameters.plain_moduli[prime], phase)
