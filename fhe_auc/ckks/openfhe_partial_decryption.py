"""Partial decryption under joint CKKS keys: each party decrypts with its share, all together see the result.

    party i    d_i = c1·s_i + smudging        of a result (c0, c1)
    all        c0 + Σ d_i                     decrypts to the result

Smudging noise hides the noise that could tell a party's share: `fhe_auc.ckks.flooding`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from fhe_auc.ckks.context import Slots
from fhe_auc.ckks.openfhe_backend import Scheme
from fhe_auc.ckks.openfhe_joint_keys import JointSetup, JointShare
from fhe_auc.rlwe import container
from fhe_auc.rlwe.layout import Layout
from fhe_auc.rlwe.openfhe_library import openfhe, save
from fhe_auc.rlwe.polynomials import Words


def partial_decryption(share: JointShare, result: bytes, smudging: Sequence[Slots]) -> bytes:
    """Return a party's partial decryption of a result: one polynomial, of the shape `JointSetup.submission_part`.

    Parameters
    ----------
    share : JointShare
        The party's own.
    result : bytes
        From `PublicContext.dump_result`.
    smudging : sequence of ndarray
        Noise to add, in plain units over all slots, one layer after the other (`fhe_auc.ckks.flooding`). The library
        adds only 2^20 of its own.

    Raises
    ------
    DeserialisationError
        Not a result of these parameters.
    """
    setup, scheme = share.setup, share.setup.scheme
    _, second = split_result(setup, result)
    noise = setup.ciphertext(np.zeros_like(second), second)
    for layer in smudging:
        scheme.context.EvalAddInPlace(noise, scheme.integers(layer * setup.parameters.scale**2))
    # The library's "lead" decrypts (c0, c1) as c0 + c1·s: here c0 is the smudging noise, for every party.
    (partial,) = scheme.context.MultipartyDecryptLead([noise], share.secret_key)
    return _layout(scheme).pack(save(partial))


def fuse(setup: JointSetup, result: bytes, partials: Iterable[Words]) -> Slots:
    """Return the slots of a result from all parties' partial decryptions (unpacked), each once and none left out.

    Raises
    ------
    DeserialisationError
        Not a result of these parameters.
    """
    total, _ = split_result(setup, result)
    for partial in partials:
        setup.submission_part.add_in_place(total, partial)
    packed = setup.submission_part.pack(total)
    fused = setup.load(openfhe.DeserializeCiphertextString, _layout(setup.scheme), packed)
    plaintext = setup.scheme.context.MultipartyDecryptFusion([fused])
    unit = setup.scheme.library_scale / setup.parameters.scale**2
    return np.asarray(np.asarray(plaintext.GetCKKSPackedValue(), complex) * unit)


def split_result(setup: JointSetup, result: bytes) -> tuple[Words, Words]:
    """Return both polynomials of a result; `DeserialisationError` where it is none."""
    _, packed = container.open_any("result", result)
    return setup.halves["submission"].unpack(packed)  # which differs from a result in the header only


@lru_cache(maxsize=4)
def _layout(scheme: Scheme) -> Layout:
    """Return the layout of a partial decryption, learned from a throw-away one."""
    keys = scheme.context.KeyGen()
    ciphertext = scheme.encrypt(keys.secretKey, np.zeros(scheme.parameters.slots, complex), 1)
    (partial,) = scheme.context.MultipartyDecryptLead([ciphertext], keys.secretKey)
    return scheme.learn(partial, partial.GetKeyTag())
