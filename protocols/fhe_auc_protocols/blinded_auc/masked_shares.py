"""How parties split their counts into masked shares that an aggregator cannot forge.  After [FHE] §IV-D.

All parties of a session share a secret that the aggregator lacks. From it come the secrets of two runs, new in every
session and independent of one another. A run has one factor Y and two classes X_e, e = 0, 1, over all L positions of
its ciphertexts: bins k = 1…L-3 (those beyond the thresholds are empty), a correction for each class, and the last one.

    bin k           X_e = A_e·(T_k + i·p_k + 2P·x_ek)      Y = B·(F_k + N·y_k)
    correction e    X_e = A_e·2P·(1 + x), other class 0    Y = B·(N·y - Σ_k x_ek·F_k/(1 + x))
    last            X_e = A_e·(τ_e + 2P·x_e)               Y = B·N·(1 + y)         τ_e = -Σ (T + i·p or 2P)·y/(1 + y)

A share is a masked count, and the remainder that masks leave in the sum is merged into two further positions: 2P·Σ x·F
goes at the correction, N·Σ T·y at the last one. All is linear in a party's own counts. What the parties' sums multiply
out to is

    n_e = A_e·B·(num + i·tie + c_e·den)        c_e = Σ_k x_ek·y_k + x_e(last)

A and B are complex (1/2 ≤ |A| ≤ 1, |B| = 1), x is uniform in the unit disc, y, and x at a correction, in that of radius
1/8. Each position has a random phase, X turned by φ and Y by -φ, and a place in a random order. The eight real numbers
of both runs are eight equations for r·num, r·tie and r·den. [FHE] splits a count into real shares, multiplies classes
by real numbers and has whole counts in the classes that are compared; docs/security/ckks.md has what that lets
through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.ckks import Slots
from fhe_auc.rows.counts import Counts
from fhe_auc_protocols.blinded_auc.blinded_plan import (
    CLASSES,
    EXTRA,
    MASK_RADIUS,
    MAX_AMPLIFICATION,
    RUNS,
    AucPlan,
    largest_den_factor,
)

Floats = NDArray[np.floating[Any]]
Complex = NDArray[np.complexfloating[Any, Any]]


class Stream(KeyStream):
    """Random numbers for all parties alike: the key stream of a key derived as in `fhe_auc.base.keystream.derived_key`.

    The `secret` is common to the parties of a session. The `session` is the manifest's digest: another session, party
    list or plan has other numbers. The `purpose` is what the numbers are for; none is for two purposes.
    """

    def __init__(self, secret: bytes, session: bytes, *purpose: str | int) -> None:
        self.key = derived_key(secret, session, b"fhe-auc malicious 2\0", *purpose)
        super().__init__(self.key)

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
class Run:
    """The secrets of one run over L positions, in the order of the table above."""

    factors: Complex  # A, shape (2,)
    common: complex  # B
    x: Complex  # masks of X, in 2P, shape (2, L); none at the other class's correction
    y: Complex  # masks of Y, in N, shape (L,)
    order: NDArray[np.int64]  # permutation of the positions, shape (L,)
    phases: Complex  # of absolute value 1, shape (L,): X of a position is multiplied by it, and Y by its conjugate

    @classmethod
    def draw(cls, stream: Stream, positions: int) -> Run:
        """Return a run's secrets; those that amplify errors too much, or take too much room, are drawn again."""
        while True:
            factors = (0.5 + 0.5 * stream.fractions(CLASSES)) * stream.phases(CLASSES)
            x, y = stream.disc(CLASSES, positions), MASK_RADIUS * stream.disc(positions)
            x[:, -EXTRA:-1] *= MASK_RADIUS * np.eye(CLASSES)
            run = cls(factors, complex(stream.phases(1)[0]), x, y, np.arange(positions), np.ones(positions, complex))
            if (
                np.abs(run.den_factors).max() <= largest_den_factor(positions)
                and run.amplification <= MAX_AMPLIFICATION
            ):
                return cls(run.factors, run.common, x, y, stream.permutation(positions), stream.phases(positions))

    @property
    def den_factors(self) -> Complex:
        """c, shape (2,): how often den is in either total."""
        return np.asarray(self.x @ self.y + self.x[:, -1])

    @property
    def equations(self) -> Floats:
        """Matrix, shape (4, 3): the totals' real and imaginary parts, class by class, from r·num, r·tie and r·den."""
        products = self.factors * self.common
        columns = np.stack([products, 1j * products, products * self.den_factors], axis=-1)
        return np.stack([columns.real, columns.imag], axis=1).reshape(-1, 3)

    @property
    def amplification(self) -> float:
        """How many times larger the AUC's error is than that of the totals, relative to den, at the worst AUC.

        The larger of the norms of the linear forms that tell num, and num - den, from the totals. Divided by A·B, a
        number is num + i·tie + c·den, and the equations are weighted ones: the inverse of their normal matrix is known.
        """
        weights = np.abs(self.factors) ** 2
        mean = weights @ self.den_factors / weights.sum()
        spread = weights @ np.abs(self.den_factors - mean) ** 2
        return float(np.sqrt(1 / weights.sum() + max(abs(mean.real), abs(1 + mean.real)) ** 2 / spread))

    def vectors(self, counts: Counts) -> tuple[Slots, Slots]:
        """Return Y, shape (L,), and both X, shape (2, L), of one party's counts, as they are encrypted."""
        positives, negatives, bins = 2.0 * counts.positives, float(counts.negatives), counts.thresholds
        f = np.zeros(self.y.size, complex)
        f[:bins] = counts.bin_negatives
        f[-EXTRA:-1] = -(self.x[:, :bins] @ f[:bins]) / (1 + self.x[:, -EXTRA:-1].diagonal())
        f[-1] = negatives
        t = np.zeros(self.x.shape, complex)
        t[:, :bins] = counts.trapezoid_heights + 1j * counts.bin_positives
        t[:, -EXTRA:-1] = positives * np.eye(CLASSES)
        t[:, -1] = -(t[:, :-1] @ self.y[:-1]) / (1 + self.y[-1])
        y = self.common * (f + negatives * self.y) * self.phases.conj()
        x = self.factors[:, None] * (t + positives * self.x) * self.phases
        return y[self.order], x[:, self.order]


def runs(secret: bytes, session: bytes, plan: AucPlan) -> list[Run]:
    """Return the secrets of a session's runs; arguments as of `Stream`, and the plan."""
    return [Run.draw(Stream(secret, session, "run", number), plan.positions) for number in range(RUNS)]
