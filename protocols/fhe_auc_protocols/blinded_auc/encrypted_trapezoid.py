"""The trapezoid under encryption: where values sit in ciphertexts, and what the aggregator computes.

A ciphertext holds four components of B complex slots (`fhe_auc.ckks.encoding`). A run of the computation has one factor
Y and two classes X₀, X₁ of values, a slot for each bin; bins beyond B go to further ciphertexts, blocks:

    z = w·Y + x·X₀/w + x³·X₁/w        z² has 2·Y·X₀ in component 1 and 2·Y·X₁ in component 3, and no w
    submission   = z, block by block, run by run
    sum          = Σ_parties z                             as submissions arrive (`fhe_auc.session.running_sum`)
    result       = r · Σ_blocks Σ_slots sum²               the two sums of each run: 2·r·Σ_k Y_k·X_k

The public w = 4 evens out precision: the error on Y meets all X, the error on X meets Y, which weighs far less.
"""

import secrets
from collections.abc import Sequence

import numpy as np

from fhe_auc.ckks import PublicContext, Slots
from fhe_auc.ckks.encoding import COMPONENTS, SUMMED
from fhe_auc.rlwe.polynomials import Words
from fhe_auc_protocols.blinded_auc import blinding
from fhe_auc_protocols.blinded_auc.blinding import BLINDING_BITS, FLOODED_BITS, BlindingRandomness
from fhe_auc_protocols.blinded_auc.error_bound import WEIGHT
from fhe_auc_protocols.blinded_auc.plan import AucPlan


def packed(plan: AucPlan, y: Slots, x: Slots) -> list[Slots]:
    """Return a run's blocks, each of the shape (4, B), of Y, shape (k,), and both X, shape (2, k); k ≤ blocks·B.

    Positions from k on are zero.
    """
    slots, blocks = plan.parameters.slots, plan.blocks_of_a_run
    values = np.zeros((COMPONENTS, blocks * slots), complex)
    values[0, : y.size] = WEIGHT * y
    values[SUMMED, : x.shape[1]] = x / WEIGHT
    return [np.ascontiguousarray(block) for block in np.split(values, blocks, axis=1)]


def blinded_sums(
    plan: AucPlan, context: PublicContext, totals: Sequence[Words], *, randomness: BlindingRandomness = secrets
) -> bytes:
    """Return the result from the sums of all submissions, ciphertext by ciphertext, under a fresh multiplier."""
    blocks = plan.blocks_of_a_run
    runs = [totals[start : start + blocks] for start in range(0, len(totals), blocks)]
    multiplier = blinding.multiplier(BLINDING_BITS, randomness)
    return context.dump_sums([context.sum_of_squares(run) for run in runs], multiplier, FLOODED_BITS)
