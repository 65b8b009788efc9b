"""What a lying aggregator has in hand, and all that it can do with it.

Of each run it holds the sum of all submissions, z, a ciphertext a block. Without evaluation keys, what parties read is

    component 1 and 3, summed over slots, of   Σ_blocks alpha·z² + beta·z + constants

for polynomials alpha and beta of its choice: a complex number a slot for each of four components, as z has them. It may
multiply z of another run or block instead; and it may write what it likes in the place of any coefficient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.ckks import PublicContext, Slots, encoding
from fhe_auc.ckks.rerandomisation import released
from fhe_auc.rlwe import wire_format
from fhe_auc.rlwe.modulus_switching import kept_shape
from fhe_auc.rlwe.number_theoretic_transform import values_of
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.seeded import Seeded
from fhe_auc.rows.counts import Counts
from fhe_auc_protocols.blinded_auc import masked_shares
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import packed
from fhe_auc_protocols.blinded_auc.masked_shares import Complex
from fhe_auc_protocols.blinded_auc.plan import BLINDING_BITS, AucPlan
from fhe_auc_protocols.blinded_auc.semi_honest import vectors

SPARE_BITS = 8  # of the modulus, for what attacks add
_MAX_MULTIPLIER_BITS = 40

Submission: TypeAlias = "Sequence[Words]"  # a ciphertext a block, run by run: values at roots of unity
Factors: TypeAlias = "Sequence[tuple[Sequence[Words], Sequence[Words]]]"


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
        return np.tile(np.exp(0.5j * np.pi / slots * (4 * np.arange(slots) + 1)), self.plan.blocks_of_a_run)

    def weights(self, first: complex = 0.0) -> NDArray[np.complex128]:
        """Return alpha or beta, shape (runs, 4, positions): `first` in component 0, else zero."""
        found = np.zeros((self.plan.runs, encoding.COMPONENTS, self.plan.positions), complex)
        found[:, 0] = first
        return found

    def guessed(self, how_many: int) -> list[tuple[int, NDArray[np.int64]]]:
        """Return indices of so many positions for each run; where they are in no secret order, of thresholds."""
        used = self.plan.positions if self.plan.split else self.plan.thresholds
        return [(run, self.generator.permutation(used)[:how_many]) for run in range(self.plan.runs)]

    def sums(self, parties: Iterable[str] | None = None, *others: Submission) -> list[Words]:
        """Return z, of `parties` (None: of all), as often as each is named, and of `others`; block by block."""
        names = self.parties if parties is None else parties
        added = [*(self.submissions[party] for party in names), *others]
        totals = [block.copy() for block in added[0]]
        for submission in added[1:]:
            for total, block in zip(totals, submission, strict=True):
                self.context.ciphertext_shape.add_in_place(total, block)
        return totals

    def by_run(self, blocks: Sequence[Words]) -> list[Sequence[Words]]:
        """Return the blocks of each run."""
        size = self.plan.blocks_of_a_run
        return [blocks[start : start + size] for start in range(0, len(blocks), size)]

    def honest(self) -> bytes:
        """Return the result's bytes that it should return."""
        return self.result()

    def result(
        self,
        alpha: NDArray[np.complex128] | None = None,
        beta: NDArray[np.complex128] | None = None,
        *,
        sums: Sequence[Words] | None = None,
        factors: Factors | None = None,
        plus: Complex | None = None,
        change: Callable[[list[Words]], object] = list,
    ) -> bytes:
        """Return a result's bytes: alpha·z² + beta·z, times the multiplier.

        `alpha` and `beta` are as of `weights`; None: 1, and 0. `sums` are blocks that stand for z, `factors` two for
        each run whose product stands for z². `plus`, shape (runs, 2), is added to what decrypts. `change` may alter
        each run's part of the result: the four coefficients, and two polynomials, modulo `kept` primes.
        """
        if factors is None:
            runs = self.by_run(self.sums() if sums is None else sums)
            factors = list(zip(runs, runs, strict=True))
        content = b""
        for run, pairs in enumerate(factors):
            parts = [self._half.zeros() for _ in range(3)]
            for block, (left, right) in enumerate(zip(*pairs, strict=True)):
                for part, product in zip(parts, self._product(left, right), strict=True):
                    self._half.add_in_place(part, self._times(product, alpha, run, block, 1.0))
                if beta is not None:
                    for part, polynomial in zip(parts, np.split(left, 2), strict=False):
                        scaled = self._times(polynomial, beta, run, block, self.plan.parameters.scale)
                        self._half.add_in_place(part, scaled)
            content += self._released(parts, None if plus is None else plus[run], change)
        return wire_format.seal("result", self.context.fingerprint, content)

    def _product(self, left: Words, right: Words) -> list[Words]:
        half, (b, a), (other_b, other_a) = self._half, np.split(left, 2), np.split(right, 2)
        middle = half.multiply(b, other_a)
        half.add_in_place(middle, half.multiply(a, other_b))
        return [half.multiply(b, other_b), middle, half.multiply(a, other_a)]

    def _times(
        self, polynomial: Words, weights: NDArray[np.complex128] | None, run: int, block: int, scale: float
    ) -> Words:
        if weights is None:
            factor = np.tile([[self.multiplier % prime] for prime in self._half.moduli], polynomial.shape[1])
            return self._half.multiply(polynomial, factor.astype(np.uint64))
        slots = self.plan.parameters.slots
        return self._half.multiply(
            polynomial,
            self._encoded(weights[run, :, block * slots : (block + 1) * slots], self.multiplier * scale),
        )

    def _encoded(self, slots: Slots, scale: float) -> Words:
        numbers = encoding.coefficients(np.ascontiguousarray(slots)) * scale
        return values_of(self._half, encoding.message(self._half, numbers))

    def _released(self, parts: list[Words], plus: Complex | None, change: Callable[[list[Words]], object]) -> bytes:
        """Return a run's part of the result; a liar floods nothing."""
        half, parameters = self._half, self.plan.parameters
        positions, key = encoding.sum_positions(half.ring_dimension), self.context._public_key
        found = released(half, key, parts, 1, 0, positions=positions, kept=parameters.kept)
        whole = self.kept_shape
        if plus is not None:
            numbers = [round(each * self.unit) for number in plus for each in (number.real, number.imag)]
            added = np.array([[each % prime for each in numbers] for prime in whole.moduli], np.uint64)
            whole.add_in_place(found[0], added)
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
            return packed(plan, *vectors(counts, plan.positions))
        runs = masked_shares.runs(self.generator.bytes(32), self.generator.bytes(32), plan)
        return [block for run in runs for block in packed(plan, *run.vectors(counts))]
