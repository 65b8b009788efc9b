"""What a lying aggregator may try against ``semi-honest`` and ``malicious``, by name.

Each strategy is played on real ciphertexts (`ciphertexts`) and, millions of times, on the numbers that they hold
(`simulated`); `bounds` computes what luck may reach. A real lie returns the result, a simulated one changed totals.

With the evaluation keys that there are, nothing moves from one class to another: all rotations are by multiples of the
number of classes. A real lie that calls for it does what comes nearest. The simulation is kinder to the aggregator:
`swap-executions` moves values between classes; `earlier-result` has keys that sessions share; constants are exact.

Where submissions are missing, doubled or replaced, the sum keeps masks, which are uniform modulo Q. So is what the
trace makes of their products: one random value a class, the same in all its slots, and the executions disagree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from fhe_auc_protocols.blinded_auc.packing import CHECK_WEIGHT
from numpy.typing import NDArray

from fhe_auc import ckks
from fhe_auc.rlwe import wire_format
from fhe_auc_benchmarks.attacks.blinded_auc.aggregator_view import SPARE_BITS, BlindedView, Positions, Submission
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import Totals, Trials, TrialSetting
from fhe_auc_benchmarks.attacks.laboratory import HARM
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import products
from fhe_auc_protocols.blinded_auc.result_check import slot_error

Lie: TypeAlias = Callable[[BlindedView], bytes]  # what a liar does with its view; returns the result's bytes
Parameter: TypeAlias = "tuple[float, ...]"
_Parameters: TypeAlias = "Callable[[TrialSetting], tuple[Parameter, ...]]"


def _leave_masks(trials: Trials, parameter: Parameter) -> Totals:
    """Return values as masks leave them that do not vanish."""
    return Totals(trials.garbage(), trials.garbage())


@dataclass(frozen=True)
class BlindedStrategy:
    """One way of lying: what it makes of ciphertexts, and what of honest totals."""

    description: str
    lie: Lie
    simulated_lie: Callable[[Trials, Parameter], Totals] = _leave_masks
    parameters: _Parameters | None = None
    """Values of the simulated lie's free parameter, among which the best is looked for; None: it has no parameter."""
    by_position: bool = False
    """Whether it touches single positions: simulated trials then draw far more random numbers."""


# Shifts are chosen around `HARM`.
_GRID = tuple(float(HARM * factor) for factor in 2.0 ** np.linspace(-3, 4, 15))
_SIGNED = tuple(sign * value for value in _GRID for sign in (1, -1))


def _always(tried: Iterable[Parameter]) -> _Parameters:
    found = tuple(tried)
    return lambda of: found


_FACTORS = _always((value,) for value in _SIGNED)


# --- Polynomials of per-class sums, and constants ---------------------------------------------------------------------

_DIRECTIONS = (
    *((1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (1, 1, 0, 0, 0, 0), (0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 1)),
    *((0.1, 0, 1, 0, 0, 0), (0, 0.1, 1, 0, 0, 0), (0, 0, 1, 0.1, 0, 0), (0, 0, 0, 0.1, 1, 0), (0, 0, -1, 0.1, 0, 1)),
)


def _add_power_sum(view: BlindedView) -> bytes:
    """Add ΣX, ΣY, ΣX² or ΣY², times a constant."""
    power = view.one(("yy", "xx", "y", "x"))
    weight = -5 * view.change
    if len(power) == 1:
        weight *= view.rows / view.plan.workload.thresholds  # about the size of the factor that is missing
    return view.result(view.totals(), plus=Positions(view).power_sum(power, weight))


def _add_polynomial(trials: Trials, parameter: Parameter) -> Totals:
    """Add a·ΣX² + b·ΣY² + c·ΣXY + d + e·Σ(XY)² + f·(ΣXY)², where 2P, N and the size of the extra element are known.

    ΣX, ΣY and sums of other odd powers have random phases, as ΣX² and ΣY² have: `shift-bins` is like them.
    """
    a, b, c, d, e, f = parameter
    of_x, of_y, of_products = trials.power_sums
    size = trials.setting.extra
    added = a / math.sqrt(size) * of_x + b * size * of_y + c * trials.nums + d + e * size * of_products
    return trials.totals(trials.nums + added + f * trials.nums**2, trials.dens)


def _add_constant(view: BlindedView) -> bytes:
    constant = -view.change * view.rows**2 / 2 * view.plan.packing.gain * view.multiplier
    values = view.class_vector(constant * view.num_classes)
    return view.result(view.totals(), plus=view.context.encrypt(values, degree=2))


# --- Single positions -------------------------------------------------------------------------------------------------


def _scale_but_guessed(view: BlindedView) -> bytes:
    workload, positions = view.plan.workload, Positions(view)
    weights = np.ones(positions.shape)
    main = workload.splits * workload.thresholds if workload.is_split else positions.shape[1]
    for row in weights[::2]:
        row[view.generator.permutation(positions.shape[1])[:main]] = 1 - view.change
    return view.finish(positions.totals(weights))


def _with_weights(view: BlindedView, draw: Callable[[int], NDArray[np.float64]]) -> bytes:
    """Return the result where a random quarter of the positions of every num class has other weights than 1."""
    place = Positions(view)
    weights = np.ones(place.shape)
    # Where positions are not permuted, those beyond the thresholds are empty.
    used = place.shape[1] if view.plan.workload.is_split else view.plan.workload.thresholds
    chosen = max(used // 4, 1)
    for row in weights[::2]:
        row[view.generator.permutation(used)[:chosen]] = draw(chosen)
    return view.finish(place.totals(weights))


def _scale_positions(trials: Trials, parameter: Parameter) -> Totals:
    """Scale X by 1 + the first parameter at as many positions as the second one says, drawn anew in every execution."""
    return trials.totals(trials.nums + parameter[0] * trials.sum_at(trials.chosen(int(parameter[1]))), trials.dens)


def _guessed_positions(of: TrialSetting) -> tuple[Parameter, ...]:
    """Return factors and numbers of positions, for `_scale_positions` where it is to miss the extra element."""
    # Many parts of bins come out alike, and few positions miss the extra element: about L/2n is between.
    between = max(1, of.positions // (2 * of.extra))
    sizes = {of.positions - of.extra, of.positions // 2, of.plan.workload.splits, between, 1}
    return tuple((value, size) for size in sorted(sizes) for value in (0.002, 0.02, 0.2, 2.0))


def _shift_bins(view: BlindedView) -> bytes:
    """Multiply X by Y of the neighbouring position; the last X of a block, which has none, by nothing."""
    positions = Positions(view)
    weights = np.full(positions.shape, 2.0)
    weights[:, view.plan.packing.bins - 1 :: view.plan.packing.bins] = 0
    return view.finish(positions.totals(weights, np.zeros(positions.shape), shift=1))


def _add_shifted(trials: Trials, parameter: Parameter) -> Totals:
    """Add a multiple of ΣX_j·Y_{j+1} to num', or put it in its place where the multiple is 0."""
    order = np.argsort(trials.rng.random((*trials.shape, trials.setting.positions), dtype=np.float32), axis=-1)
    x, y = (np.take_along_axis(values, order, axis=-1) for values in trials.position_factors)
    shifted = (x * np.roll(y, -1, axis=-1)).sum(axis=-1)
    return trials.totals(trials.nums + parameter[0] * shifted if parameter[0] else shifted, trials.dens)


# --- Submissions that are missing, doubled or replaced ----------------------------------------------------------------


def _sum_of(view: BlindedView, parties: Iterable[str], *others: Submission) -> bytes:
    return view.result(view.totals(view.sum_of(parties, *others)))


def _without(view: BlindedView, left_out: str, *others: Submission) -> bytes:
    return _sum_of(view, [party for party in view.parties if party != left_out], *others)


def _replay_session(view: BlindedView) -> bytes:
    replaced = view.one(view.parties)
    if view.earlier is not None and replaced in view.earlier.submissions:
        return _without(view, replaced, view.earlier.submissions[replaced])
    foreign = view.context.load_submission(_under_other_keys(view, submission=True))
    return _without(view, replaced, [foreign] * view.plan.packing.blocks)


def _replace_with_zero(view: BlindedView) -> bytes:
    slots = np.zeros(view.plan.packing.slots, complex)
    return _without(view, view.one(view.parties), view.encrypted([slots] * view.plan.packing.blocks))


def _other_subset(view: BlindedView) -> bytes:
    parties = view.generator.permutation(view.parties)[: int(view.generator.integers(1, len(view.parties)))]
    return _sum_of(view, map(str, parties))


# --- Classes and slots ------------------------------------------------------------------------------------------------


def _swap_executions(view: BlindedView) -> bytes:
    """Scale both executions' totals by their ratio, which is a guess: no rotation leads from class to class.

    Where there is one execution only, num and den change places in the same way.
    """
    supposed_auc = view.generator.uniform(0.6, 0.9)
    weights = np.ones(view.plan.packing.classes, complex)
    if not view.plan.workload.is_split:
        weights[:2] = 1 / supposed_auc, supposed_auc
        return view.result(view.totals(), weights)
    (main, extra, totals), (other_main, other_extra, other_totals) = (
        each.products for each in view.guessed_executions()[:2]
    )
    num_ratio = (other_main * supposed_auc + other_extra) / (main * supposed_auc + extra)
    den_ratio = other_totals / totals
    # Ratios may be large, and what is common to a pair changes nothing.
    weights[:4] = num_ratio / den_ratio, 1, den_ratio / num_ratio, 1
    return view.result(view.totals(), weights / max(np.abs(weights).max(), 1))


def _stop_rotations(view: BlindedView) -> bytes:
    """Leave out the last rotation, or those from half the bins on, or the first.

    The last adds up copies of the same products: without it only noise differs, the least with the smallest multiplier.
    """
    packing, context = view.plan.packing, view.context
    steps = packing.trace_steps
    halfway = sum(step < packing.half // 2 for step in steps)
    kept = (steps[:-1], steps[:halfway], steps[1:])[int(view.generator.integers(3))]
    view.multiplier = int(view.plan.least_multiplier)
    total = products(context, packing, view.sum_of(view.parties))
    for step in kept:
        context.add_in_place(total, context.rotate(total, step))
    return view.result(total)


def _partial_sums(trials: Trials, parameter: Parameter) -> Totals:
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


# --- Other results ----------------------------------------------------------------------------------------------------


def _chosen_values(view: BlindedView) -> bytes:
    """An AUC of the liar's choice, and as large a denominator as rows would give."""
    auc = view.generator.uniform(0.95, 0.99)
    den = view.rows**2 / 4 * view.plan.packing.gain * view.multiplier
    redundancy = 0 if view.plan.workload.is_split else 1j * CHECK_WEIGHT
    values = view.class_vector(np.tile([auc * den, den * (1 + redundancy)], view.plan.packing.classes // 2))
    return view.finish(view.context.encrypt(values, degree=2))


def _under_other_keys(view: BlindedView, *, submission: bool) -> bytes:
    """Return made-up values under keys of the liar's own, in the name of this session's, as another session's are."""
    own = ckks.generate(view.plan.parameters)
    values = view.made_up()[0]
    kind = "submission" if submission else "result"
    data = own.secret.encrypt(values) if submission else own.public.dump_result(own.public.encrypt(values, degree=2))
    return wire_format.seal(kind, view.context.fingerprint, wire_format.open_for(kind, own.public.fingerprint, data))


def _earlier_result(view: BlindedView) -> bytes:
    """In a message of this session or, every other time, in its own."""
    earlier = view.earlier
    if earlier is None:
        return _under_other_keys(view, submission=False)
    if view.generator.random() < 0.5:
        view.tamper = lambda _: earlier.message
    return earlier.ciphertext


def _another_session(trials: Trials, parameter: Parameter) -> Totals:
    earlier = Trials(trials.setting, trials.shape[0], trials.rng)  # under the same keys
    return earlier.totals(earlier.nums, earlier.dens)


def _flip_bytes(view: BlindedView) -> bytes:
    """One of the ciphertext's coefficients, mending the checksums, or of the ciphertext, or of the message."""
    ciphertext = view.honest()
    place = int(view.generator.integers(3))
    if place == 0:
        packed = wire_format.open_for("result", view.context.fingerprint, ciphertext)
        return wire_format.seal("result", view.context.fingerprint, _flipped(view, bytes(packed)))
    if place == 1:
        return _flipped(view, ciphertext)
    view.tamper = lambda message: _flipped(view, message)
    return ciphertext


def _flipped(view: BlindedView, data: bytes) -> bytes:
    position = int(view.generator.integers(len(data)))
    mask = int(view.generator.integers(1, 256))
    return data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]


STRATEGIES: Mapping[str, BlindedStrategy] = {
    "scale-num": BlindedStrategy(
        "multiply num' of every execution by a constant",
        lambda view: view.result(view.totals(), 1 - view.change * view.num_classes),
        lambda of, by: of.totals(of.nums * (1 + by[0]), of.dens),
        _FACTORS,
    ),
    "scale-den": BlindedStrategy(
        "multiply den' of every execution by a constant",
        lambda view: view.result(view.totals(), 1 + view.change * (1 - view.num_classes)),
        lambda of, by: of.totals(of.nums, of.dens * (1 + by[0])),
        _FACTORS,
    ),
    "scale-all": BlindedStrategy(
        "multiply all totals by a constant (changes nothing: r is the aggregator's own)",
        lambda view: view.result(
            view.totals(), np.full(view.plan.packing.classes, view.generator.integers(2, 2 ** (SPARE_BITS - 2)))
        ),
        lambda of, by: of.totals(2 * of.nums, 2 * of.dens),
        _always([(1.0,)]),
    ),
    "add-polynomial": BlindedStrategy(
        "add a polynomial of per-class sums such as ΣX·Y, ΣX², ΣY² to num'",
        _add_power_sum,
        _add_polynomial,
        _always(tuple(value * part for part in each) for value in _GRID[::2] for each in _DIRECTIONS),
        by_position=True,
    ),
    "scale-but-guessed": BlindedStrategy(
        "scale X at all positions but those guessed to be the extra element's",
        _scale_but_guessed,
        _scale_positions,
        _guessed_positions,
        by_position=True,
    ),
    "add-constant": BlindedStrategy(  # simulated: to num' or den', relative to r·gain·den
        "add a constant to num' of every execution",
        _add_constant,
        lambda of, by: of.totals(of.nums + by[0], of.dens + by[1]),
        _always((*((value, 0.0) for value in _SIGNED), *((0.0, value) for value in _SIGNED))),
    ),
    "drop-party": BlindedStrategy(
        "leave one party's submission out of the sum", lambda view: _without(view, view.one(view.parties))
    ),
    "count-twice": BlindedStrategy(
        "add one party's submission twice", lambda view: _sum_of(view, [*view.parties, view.one(view.parties)])
    ),
    "replay-session": BlindedStrategy(
        "replace a party's submission by the one it sent in another session", _replay_session
    ),
    "replace-with-zero": BlindedStrategy("replace a party's submission by an encryption of zero", _replace_with_zero),
    "replace-with-counts": BlindedStrategy(
        "replace a party's submission by an encryption of made-up counts",
        lambda view: _without(view, view.one(view.parties), view.encrypted(view.made_up())),
    ),
    "zero-slots": BlindedStrategy(
        "set random positions to zero before the product",
        lambda view: _with_weights(view, np.zeros),
        _scale_positions,
        lambda of: tuple((-1.0, n) for n in (1, of.plan.workload.splits, 8, of.positions // 2) if n < of.positions),
        by_position=True,
    ),
    "scale-slots": BlindedStrategy(
        "scale random positions before the product",
        lambda view: _with_weights(view, lambda size: view.generator.uniform(0.5, 1, size)),
        _scale_positions,
        lambda of: tuple(
            (value, size)
            for size in sorted({1, of.plan.workload.splits, of.positions // 2})
            for value in (0.02, 0.1, 0.5, 2.0, 8.0)
        ),
        by_position=True,
    ),
    "shift-bins": BlindedStrategy(
        "multiply X by Y of the neighbouring position",
        _shift_bins,
        _add_shifted,
        _always((by,) for by in (0, 0.001, 0.003, 0.01, 0.03, 0.1)),
        by_position=True,
    ),
    "swap-executions": BlindedStrategy(
        "exchange the classes of two executions",
        _swap_executions,
        lambda of, _: of.totals(np.roll(of.nums, 1, axis=1), np.roll(of.dens, 1, axis=1)),
    ),
    "stop-rotations": BlindedStrategy(  # simulated: the least number of rotations whose lack tells
        "leave out the last rotations, so that slots hold partial sums",
        _stop_rotations,
        _partial_sums,
        lambda of: ((math.log2(of.plan.packing.copies) + 1,),),
        by_position=True,
    ),
    "chosen-values": BlindedStrategy(
        "return an encryption of chosen totals, computed without the submissions",
        _chosen_values,
        lambda of, value: of.totals(np.full(of.shape, value[0] + 0j), np.ones(of.shape, complex)),
        _always((sign * value,) for value in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0) for sign in (1, -1)),
    ),
    "earlier-result": BlindedStrategy("return an earlier session's result", _earlier_result, _another_session),
    "other-subset": BlindedStrategy("return the result over some of the parties only", _other_subset),
    "flip-bytes": BlindedStrategy(  # simulated: after the trace, nothing makes the slots of a class equal any more
        "flip bytes of the result",
        _flip_bytes,
        lambda of, by: _leave_masks(of, by)._replace(slots_differ=np.ones(of.shape[0], bool)),
    ),
}
"""By name, in the order of the printed table."""

NEED_EARLIER = frozenset({"replay-session", "earlier-result"})
"""Strategies for which ciphertexts of an earlier session are kept."""
