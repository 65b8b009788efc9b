"""The trapezoid under encryption: where values sit in ciphertexts, and what the aggregator computes.

A ciphertext holds components of B complex slots (`fhe_auc.ckks.encoding`). A run of the computation has one factor Y
and two classes X₀, X₁ of values, a slot for each bin; bins beyond B go to further ciphertexts, blocks:

    z = w·Y + x·X₀/w + x³·X₁/w        z² has 2·Y·X₀ in component 1 and 2·Y·X₁ in component 3, and no w
    submission   = z, block by block, run by run
    sum          = Σ_parties z                             as submissions arrive (`fhe_auc.session.aggregator`)
    result       = r · Σ_blocks Σ_slots sum²               the two sums of each run: 2·r·Σ_k Y_k·X_k

Where both runs of `malicious` have room in one ciphertext, with components a quarter as long, the second has x⁴·w·Y +
x⁵·X₀/w + x⁷·X₁/w beside, and its products in components 9 and 11.

The public w = 4 evens out precision: the error on Y meets all X, the error on X meets Y, which weighs far less.
"""

import secrets
from collections.abc import Sequence

import numpy as np

from fhe_auc.ckks import PublicContext, Slots
from fhe_auc.ckks.parameters import PRODUCTS
from fhe_auc.rlwe.polynomials import Words
from fhe_auc_protocols.blinded_auc import blinding
from fhe_auc_protocols.blinded_auc.blinded_plan import WEIGHT, AucPlan
from fhe_auc_protocols.blinded_auc.blinding import BLINDING_BITS, FLOODED_BITS, RandomBits


def packed(plan: AucPlan, runs: Sequence[tuple[Slots, Slots]]) -> list[Slots]:
    """Return the blocks of a submission, each of the shape (C, B).

    Of each run of the plan there is Y, shape (k,), and both X, shape (2, k), with k at most the plan's positions; what
    is beyond k is zero. Raises ValueError for another number of runs, or of values.
    """
    places = PRODUCTS[plan.parameters.components]
    values = np.zeros((plan.squares, plan.parameters.components, plan.positions), complex)
    all_places = [(of_square, place) for of_square in values for place in places]
    for (of_square, (first, *others)), (y, x) in zip(all_places, runs, strict=True):
        of_square[first, : y.size] = WEIGHT * y
        of_square[others, : x.shape[1]] = x / WEIGHT
    blocks = (block for each in values for block in np.split(each, plan.blocks_of_a_square, axis=1))
    return [np.ascontiguousarray(block) for block in blocks]


def blinded_sums(
    plan: AucPlan, context: PublicContext, totals: Sequence[Words], *, draw: RandomBits = secrets.randbits
) -> bytes:
    """Return the result from the sums of all submissions, ciphertext by ciphertext, under a fresh multiplier."""
    blocks = plan.blocks_of_a_square
    squares = [context.sum_of_squares(totals[start : start + blocks]) for start in range(0, len(totals), blocks)]
    return context.dump_sums(squares, blinding.multiplier(BLINDING_BITS, draw), FLOODED_BITS)
