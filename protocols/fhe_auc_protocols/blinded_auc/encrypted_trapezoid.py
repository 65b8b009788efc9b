"""What aggregators compute on ciphertexts: sums, and from them the blinded totals of an AUC.

    acc  = Σ_parties ciphertext                  as submissions arrive: memory does not grow with the parties
    prod = acc · rotate(acc, cB)                 both halves now hold X·Y
    prod += rotate(prod, c·2^j)                  full trace: every slot of a class holds gain · Σ_k X[q, k]·Y[q, k]
    result = prod · r + flooding

The trace runs over all slots, not only over the bins: without it other slots show partial sums, and with sums over the
bins alone the noise still differs between windows by enough to estimate r and the counts. The order (trace, multiply,
flood) matters as well: without flooding r is the gcd of the decrypted coefficients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from fhe_auc.ckks import Ciphertext, PublicContext
from fhe_auc.ckks.flooding import flood
from fhe_auc.errors import DeserialisationError
from fhe_auc.rlwe.polynomials import Sum
from fhe_auc_protocols.blinded_auc import blinding
from fhe_auc_protocols.blinded_auc.packing import Packing
from fhe_auc_protocols.blinded_auc.plan import CHECK_WEIGHT, AucPlan
from fhe_auc_protocols.histograms.encrypted_sums import SumPlan


class Aggregation(ABC):
    """Running sum of submissions, and what becomes of it; it never holds more than one submission's ciphertexts.

    Adding up is arithmetic on coefficients: the encryption library sees the sum only.

    Parameters
    ----------
    context : PublicContext
        The aggregator's keys.
    blocks : int
        Ciphertexts of a submission.
    """

    def __init__(self, context: PublicContext, blocks: int) -> None:
        self._context = context
        self._running = [Sum(context.ciphertext_shape) for _ in range(blocks)]

    def add(self, blocks: Sequence[bytes]) -> None:
        """Add one party's submission; on error the running sum is as it was.

        Raises
        ------
        DeserialisationError
            Not the ciphertexts that the plan calls for.
        """
        if len(blocks) != len(self._running):
            raise DeserialisationError(f"expected {len(self._running)} ciphertexts, got {len(blocks)}")
        read = [self._context.read_submission(block) for block in blocks]
        for total, words in zip(self._running, read, strict=True):
            total.add(words)

    def partial(self) -> tuple[bytes, ...]:
        """Return the running sums as they are, packed, for `add_partial` of another aggregation of the session."""
        return tuple(total.polynomials.pack(total.words) for total in self._running)

    def add_partial(self, sums: Sequence[bytes]) -> None:
        """Add what another aggregation has added up; on error the running sum is as it was.

        Raises
        ------
        DeserialisationError
            Not sums of this shape.
        """
        if len(sums) != len(self._running):
            raise DeserialisationError(f"expected {len(self._running)} sums, got {len(sums)}")
        read = [total.polynomials.unpack(each) for total, each in zip(self._running, sums, strict=True)]
        for total, words in zip(self._running, read, strict=True):
            total.add(words)

    def sums(self) -> list[Ciphertext]:
        """Return the sum of all submissions, block by block."""
        return [self._context.ciphertext(total.words) for total in self._running]

    @abstractmethod
    def result(self) -> bytes:
        """Return the serialised result."""


class SumAggregation(Aggregation):
    """The sum of all submissions, as it is.

    Nothing hides its noise: integers are encoded exactly, so that noise is what encryption drew and tells of nothing
    else.
    """

    def __init__(self, context: PublicContext, plan: SumPlan) -> None:
        super().__init__(context, plan.blocks)

    def result(self) -> bytes:
        """Return the serialised sum."""
        (total,) = self.sums()
        return self._context.dump_result(self._context.raised(total))


class BlindedTotals(Aggregation):
    """The class totals of an AUC, blinded and flooded.

    Parameters
    ----------
    context : PublicContext
    plan : AucPlan
        Packing, blinding and flooding.
    """

    def __init__(self, context: PublicContext, plan: AucPlan) -> None:
        super().__init__(context, plan.blocks)
        self._plan = plan

    def result(self) -> bytes:
        """Return the serialised result: every class total, times one fresh multiplier, flooded.

        Where the plan limits the digits released, (δ + i·δ')·den is added to class 0, δ and δ' independent and uniform
        in ±½·10^-digits.
        """
        product = trace(self._context, self._plan.packing, products(self._context, self._plan.packing, self.sums()))
        multiplier = blinding.multiplier(self._plan.blinding_bits)
        slots = self._plan.packing.slots
        result = self._context.multiply_integers(product, np.full(slots, multiplier, complex))
        if self._plan.release_digits is not None:
            # num and tie need a blur each: a common one leaves one combination of the two alone, which tells both.
            bound = 0.5 * 10.0**-self._plan.release_digits * multiplier
            blur = complex(blinding.symmetric_integer(bound), blinding.symmetric_integer(bound))
            weights = self._plan.packing.class_vector(np.array([blur / (1 + 1j * CHECK_WEIGHT), 0]))
            neighbour = self._context.rotate(product, 1)
            self._context.add_in_place(result, self._context.multiply_integers(neighbour, weights))
        return self._context.dump_result(flood(self._context, result, self._plan.flooding_deviation, self._plan.unit))


def aggregation(context: PublicContext, plan: AucPlan | SumPlan) -> Aggregation:
    """Return the aggregation that a plan is for."""
    return SumAggregation(context, plan) if isinstance(plan, SumPlan) else BlindedTotals(context, plan)


def products(context: PublicContext, packing: Packing, sums: Sequence[Ciphertext]) -> Ciphertext:
    """Return one ciphertext whose slots hold X·Y, bin by bin, added up over blocks."""
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
