"""Trials of the malicious protocol on the numbers that ciphertexts hold, thousands at once, each with fresh secrets.

A trial draws what an aggregator cannot know, from the distributions of `fhe_auc_protocols.blinded_auc.split_shares` but
vectorised and from numpy's SFC64 with a seed: trials must be many and repeatable, and protect nothing. Multipliers are
drawn for all strategies; weights, roles, extra and totals only where the strategy touches single positions, since they
cancel from class totals otherwise; phases of positions only where X and Y of different ones meet. Order need not be
drawn where a strategy picks positions at random anyway.

Numerical error is a complex Gaussian on every class total, of which the planner's model gives the standard deviation:
flooding averaged over a class's slots, and encryption noise relative to den.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from fhe_auc_protocols.blinded_auc.split_shares import LEAST_MULTIPLIER, Complex, amplification, split_weights
from fhe_auc_protocols.blinded_auc.workload import Workload
from numpy.typing import NDArray

from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds as grids
from fhe_auc.rows.counts import Counts, count
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.blinded_auc.ckks_parameter_choice import plan
from fhe_auc_protocols.blinded_auc.error_bound import CONFIDENCE, MAX_AMPLIFICATION, fresh_error
from fhe_auc_protocols.blinded_auc.malicious import FLOODING_BITS
from fhe_auc_protocols.blinded_auc.plan import MULTIPLIER_RANGE_BITS, AucPlan
from fhe_auc_protocols.options import Malicious

Floats: TypeAlias = "NDArray[np.floating[Any]]"

_PARTIES = 10
_ROWS = 2_000


@dataclass(frozen=True)
class TrialSetting:
    """What is attacked: a plan, with the tolerance that parties apply, and the pooled counts of all parties."""

    plan: AucPlan
    counts: Counts
    published: bool = False
    """Whether all six multipliers of an execution are equal, as in [FHE]'s published code."""

    @property
    def executions(self) -> int:
        """E."""
        return self.plan.workload.classes // 2

    @property
    def positions(self) -> int:
        """L."""
        return self.plan.packing.blocks * self.plan.packing.bins

    @property
    def extra(self) -> int:
        """How many positions the extra element takes."""
        return self.positions - self.plan.workload.splits * self.plan.workload.thresholds

    @cached_property
    def honest(self) -> complex:
        """AUC + i·binning error."""
        exact = trapezoid(self.counts)
        return complex(exact.auc, exact.binning_error)


def setting(
    *,
    executions: int = Malicious.executions,
    tolerance: float | None = None,
    thresholds: str = "uniform:100",
    published: bool = False,
) -> TrialSetting:
    """Return what the malicious protocol plans for ten parties, and 2,000 made-up rows, 30 % of them positive.

    `executions` are 2, 4 or 8, `thresholds` a grid as on the command line; without a tolerance the plan's own.
    """
    grid = grids.resolve(thresholds)
    workload = Workload(thresholds=len(grid), parties=_PARTIES, classes=2 * executions, splits=Malicious.splits)
    chosen = plan(workload, "tenseal", flooding_bits=FLOODING_BITS, tolerance=tolerance)
    rng = generator(2025)
    labels = rng.random(_ROWS) < 0.3
    scores = rng.beta(np.where(labels, 3.0, 2.0), np.where(labels, 2.0, 3.5))
    return TrialSetting(chosen, count(PartyData.from_arrays("pooled", labels, scores), grid), published)


def generator(*seed: int) -> np.random.Generator:
    """Return the generator of repeatable trials."""
    return np.random.Generator(np.random.SFC64(seed))


class Totals(NamedTuple):
    """Class totals, shape (trials, E), in plain units; whether the slots of a class differ, shape (trials,)."""

    nums: Complex
    dens: Complex
    slots_differ: NDArray[np.bool_] | None = None


class Trials:
    """Secrets and honest totals of some trials.

    `multipliers`, R0…R5: shape (trials, E, 6). `size`: r·gain·den, which totals are relative to, shape (trials, 1).
    """

    def __init__(self, of: TrialSetting, trials: int, rng: np.random.Generator) -> None:
        self.setting, self.rng = of, rng
        self.multipliers = draw_multipliers(rng, trials * of.executions, published=of.published)
        self.multipliers = self.multipliers.reshape(trials, of.executions, 6)
        blinding = 2.0 ** (of.plan.blinding_bits - MULTIPLIER_RANGE_BITS * rng.random((trials, 1)))
        self.size = blinding * of.plan.packing.gain * trapezoid(of.counts).den

    @property
    def shape(self) -> tuple[int, int]:
        """Trials and executions."""
        return self.multipliers.shape[0], self.multipliers.shape[1]

    @cached_property
    def products(self) -> Complex:
        """R0R1, R2R3, R4R5: shape (trials, E, 3)."""
        return np.asarray(self.multipliers[..., 0::2] * self.multipliers[..., 1::2])

    @cached_property
    def nums(self) -> Complex:
        """What num' of an honest aggregator is, relative to `size`: shape (trials, E)."""
        return np.asarray(self.products[..., 0] * self.setting.honest + self.products[..., 1])

    @property
    def dens(self) -> Complex:
        """What den' of an honest aggregator is, relative to `size`: shape (trials, E)."""
        return np.asarray(self.products[..., 2])

    def totals(self, nums: Complex, dens: Complex) -> Totals:
        """Return what a party decrypts of totals relative to `size`: in plain units, with numerical error."""
        chosen = self.setting.plan
        slots_a_class = chosen.packing.slots / chosen.packing.classes
        added = chosen.flooding_deviation / math.sqrt(slots_a_class)
        error = np.hypot(added, fresh_error(chosen) / CONFIDENCE * self.size)
        noisy_nums = nums * self.size + error * _complex_normal(self.rng, self.shape)
        return Totals(noisy_nums, dens * self.size + error * _complex_normal(self.rng, self.shape))

    def recovered(self, totals: Totals) -> Complex:
        """Return AUC + i·binning error as every execution has it, shape (trials, E)."""
        main, extra, whole = (self.products[..., index] for index in range(3))
        return np.asarray((totals.nums / totals.dens - extra / whole) * whole / main)

    @cached_property
    def windows(self) -> Floats:
        """By how much every execution may be off, as `result_check.accept` has it: shape (trials, E)."""
        return np.asarray(self.setting.plan.tolerance * amplification(self.multipliers) / MAX_AMPLIFICATION)

    @cached_property
    def position_products(self) -> Complex:
        """X·Y/(2P·N) of the num class at every position, in no particular order: shape (trials, E, L).

        They add up to `nums`, and those of a bin to what it counts, both in double precision: guessing depends on it.
        """
        heights, negatives = self._bins
        main = self.products[..., 0, None, None] * (heights * negatives) * self._weights
        x, y = self._extra
        return self._side_by_side(main, self.products[..., 1, None] * (x * y))

    @cached_property
    def position_factors(self) -> tuple[Complex, Complex]:
        """X/(2P), Y/N at every position in that order, turned by its phase, single precision: shape (trials, E, L)."""
        heights, negatives = (each.astype(np.complex64) for each in self._bins)
        roles = self.rng.random((*self.shape, 1, self.setting.plan.workload.thresholds), dtype=np.float32) < 0.5
        weights, one = self._weights.astype(np.complex64), np.complex64(1)
        r = self.multipliers.astype(np.complex64)[..., None, None]
        x, y = (each.astype(np.float32) for each in self._extra)
        main_x = r[..., 0, :, :] * heights * np.where(roles, one, weights)
        main_y = r[..., 1, :, :] * negatives * np.where(roles, weights, one)
        phases = _phases(self.rng, *self.shape, self.setting.positions)
        return (
            self._side_by_side(main_x, r[..., 2, :, 0] * x) * phases,
            self._side_by_side(main_y, r[..., 3, :, 0] * y) * phases.conj(),
        )

    @property
    def _bins(self) -> tuple[Complex, Floats]:
        """X/(2P) and Y/N of every bin, not split."""
        counts = self.setting.counts
        heights = np.asarray(counts.trapezoid_heights + 1j * counts.bin_positives, np.complex128)
        return heights / (2 * counts.positives), np.asarray(counts.bin_negatives / counts.negatives)

    @cached_property
    def _weights(self) -> Complex:
        """Of every bin: shape (trials, E, S, m)."""
        splits, thresholds = self.setting.plan.workload.splits, self.setting.plan.workload.thresholds
        drawn = split_weights(self._disc, splits, self.shape[0] * self.shape[1] * thresholds)
        return drawn.reshape(splits, *self.shape, thresholds).transpose(1, 2, 0, 3)

    def _disc(self, *shape: int) -> Complex:
        drawn = np.sqrt(self.rng.random(shape, dtype=np.float32)) * _phases(self.rng, *shape)
        return np.asarray(drawn, np.complex128)

    @cached_property
    def _extra(self) -> tuple[Floats, Floats]:
        unit = self.rng.random((2, *self.shape, self.setting.extra), dtype=np.float32).astype(float)
        x, y = LEAST_MULTIPLIER + (1 - LEAST_MULTIPLIER) * unit
        return x, y / (x * y).sum(axis=-1, keepdims=True)

    def _side_by_side(self, main: Complex, extra: Complex) -> Complex:
        return np.concatenate([main.reshape(*self.shape, -1), extra], axis=-1)

    @cached_property
    def power_sums(self) -> tuple[Complex, Complex, Complex]:
        """ΣX², ΣY² and Σ(X·Y)², each of shape (trials, E)."""
        x, y = self.position_factors
        of_x, of_y, of_products = (np.einsum("ijk,ijk->ij", each, each) for each in (x, y, self.position_products))
        return of_x, of_y, of_products

    def chosen(self, how_many: int) -> NDArray[np.int64]:
        """Return so many positions, all different, drawn anew in every execution: shape (trials, E, how_many)."""
        keys = self.rng.random((*self.shape, self.setting.positions), dtype=np.float32)
        return np.asarray(np.argpartition(keys, how_many - 1, axis=-1)[..., :how_many])

    def sum_at(self, chosen: NDArray[np.int64]) -> Complex:
        """Return what the num class's products at these positions add up to, relative to `size`."""
        return np.asarray(np.take_along_axis(self.position_products, chosen, axis=-1).sum(axis=-1))

    def garbage(self) -> Complex:
        """Return values as large as the modulus leaves room for, in plain units: shape (trials, E)."""
        chosen = self.setting.plan
        largest = 2.0 ** (chosen.parameters.log2_modulus - 2 * chosen.parameters.log2_scale)
        return np.asarray(largest * _complex_normal(self.rng, self.shape))


def _phases(rng: np.random.Generator, *shape: int) -> Complex:
    """Return complex numbers on the unit circle, of which single precision is enough."""
    angles = 2 * np.pi * rng.random(shape, dtype=np.float32)
    phases = np.empty(shape, np.complex64)
    phases.real, phases.imag = np.cos(angles), np.sin(angles)
    return phases


def _complex_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Complex:
    pairs = rng.standard_normal((*shape, 2)) * math.sqrt(0.5)
    return np.asarray(pairs[..., 0] + 1j * pairs[..., 1])


def draw_multipliers(rng: np.random.Generator, size: int, *, published: bool = False) -> Complex:
    """Return R0…R5 of so many executions, shape (size, 6), distributed as those of `split_shares.Execution`."""
    found: list[Floats] = []
    missing = size
    while missing > 0:
        tried = rng.uniform(LEAST_MULTIPLIER, 1, (2 * missing + 16, 1 if published else 6))
        tried = np.broadcast_to(tried, (len(tried), 6))
        kept = tried if published else tried[amplification(tried) <= MAX_AMPLIFICATION]
        found.append(kept[:missing])
        missing -= len(found[-1])
    drawn = np.concatenate(found).astype(complex)
    return drawn if published else drawn * np.exp(2j * np.pi * rng.random(drawn.shape))
