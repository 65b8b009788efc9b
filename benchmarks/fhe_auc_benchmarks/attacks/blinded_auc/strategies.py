"""What a lying aggregator may try, by name; each is played on real ciphertexts and on the plaintext algebra.

`ciphertexts` plays strategies on ciphertexts, `simulated` on the numbers that ciphertexts hold, millions of times;
`bounds` computes what luck may reach. A simulated lie says what an attack makes of honest totals.

Where submissions are missing, doubled or replaced, the sum keeps masks, which are uniform modulo Q. So is what the
trace makes of their products: one random value a class, the same in all its slots, and the executions disagree.

The simulation is kinder to the aggregator than its keys are: `swap-executions` moves values between classes, for which
there are no rotation keys; `earlier-result` takes sessions to share their keys; scale factors and constants are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fhe_auc_benchmarks.attacks.blinded_auc import ciphertext_lies as real
from fhe_auc_benchmarks.attacks.blinded_auc.ciphertext_lies import Lie
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import Totals, Trials, TrialSetting
from fhe_auc_benchmarks.attacks.outcome import HARM
from fhe_auc_protocols.blinded_auc.result_check import slot_error

Parameter: TypeAlias = "tuple[float, ...]"
_Parameters: TypeAlias = "Callable[[TrialSetting], tuple[Parameter, ...]]"


def _leave_masks(trials: Trials, parameter: Parameter) -> Totals:
    """Return values as masks leave them that do not vanish."""
    return Totals(trials.garbage(), trials.garbage())


@dataclass(frozen=True)
class BlindedStrategy:
    """One way of lying: what it makes of ciphertexts, and what of honest totals."""

    lie: Lie
    simulated_lie: Callable[[Trials, Parameter], Totals] = _leave_masks
    parameters: _Parameters | None = None
    """Values of the simulated lie's free parameter, among which the best is looked for; None: it has no parameter."""
    by_position: bool = False
    """Whether it touches single positions: simulated trials then draw far more random numbers."""

    @property
    def description(self) -> str:
        """What it is, as the lie's docstring has it."""
        first = (self.lie.__doc__ or "").partition(".\n")[0].removesuffix(".")
        return first[:1].lower() + first[1:]


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


def _shift_bins(trials: Trials, parameter: Parameter) -> Totals:
    """Add a multiple of ΣX_j·Y_{j+1} to num', or put it in its place where the multiple is 0."""
    order = np.argsort(trials.rng.random((*trials.shape, trials.setting.positions), dtype=np.float32), axis=-1)
    x, y = (np.take_along_axis(values, order, axis=-1) for values in trials.position_factors)
    shifted = (x * np.roll(y, -1, axis=-1)).sum(axis=-1)
    return trials.totals(trials.nums + parameter[0] * shifted if parameter[0] else shifted, trials.dens)


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


def _earlier_result(trials: Trials, parameter: Parameter) -> Totals:
    earlier = Trials(trials.setting, trials.shape[0], trials.rng)  # under the same keys
    return earlier.totals(earlier.nums, earlier.dens)


def _flip_bytes(trials: Trials, parameter: Parameter) -> Totals:
    """Spoil the result after the trace: nothing makes the slots of a class equal any more."""
    return _leave_masks(trials, parameter)._replace(slots_differ=np.ones(trials.shape[0], bool))


# Shifts are chosen around `HARM`.
_GRID = tuple(float(HARM * factor) for factor in 2.0 ** np.linspace(-3, 4, 15))
_DIRECTIONS = (
    *((1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (1, 1, 0, 0, 0, 0), (0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 1)),
    *((0.1, 0, 1, 0, 0, 0), (0, 0.1, 1, 0, 0, 0), (0, 0, 1, 0.1, 0, 0), (0, 0, 0, 0.1, 1, 0), (0, 0, -1, 0.1, 0, 1)),
)
_SIGNED = tuple(sign * value for value in _GRID for sign in (1, -1))


def _always(tried: Iterable[Parameter]) -> _Parameters:
    found = tuple(tried)
    return lambda of: found


_FACTORS = _always((value,) for value in _SIGNED)


def _guessed_positions(of: TrialSetting) -> tuple[Parameter, ...]:
    """Return factors and numbers of positions, for `_scale_positions` where it is to miss the extra element."""
    # Many parts of bins come out alike, and few positions miss the extra element: about L/2n is between.
    between = max(1, of.positions // (2 * of.extra))
    sizes = {of.positions - of.extra, of.positions // 2, of.plan.workload.splits, between, 1}
    return tuple((value, size) for size in sorted(sizes) for value in (0.002, 0.02, 0.2, 2.0))


def _scaled_positions(of: TrialSetting) -> tuple[Parameter, ...]:
    """Return factors and numbers of positions, for `_scale_positions`."""
    sizes = sorted({1, of.plan.workload.splits, of.positions // 2})
    return tuple((value, size) for size in sizes for value in (0.02, 0.1, 0.5, 2.0, 8.0))


_ALL = (
    BlindedStrategy(real.scale_num, lambda of, by: of.totals(of.nums * (1 + by[0]), of.dens), _FACTORS),
    BlindedStrategy(real.scale_den, lambda of, by: of.totals(of.nums, of.dens * (1 + by[0])), _FACTORS),
    BlindedStrategy(real.scale_all, lambda of, by: of.totals(2 * of.nums, 2 * of.dens), _always([(1.0,)])),
    BlindedStrategy(
        real.add_polynomial,
        _add_polynomial,
        _always(tuple(value * part for part in each) for value in _GRID[::2] for each in _DIRECTIONS),
        by_position=True,
    ),
    BlindedStrategy(real.scale_but_guessed, _scale_positions, _guessed_positions, by_position=True),
    BlindedStrategy(
        real.add_constant,  # to num' or den', relative to r·gain·den
        lambda of, by: of.totals(of.nums + by[0], of.dens + by[1]),
        _always((*((value, 0.0) for value in _SIGNED), *((0.0, value) for value in _SIGNED))),
    ),
    BlindedStrategy(real.drop_party),
    BlindedStrategy(real.count_twice),
    BlindedStrategy(real.replay_session),
    BlindedStrategy(real.replace_with_zero),
    BlindedStrategy(real.replace_with_counts),
    BlindedStrategy(
        real.zero_slots,
        _scale_positions,
        lambda of: tuple((-1.0, n) for n in (1, of.plan.workload.splits, 8, of.positions // 2) if n < of.positions),
        by_position=True,
    ),
    BlindedStrategy(real.scale_slots, _scale_positions, _scaled_positions, by_position=True),
    BlindedStrategy(
        real.shift_bins, _shift_bins, _always((by,) for by in (0, 0.001, 0.003, 0.01, 0.03, 0.1)), by_position=True
    ),
    BlindedStrategy(
        real.swap_executions, lambda of, _: of.totals(np.roll(of.nums, 1, axis=1), np.roll(of.dens, 1, axis=1))
    ),
    BlindedStrategy(  # the least number of rotations whose lack tells
        real.stop_rotations,
        _stop_rotations,
        lambda of: ((math.log2(of.plan.packing.copies) + 1,),),
        by_position=True,
    ),
    BlindedStrategy(
        real.chosen_values,
        lambda of, value: of.totals(np.full(of.shape, value[0] + 0j), np.ones(of.shape, complex)),
        _always((sign * value,) for value in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0) for sign in (1, -1)),
    ),
    BlindedStrategy(real.earlier_result, _earlier_result),
    BlindedStrategy(real.other_subset),
    BlindedStrategy(real.flip_bytes, _flip_bytes),
)
STRATEGIES: Mapping[str, BlindedStrategy] = {each.lie.__name__.replace("_", "-"): each for each in _ALL}
"""By name, in the order of the printed table."""

NEED_EARLIER = frozenset({"replay-session", "earlier-result"})
"""Strategies for which ciphertexts of an earlier session are kept."""
