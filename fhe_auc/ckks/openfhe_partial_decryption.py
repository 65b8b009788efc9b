"""Partial decryption under joint CKKS keys: each party decrypts with its share, all together see the result.

    party i    d_i = c1·s_i + smudging        of a result (c0, c1)
    all        c0 + Σ d_i                     decrypts to the result

Smudging noise hides the noise that could tell a party's share: `fhe_auc.ckks.flooding`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from fhe_auc.ckks.context import Slots
from fhe_auc.ckks.openfhe_joint_keys import JointSetup, JointShare
from fhe_auc.rlwe.openfhe_library import save
from fhe_auc.rlwe.polynomials import Words


def partial_decryption(share: JointShare, result: bytes, smudging: Sequence[Slots]) -> bytes:
    """Return a party's partial decryption of a result: one polynomial, of the shape `JointSetup.submission_part`.

    `smudging` is noise to add, in plain units over all slots, one layer after the other (`fhe_auc.ckks.flooding`); the
    library adds only 2^20 of its own. Raises `DeserialisationError` where `result` is none of these parameters.
    """
    setup, scheme = share.setup, share.setup.scheme
    _, second = setup.split_result("result", result)
    noise = setup.ciphertext(np.zeros_like(second), second)
    for layer in smudging:
        scheme.context.EvalAddInPlace(noise, scheme.encoded(layer, 2))
    # The library's "lead" decrypts (c0, c1) as c0 + c1·s: here c0 is the smudging noise, for every party.
    (partial,) = scheme.context.MultipartyDecryptLead([noise], share.secret_key)
    return scheme.learn(partial, setup.tag).pack(save(partial))


def fuse(setup: JointSetup, result: bytes, partials: Iterable[Words]) -> Slots:
    """Return the slots of a result from all parties' partial decryptions (unpacked), each once and none left out.

    Raises `DeserialisationError` where `result` is none of these parameters.
    """
    no_key = setup.scheme.no_key(setup.binding)
    total = setup.fused("result", result, partials)
    fused = no_key.ciphertext(np.concatenate((total, np.zeros_like(total))))
    return setup.scheme.decoded(no_key.decrypt(setup.scheme.at_degree(fused, 2)))
