"""What a lying aggregator may try against ``semi-honest`` and ``malicious``, by name.

Each strategy is played on real ciphertexts (`ciphertexts`) and, millions of times, on the numbers that they hold
(`simulated`); `bounds` computes what luck may reach. A real lie returns the result, a simulated one changed numbers.

Slot by slot, an aggregator computes quadratics (`aggregator_view`): nothing moves a value to another slot, scales one
class alone, or conjugates. A real lie that calls for it does what comes nearest. The simulation is kinder to the liar:

- the classes of both runs are numbers in its hand, to be scaled, mixed, swapped, zeroed, turned, or added to exactly;
- it knows r·den, and all counts;
- where it guesses a position, in either run, the guess is right.

Where submissions are missing, doubled or replaced, the sum keeps masks, and what decrypts is uniform modulo Q.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from fhe_auc import ckks
from fhe_auc.rlwe import wire_format
from fhe_auc.rlwe.modular import residues
from fhe_auc.rlwe.polynomials import Words
from fhe_auc_benchmarks.attacks.blinded_auc.aggregator_view import SPARE_BITS, BlindedView, Submission
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import (
    CORRECTION,
    EMPTIEST,
    FULLEST,
    LAST,
    Floats,
    Trials,
    complex_normal,
    phases,
)
from fhe_auc_benchmarks.attacks.laboratory import HARM
from fhe_auc_protocols.blinded_auc.error_bound import CHECK_WEIGHT, WEIGHT
from fhe_auc_protocols.blinded_auc.masked_shares import Complex

Lie: TypeAlias = Callable[[BlindedView], bytes]  # what a liar does with its view; returns the result's bytes
Parameter: TypeAlias = "tuple[float, ...]"
SimulatedLie: TypeAlias = "Callable[[Trials, Parameter], Complex]"
_NONE: tuple[Parameter, ...] = ((),)


def _leave_masks(trials: Trials, _: Parameter) -> Complex:
    """Return numbers as masks leave them that do not vanish."""
    return trials.garbage()


@dataclass(frozen=True)
class BlindedStrategy:
    """One way of lying: what it makes of ciphertexts, and what of honest numbers."""

    description: str
    lie: Lie
    simulated_lie: SimulatedLie | None = _leave_masks
    """None: what it returns is refused for its form."""
    parameters: tuple[Parameter, ...] = _NONE
    """Values of the simulated lie's free parameter, among which the best is looked for."""
    everywhere: bool = False
    """Whether it touches positions all over: simulated trials then draw far more random numbers."""


# Real and imaginary part of factors; what they shift by is around `HARM`.
_FACTORS = tuple(
    (float(value.real), float(value.imag))
    for value in (HARM * 2.0**power * turn for power in range(-1, 6) for turn in (1, -1, 1j))
)


def _with(*choices: Iterable[float]) -> tuple[Parameter, ...]:
    """Return each of `_FACTORS` with each choice of further parameters behind it."""
    return tuple((*factor, *others) for factor in _FACTORS for others in product(*choices))


# --- Whole numbers: runs and classes ----------------------------------------------------------------------------------


def _scale_all(view: BlindedView) -> bytes:
    view.multiplier *= int(view.generator.integers(2, 2 ** (SPARE_BITS - 2)))
    return view.result()


def _scale_runs(view: BlindedView) -> bytes:
    alpha = view.weights()
    for run in alpha:
        run[0] = 1 + view.change * np.exp(2j * np.pi * view.generator.random())
    return view.result(alpha)


def _scaled_runs(trials: Trials, parameter: Parameter) -> Complex:
    """Scale run 1 by 1 + θ, and run 2 by 1 + θ times the last parameter."""
    return trials.honest * (1 + complex(*parameter[:2]) * np.array([[1.0], [parameter[2]]]))


def _on_wanted(view: BlindedView, change: Callable[[Any, Any], Any]) -> bytes:
    """Return the honest result where the four coefficients of c₀ are changed, modulo each prime; c₁ and c₂ stay."""

    def changed(parts: list[Words]) -> None:
        moduli = np.array(view.kept_shape.moduli, np.uint64)[:, None]
        parts[0] = change(parts[0].astype(object), moduli.astype(object)).astype(np.uint64)

    return view.result(change=changed)


def _mix_classes(view: BlindedView) -> bytes:
    """Add a multiple of class 1 to class 0: with x²/y, so that class 1 gets sums of class 0 with weights 1/y."""
    alpha = view.weights(1.0)
    alpha[:, 2] = view.change * view.roots.conj()
    return view.result(alpha)


def _swap_classes(view: BlindedView) -> bytes:
    """Multiply by x²: class 1 becomes class 0, and class 0 sums of class 1 with weights y."""
    alpha = view.weights()
    alpha[:, 2] = 1
    return view.result(alpha)


def _mixed_classes(trials: Trials, parameter: Parameter) -> Complex:
    """Add θ times the other class to class 0, or to both."""
    others = trials.honest[..., ::-1] * np.array([1.0, parameter[2]])
    return np.asarray(trials.honest + complex(*parameter[:2]) * others)


def _add_constant(view: BlindedView) -> bytes:
    plus = np.zeros((view.plan.runs, 2), complex)
    plus[:, : int(view.generator.integers(1, 2 + view.plan.split))] = -view.change * view.size
    return view.result(plus=plus)


def _added_constants(trials: Trials, parameter: Parameter) -> Complex:
    """Add θ·r·den to class 0 of either run, and as much times the last parameter to class 1."""
    return np.asarray(trials.honest + complex(*parameter[:2]) * np.array([1.0, parameter[2]]))


def _of_runs(view: BlindedView, *pairs: tuple[int, int]) -> bytes:
    """Return a result in which each run is the product of two; of one run, all are its square."""
    runs = view.by_run(view.sums())
    last = len(runs) - 1
    return view.result(factors=[(runs[min(one, last)], runs[min(other, last)]) for one, other in pairs[: last + 1]])


def _multiplied_runs(trials: Trials, parameter: Parameter) -> Complex:
    """Add θ·Σ(Y·X' + Y'·X)/2, run 2's in an order of its own; or put that in the place of both."""
    x, y = trials.positions
    order = np.argsort(trials.rng.random((trials.trials, y.shape[-1]), dtype=np.float32), axis=-1)
    other_x = np.take_along_axis(x[:, 1], order[:, None], axis=-1)
    other_y = np.take_along_axis(y[:, 1], order, axis=-1)
    sums = np.einsum("tcp,tp->tc", other_x, y[:, 0]) + np.einsum("tcp,tp->tc", x[:, 0], other_y)
    mixed = np.repeat(sums[:, None] / 2, 2, axis=1)
    return np.asarray(trials.honest + complex(*parameter) * mixed if parameter else mixed)


# --- Slot by slot -----------------------------------------------------------------------------------------------------


def _alpha_at(component: int, how_many: int, value: Callable[[BlindedView], complex]) -> Lie:
    """Return the lie that adds to alpha's component at guessed positions."""

    def lie(view: BlindedView) -> bytes:
        alpha = view.weights(1.0)
        for run, chosen in view.guessed(how_many):
            alpha[run, component, chosen] += value(view)
        return view.result(alpha)

    return lie


def _add_at_position(view: BlindedView) -> bytes:
    """Add to Y, or to X of either class, at a guessed position."""
    component = int(view.generator.choice([0, 1, 3]))
    beta = view.weights()
    for run, chosen in view.guessed(1):
        beta[run, component, chosen] = view.rows * (WEIGHT if component == 0 else 1 / WEIGHT)
    return view.result(beta=beta)


def _square_terms(view: BlindedView) -> bytes:
    """Add Y² and X², of all positions or of a guessed one."""
    component = int(view.generator.choice([1, 3]))
    if view.generator.random() < 0.5:
        return _alpha_at(component, 1, lambda view: view.change)(view)
    alpha = view.weights(1.0)
    alpha[:, component] = view.change
    return view.result(alpha)


def _quadratic(trials: Trials, where: int | slice, term: int) -> Complex:
    """Return what alpha's (`term` 0 to 3) or beta's (4 to 7) component adds at some of the positions drawn, over two.

    The root y stands for 1: phases of positions are uniform.
    """
    every_x, every_y = trials.positions
    x, y = every_x[..., where], every_y[..., where]
    counts = trials.setting.counts
    ratio = WEIGHT**2 * counts.negatives / (2 * counts.positives)  # of w·Y to X/w
    zero, first, second = np.zeros_like(y), x[:, :, 0], x[:, :, 1]
    square, squares = ratio * y**2 / 2 + first * second / ratio, (first**2 + second**2) / (2 * ratio)
    added = (
        *((y * first, y * second), (square, squares), (y * second, y * first), (squares, square)),
        *((first, second), (y, zero), (second, first), (zero, y)),
    )[term]
    return np.stack([each if isinstance(where, int) else each.sum(axis=-1) for each in added], axis=-1)


def _at_position(trials: Trials, parameter: Parameter) -> Complex:
    """Add θ times a term at a position, which either run's guess has hit."""
    where, term = map(int, parameter[2:])
    return np.asarray(trials.honest + complex(*parameter[:2]) * _quadratic(trials, where, term))


def _at_corrections(trials: Trials, parameter: Parameter) -> Complex:
    """Scale the correction of class 0, or those of both."""
    changed = _quadratic(trials, CORRECTION, 0) + parameter[2] * _quadratic(trials, CORRECTION + 1, 0)
    return np.asarray(trials.honest + complex(*parameter[:2]) * changed)


def _square_everywhere(trials: Trials, parameter: Parameter) -> Complex:
    return np.asarray(trials.honest + complex(*parameter) * _quadratic(trials, slice(None), 1))


def _with_weights(view: BlindedView, draw: Callable[[int], Floats]) -> bytes:
    """Return the result where a random quarter of the positions has other weights than 1."""
    alpha = view.weights(1.0)
    used = view.plan.positions if view.plan.split else view.plan.thresholds
    chosen = max(used // 4, 1)
    for run, places in view.guessed(chosen):
        alpha[run, 0, places] = draw(chosen)
    return view.result(alpha)


def _scaled_slots(trials: Trials, parameter: Parameter) -> Complex:
    """Scale a share of the positions, drawn anew in every run, by 1 + θ."""
    x, y = trials.positions
    weights = trials.rng.random(y.shape, dtype=np.float32) < parameter[2]
    return np.asarray(trials.honest + complex(*parameter[:2]) * np.einsum("trcp,trp->trc", x, y * weights))


def _turn_slots(view: BlindedView) -> bytes:
    """Multiply by 1 + a power of x⁴."""
    alpha = view.weights(1.0)
    alpha[:, 0] += 100 * view.change * view.roots ** int(view.generator.integers(1, view.plan.parameters.slots))
    return view.result(alpha)


def _turned_slots(trials: Trials, parameter: Parameter) -> Complex:
    """Add products with weights y: as positions have a random order, random phases."""
    x, y = trials.positions
    turned = y * phases(trials.rng, *y.shape)
    return np.asarray(trials.honest + complex(*parameter) * np.einsum("trcp,trp->trc", x, turned))


# --- Submissions that are missing, doubled or replaced ----------------------------------------------------------------


def _sum_of(view: BlindedView, parties: Iterable[str], *others: Submission) -> bytes:
    return view.result(sums=view.sums(parties, *others))


def _one(view: BlindedView) -> str:
    return view.parties[int(view.generator.integers(len(view.parties)))]


def _without(view: BlindedView, left_out: str, *others: Submission) -> bytes:
    return _sum_of(view, [party for party in view.parties if party != left_out], *others)


def _replay_session(view: BlindedView) -> bytes:
    replaced = _one(view)
    if view.earlier is not None and replaced in view.earlier.submissions:
        return _without(view, replaced, view.earlier.submissions[replaced])
    own = ckks.generate(view.plan.parameters)
    foreign = [own.public.read_submission(own.secret.encrypt(block)) for block in view.made_up()]
    return _without(view, replaced, foreign)


def _other_subset(view: BlindedView) -> bytes:
    parties = view.generator.permutation(view.parties)[: int(view.generator.integers(1, len(view.parties)))]
    return _sum_of(view, map(str, parties))


# --- Other results ----------------------------------------------------------------------------------------------------


def _chosen_values(view: BlindedView) -> bytes:
    """An AUC of the liar's choice, and as large a denominator as rows would give; or numbers about as large."""
    auc = view.generator.uniform(0.95, 0.99)
    numbers = np.asarray([[auc, 1 + 1j * CHECK_WEIGHT]], np.complex128)
    if view.plan.split:
        numbers = complex_normal(view.generator, (view.plan.runs, 2))
    return view.result(view.weights(), plus=view.size / 2 * numbers)


def _earlier_result(view: BlindedView) -> bytes:
    """In a message of this session or, every other time, in its own."""
    earlier = view.earlier
    if earlier is None:
        own = ckks.generate(view.plan.parameters).public
        squares = [own.sum_of_squares(run) for run in view.by_run(view.sums())]
        foreign = wire_format.open_for("result", own.fingerprint, own.dump_sums(squares, view.multiplier, 0))
        return wire_format.seal("result", view.context.fingerprint, foreign)
    if view.generator.random() < 0.5:
        view.tamper = lambda _: earlier.message
    return earlier.content


def _another_session(trials: Trials, _: Parameter) -> Complex:
    return Trials(trials.setting, trials.trials, trials.rng).honest  # under the same keys


def _change_coefficient(view: BlindedView) -> bytes:
    """Add as much to a coefficient of c₁ or c₂ as a coefficient of s, or of s², makes a small change of."""
    part = int(view.generator.integers(1, 3))
    amount = round(view.change * view.size * view.unit / (1 if part == 1 else view.plan.parameters.ring_dimension**0.5))

    def change(parts: list[Words]) -> None:
        place = int(view.generator.integers(view.plan.parameters.ring_dimension))
        for row, prime in zip(parts[part], view.kept_shape.moduli, strict=True):
            row[place] = (int(row[place]) + amount) % prime

    return view.result(change=change)


def _changed_coefficient(trials: Trials, parameter: Parameter) -> Complex:
    """Add θ·r·den times coefficients of the key: -1, 0 or 1 or, of its square, a Gaussian; in run 1, or in both."""
    shape = trials.honest.shape
    if parameter[3]:
        of_key = complex_normal(trials.rng, shape)
    else:
        of_key = trials.rng.integers(-1, 2, shape) + 1j * trials.rng.integers(-1, 2, shape)
    return np.asarray(trials.honest + complex(*parameter[:2]) * np.array([[1.0], [parameter[2]]]) * of_key)


def _flip_bytes(view: BlindedView) -> bytes:
    """One of the ciphertext's coefficients, mending the checksums, or of the ciphertext, or of the message."""
    content = view.honest()
    place = int(view.generator.integers(3))
    if place == 0:
        return _sealed(view, _flipped(view, _opened(view, content)))
    if place == 1:
        return _flipped(view, content)
    view.tamper = lambda message: _flipped(view, message)
    return content


def _flipped(view: BlindedView, data: bytes) -> bytes:
    position = int(view.generator.integers(len(data)))
    mask = int(view.generator.integers(1, 256))
    return data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]


def _opened(view: BlindedView, content: bytes) -> bytes:
    return wire_format.open_for("result", view.context.fingerprint, content)


def _sealed(view: BlindedView, payload: bytes) -> bytes:
    return wire_format.seal("result", view.context.fingerprint, payload)


def _garbage(view: BlindedView) -> bytes:
    """Random polynomials, random bytes, a result that is too short or too long, or numbers that are none."""

    def change(parts: list[Words]) -> None:
        parts[1:] = (view.kept_shape.uniform(view.generator.bytes(32)) for _ in parts[1:])

    kind = int(view.generator.integers(5))
    if kind == 0:
        return view.result(change=change)
    payload = _opened(view, view.honest())
    nan = np.full(len(payload) // 8 + 1, np.nan).tobytes()[: len(payload)]
    random = view.generator.bytes(len(payload))
    return _sealed(view, (random, payload[:-1], payload + b"\0", nan)[kind - 1])


def _no_numbers(trials: Trials, _: Parameter) -> Complex:
    """Return garbage, of which one number in eight is none, or infinite."""
    found = trials.garbage()
    found[trials.rng.random(found.shape) < 1 / 16] = np.nan
    found[trials.rng.random(found.shape) < 1 / 16] = np.inf
    return found


def _small_polynomials(view: BlindedView) -> bytes:
    """Zeros or small numbers for c₁, c₂ or both, so that the liar chooses what decrypts, or learns the key."""
    small = view.generator.permutation([1, 2])[: int(view.generator.integers(1, 3))]
    largest = int(view.generator.choice([0, 1, 1000]))

    def change(parts: list[Words]) -> None:
        for each in small:
            numbers = view.generator.integers(-largest, largest + 1, view.kept_shape.ring_dimension)
            parts[each] = np.stack([residues(numbers, prime) for prime in view.kept_shape.moduli])

    return view.result(change=change)


STRATEGIES: Mapping[str, BlindedStrategy] = {
    "scale-all": BlindedStrategy(
        "multiply all numbers by a constant (changes nothing: r is the aggregator's own)",
        _scale_all,
        lambda of, _: 2 * of.honest,
    ),
    "scale-runs": BlindedStrategy(
        "multiply each run by a complex number",
        _scale_runs,
        _scaled_runs,
        _with((0.0, 1.0, -1.0)),
    ),
    "scale-class": BlindedStrategy(  # simulated: also turned, by a quarter turn too
        "multiply class 0 of both runs, the numerator of semi-honest, by a constant",
        lambda view: _on_wanted(view, lambda c, q: np.concatenate([c[:, :2] * 3 % q, c[:, 2:]], axis=1)),
        lambda of, by: of.honest * np.array([1 + complex(*by), 1]),
        (*_FACTORS, (-1.0, 1.0), (-1.0, -1.0)),
    ),
    "mix-classes": BlindedStrategy(
        "add a multiple of each class to the other",
        _mix_classes,
        _mixed_classes,
        _with((0.0, 1.0, -1.0)),
    ),
    "swap-classes": BlindedStrategy("swap the classes", _swap_classes, lambda of, _: of.honest[..., ::-1]),
    "zero-class": BlindedStrategy(
        "return zero for a class",
        lambda view: _on_wanted(view, lambda c, _: np.concatenate([c[:, :2] * 0, c[:, 2:]], axis=1)),
        lambda of, by: of.honest * np.array(by),
        ((0.0, 1.0), (1.0, 0.0)),
    ),
    "conjugate": BlindedStrategy(
        "change the sign of imaginary parts",
        lambda view: _on_wanted(view, lambda c, q: np.where([0, 1, 0, 1], q - c, c) % q),
        lambda of, _: of.honest.conj(),
    ),
    "add-constant": BlindedStrategy(
        "add constants",
        _add_constant,
        _added_constants,
        _with((0.0, 1.0)),
    ),
    "swap-runs": BlindedStrategy(
        "swap the runs", lambda view: _of_runs(view, (1, 1), (0, 0)), lambda of, _: of.honest[:, ::-1]
    ),
    "repeat-run": BlindedStrategy(
        "return one run for both", lambda view: _of_runs(view, (0, 0), (0, 0)), lambda of, _: of.honest[:, [0, 0]]
    ),
    "multiply-runs": BlindedStrategy(
        "multiply the runs with one another",
        lambda view: _of_runs(view, (0, 1), (0, 1)),
        _multiplied_runs,
        (*_FACTORS, ()),
        everywhere=True,
    ),
    "scale-last": BlindedStrategy(
        "scale the last position, guessed",
        _alpha_at(0, 1, lambda view: 100 * view.change),
        _at_position,
        _with((LAST,), (0,)),
    ),
    "scale-corrections": BlindedStrategy(
        "scale the corrections, guessed",
        _alpha_at(0, 2, lambda view: 100 * view.change),
        _at_corrections,
        _with((0.0, 1.0)),
    ),
    "scale-bin": BlindedStrategy(
        "scale a bin, guessed",
        _alpha_at(0, 1, lambda view: -1),
        _at_position,
        _with((FULLEST, EMPTIEST), (0,)),
    ),
    "add-at-position": BlindedStrategy(
        "add to X or Y of a guessed position",
        _add_at_position,
        _at_position,
        _with((FULLEST, EMPTIEST, CORRECTION, LAST), (4, 5)),
    ),
    "mix-at-position": BlindedStrategy(
        "add Y², X² or the other class at a guessed position",
        _alpha_at(2, 1, lambda view: view.change),
        _at_position,
        _with((FULLEST, EMPTIEST, CORRECTION, LAST), (1, 2)),
    ),
    "square-terms": BlindedStrategy(
        "add Y² and X² of all positions", _square_terms, _square_everywhere, _FACTORS, everywhere=True
    ),
    "zero-slots": BlindedStrategy(
        "set random positions to zero",
        lambda view: _with_weights(view, np.zeros),
        _scaled_slots,
        tuple((-1.0, 0.0, share) for share in (0.001, 0.003, 0.01, 0.25, 0.5)),
        everywhere=True,
    ),
    "scale-slots": BlindedStrategy(
        "scale random positions",
        lambda view: _with_weights(view, lambda size: view.generator.uniform(0.5, 1, size)),
        _scaled_slots,
        _with((0.003, 0.1, 0.5)),
        everywhere=True,
    ),
    "turn-slots": BlindedStrategy(
        "multiply by a power of x, which turns every position by an angle of its own",
        _turn_slots,
        _turned_slots,
        _FACTORS,
        everywhere=True,
    ),
    "drop-party": BlindedStrategy(
        "leave one party's submission out of the sum", lambda view: _without(view, _one(view))
    ),
    "count-twice": BlindedStrategy(
        "add one party's submission twice", lambda view: _sum_of(view, [*view.parties, _one(view)])
    ),
    "replay-session": BlindedStrategy(
        "replace a party's submission by the one it sent in another session", _replay_session
    ),
    "replace-with-counts": BlindedStrategy(
        "replace a party's submission by one of made-up counts",
        lambda view: _without(view, _one(view), view.encrypted(view.made_up())),
    ),
    "other-subset": BlindedStrategy("return the result over some of the parties only", _other_subset),
    "chosen-values": BlindedStrategy(
        "return chosen numbers, computed without the submissions",
        _chosen_values,
        lambda of, value: np.full(of.honest.shape, complex(*value)),
        tuple((0.25 * 2.0**power * sign, 0.0) for power in range(5) for sign in (1, -1)),
    ),
    "earlier-result": BlindedStrategy("return an earlier session's result", _earlier_result, _another_session),
    "change-coefficient": BlindedStrategy(
        "add to a coefficient of c₁ or c₂",
        _change_coefficient,
        _changed_coefficient,
        _with((0.0, 1.0), (0.0, 1.0)),
    ),
    "small-polynomials": BlindedStrategy("return small numbers for c₁ or c₂", _small_polynomials, None),
    "garbage": BlindedStrategy("return garbage, or bytes of NaN", _garbage, _no_numbers),
    "flip-bytes": BlindedStrategy("flip bytes of the result", _flip_bytes, None),
}
"""By name, in the order of the printed table."""

NEED_EARLIER = frozenset({"replay-session", "earlier-result"})
"""Strategies for which ciphertexts of an earlier session are kept."""
