"""Trials of the malicious protocol on the numbers that ciphertexts hold, thousands at once, each with fresh secrets.

A trial draws what an aggregator cannot know, from the distributions of `fhe_auc_protocols.blinded_auc.masked_shares`
but vectorised and from numpy's SFC64 with a seed: trials must be many and repeatable, and protect nothing. Two bins are
drawn, that with most in it and the emptiest, both corrections and the last position. Of the hundreds of other bins only
Σ x·y, Σ x·F and Σ y·(T + i·p) are anywhere in what follows: complex Gaussians. Where a strategy touches positions all
over, all of them are drawn. Order is not: strategies pick positions at random, or know where one stands.

Numerical error is a Gaussian on every number, of the deviation that the planner bounds, and flooding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds as grids
from fhe_auc.rows.counts import Counts, count
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.blinded_auc.blinding import BLINDING_BITS, FLOODED_BITS, MULTIPLIER_RANGE_BITS
from fhe_auc_protocols.blinded_auc.ckks_parameter_choice import plan
from fhe_auc_protocols.blinded_auc.masked_shares import Complex, Floats, amplification
from fhe_auc_protocols.blinded_auc.plan import (
    CLASSES,
    EXTRA,
    MASK_RADIUS,
    MAX_AMPLIFICATION,
    RUNS,
    AucPlan,
    Workload,
    largest_den_factor,
    total_deviation,
)

FULLEST, EMPTIEST, CORRECTION, LAST = 0, -EXTRA - 1, -EXTRA, -1
"""Where bins, the correction of class 0 (that of class 1 is the next one) and the last position are, as drawn."""

_PARTIES = 10
_ROWS = 2_000


@dataclass(frozen=True)
class TrialSetting:
    """What is attacked: a plan, with the tolerance that parties apply, and the pooled counts of all parties."""

    plan: AucPlan
    counts: Counts

    @cached_property
    def honest(self) -> complex:
        """AUC + i·binning error."""
        exact = trapezoid(self.counts)
        return complex(exact.auc, exact.binning_error)

    @cached_property
    def bins(self) -> tuple[Complex, Floats]:
        """(T + i·p)/2P and F/N of all L - 3 bins, the fullest first."""
        counts, bins = self.counts, self.plan.positions - EXTRA
        heights, negatives = np.zeros(bins, complex), np.zeros(bins)
        heights[: counts.thresholds] = (counts.trapezoid_heights + 1j * counts.bin_positives) / (2 * counts.positives)
        negatives[: counts.thresholds] = counts.bin_negatives / counts.negatives
        order = np.argsort(-np.abs(heights) * negatives, kind="stable")
        return heights[order], negatives[order]


def setting(*, tolerance: float | None = None, thresholds: str = "uniform:100") -> TrialSetting:
    """Return what the malicious protocol plans for ten parties, and 2,000 made-up rows, 30 % of them positive.

    `thresholds` is a grid as on the command line; without a tolerance the plan's own.
    """
    grid = grids.resolve(thresholds)
    workload = Workload(thresholds=len(grid), parties=_PARTIES, split=True)
    rng = generator(2025)
    labels = rng.random(_ROWS) < 0.3
    scores = rng.beta(np.where(labels, 3.0, 2.0), np.where(labels, 2.0, 3.5))
    pooled = count(PartyData.from_arrays("pooled", labels, scores), grid)
    return TrialSetting(plan(workload, "tenseal", tolerance=tolerance), pooled)


def generator(*seed: int) -> np.random.Generator:
    """Return the generator of repeatable trials."""
    return np.random.Generator(np.random.SFC64(seed))


class Trials:
    """Secrets and honest numbers of some trials; `everywhere` draws all positions.

    Numbers are Σ Y·X relative to `size`, r·den, of shape (trials, 1, 1): shape (trials, runs, classes).
    """

    def __init__(self, of: TrialSetting, trials: int, rng: np.random.Generator, *, everywhere: bool = False) -> None:
        self.setting, self.rng, self.trials = of, rng, trials
        bits = BLINDING_BITS - MULTIPLIER_RANGE_BITS * rng.random((trials, 1, 1))
        self.size = 2.0**bits * trapezoid(of.counts).den
        heights, negatives = of.bins
        drawn = np.arange(len(negatives)) if everywhere else np.array([0, len(negatives) - 1])
        self._heights, self._negatives = heights[drawn], negatives[drawn]
        others = np.delete(heights, drawn), np.delete(negatives, drawn)
        self._deviations = np.sqrt(  # of Σ x·y and Σ x·F of either class, and of Σ y·(T + i·p)
            [len(others[0]) * MASK_RADIUS**2 / 4] * CLASSES
            + [(others[1] ** 2).sum() / 2] * CLASSES
            + [MASK_RADIUS**2 / 2 * (np.abs(others[0]) ** 2).sum()]
        )
        parts = self._draw(trials * RUNS)
        again = np.flatnonzero(~self._kept(*parts))
        while again.size:  # as `masked_shares.Run.draw`
            fresh = self._draw(again.size)
            for part, other in zip(parts, fresh, strict=True):
                part[again] = other
            again = again[~self._kept(*fresh)]
        self.factors, self.common, self._x, self._y, self._rest = (
            part.reshape(trials, RUNS, *part.shape[1:]) for part in parts
        )

    def _draw(self, size: int) -> list[Complex]:
        """Return A, B, x, y and the sums over bins that are not drawn, of so many runs."""
        rng, positions = self.rng, len(self._negatives) + EXTRA
        factors = (0.5 + 0.5 * rng.random((size, CLASSES))) * phases(rng, size, CLASSES)
        x, y = _disc(rng, size, CLASSES, positions), np.float32(MASK_RADIUS) * _disc(rng, size, positions)
        x[..., CORRECTION:LAST] *= np.float32(MASK_RADIUS) * np.eye(CLASSES, dtype=np.float32)
        rest = complex_normal(rng, (size, len(self._deviations))) * self._deviations
        return [factors, phases(rng, size, 1), x, y, rest]

    def _kept(self, factors: Complex, _: Complex, x: Complex, y: Complex, rest: Complex) -> NDArray[np.bool_]:
        den_factors = _den_factors(x, y, rest)
        small = np.abs(den_factors).max(axis=-1) <= largest_den_factor(self.setting.plan.positions)
        return np.asarray(small & (amplification(np.abs(factors) ** 2, den_factors) <= MAX_AMPLIFICATION))

    @cached_property
    def products(self) -> Complex:
        """A·B."""
        return self.factors * self.common

    @cached_property
    def den_factors(self) -> Complex:
        """Of den in every number, c."""
        return _den_factors(self._x, self._y, self._rest)

    @cached_property
    def honest(self) -> Complex:
        """The numbers of an aggregator that does what it should: A·B·(AUC + i·binning error + c)."""
        return self.products * (self.setting.honest + self.den_factors)

    @cached_property
    def positions(self) -> tuple[Complex, Complex]:
        """X/2P, shape (trials, runs, classes, p), and Y/N, (trials, runs, p), of those drawn: `masked_shares.Run`."""
        x, y, bins = self._x, self._y, len(self._negatives)
        f, t = np.zeros_like(y), np.zeros_like(x)
        f[..., :bins] = self._negatives
        left = np.einsum("...k,k->...", x[..., :bins], self._negatives) + self._rest[..., 2:4]
        f[..., CORRECTION:LAST] = -left / (1 + np.einsum("...ee->...e", x[..., CORRECTION:LAST]))
        f[..., LAST] = 1
        t[..., :bins] = self._heights
        t[..., CORRECTION:LAST] = np.eye(CLASSES)
        sums = np.einsum("...ek,...k->...e", t[..., :LAST], y[..., :LAST]) + self._rest[..., 4:]
        t[..., LAST] = -sums / (1 + y[..., LAST:])
        turned = phases(self.rng, *y.shape)
        return self.factors[..., None] * (t + x) * turned[:, :, None], self.common * (f + y) * turned.conj()

    def totals(self, numbers: Complex) -> Complex:
        """Return what a party decrypts of such numbers: in plain units, with numerical error."""
        chosen = self.setting.plan
        noisy = numbers + np.sqrt(2) * total_deviation(chosen) * complex_normal(self.rng, self.honest.shape)
        flooding = 2.0**FLOODED_BITS * chosen.parameters.slots / chosen.parameters.scale**2
        pairs = self.rng.uniform(-flooding, flooding, (*self.honest.shape, 2))
        return np.asarray(2 * self.size * noisy + pairs.view(complex)[..., 0])

    def garbage(self) -> Complex:
        """Return numbers that are uniform modulo Q, as any mask leaves them."""
        parameters = self.setting.plan.parameters
        largest = 2.0 ** (parameters.log2_modulus - 1 - 2 * parameters.log2_scale) * parameters.slots
        pairs = self.rng.uniform(-largest, largest, (*self.honest.shape, 2))
        return np.asarray(pairs.view(complex)[..., 0] / self.size)


def phases(rng: np.random.Generator, *shape: int) -> Complex:
    """Return complex numbers on the unit circle, of which single precision is enough."""
    angles = np.float32(2 * np.pi) * rng.random(shape, dtype=np.float32)
    found = np.empty(shape, np.complex64)
    found.real, found.imag = np.cos(angles), np.sin(angles)
    return found


def complex_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.complex128]:
    """Return complex numbers whose squared size is expected to be 1."""
    return np.asarray((rng.standard_normal((*shape, 2)) * np.sqrt(0.5)).view(complex)[..., 0])


def _disc(rng: np.random.Generator, *shape: int) -> Complex:
    return np.asarray(np.sqrt(rng.random(shape, dtype=np.float32)) * phases(rng, *shape))


def _den_factors(x: Complex, y: Complex, rest: Complex) -> Complex:
    return np.asarray(np.einsum("...ek,...k->...e", x, y) + x[..., LAST] + rest[..., :CLASSES])
