"""The trapezoid under encryption: from the sums of all submissions to the blinded totals of an AUC.

    sum    = Σ_parties ciphertext                as submissions arrive (`fhe_auc.session.running_sum`)
    prod   = sum · rotate(sum, cB)               both halves now hold X·Y
    prod  += rotate(prod, c·2^j)                 full trace: every slot of a class holds gain · Σ_k X[q, k]·Y[q, k]
    result = prod · r + flooding

Why the trace runs over all slots, and why the order matters: docs/security/protocol.md.
"""

import secrets
from collections.abc import Sequence

import numpy as np

from fhe_auc.ckks import Ciphertext, PublicContext
from fhe_auc.ckks.flooding import flood
from fhe_auc_protocols.blinded_auc import blinding
from fhe_auc_protocols.blinded_auc.blinding import BlindingRandomness
from fhe_auc_protocols.blinded_auc.packing import Packing
from fhe_auc_protocols.blinded_auc.plan import AucPlan


def blinded_totals(
    plan: AucPlan, context: PublicContext, sums: Sequence[Ciphertext], *, randomness: BlindingRandomness = secrets
) -> Ciphertext:
    """Return the class totals from the sums of all submissions, one a block, times a fresh multiplier; flooded."""
    product = trace(context, plan.packing, products(context, plan.packing, sums))
    multiplier = blinding.multiplier(plan.blinding_bits, randomness)
    result = context.multiply_integers(product, np.full(plan.packing.slots, multiplier, complex))
    return flood(context, result, plan.flooding_deviation, plan.unit)


def products(context: PublicContext, packing: Packing, sums: Sequence[Ciphertext]) -> Ciphertext:
    """Return one ciphertext whose slots hold X·Y, bin by bin, added up over blocks; `sums` has a ciphertext a block."""
    total = None
    for ciphertext in sums:
        product = context.multiply(ciphertext, context.rotate(ciphertext, packing.half))
        if total is None:
            total = product
        else:
            context.add_in_place(total, product)
    return total


def trace(context: PublicContext, packing: Packing, ciphertext: Ciphertext) -> Ciphertext:
    """Return `ciphertext` itself, now with the sum over all slots of each class in every slot of that class."""
    for step in packing.trace_steps:
        context.add_in_place(ciphertext, context.rotate(ciphertext, step))
    return ciphertext
