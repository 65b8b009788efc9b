"""The strategies on the numbers that ciphertexts hold: millions of trials, each with fresh secrets.

A trial draws what an aggregator cannot know, from the distributions of `protocols.disguise` but vectorised and from
numpy's SFC64 with a seed: trials must be many and repeatable, and protect nothing. Multipliers are drawn for all
strategies; weights, roles, extra and totals only where the strategy touches single positions, since they cancel from
class totals otherwise; phases of positions only where X and Y of different ones meet. Order need not be drawn where a
strategy picks positions at random anyway.

What the attack leaves goes through the checks of `protocols.malicious.accept`, vectorised (`checked`; a test compares
the two). Numerical error is a complex Gaussian on every class total, of which the planner's model gives the standard
deviation: flooding (and smudging) averaged over a class's slots, and encryption noise relative to den.

Where submissions are missing, doubled or replaced, the sum keeps masks, which are uniform modulo Q. So is what the
trace makes of their products: one random value a class, the same in all its slots, and the executions disagree.

The model is kinder to the aggregator than its keys are: `swap-executions` moves values between classes, for which there
are no rotation keys; `earlier-result` takes sessions to share their keys; scale factors and constants are exact.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb

from fhe_auc import thresholds as grids
from fhe_auc.ckks import BackendName
from fhe_auc.counts import Counts, PartyData, count, trapezoid
from fhe_auc.errors import InputError
from fhe_auc.planner import MAX_AMPLIFICATION, MULTIPLIER_RANGE_BITS, Plan, Workload, fresh_error, plan
from protocols.disguise import LEAST_MULTIPLIER, Complex, amplification, split_weights
from protocols.encrypted import slot_error
from protocols.malicious import DEFAULT_EXECUTIONS, DEFAULT_SPLITS, FLOODING_BITS
from protocols.red_team.strategies import HARM, NAMES, Outcome

Floats: TypeAlias = "NDArray[np.floating[Any]]"
Parameter: TypeAlias = "tuple[float, ...]"

PAPER_TOLERANCE = 1e-5
"""[FHE] compares the AUC of its two executions to five decimals."""

REFUSALS = ("denominator", "executions", "range", "slots")
"""Checks that refuse: den' near zero, executions disagree, AUC not between 0 and 1, slots of a class differ."""

_ACCEPTED, _DENOMINATOR, _EXECUTIONS, _RANGE, _SLOTS = range(5)
_ROWS = 2_000
_CLASS_CHUNK, _POSITION_CHUNK = 50_000, 2_000_000
_PILOT_DRAWS = 40_000
_MOST_NEIGHBOURS = 2_000
_SIGMAS = 7.0  # of `fhe_auc.planner`'s error bound


@dataclass(frozen=True)
class Setting:
    """What is attacked.

    Attributes
    ----------
    plan : Plan
        Its tolerance is the one that parties apply.
    counts : Counts
        Pooled counts of all parties.
    published : bool
        Whether all six multipliers of an execution are equal, as in [FHE]'s published code.
    """

    plan: Plan
    counts: Counts
    published: bool = False

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
        """AUC + i·resolution."""
        exact = trapezoid(self.counts)
        return complex(exact.auc, exact.resolution)


def setting(
    *,
    executions: int = DEFAULT_EXECUTIONS,
    tolerance: float | None = None,
    thresholds: str = "uniform:100",
    splits: int = DEFAULT_SPLITS,
    backend: BackendName = "tenseal",
    parties: int = 10,
    published: bool = False,
) -> Setting:
    """Return what the malicious protocol would plan, and the counts of 2,000 made-up rows, 30 % of them positive."""
    grid = grids.resolve(thresholds)
    workload = Workload(thresholds=len(grid), parties=parties, classes=2 * executions, splits=splits)
    chosen = plan(workload, backend, flooding_bits=FLOODING_BITS, tolerance=tolerance)
    rng = _generator(2025)
    labels = rng.random(_ROWS) < 0.3
    scores = rng.beta(np.where(labels, 3.0, 2.0), np.where(labels, 2.0, 3.5))
    return Setting(chosen, count(PartyData.from_arrays("pooled", labels, scores), grid), published)


def _generator(*seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(seed))


class Totals(NamedTuple):
    """Class totals, shape (trials, E), in plain units; whether the slots of a class differ, shape (trials,)."""

    nums: Complex
    dens: Complex
    slots_differ: NDArray[np.bool_] | None = None


class Trials:
    """Secrets and honest totals of some trials.

    Attributes
    ----------
    setting : Setting
    rng : numpy Generator
    multipliers : ndarray, shape (trials, E, 6)
        R0…R5.
    size : ndarray, shape (trials, 1)
        r·gain·den: what totals are relative to.
    """

    def __init__(self, of: Setting, trials: int, rng: np.random.Generator) -> None:
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
        """What num' of an honest aggregator is, relative to `size`."""
        return np.asarray(self.products[..., 0] * self.setting.honest + self.products[..., 1])

    @property
    def dens(self) -> Complex:
        """What den' of an honest aggregator is, relative to `size`."""
        return np.asarray(self.products[..., 2])

    def totals(self, nums: Complex, dens: Complex) -> Totals:
        """Return what a party decrypts of totals relative to `size`: in plain units, with numerical error."""
        chosen = self.setting.plan
        slots_a_class = chosen.packing.slots / chosen.packing.classes
        hiding = chosen.noise_deviation / math.sqrt(slots_a_class)
        error = np.hypot(hiding, fresh_error(chosen) / _SIGMAS * self.size)
        noisy_nums = nums * self.size + error * _complex_normal(self.rng, self.shape)
        return Totals(noisy_nums, dens * self.size + error * _complex_normal(self.rng, self.shape))

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
        """X/(2P) and Y/N at every position, turned by its phase, in the same order; single precision is enough here."""
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
        """Return x and y of the extra element."""
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
        total = self.setting.positions
        if how_many > 8:
            keys = self.rng.random((*self.shape, total), dtype=np.float32)
            return np.asarray(np.argpartition(keys, how_many - 1, axis=-1)[..., :how_many])
        found = np.empty((*self.shape, 0), np.int64)
        for already in range(how_many):
            drawn = self.rng.integers(total - already, size=self.shape)
            for index in range(already):  # step over those drawn before, in ascending order
                drawn += drawn >= found[..., index]
            found = np.sort(np.concatenate([found, drawn[..., None]], axis=-1), axis=-1)
        return found

    def sum_at(self, chosen: NDArray[np.int64]) -> Complex:
        """Return what the num class's products at these positions add up to, relative to `size`."""
        return np.asarray(np.take_along_axis(self.position_products, chosen, axis=-1).sum(axis=-1))

    def garbage(self) -> Complex:
        """Return values as large as the modulus leaves room for, in plain units."""
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
    """Return R0…R5 of so many executions, shape (size, 6), distributed as those of `protocols.disguise.Execution`."""
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


class Verdicts(NamedTuple):
    """Of every trial: 0 for accepted or 1 + the index into `REFUSALS`; and AUC + i·resolution as the party reads it."""

    codes: NDArray[np.int64]
    values: Complex


def checked(totals: Totals, multipliers: Complex, chosen: Plan) -> Verdicts:
    """Return what `protocols.malicious.accept` says to every trial; `multipliers` has shape (trials, E, 6)."""
    products = multipliers[..., 0::2] * multipliers[..., 1::2]
    main, extra, whole = (products[..., index] for index in range(3))
    zero = chosen.least_multiplier * chosen.packing.gain * np.abs(whole)
    with np.errstate(all="ignore"):
        found = (totals.nums / totals.dens - extra / whole) * whole / main
        allowed = chosen.tolerance * amplification(multipliers) / MAX_AMPLIFICATION
        agree = np.ones(len(found), bool)
        for one in range(found.shape[1]):
            for other in range(one):
                difference = found[:, one] - found[:, other]
                apart = np.maximum(np.abs(difference.real), np.abs(difference.imag))
                agree &= apart <= np.hypot(allowed[:, one], allowed[:, other])
        weights = allowed**-2.0
        values = (weights * found).sum(axis=1) / weights.sum(axis=1)
        inside = (values.real >= -chosen.tolerance) & (values.real <= 1 + chosen.tolerance)
        codes = np.where(inside, _ACCEPTED, _RANGE)
        codes[~agree] = _EXECUTIONS
        codes[(np.abs(totals.dens) < zero).any(axis=1)] = _DENOMINATOR
        if totals.slots_differ is not None:
            codes[totals.slots_differ] = _SLOTS
        read = np.clip(values.real, 0, 1) + 1j * np.maximum(values.imag, 0)
    return Verdicts(codes, read)


# Attacks: what they make of honest totals. Shifts are chosen around HARM, see `_GRID`.


def _scale_num(trials: Trials, parameter: Parameter) -> Totals:
    return trials.totals(trials.nums * (1 + parameter[0]), trials.dens)


def _scale_den(trials: Trials, parameter: Parameter) -> Totals:
    return trials.totals(trials.nums, trials.dens * (1 + parameter[0]))


def _scale_all(trials: Trials, parameter: Parameter) -> Totals:
    return trials.totals(trials.nums * (1 + parameter[0]), trials.dens * (1 + parameter[0]))


def _add_polynomial(trials: Trials, parameter: Parameter) -> Totals:
    """Add a·ΣX² + b·ΣY² + c·ΣXY + d + e·Σ(XY)² + f·(ΣXY)², where 2P, N and the size of the extra element are known.

    ΣX, ΣY and sums of other odd powers have random phases, as ΣX² and ΣY² have: `shift-bins` is like them.
    """
    a, b, c, d, e, f = parameter
    of_x, of_y, of_products = trials.power_sums
    size = trials.setting.extra
    added = a / math.sqrt(size) * of_x + b * size * of_y + c * trials.nums + d + e * size * of_products
    return trials.totals(trials.nums + added + f * trials.nums**2, trials.dens)


def _scale_positions(trials: Trials, parameter: Parameter) -> Totals:
    """Scale X by 1 + the first parameter at as many positions as the second one says, drawn anew in every execution."""
    return trials.totals(trials.nums + parameter[0] * trials.sum_at(trials.chosen(int(parameter[1]))), trials.dens)


def _add_constant(trials: Trials, parameter: Parameter) -> Totals:
    """Add the first parameter to num', the second one to den', relative to r·gain·den."""
    return trials.totals(trials.nums + parameter[0], trials.dens + parameter[1])


def _leave_masks(trials: Trials, parameter: Parameter) -> Totals:
    return Totals(trials.garbage(), trials.garbage())


def _shift_bins(trials: Trials, parameter: Parameter) -> Totals:
    """Add a multiple of ΣX_j·Y_{j+1} to num', or put it in its place where the multiple is 0."""
    order = np.argsort(trials.rng.random((*trials.shape, trials.setting.positions), dtype=np.float32), axis=-1)
    x, y = (np.take_along_axis(values, order, axis=-1) for values in trials.position_factors)
    shifted = (x * np.roll(y, -1, axis=-1)).sum(axis=-1)
    return trials.totals(trials.nums + parameter[0] * shifted if parameter[0] else shifted, trials.dens)


def _swap_executions(trials: Trials, parameter: Parameter) -> Totals:
    return trials.totals(np.roll(trials.nums, 1, axis=1), np.roll(trials.dens, 1, axis=1))


def _stop_rotations(trials: Trials, parameter: Parameter) -> Totals:
    """Leave out so many rotations. The last ones only add copies up; with one more, slots hold sums of half the bins.

    Of the slots' values the sums over two halves are taken; that they agree is necessary.
    """
    packing = trials.setting.plan.packing
    copies = int(math.log2(packing.copies))
    if parameter[0] <= copies:
        factor = 2.0 ** -parameter[0]
        return trials.totals(trials.nums * factor, trials.dens * factor)
    half = trials.sum_at(trials.chosen(trials.setting.positions // 2))
    allowed = slot_error(trials.size, trials.setting.plan)
    differ = (np.abs(half - trials.nums / 2) * trials.size / packing.copies > allowed).any(axis=1)
    factor = 0.5 / packing.copies
    return trials.totals(trials.nums * factor, trials.dens * factor)._replace(slots_differ=np.asarray(differ))


def _chosen_values(trials: Trials, parameter: Parameter) -> Totals:
    return trials.totals(np.full(trials.shape, parameter[0] + 0j), np.ones(trials.shape, complex))


def _earlier_result(trials: Trials, parameter: Parameter) -> Totals:
    earlier = Trials(trials.setting, trials.shape[0], trials.rng)
    return earlier.totals(earlier.nums, earlier.dens)


def _flip_bytes(trials: Trials, parameter: Parameter) -> Totals:
    """Spoil the result after the trace: nothing makes the slots of a class equal any more."""
    return _leave_masks(trials, parameter)._replace(slots_differ=np.ones(trials.shape[0], bool))


_GRID = tuple(float(HARM * factor) for factor in 2.0 ** np.linspace(-3, 4, 15))
_DIRECTIONS = (
    *((1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (1, 1, 0, 0, 0, 0), (0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 1)),
    *((0.1, 0, 1, 0, 0, 0), (0, 0.1, 1, 0, 0, 0), (0, 0, 1, 0.1, 0, 0), (0, 0, 0, 0.1, 1, 0), (0, 0, -1, 0.1, 0, 1)),
)
_SIGNED = tuple(sign * value for value in _GRID for sign in (1, -1))
_Candidates: TypeAlias = "Callable[[Setting], tuple[Parameter, ...]]"


def _one(*values: float) -> _Candidates:
    return lambda _: tuple((value,) for value in values)


def _polynomials(_: Setting) -> tuple[Parameter, ...]:
    return tuple(tuple(value * part for part in direction) for value in _GRID[::2] for direction in _DIRECTIONS)


def _guesses(of: Setting) -> tuple[Parameter, ...]:
    sizes = {of.positions - of.extra, of.positions // 2, of.plan.workload.splits, 1}
    return tuple((value, size) for size in sorted(sizes) for value in (0.002, 0.02, 0.2, 2.0))


def _slots(of: Setting) -> tuple[Parameter, ...]:
    return tuple((-1.0, size) for size in (1, of.plan.workload.splits, 8, of.positions // 2) if size < of.positions)


def _scaled_slots(of: Setting) -> tuple[Parameter, ...]:
    sizes = sorted({1, of.plan.workload.splits, of.positions // 2})
    return tuple((value, size) for size in sizes for value in (0.02, 0.1, 0.5, 2.0, 8.0))


_ATTACKS: dict[str, tuple[Callable[[Trials, Parameter], Totals], _Candidates]] = {
    "scale-num": (_scale_num, _one(*_SIGNED)),
    "scale-den": (_scale_den, _one(*_SIGNED)),
    "scale-all": (_scale_all, _one(1.0)),
    "add-polynomial": (_add_polynomial, _polynomials),
    "scale-but-guessed": (_scale_positions, _guesses),
    "add-constant": (
        _add_constant,
        lambda _: (*((value, 0.0) for value in _SIGNED), *((0.0, value) for value in _SIGNED)),
    ),
    "drop-party": (_leave_masks, _one(0.0)),
    "count-twice": (_leave_masks, _one(0.0)),
    "replay-session": (_leave_masks, _one(0.0)),
    "replace-with-zero": (_leave_masks, _one(0.0)),
    "replace-with-counts": (_leave_masks, _one(0.0)),
    "zero-slots": (_scale_positions, _slots),
    "scale-slots": (_scale_positions, _scaled_slots),
    "shift-bins": (_shift_bins, _one(0.0, 0.001, 0.003, 0.01, 0.03, 0.1)),
    "swap-executions": (_swap_executions, _one(0.0)),
    "stop-rotations": (_stop_rotations, lambda of: ((math.log2(of.plan.packing.copies) + 1,),)),
    "chosen-values": (_chosen_values, _one(*(s * v for v in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0) for s in (1, -1)))),
    "earlier-result": (_earlier_result, _one(0.0)),
    "other-subset": (_leave_masks, _one(0.0)),
    "flip-bytes": (_flip_bytes, _one(0.0)),
}
BY_POSITION = frozenset(
    ("add-polynomial", "scale-but-guessed", "zero-slots", "scale-slots", "shift-bins", "stop-rotations")
)


def _trials(name: str, of: Setting, trials: int, seed: int) -> Iterator[Trials]:
    rng = _generator(seed, *name.encode())
    chunk = _CLASS_CHUNK
    if name in BY_POSITION:
        chunk = max(1, min(chunk, _POSITION_CHUNK // (of.positions * of.executions)))
    for start in range(0, trials, chunk):
        yield Trials(of, min(chunk, trials - start), rng)


def honest(of: Setting, trials: int, seed: int) -> Outcome:
    """Return what comes of an aggregator that does what it should."""
    return _tallied(of, (_judged(each, each.totals(each.nums, each.dens)) for each in _trials("", of, trials, seed)))


def best(name: str, of: Setting, seed: int = 0) -> Parameter:
    """Return the strategy's best parameter: that with the largest `estimate`."""
    parameters = _ATTACKS[name][1](of)
    if len(parameters) == 1:
        return parameters[0]
    draws = min(_PILOT_DRAWS, _most_draws(of))
    found = _shifted(name, of, parameters, draws, seed)
    # Where no E-tuple agrees, pairs still tell which parameter is the best.
    return max(parameters, key=lambda each: [found.agreeing(each, size) for size in (of.executions, 2)])


def estimate(name: str, of: Setting, parameter: Parameter, draws: int = 200_000, seed: int = 0) -> float:
    """Return how likely the strategy passes with a wrong AUC, estimated from all E-tuples of independent executions.

    E executions that an attack has shifted pass if they agree; which E of many independent ones these are does not
    matter. So of M draws all M!/(E!·(M-E)!) tuples count, and probabilities far below 1/M show. Sorted by the AUC
    found, each is the least of a tuple with those that follow it and agree with it, which holds for all tuples
    that pass, and for some that do not: the estimate is a little too high where E > 2.
    """
    return _shifted(name, of, (parameter,), min(draws, _most_draws(of)), seed).agreeing(parameter, of.executions)


def _most_draws(of: Setting) -> int:
    """Return how many executions are counted right: of more neighbours than `_MOST_NEIGHBOURS` some would be missed."""
    return int(1 / of.plan.tolerance)


class _Shifted(NamedTuple):
    """What many independent executions come out as under an attack, by parameter, and each one's window."""

    setting: Setting
    values: dict[Parameter, Complex]
    windows: Floats

    def agreeing(self, parameter: Parameter, executions: int) -> float:
        """Return the share of tuples of so many executions that agree on a wrong AUC between 0 and 1."""
        of = self.setting
        return _agreeing(self.values[parameter], self.windows, executions, of.honest.real, of.plan.tolerance)


def _shifted(name: str, of: Setting, parameters: tuple[Parameter, ...], draws: int, seed: int) -> _Shifted:
    attack = _ATTACKS[name][0]
    chosen = of.plan
    found: dict[Parameter, list[Complex]] = {parameter: [] for parameter in parameters}
    allowed = []
    for each in _trials(name, of, draws // of.executions, seed):
        whole, main = each.products[..., 2], each.products[..., 0]
        allowed.append((chosen.tolerance * amplification(each.multipliers) / MAX_AMPLIFICATION).ravel())
        for parameter in parameters:
            totals = attack(each, parameter)
            values = (totals.nums / totals.dens - each.products[..., 1] / whole) * whole / main
            found[parameter].append(values.ravel())
    return _Shifted(of, {each: np.concatenate(parts) for each, parts in found.items()}, np.concatenate(allowed))


def _agreeing(found: Complex, windows: Floats, executions: int, honest: float, tolerance: float) -> float:
    """Return the share of E-tuples that agree on a wrong AUC between 0 and 1."""
    wrong = (np.abs(found.real - honest) >= HARM) & (np.abs(found.real - 0.5) <= 0.5 + tolerance)
    order = np.flatnonzero(wrong)[np.argsort(found.real[wrong])]
    values, allowed = found[order], windows[order]
    following = np.zeros(len(order), np.int64)
    for step in range(1, min(_MOST_NEIGHBOURS, len(order))):
        difference = values[step:] - values[:-step]
        if difference.real.min() > math.sqrt(2) * tolerance:
            break
        apart = np.maximum(difference.real, np.abs(difference.imag))
        following[:-step] += apart <= np.hypot(allowed[step:], allowed[:-step])
    return float(math.fsum(comb(following, executions - 1)) / comb(len(found), executions))


def run(name: str, of: Setting, trials: int, seed: int = 0, parameter: Parameter | None = None) -> Outcome:
    """Play a strategy.

    Parameters
    ----------
    name : str
        One of `protocols.red_team.strategies.NAMES`.
    of : Setting
    trials : int
    seed : int
    parameter : tuple of float, optional
        The strategy's free parameter; default: the `best`.
    """
    if name not in NAMES:
        raise InputError(f"there is no attack {name!r}; there are {', '.join(NAMES)}")
    if parameter is None:
        parameter = best(name, of, seed)
    attack, value = _ATTACKS[name][0], parameter
    return _tallied(of, (_judged(each, attack(each, value)) for each in _trials(name, of, trials, seed + 1)))


def _judged(trials: Trials, totals: Totals) -> tuple[NDArray[np.int64], Floats]:
    """Return the verdicts, and by how much the AUC read is wrong."""
    verdicts = checked(totals, trials.multipliers, trials.setting.plan)
    return verdicts.codes, np.abs(verdicts.values.real - trials.setting.honest.real)


def _tallied(of: Setting, judged: Iterator[tuple[NDArray[np.int64], Floats]]) -> Outcome:
    trials = passed = changed = harmless = 0
    refused: Counter[str] = Counter()
    right = max(of.plan.tolerance, of.plan.precision)
    for codes, wrong in judged:
        accepted = codes == _ACCEPTED
        trials += len(codes)
        passed += int((accepted & (wrong >= HARM)).sum())
        changed += int((~accepted | (wrong > right)).sum())
        harmless += int((accepted & (wrong < HARM)).sum())
        for code, check in enumerate(REFUSALS, start=1):
            refused[check] += int((codes == code).sum())
    return Outcome(trials, passed, changed, harmless, {check: number for check, number in refused.items() if number})
