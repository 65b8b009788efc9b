"""What a lying aggregator has in hand, and all that it can do with it.

It holds sums of all submissions, z, a ciphertext a block: one z for both runs, or one for each. Without evaluation
keys, what parties read is

    some components, summed over slots, of   Σ_blocks alpha·z² + constants

for a polynomial alpha of its choice, here a complex number a slot; and it may write what it likes in the place of any
coefficient. (Of alpha with several components, and beta·z: commit 87aa8b88.)

To give attacks their best chance, liars know about how many rows there are, and choose the blinding multiplier as large
as the modulus allows: weights are rounded to integer polynomials, and so become as exact as they can be.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fhe_auc.ckks import PublicContext, Slots, encoding
from fhe_auc.rlwe.ciphertexts import Seeded, kept_shape, unpack_products, unwrap, wrap
from fhe_auc.rlwe.polynomials import Polynomials, Words, values_of
from fhe_auc_protocols.blinded_auc.blinded_plan import AucPlan
from fhe_auc_protocols.blinded_auc.blinding import BLINDING_BITS
from fhe_auc_protocols.blinded_auc.masked_shares import Complex, Floats

SPARE_BITS = 8  # of the modulus, for what attacks add
_MAX_MULTIPLIER_BITS = 40

Submission: TypeAlias = Sequence[Words]  # a ciphertext a block, run by run: values at roots of unity


@dataclass
class BlindedView:
    """What a lying aggregator has in hand: what parties have sent, and about how many rows; the generator is its own.

    `change` is by which fraction to change what is scaled or added to.
    """

    context: PublicContext
    plan: AucPlan
    submissions: Mapping[str, Submission]
    generator: np.random.Generator
    rows: int
    change: float

    def __post_init__(self) -> None:
        unused = 2 * math.log2(max(self.plan.workload.max_rows / self.rows, 1))
        self.multiplier = int(2 ** min(BLINDING_BITS + max(unused - SPARE_BITS, 0), _MAX_MULTIPLIER_BITS))
        self._half = Seeded(self.context.ciphertext_shape).half

    @property
    def size(self) -> float:
        """About twice r·den, as which numbers decrypt."""
        return float(self.multiplier * self.rows**2)

    def guessed(self, how_many: int | None = None) -> Floats:
        """Return 1 at so many positions of each z, or a quarter, and 0 elsewhere: shape (squares, positions).

        Where positions are in no secret order, they are among the thresholds.
        """
        plan = self.plan
        used = plan.positions if plan.split else plan.thresholds
        found = np.zeros((plan.squares, plan.positions))
        for each in found:
            each[self.generator.permutation(used)[: how_many or max(used // 4, 1)]] = 1
        return found

    def one(self) -> str:
        """Return a party."""
        return str(self.generator.choice([*self.submissions]))

    def sums(self, parties: Iterable[str] | None = None, *others: Submission) -> list[Sequence[Words]]:
        """Return each z, block by block: of `parties` (None: of all), as often as each is named, and of `others`."""
        names = self.submissions if parties is None else parties
        totals = [np.zeros_like(block) for block in next(iter(self.submissions.values()))]
        for submission in [*(self.submissions[party] for party in names), *others]:
            for total, block in zip(totals, submission, strict=True):
                self.context.ciphertext_shape.add_in_place(total, block)
        size = self.plan.blocks_of_a_square
        return [totals[start : start + size] for start in range(0, len(totals), size)]

    def without(self, left_out: str, *others: Submission) -> bytes:
        """Return the result without a party, and with other submissions."""
        return self.result(sums=self.sums([party for party in self.submissions if party != left_out], *others))

    def result(
        self,
        alpha: Any = 1,
        *,
        sums: Sequence[Sequence[Words]] | None = None,
        plus: Complex | None = None,
        change: Callable[[list[Words]], object] = list,
    ) -> bytes:
        """Return a result's bytes: alpha·z², times the multiplier; by default the honest one, not flooded.

        `alpha` is of all positions of all z, shape (squares, positions), or less, and `sums` are z. `plus`, shape
        (runs, 2), is added to what decrypts. `change` may alter each square's part of the result: four coefficients for
        each run in it, then two polynomials of `kept_shape`.
        """
        plan, half, slots, squares = self.plan, self._half, self.plan.parameters.slots, list[Words]()
        every = np.broadcast_to(alpha, (plan.squares, plan.positions))
        for number, blocks in enumerate(self.sums() if sums is None else sums):
            parts = [half.zeros() for _ in range(3)]
            for block, z in enumerate(blocks):
                weights = np.zeros((plan.parameters.components, slots), complex)
                weights[0] = every[number, block * slots : (block + 1) * slots]
                factor = self._encoded(weights, self.multiplier)
                for part, own in zip(parts, np.split(self.context.sum_of_squares([z]), 3), strict=True):
                    half.add_in_place(part, half.multiply(own, factor))
            squares.append(np.concatenate(parts))
        return self._changed(self.context.dump_sums(squares, 1, 0), plus, change)

    def _encoded(self, slots: Slots, scale: float) -> Words:
        return values_of(self._half, encoding.message(self._half, encoding.coefficients(slots) * scale))

    def _changed(self, content: bytes, plus: Complex | None, change: Callable[[list[Words]], object]) -> bytes:
        whole, parameters, packed = self.kept_shape, self.plan.parameters, b""
        few = Polynomials(2 * len(encoding.summed(parameters.components)), whole.moduli)
        shapes, numbers = (few, whole, whole), np.zeros((self.plan.runs, 2)) if plus is None else plus
        parts_of = unpack_products(shapes, unwrap("result", content)[1], self.plan.squares)
        for parts, added in zip(parts_of, numbers.reshape(self.plan.squares, -1), strict=True):
            more = [round(each * self.unit) for number in added for each in (number.real, number.imag)]
            few.add_in_place(parts[0], np.array([[each % prime for each in more] for prime in few.moduli], np.uint64))
            change(parts)
            packed += b"".join(shape.pack(part) for shape, part in zip(shapes, parts, strict=True))
        return wrap("result", self.context.fingerprint, packed)

    @property
    def kept_shape(self) -> Polynomials:
        """Shape of a polynomial of the result."""
        return kept_shape(self._half, self.plan.parameters.kept)

    @property
    def unit(self) -> float:
        """What a coefficient of the result changes by where what decrypts does by 1."""
        parameters = self.plan.parameters
        return parameters.scale**2 / (parameters.slots * math.prod(self._half.moduli[parameters.kept :]))

    def encrypted(self, blocks: Sequence[Slots]) -> list[Words]:
        """Return a submission without mask, error or randomness, which a sum with others hides as well as any."""
        scale = self.plan.parameters.scale
        return [np.concatenate([self._encoded(block, scale), self._half.zeros()]) for block in blocks]
