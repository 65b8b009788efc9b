"""What a lying aggregator has in hand, and the three places at which it may lie.

BlindedView.sum_of   which submissions are added up, and what stands for one that is not
Positions            X and Y of every position, before they are multiplied
BlindedView.result   the class totals, after the trace
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from fhe_auc.ckks.flooding import flood
from fhe_auc_protocols.blinded_auc.split_shares import Execution
from numpy.typing import NDArray

from fhe_auc.ckks import Ciphertext, PublicContext, Slots
from fhe_auc.rows.counts import Counts
from fhe_auc_protocols.blinded_auc import split_shares
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import products, trace
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.semi_honest import class_vectors

SPARE_BITS = 8  # of the modulus, for what attacks add
_MAX_MULTIPLIER_BITS = 40

Floats: TypeAlias = "NDArray[np.floating[Any]]"
Submission: TypeAlias = "Sequence[Ciphertext]"


class Earlier(NamedTuple):
    """What an aggregator may have kept of another session under the same keys: the result, and what carried it, too."""

    submissions: Mapping[str, Submission]
    ciphertext: bytes
    message: bytes


@dataclass
class BlindedView:
    """What a lying aggregator has in hand: what parties have sent (a ciphertext a block) and about how many rows.

    The generator is for its choices.
    """

    context: PublicContext
    plan: AucPlan
    submissions: Mapping[str, Submission]
    generator: np.random.Generator
    rows: int
    change: float
    """By which fraction to change what is scaled or added to."""
    earlier: Earlier | None = None
    tamper: Callable[[bytes], bytes] = bytes
    """Applied to the finished message; by default nothing is done to it."""
    multiplier: int = field(init=False)
    """The blinding multiplier, of the liar's choice."""

    def __post_init__(self) -> None:
        unused = 2 * math.log2(max(self.plan.workload.max_rows / self.rows, 1))
        bits = min(self.plan.blinding_bits + max(unused - SPARE_BITS, 0), _MAX_MULTIPLIER_BITS)
        self.multiplier = int(2 ** max(bits, self.plan.blinding_bits))

    @property
    def parties(self) -> tuple[str, ...]:
        """Names of all parties that have sent something."""
        return tuple(self.submissions)

    @property
    def num_classes(self) -> Floats:
        """Return 1 for every class of a numerator, 0 for those of denominators."""
        return np.tile([1.0, 0.0], self.plan.packing.classes // 2)

    def honest(self) -> bytes:
        """Return the result's bytes that it should return."""
        return self.result(self.totals())

    def scaled(self, ciphertext: Ciphertext, weights: Slots | Floats) -> Ciphertext:
        """Return a ciphertext times `weights`, shape (slots,), and times the multiplier."""
        return self.context.multiply_integers(ciphertext, self.multiplier * np.asarray(weights, complex))

    def totals(self, sums: Sequence[Ciphertext] | None = None) -> Ciphertext:
        """Return the class totals that an honest aggregator has before blinding, of `sums` or of all submissions."""
        packing = self.plan.packing
        sums = self.sum_of(self.parties) if sums is None else sums
        return trace(self.context, packing, products(self.context, packing, sums))

    def result(
        self, totals: Ciphertext, weights: Slots | Floats | None = None, *, plus: Ciphertext | None = None
    ) -> bytes:
        """Return a result's bytes: totals times the multiplier and weights, shape (classes,), with `plus` added."""
        chosen = np.ones(self.plan.packing.classes) if weights is None else weights
        blinded = self.scaled(totals, self.class_vector(chosen))
        if plus is not None:
            self.context.add_in_place(blinded, plus)
        return self.finish(blinded)

    def class_vector(self, values: Slots | Floats) -> Slots:
        """Return slots that hold ``values[q]`` in every slot of class q."""
        return np.tile(np.asarray(values, complex), self.plan.packing.slots // self.plan.packing.classes)

    def finish(self, ciphertext: Ciphertext) -> bytes:
        """Return a result's bytes, flooded as honest ones are."""
        return self.context.dump_result(flood(self.context, ciphertext, self.plan.flooding_deviation, self.plan.unit))

    def one(self, names: Sequence[str]) -> str:
        """Return one of `names`."""
        return names[int(self.generator.integers(len(names)))]

    def guessed_executions(self) -> list[Execution]:
        """Return secrets of all executions, drawn as parties draw them, but from another common secret."""
        return split_shares.executions(self.generator.bytes(32), self.generator.bytes(32), self.plan)

    def sum_of(self, parties: Iterable[str], *others: Submission) -> list[Ciphertext]:
        """Return the sum over the submissions of `parties`, as often as each is named, and over `others`; by block."""
        added: list[Submission] = [*(self.submissions[party] for party in parties), *others]
        ones = np.ones(self.context.parameters.slots, complex)
        sums = [self.context.multiply_integers(block, ones) for block in added[0]]  # submissions stay as they are
        for submission in added[1:]:
            for total, block in zip(sums, submission, strict=True):
                self.context.add_in_place(total, block)
        return sums

    def encrypted(self, blocks: Sequence[Slots]) -> list[Ciphertext]:
        """Return a submission made with the public key, which has no mask."""
        return [self.context.encrypt(block) for block in blocks]

    def made_up(self) -> list[Slots]:
        """Return what a party with made-up rows would encrypt; where that takes the common secret, with one made up."""
        workload, packing = self.plan.workload, self.plan.packing
        bins = self.generator.integers(0, 1 + self.rows // workload.thresholds, (2, workload.thresholds))
        counts = Counts(*(np.cumsum(side[::-1])[::-1] for side in bins))
        if not workload.is_split:
            return packing.pack(*class_vectors(counts))
        return packing.pack(*split_shares.class_vectors(self.guessed_executions(), counts))


class Positions:
    """X and Y of every position, all parties' summed up, before they are multiplied."""

    def __init__(self, view: BlindedView) -> None:
        self._view, self._context, self._packing = view, view.context, view.plan.packing
        self._sums = view.sum_of(view.parties)
        self.shape = self._packing.classes, self._packing.blocks * self._packing.bins
        """Of weights: classes and positions."""

    def totals(self, x_weights: Floats, y_weights: Floats | None = None, *, shift: int = 0) -> Ciphertext:
        """Return the totals of X·Y times `x_weights` and the multiplier, Y `shift` bins further on.

        Every product is there twice, as X·Y and, half a period on, as Y·X, for `y_weights` (None: the same).
        """
        context, packing = self._context, self._packing

        def partner(ciphertext: Ciphertext) -> Ciphertext:
            other = context.rotate(ciphertext, packing.half)
            return context.rotate(other, packing.classes * shift) if shift else other

        return self._total([x_weights, x_weights if y_weights is None else y_weights], partner)

    def power_sum(self, power: str, weight: float) -> Ciphertext:
        """Return ΣX, ΣY, ΣX² or ΣY² ("x", "y", "xx", "yy") of the num classes, as class totals, times `weight`."""
        packing = self._packing
        mask = np.outer(self._view.num_classes, np.ones(self.shape[1]))
        # X carries a factor u that products X·Y have once, and every power is there half as often.
        mask *= 2 * weight * {"x": 1, "y": packing.x_unit, "xx": 1 / packing.x_unit, "yy": packing.x_unit}[power]
        none = np.zeros(self.shape)
        ones = self._context.encrypt(np.ones(packing.slots, complex)) if len(power) == 1 else None
        weights = [mask, none] if power[0] == "x" else [none, mask]
        return self._total(weights, lambda ciphertext: ciphertext if ones is None else ones)

    def _total(self, weights: Sequence[Floats], partner: Callable[[Ciphertext], Ciphertext]) -> Ciphertext:
        """Return the totals of each block, weighted where `Packing.pack` puts X and Y, times its partner."""
        context, packing, products = self._context, self._packing, []
        blocks = np.split(np.stack(weights), packing.blocks, axis=2)
        for ciphertext, block in zip(self._sums, blocks, strict=True):
            slots = np.tile(block.transpose(0, 2, 1).reshape(-1), packing.slots // (2 * packing.half))
            products.append(context.multiply(self._view.scaled(ciphertext, slots), partner(ciphertext)))
        for other in products[1:]:
            context.add_in_place(products[0], other)
        return trace(context, packing, products[0])
