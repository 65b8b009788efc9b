"""The strategies on the numbers that ciphertexts hold: what an attack makes of honest totals.

Where submissions are missing, doubled or replaced, the sum keeps masks, which are uniform modulo Q. So is what the
trace makes of their products: one random value a class, the same in all its slots, and the executions disagree.

The model is kinder to the aggregator than its keys are: `swap-executions` moves values between classes, for which there
are no rotation keys; `earlier-result` takes sessions to share their keys; scale factors and constants are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import Totals, Trials, TrialSetting
from fhe_auc_benchmarks.attacks.outcome import HARM
from fhe_auc_protocols.blinded_auc.result_check import slot_error

Parameter: TypeAlias = "tuple[float, ...]"


def _scale(*, num: bool = False, den: bool = False) -> Callable[[Trials, Parameter], Totals]:
    """Multiply num' or den', or both, by 1 + the parameter."""
    return lambda trials, parameter: trials.totals(
        trials.nums * (1 + parameter[0] * num), trials.dens * (1 + parameter[0] * den)
    )


scale_num, scale_den, scale_all = _scale(num=True), _scale(den=True), _scale(num=True, den=True)


def add_polynomial(trials: Trials, parameter: Parameter) -> Totals:
    """Add a·ΣX² + b·ΣY² + c·ΣXY + d + e·Σ(XY)² + f·(ΣXY)², where 2P, N and the size of the extra element are known.

    ΣX, ΣY and sums of other odd powers have random phases, as ΣX² and ΣY² have: `shift-bins` is like them.
    """
    a, b, c, d, e, f = parameter
    of_x, of_y, of_products = trials.power_sums
    size = trials.setting.extra
    added = a / math.sqrt(size) * of_x + b * size * of_y + c * trials.nums + d + e * size * of_products
    return trials.totals(trials.nums + added + f * trials.nums**2, trials.dens)


def scale_positions(trials: Trials, parameter: Parameter) -> Totals:
    """Scale X by 1 + the first parameter at as many positions as the second one says, drawn anew in every execution."""
    return trials.totals(trials.nums + parameter[0] * trials.sum_at(trials.chosen(int(parameter[1]))), trials.dens)


def add_constant(trials: Trials, parameter: Parameter) -> Totals:
    """Add the first parameter to num', the second one to den', relative to r·gain·den."""
    return trials.totals(trials.nums + parameter[0], trials.dens + parameter[1])


def leave_masks(trials: Trials, parameter: Parameter) -> Totals:
    """Return values as masks leave them that do not vanish."""
    return Totals(trials.garbage(), trials.garbage())


def shift_bins(trials: Trials, parameter: Parameter) -> Totals:
    """Add a multiple of ΣX_j·Y_{j+1} to num', or put it in its place where the multiple is 0."""
    order = np.argsort(trials.rng.random((*trials.shape, trials.setting.positions), dtype=np.float32), axis=-1)
    x, y = (np.take_along_axis(values, order, axis=-1) for values in trials.position_factors)
    shifted = (x * np.roll(y, -1, axis=-1)).sum(axis=-1)
    return trials.totals(trials.nums + parameter[0] * shifted if parameter[0] else shifted, trials.dens)


def swap_executions(trials: Trials, parameter: Parameter) -> Totals:
    """Give every execution the totals of its neighbour."""
    return trials.totals(np.roll(trials.nums, 1, axis=1), np.roll(trials.dens, 1, axis=1))


def stop_rotations(trials: Trials, parameter: Parameter) -> Totals:
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


def chosen_values(trials: Trials, parameter: Parameter) -> Totals:
    """Return the parameter as num', 1 as den'."""
    return trials.totals(np.full(trials.shape, parameter[0] + 0j), np.ones(trials.shape, complex))


def earlier_result(trials: Trials, parameter: Parameter) -> Totals:
    """Return the totals of an earlier session under the same keys."""
    earlier = Trials(trials.setting, trials.shape[0], trials.rng)
    return earlier.totals(earlier.nums, earlier.dens)


def flip_bytes(trials: Trials, parameter: Parameter) -> Totals:
    """Spoil the result after the trace: nothing makes the slots of a class equal any more."""
    return leave_masks(trials, parameter)._replace(slots_differ=np.ones(trials.shape[0], bool))


# --- Free parameters: what is to be tried for a lie, in a setting -----------------------------------------------------

# Shifts are chosen around `HARM`.
_GRID = tuple(float(HARM * factor) for factor in 2.0 ** np.linspace(-3, 4, 15))
_DIRECTIONS = (
    *((1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (1, 1, 0, 0, 0, 0), (0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 1)),
    *((0.1, 0, 1, 0, 0, 0), (0, 0.1, 1, 0, 0, 0), (0, 0, 1, 0.1, 0, 0), (0, 0, 0, 0.1, 1, 0), (0, 0, -1, 0.1, 0, 1)),
)
_SIGNED = tuple(sign * value for value in _GRID for sign in (1, -1))
_Tried: TypeAlias = "Callable[[TrialSetting], tuple[Parameter, ...]]"


def _always(tried: Iterable[Parameter]) -> _Tried:
    found = tuple(tried)
    return lambda of: found


factors = _always((value,) for value in _SIGNED)
constants = _always((*((value, 0.0) for value in _SIGNED), *((0.0, value) for value in _SIGNED)))
polynomials = _always(tuple(value * part for part in each) for value in _GRID[::2] for each in _DIRECTIONS)
shifts = _always((value,) for value in (0.0, 0.001, 0.003, 0.01, 0.03, 0.1))
chosen_aucs = _always((sign * value,) for value in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0) for sign in (1, -1))


def guessed_positions(of: TrialSetting) -> tuple[Parameter, ...]:
    """Return factors and numbers of positions, for `scale_positions` where it is to miss the extra element."""
    # Many parts of bins come out alike, and few positions miss the extra element: about L/2n is between.
    between = max(1, of.positions // (2 * of.extra))
    sizes = {of.positions - of.extra, of.positions // 2, of.plan.workload.splits, between, 1}
    return tuple((value, size) for size in sorted(sizes) for value in (0.002, 0.02, 0.2, 2.0))


def zeroed_positions(of: TrialSetting) -> tuple[Parameter, ...]:
    """Return numbers of positions, for `scale_positions` by zero."""
    return tuple((-1.0, size) for size in (1, of.plan.workload.splits, 8, of.positions // 2) if size < of.positions)


def scaled_positions(of: TrialSetting) -> tuple[Parameter, ...]:
    """Return factors and numbers of positions, for `scale_positions`."""
    sizes = sorted({1, of.plan.workload.splits, of.positions // 2})
    return tuple((value, size) for size in sizes for value in (0.02, 0.1, 0.5, 2.0, 8.0))


def one_rotation_more_than_copies(of: TrialSetting) -> tuple[Parameter, ...]:
    """Return the least number of rotations whose lack tells, for `stop_rotations`."""
    return ((math.log2(of.plan.packing.copies) + 1,),)
