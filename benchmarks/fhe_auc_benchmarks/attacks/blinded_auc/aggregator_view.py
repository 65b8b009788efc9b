"""What a lying aggregator has in hand, and all that it can do with it.

It holds sums of all submissions, z, a ciphertext a block: one z for both runs, or one for each. Without evaluation
keys, what parties read is

    some components, summed over slots, of   Σ_blocks alpha·z² + beta·z + constants

for polynomials alpha and beta of its choice: a complex number a slot for each component, as z has them. It may multiply
z by that of another run instead; and it may write what it likes in the place of any coefficient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fhe_auc.ckks import PublicContext, Slots, encoding
from fhe_auc.ckks.context import released
from fhe_auc.rlwe.ciphertexts import Seeded, kept_shape, wrap
from fhe_auc.rlwe.polynomials import Polynomials, Words, values_of
from fhe_auc.rows.counts import Counts
from fhe_auc_protocols.blinded_auc import masked_shares
from fhe_auc_protocols.blinded_auc.blinding import BLINDING_BITS
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import packed
from fhe_auc_protocols.blinded_auc.masked_shares import Complex, Floats
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.semi_honest import vectors

SPARE_BITS = 8  # of the modulus, for what attacks add
_MAX_MULTIPLIER_BITS = 40

Submission: TypeAlias = "Sequence[Words]"  # a ciphertext a block, run by run: values at roots of unity
Weights: TypeAlias = (
    "Mapping[int, Any]"  # by component, for all positions of all z: shape (squares, positions), or less
)


class Earlier(NamedTuple):
    """What an aggregator may have kept of another session under the same keys: the result, and what carried it, too."""

    submissions: Mapping[str, Submission]
    content: bytes
    message: bytes


@dataclass
class BlindedView:
    """What a lying aggregator has in hand: what parties have sent and about how many rows.

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
    """The blinding multiplier, of the liar's choice: large, so that alpha, rounded, is as exact as it can be."""

    def __post_init__(self) -> None:
        unused = 2 * math.log2(max(self.plan.workload.max_rows / self.rows, 1))
        self.multiplier = int(2 ** min(BLINDING_BITS + max(unused - SPARE_BITS, 0), _MAX_MULTIPLIER_BITS))
        self._half = Seeded(self.context.ciphertext_shape).half

    @property
    def parties(self) -> tuple[str, ...]:
        """Names of all parties that have sent something."""
        return tuple(self.submissions)

    @property
    def size(self) -> float:
        """About twice r·den, as which numbers decrypt."""
        return float(self.multiplier * self.rows**2)

    @cached_property
    def roots(self) -> Complex:
        """Of every position, y."""
        slots = self.plan.parameters.slots
        return np.tile(np.exp(0.5j * np.pi / slots * (4 * np.arange(slots) + 1)), self.plan.blocks_of_a_square)

    def moved(self, by: int) -> dict[int, Any]:
        """Return the weights that move what is in component k to k + `by`: x to that power."""
        components = self.plan.parameters.components
        return {by % components: self.roots ** (by // components)}

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

    def sums(self, parties: Iterable[str] | None = None, *others: Submission) -> list[Sequence[Words]]:
        """Return each z, block by block: of `parties` (None: of all), as often as each is named, and of `others`."""
        names = self.parties if parties is None else parties
        added = [*(self.submissions[party] for party in names), *others]
        totals = [block.copy() for block in added[0]]
        for submission in added[1:]:
            for total, block in zip(totals, submission, strict=True):
                self.context.ciphertext_shape.add_in_place(total, block)
        size = self.plan.blocks_of_a_square
        return [totals[start : start + size] for start in range(0, len(totals), size)]

    def result(
        self,
        alpha: Weights = MappingProxyType({0: 1}),
        beta: Weights = MappingProxyType({}),
        *,
        sums: Sequence[Sequence[Words]] | None = None,
        times: Sequence[Sequence[Words]] | None = None,
        plus: Complex | None = None,
        change: Callable[[list[Words]], object] = list,
    ) -> bytes:
        """Return a result's bytes: alpha·z² + beta·z, times the multiplier; by default the honest one.

        `sums` are z, and `times` what it is multiplied by, by default z. `plus`, shape (runs, 2), is added to what
        decrypts. `change` may alter each square's part of the result: four coefficients for each run in it, then two
        polynomials of `kept_shape`.
        """
        sums = self.sums() if sums is None else sums
        content, scale = b"", self.plan.parameters.scale
        added = np.zeros((self.plan.runs, 2)) if plus is None else plus
        for number, pairs in enumerate(zip(sums, sums if times is None else times, strict=True)):
            parts = [self._half.zeros() for _ in range(3)]
            for block, (left, right) in enumerate(zip(*pairs, strict=True)):
                quadratic, linear = (self._weights(each, number, block) for each in (alpha, beta))
                self._add(parts, self._product(left, right), self._encoded(quadratic, self.multiplier))
                if beta:
                    self._add(parts, np.split(left, 2), self._encoded(linear, self.multiplier * scale))
            content += self._released(parts, added.reshape(len(sums), -1)[number], change)
        return wrap("result", self.context.fingerprint, content)

    def _weights(self, weights: Weights, number: int, block: int) -> Slots:
        plan, slots = self.plan, self.plan.parameters.slots
        found = np.zeros((plan.parameters.components, slots), complex)
        for component, values in weights.items():
            every = np.broadcast_to(values, (plan.squares, plan.positions))
            found[component] = every[number, block * slots : (block + 1) * slots]
        return found

    def _add(self, parts: Sequence[Words], added: Sequence[Words], factor: Words) -> None:
        for part, each in zip(parts, added, strict=False):
            self._half.add_in_place(part, self._half.multiply(each, factor))

    def _product(self, left: Words, right: Words) -> list[Words]:
        half, (b, a), (other_b, other_a) = self._half, np.split(left, 2), np.split(right, 2)
        middle = half.multiply(b, other_a)
        half.add_in_place(middle, half.multiply(a, other_b))
        return [half.multiply(b, other_b), middle, half.multiply(a, other_a)]

    def _encoded(self, slots: Slots, scale: float) -> Words:
        return values_of(self._half, encoding.message(self._half, encoding.coefficients(slots) * scale))

    def _released(self, parts: list[Words], plus: Complex, change: Callable[[list[Words]], object]) -> bytes:
        """Return a square's part of the result; a liar floods nothing."""
        half, parameters = self._half, self.plan.parameters
        positions = encoding.sum_positions(half.ring_dimension, parameters.components)
        key = self.context._public_key
        found = released(half, key, parts, 1, 0, positions=positions, kept=parameters.kept)
        whole = self.kept_shape
        numbers = [round(each * self.unit) for number in plus for each in (number.real, number.imag)]
        whole.add_in_place(
            found[0], np.array([[each % prime for each in numbers] for prime in whole.moduli], np.uint64)
        )
        change(found)
        few = Polynomials(len(positions), whole.moduli)
        return b"".join(shape.pack(part) for shape, part in zip((few, whole, whole), found, strict=True))

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

    def made_up(self) -> list[Slots]:
        """Return what a party with made-up rows would encrypt; where that takes the common secret, with one made up."""
        plan = self.plan
        bins = self.generator.integers(0, 1 + self.rows // plan.thresholds, (2, plan.thresholds))
        counts = Counts(*(np.cumsum(side[::-1])[::-1] for side in bins))
        if not plan.split:
            return packed(plan, [vectors(counts, plan.positions)])
        runs = masked_shares.runs(self.generator.bytes(32), self.generator.bytes(32), plan)
        return packed(plan, [run.vectors(counts) for run in runs])
