"""Partial decryption under joint BFV keys: each party decrypts with its share, all together see the result.

    party i    d_i = c1·s_i + noise           of a result (c0, c1), the noise uniform on [-2^c, 2^c)
    all        c0 + Σ d_i                     decrypts to the result

All modulo q, the primes of Q that the aggregator has switched the result down to (`PublicContext.dump_result`). The
noise hides, as flooding does (`fhe_auc.bfv.flooding`), the noise of the result that could tell a party's share.
"""

from __future__ import annotations

from collections.abc import Iterable

from fhe_auc.bfv import slots
from fhe_auc.bfv.context import result_kind
from fhe_auc.bfv.flooding import uniform_noise
from fhe_auc.bfv.openfhe_joint_keys import JointSetup, JointShare
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.polynomials import Words


def partial_decryption(share: JointShare, result: bytes, prime: int, kept: int, smudging_exponent: int) -> bytes:
    """Return a party's partial decryption of a result: one polynomial, of the shape `JointSetup.result_part`.

    `prime` is the index of the plaintext modulus, `kept` the number of primes of Q that the result is in, and
    `smudging_exponent` is c, of the noise to add. Raises `DeserialisationError` where `result` is none of these
    parameters for that prime and so many `kept`; ValueError where there are not so many.
    """
    setup, half = share.setup, share.setup.result_part(kept)
    _, second = setup.split_result(result_kind(setup.parameters, prime, kept), result, kept)
    partial = half.multiply(second, share.secret_words[:kept])
    half.add_in_place(partial, uniform_noise(half, smudging_exponent))
    return half.pack(partial)


def fuse(setup: JointSetup, result: bytes, prime: int, kept: int, partials: Iterable[Words]) -> Residues:
    """Return the slots of a result from all parties' partial decryptions (unpacked), each once and none left out.

    `prime`, `kept` and errors as of `partial_decryption`.
    """
    phase = setup.fused(result_kind(setup.parameters, prime, kept), result, partials, kept)
    return slots.decrypted(setup.result_part(kept), setup.parameters.plain_moduli[prime], phase)
