"""Partial decryption under joint BFV keys: each party decrypts with its share, all together see the result.

    party i    d_i = c1·s_i + noise           of a result (c0, c1), the noise uniform on [-2^c, 2^c)
    all        c0 + Σ d_i                     decrypts to the result

The noise hides, as flooding does (`fhe_auc.bfv.flooding`), the noise of the result that could tell a party's share.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fhe_auc.bfv.context import Residues, kind_of
from fhe_auc.bfv.flooding import uniform_noise
from fhe_auc.bfv.openfhe_joint_keys import JointSetup, JointShare
from fhe_auc.rlwe import container
from fhe_auc.rlwe.openfhe_library import openfhe
from fhe_auc.rlwe.polynomials import Words


def partial_decryption(share: JointShare, result: bytes, prime: int, smudging_exponent: int) -> bytes:
    """Return a party's partial decryption of a result: one polynomial, of the shape `JointSetup.submission_part`.

    Parameters
    ----------
    share : JointShare
        The party's own.
    result : bytes
        From `PublicContext.dump_result`.
    prime : int
        Index of the plaintext modulus.
    smudging_exponent : int
        c, of the noise to add.

    Raises
    ------
    DeserialisationError
        Not a result of these parameters for that prime.
    """
    half = share.setup.submission_part
    _, second = split_result(share.setup, result, prime)
    partial = half.multiply(second, share.secret_words)
    half.add_in_place(partial, uniform_noise(half, smudging_exponent))
    return half.pack(partial)


def fuse(setup: JointSetup, result: bytes, prime: int, partials: Iterable[Words]) -> Residues:
    """Return the slots of a result from all parties' partial decryptions (unpacked), each once and none left out.

    Raises
    ------
    DeserialisationError
        Not a result of these parameters for that prime.
    """
    total, _ = split_result(setup, result, prime)
    for partial in partials:
        setup.submission_part.add_in_place(total, partial)
    scheme = setup.schemes[prime]
    fused = scheme.ciphertext(setup.halves["submission"].join(total, np.zeros_like(total)), setup.tag)
    no_key = scheme.load(
        openfhe.DeserializePrivateKeyString, scheme.secret_key, bytes(scheme.secret_key.packed_size), setup.tag
    )
    return scheme.decoded(scheme.context.Decrypt(no_key, fused))


def split_result(setup: JointSetup, result: bytes, prime: int) -> tuple[Words, Words]:
    """Return both polynomials of a result; `DeserialisationError` where it is none for that prime."""
    _, packed = container.open_any(kind_of("result", setup.parameters, prime), result)
    return setup.halves["submission"].unpack(packed)
