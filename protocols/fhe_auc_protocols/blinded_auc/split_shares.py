"""How parties split their counts into shares that an aggregator cannot forge.  [FHE] §IV-D, corrected.

All parties of a session share a secret that the aggregator lacks. From it each execution e = 1…E derives its own, new
in every session and independent of one another: six complex multipliers R, role bits b, weights w, permutations,
phases. With bins k = 1…m, S splits and L positions:

    main element, bin k   S positions    b_k = 0:  X = R0·T_k·w_ks   Y = R1·F_k          Σ_s w_ks = 1, complex
                                         b_k = 1:  X = R0·T_k        Y = R1·F_k·w_ks
    extra element         the others     X = R2·2P·x_j               Y = R3·N·y_j        Σ_j x_j·y_j = 1
    totals                all L          X = R4·2P·x'_j              Y = R5·N·y'_j       Σ_j x'_j·y'_j = 1

and X of every position turned by a phase φ, Y by -φ. All is common to the parties; docs/security/malicious.md says what
products of their sums come out as. [FHE] has real multipliers. With complex ones real and imaginary part have to agree
by luck, so that the chance that two executions do is about the square of what it was, and costs nothing: slots are
complex anyway. Phases of positions leave no sense in sums such as ΣX², where they do not cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.ckks import Slots
from fhe_auc.rows.counts import Counts
from fhe_auc_protocols.blinded_auc.error_bound import MAX_AMPLIFICATION
from fhe_auc_protocols.blinded_auc.plan import AucPlan

Floats = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]

_MULTIPLIERS = 6
LEAST_MULTIPLIER = 0.25
"""Magnitudes of multipliers, and of the factors of the extra element and the totals, are between this and 1."""


class Stream(KeyStream):
    """Random numbers for all parties alike: the key stream of a key derived as in `fhe_auc.base.keystream.derived_key`.

    The `secret` is common to the parties of a session. The `session` is the manifest's digest: another session, party
    list or plan has other numbers. The `purpose` is what the numbers are for; none is for two purposes.
    """

    def __init__(self, secret: bytes, session: bytes, *purpose: str | int) -> None:
        self.key = derived_key(secret, session, b"fhe-auc malicious 1\0", *purpose)
        super().__init__(self.key)

    def uniform(self, low: float, high: float, *shape: int) -> Floats:
        """Return numbers uniform in (low, high), of that shape."""
        return np.asarray(low + (high - low) * self.fractions(*shape))

    def bits(self, *shape: int) -> NDArray[np.bool_]:
        """Return fair coins."""
        return np.asarray(self.words(*shape) >> np.uint64(63), bool)

    def phases(self, *shape: int) -> Complex:
        """Return complex numbers uniform on the unit circle; machines may differ in the last place, as in rounding."""
        return np.asarray(np.exp(2j * np.pi * self.fractions(*shape)))

    def disc(self, *shape: int) -> Complex:
        """Return complex numbers uniform in the unit disc."""
        return np.asarray(np.sqrt(self.fractions(*shape)) * self.phases(*shape))

    def permutation(self, size: int) -> NDArray[np.int64]:
        """Return a uniform order of `size` things; 64-bit keys collide with probability below size²/2^65."""
        return np.argsort(self.words(size), kind="stable")


@dataclass(frozen=True, repr=False)
class Execution:
    """The secrets of one execution, for m thresholds, S splits and L positions; a class for num, one for den."""

    multipliers: Complex
    """R0…R5, shape (6,)."""
    roles: NDArray[np.bool_]
    """b_k: whether the split goes to F_k and not to T_k, shape (m,)."""
    weights: Complex
    """w, shape (S, m): complex numbers at most 3/2 from 1/2; columns add up to 1."""
    extra: Floats
    """x and y of the extra element, shape (2, L - S·m); all positive; their products add up to 1."""
    totals: Floats
    """The same of the totals, shape (2, L)."""
    order: NDArray[np.int64]
    """Permutation of the positions, of each class: shape (2, L)."""
    phases: Complex
    """Of absolute value 1, shape (2, L): X of a position is multiplied by it, and Y by its conjugate."""

    @classmethod
    def draw(cls, stream: Stream, *, thresholds: int, splits: int, positions: int) -> Execution:
        """Return an execution's secrets; `positions` is more than `splits`·`thresholds`."""
        return cls(
            multipliers=_multipliers(stream),
            roles=stream.bits(thresholds),
            weights=split_weights(stream.disc, splits, thresholds),
            extra=_unit_pairs(stream, positions - splits * thresholds),
            totals=_unit_pairs(stream, positions),
            order=np.stack([stream.permutation(positions) for _ in range(2)]),
            phases=stream.phases(2, positions),
        )

    def vectors(self, counts: Counts) -> tuple[Slots, Slots]:
        """Return X and Y of one party, each of shape (2, L): the class of num, and that of den."""
        heights = counts.trapezoid_heights + 1j * counts.bin_positives
        negatives = counts.bin_negatives.astype(float)
        r = self.multipliers
        both = 2.0 * counts.positives, float(counts.negatives)
        main_x = np.where(self.roles, heights, heights * self.weights).ravel()
        main_y = np.where(self.roles, negatives * self.weights, negatives).ravel()
        x = [np.concatenate([r[0] * main_x, r[2] * both[0] * self.extra[0]]), r[4] * both[0] * self.totals[0]]
        y = [np.concatenate([r[1] * main_y, r[3] * both[1] * self.extra[1]]), r[5] * both[1] * self.totals[1]]
        return self._placed(np.stack(x) * self.phases), self._placed(np.stack(y) * self.phases.conj())

    def _placed(self, rows: Complex) -> Slots:
        return np.take_along_axis(rows, self.order, axis=1).astype(np.complex128, copy=False)

    def recover(self, num: complex, den: complex) -> complex:
        """Return AUC + i·binning error from the two class totals, whatever they come multiplied by."""
        main, extra, totals = self.products
        return complex((num / den - extra / totals) * totals / main)

    @property
    def products(self) -> tuple[complex, complex, complex]:
        """R0R1, R2R3 and R4R5."""
        r = self.multipliers
        return complex(r[0] * r[1]), complex(r[2] * r[3]), complex(r[4] * r[5])


def _multipliers(stream: Stream) -> Complex:
    """Draw R0…R5 until they amplify errors little enough."""
    while True:
        sizes = stream.uniform(LEAST_MULTIPLIER, 1, _MULTIPLIERS)
        if amplification(sizes) <= MAX_AMPLIFICATION:
            return np.asarray(sizes * stream.phases(_MULTIPLIERS))


def split_weights(disc: Callable[[int, int], Complex], splits: int, size: int) -> Complex:
    """Return weights of `size` bins, shape (splits, size), uniform among those in a disc that add up to 1 in each bin.

    The disc has radius 3/2 and lies around 1/2. `disc` draws numbers from the unit disc, of the shape given.
    """
    weights = _tried_weights(disc, splits, size)
    while (missing := np.flatnonzero(np.abs(weights[-1] - 0.5) > 1.5)).size:  # with two splits the last one fits
        weights[:, missing] = _tried_weights(disc, splits, missing.size)
    return weights


def _tried_weights(disc: Callable[[int, int], Complex], splits: int, size: int) -> Complex:
    free = 0.5 + 1.5 * disc(splits - 1, size)
    return np.vstack([free, 1 - free.sum(axis=0)])


def amplification(multipliers: NDArray[np.inexact[Any]]) -> Floats:
    """Return how many times larger the error of the AUC is than that of the totals, relative to den, at the worst AUC.

    With r0 = R0R1 and so on: an error of num' counts 1/r0, one of den' counts (r0·AUC + r1)/(r0·r2). `multipliers` are
    the R0…R5 of one execution, or of many, shape (…, 6); the result has the shape (…).
    """
    r = np.abs(multipliers)
    main, extra, totals = (r[..., index] * r[..., index + 1] for index in (0, 2, 4))
    return np.asarray((1 + (main + extra) / totals) / main)


def executions(secret: bytes, session: bytes, plan: AucPlan) -> list[Execution]:
    """Return the secrets of all of a session's E = classes/2 executions; arguments as of `Stream`, and the plan."""
    workload, packing = plan.workload, plan.packing
    return [
        Execution.draw(
            Stream(secret, session, "execution", number),
            thresholds=workload.thresholds,
            splits=workload.splits,
            positions=packing.blocks * packing.bins,
        )
        for number in range(workload.classes // 2)
    ]


def class_vectors(drawn: Sequence[Execution], counts: Counts) -> tuple[Slots, Slots]:
    """Return X and Y of one party, each of shape (2E, L): the classes of every execution in turn."""
    x, y = (np.concatenate(rows) for rows in zip(*(each.vectors(counts) for each in drawn), strict=True))
    return x, y


def _unit_pairs(stream: Stream, size: int) -> Floats:
    """Return x and y, positive and random, the products of which add up to 1; x is between 1/4 and 1."""
    x, y = stream.uniform(LEAST_MULTIPLIER, 1, 2, size)
    return np.stack([x, y / (x * y).sum()])
