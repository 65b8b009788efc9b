"""What a lying aggregator may try against ``semi-honest`` and ``malicious``, by name.

Each strategy is played on real ciphertexts (`ciphertexts`) and, millions of times, on the numbers that they hold
(`simulated`). A real lie returns the result, a simulated one changed numbers.

Slot by slot, an aggregator computes quadratics (`aggregator_view`): nothing moves a value to another slot, scales one
class alone, or conjugates. A real lie that calls for it does what comes nearest. The simulation is kinder to the liar:

- the classes of both runs are numbers in its hand, to be scaled, mixed, swapped, zeroed, turned, or added to exactly;
- it knows r·den, and all counts;
- where it guesses a position, in either run, the guess is right.

Where submissions are missing, doubled or replaced, the sum keeps masks, and what decrypts is uniform modulo Q.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from fhe_auc import ckks
from fhe_auc.ckks.parameters import PRODUCTS
from fhe_auc.rlwe.ciphertexts import unwrap, wrap
from fhe_auc.rlwe.modular import multiply, residues
from fhe_auc.rlwe.polynomials import Words
from fhe_auc_benchmarks.attacks.blinded_auc.aggregator_view import SPARE_BITS, BlindedView, Submission
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import (
    CORRECTION,
    EMPTIEST,
    FULLEST,
    LAST,
    Trials,
    complex_normal,
    phases,
)
from fhe_auc_benchmarks.attacks.laboratory import HARM
from fhe_auc_protocols.blinded_auc.masked_shares import Complex
from fhe_auc_protocols.blinded_auc.plan import CHECK_WEIGHT, WEIGHT

Lie: TypeAlias = Callable[[BlindedView], bytes]  # what a liar does with its view; returns the result's bytes
Parameter: TypeAlias = "tuple[complex, ...]"
SimulatedLie: TypeAlias = "Callable[[Trials, Any], Any]"


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
    parameters: tuple[Parameter, ...] = ((),)
    """Values of the simulated lie's free parameter, among which the best is looked for."""
    everywhere: bool = False
    """Whether it touches positions all over: simulated trials then draw far more random numbers."""


def _theta(*choices: Iterable[complex]) -> tuple[Parameter, ...]:
    """Return parameters: θ, such that shifts are around `HARM`, and each of the choices behind it."""
    sizes = HARM * 2.0 ** np.arange(-1, 6)
    return tuple(product([complex(size * turn) for size in sizes for turn in (1, -1, 1j)], *choices))


_ONE_BOTH_OR_OPPOSITE = 0, 1, -1


# --- Whole numbers: runs and classes ----------------------------------------------------------------------------------


def _scale_all(view: BlindedView) -> bytes:
    view.multiplier *= int(view.generator.integers(2, 2 ** (SPARE_BITS - 2)))
    return view.result()


def _times_wanted(*factors: int) -> Lie:
    """Return the lie that multiplies each run's four coefficients of c₀, and leaves c₁ and c₂ as they are."""

    def change(parts: list[Words], view: BlindedView) -> None:
        for row, prime in zip(parts[0], view.kept_shape.moduli, strict=True):
            row[:] = multiply(row, residues(factors * view.plan.runs_together, prime), prime)

    return lambda view: view.result(change=lambda parts: change(parts, view))


def _add_constant(view: BlindedView) -> bytes:
    plus = np.zeros((view.plan.runs, 2), complex)
    plus[:, : int(view.generator.integers(1, 2 + view.plan.split))] = -view.change * view.size
    return view.result(plus=plus)


def _multiply_runs(view: BlindedView) -> bytes:
    """Cross products of runs in one ciphertext are in components 5 and 7, four from where sums are told."""
    if view.plan.runs_together > 1:
        return view.result({**view.moved(-4), **view.moved(4)})
    first, *others = sums = view.sums()
    return view.result(sums=[first] * len(sums), times=[*others, *others] or sums)


def _swap_runs(view: BlindedView) -> bytes:
    """In one ciphertext by x⁸: run 1's numbers take the place of run 2's, and run 2's come to run 1 with weights y."""
    if view.plan.runs_together > 1:
        return view.result(view.moved(8))
    return view.result(sums=view.sums()[::-1])


def _repeat_run(view: BlindedView) -> bytes:
    """In one ciphertext added to the other's numbers, by 1 + x⁸."""
    if view.plan.runs_together > 1:
        return view.result({0: 1, **view.moved(8)})
    return view.result(sums=view.sums()[:1] * view.plan.squares)


def _multiplied_runs(trials: Trials, parameter: Parameter) -> Complex:
    """Add θ·Σ(Y·X' + Y'·X)/2, run 2's in an order of its own; or put that in the place of both."""
    x, y = trials.positions
    order = np.argsort(trials.rng.random((trials.trials, y.shape[-1]), dtype=np.float32), axis=-1)
    other_x = np.take_along_axis(x[:, 1], order[:, None], axis=-1)
    other_y = np.take_along_axis(y[:, 1], order, axis=-1)
    sums = np.einsum("tcp,tp->tc", other_x, y[:, 0]) + np.einsum("tcp,tp->tc", x[:, 0], other_y)
    mixed = np.repeat(sums[:, None] / 2, 2, axis=1)
    return np.asarray(trials.honest + parameter[0] * mixed if parameter else mixed)


# --- Slot by slot -----------------------------------------------------------------------------------------------------


def _add_at_position(view: BlindedView) -> bytes:
    """Add to Y of every run, or to X of either class, at a position guessed for each."""
    part = int(view.generator.integers(3))
    size = view.rows * (WEIGHT if part == 0 else 1 / WEIGHT)
    return view.result(beta={each[part]: size * view.guessed(1) for each in PRODUCTS[view.plan.parameters.components]})


def _copy_position(view: BlindedView) -> bytes:
    """By x⁸; where each run has its own ciphertext, by scaling a guessed position of either."""
    added = 100 * view.change * view.guessed(1)
    return view.result({0: 1 + added} | ({8: added} if view.plan.runs_together > 1 else {}))


def _term(trials: Trials, where: int | slice, term: int) -> Complex:
    """Return what alpha's (`term` 0 to 3) or beta's (4 to 7) component adds at some of the positions drawn, over two.

    The root y stands for 1: phases of positions are uniform.
    """
    every_x, every_y = trials.positions
    x, y = every_x[..., where], every_y[..., where]
    ratio = WEIGHT**2 * trials.setting.counts.negatives / (2 * trials.setting.counts.positives)  # of w·Y to X/w
    zero, first, second = np.zeros_like(y), x[:, :, 0], x[:, :, 1]
    square, squares = ratio * y**2 / 2 + first * second / ratio, (first**2 + second**2) / (2 * ratio)
    added = (
        *((y * first, y * second), (square, squares), (y * second, y * first), (squares, square)),
        *((first, second), (y, zero), (second, first), (zero, y)),
    )[term]
    return np.stack([each if isinstance(where, int) else each.sum(axis=-1) for each in added], axis=-1)


def _at(positions: Iterable[int], terms: Iterable[int] = (0,)) -> tuple[SimulatedLie, tuple[Parameter, ...]]:
    """Return the lie that adds θ times a term at a position, which the guess for either run has hit."""
    return lambda of, by: of.honest + by[0] * _term(of, *by[1:]), _theta(positions, terms)


def _copied_position(trials: Trials, parameter: Parameter) -> Complex:
    """Add θ times what a position has in run 1 to the numbers of both runs."""
    return np.asarray(trials.honest + parameter[0] * _term(trials, int(parameter[1].real), 0)[:, :1])


def _at_corrections(trials: Trials, parameter: Parameter) -> Complex:
    """Scale the correction of class 0, or those of both."""
    terms = _term(trials, CORRECTION, 0) + parameter[1] * _term(trials, CORRECTION + 1, 0)
    return np.asarray(trials.honest + parameter[0] * terms)


def _weighted(trials: Trials, theta: complex, weights: Any) -> Complex:
    """Add θ times the products, weighted by position."""
    x, y = trials.positions
    return np.asarray(trials.honest + theta * np.einsum("trcp,trp->trc", x, y * weights))


def _at_a_share(trials: Trials, parameter: Any) -> Complex:
    """Scale a share of the positions, drawn anew in every run, by 1 + θ."""
    shape = trials.positions[1].shape
    return _weighted(trials, parameter[0], trials.rng.random(shape, dtype=np.float32) < parameter[1])


# --- Submissions that are missing, doubled or replaced ----------------------------------------------------------------


def _one(view: BlindedView) -> str:
    return view.parties[int(view.generator.integers(len(view.parties)))]


def _without(view: BlindedView, left_out: str, *others: Submission) -> bytes:
    return view.result(sums=view.sums([party for party in view.parties if party != left_out], *others))


def _replay_session(view: BlindedView) -> bytes:
    replaced = _one(view)
    if view.earlier is not None and replaced in view.earlier.submissions:
        return _without(view, replaced, view.earlier.submissions[replaced])
    own = ckks.generate(view.plan.parameters)
    return _without(view, replaced, [own.public.read_submission(own.secret.encrypt(each)) for each in view.made_up()])


def _other_subset(view: BlindedView) -> bytes:
    parties = view.generator.permutation(view.parties)[: int(view.generator.integers(1, len(view.parties)))]
    return view.result(sums=view.sums(map(str, parties)))


# --- Other results ----------------------------------------------------------------------------------------------------


def _chosen_values(view: BlindedView) -> bytes:
    """An AUC of the liar's choice, and as large a denominator as rows would give; or numbers about as large."""
    numbers: Complex = np.array([[view.generator.uniform(0.95, 0.99), 1 + 1j * CHECK_WEIGHT]], complex)
    if view.plan.split:
        numbers = complex_normal(view.generator, (view.plan.runs, 2))
    return view.result({}, plus=view.size / 2 * numbers)


def _earlier_result(view: BlindedView) -> bytes:
    """In a message of this session or, every other time, in its own."""
    earlier = view.earlier
    if earlier is None:
        own = ckks.generate(view.plan.parameters).public
        squares = [own.sum_of_squares(each) for each in view.sums()]
        return _sealed(view, bytes(unwrap("result", own.dump_sums(squares, 1, 0))[1]))
    if view.generator.random() < 0.5:
        view.tamper = lambda _: earlier.message
    return earlier.content


def _change_coefficient(view: BlindedView) -> bytes:
    """Add to a coefficient of c₁ or c₂ what, times one of s or s², makes a small change."""
    part = int(view.generator.integers(1, 3))
    size = view.plan.parameters.ring_dimension
    amount = round(view.change * view.size * view.unit / (1 if part == 1 else math.sqrt(size)))

    def change(parts: list[Words]) -> None:
        place = int(view.generator.integers(size))
        for row, prime in zip(parts[part], view.kept_shape.moduli, strict=True):
            row[place] = (int(row[place]) + amount) % prime

    return view.result(change=change)


def _changed_coefficient(trials: Trials, parameter: Parameter) -> Complex:
    """Add θ·r·den times coefficients of the key: -1, 0 or 1 or, of its square, a Gaussian; in run 1, or in both."""
    theta, other, squared = parameter
    of_key = complex_normal(trials.rng, trials.honest.shape)
    if not squared:
        of_key = trials.rng.integers(-1, 2, (*of_key.shape, 2)) @ np.array([1, 1j])
    return np.asarray(trials.honest + theta * np.array([[1], [other]]) * of_key)


def _flip_bytes(view: BlindedView) -> bytes:
    """One of the ciphertext's coefficients, mending the checksums, or of the ciphertext, or of the message."""
    content = view.result()
    place = int(view.generator.integers(3))
    if place == 0:
        return _sealed(view, _flipped(view, bytes(unwrap("result", content)[1])))
    if place == 1:
        return _flipped(view, content)
    view.tamper = lambda message: _flipped(view, message)
    return content


def _flipped(view: BlindedView, data: bytes) -> bytes:
    position = int(view.generator.integers(len(data)))
    mask = int(view.generator.integers(1, 256))
    return data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]


def _sealed(view: BlindedView, payload: bytes) -> bytes:
    return wrap("result", view.context.fingerprint, payload)


def _garbage(view: BlindedView) -> bytes:
    """Random polynomials, random bytes, a result that is too short or too long, or numbers that are none."""

    def change(parts: list[Words]) -> None:
        parts[1:] = (view.kept_shape.uniform(view.generator.bytes(32)) for _ in parts[1:])

    kind = int(view.generator.integers(5))
    if kind == 0:
        return view.result(change=change)
    payload = bytes(unwrap("result", view.result())[1])
    nan = np.full(len(payload) // 8 + 1, np.nan).tobytes()[: len(payload)]
    return _sealed(view, (view.generator.bytes(len(payload)), payload[:-1], payload + b"\0", nan)[kind - 1])


def _no_numbers(trials: Trials, _: Parameter) -> Complex:
    """Return garbage, of which one number in eight is none, or infinite."""
    found = trials.garbage()
    for none in (np.nan, np.inf):
        found[trials.rng.random(found.shape) < 1 / 16] = none
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
    "turn-all": BlindedStrategy(
        "turn all numbers by a quarter turn", lambda view: view.result({0: 1j}), lambda of, _: 1j * of.honest
    ),
    "scale-runs": BlindedStrategy(  # really each ciphertext
        "multiply each run by a complex number",
        lambda view: view.result({0: 1 + view.change * phases(view.generator, view.plan.squares, 1)}),
        lambda of, by: of.honest * (1 + by[0] * np.array([[1], [by[1]]])),
        _theta(_ONE_BOTH_OR_OPPOSITE),
    ),
    "scale-class": BlindedStrategy(  # simulated: quarter turns, too
        "multiply class 0 of both runs, semi-honest's numerator, by a constant",
        _times_wanted(3, 3, 1, 1),
        lambda of, by: of.honest * np.array([1 + by[0], 1]),
        (*_theta(), (1j - 1,), (-1j - 1,)),
    ),
    "mix-classes": BlindedStrategy(  # really by 1/x²: class 1 gets sums of what else is two components further
        "add a multiple of either class to the other",
        lambda view: view.result({0: 1, **{at: view.change * by for at, by in view.moved(-2).items()}}),
        lambda of, by: of.honest + by[0] * of.honest[..., ::-1] * np.array([1, by[1]]),
        _theta(_ONE_BOTH_OR_OPPOSITE),
    ),
    "swap-classes": BlindedStrategy(  # really by x² and 1/x², which are one component where there are four
        "swap the classes",
        lambda view: view.result({**view.moved(-2), **view.moved(2)}),
        lambda of, _: of.honest[..., ::-1],
    ),
    "zero-class": BlindedStrategy(
        "return zero for a class", _times_wanted(0, 0, 1, 1), lambda of, by: of.honest * np.array(by), ((0, 1), (1, 0))
    ),
    "conjugate": BlindedStrategy(
        "change the sign of imaginary parts", _times_wanted(1, -1, 1, -1), lambda of, _: of.honest.conj()
    ),
    "add-constant": BlindedStrategy(
        "add constants", _add_constant, lambda of, by: of.honest + by[0] * np.array([1, by[1]]), _theta((0, 1))
    ),
    "swap-runs": BlindedStrategy("swap the runs", _swap_runs, lambda of, _: of.honest[:, ::-1]),
    "repeat-run": BlindedStrategy("return one run for both", _repeat_run, lambda of, _: of.honest[:, [0, 0]]),
    "multiply-runs": BlindedStrategy(
        "multiply the runs with one another", _multiply_runs, _multiplied_runs, (*_theta(), ()), everywhere=True
    ),
    "scale-last": BlindedStrategy(
        "scale the last position, guessed",
        lambda view: view.result({0: 1 + 100 * view.change * view.guessed(1)}),
        *_at([LAST]),
    ),
    "scale-corrections": BlindedStrategy(
        "scale the corrections, guessed",
        lambda view: view.result({0: 1 + 100 * view.change * view.guessed(2)}),
        _at_corrections,
        _theta((0, 1)),
    ),
    "scale-bin": BlindedStrategy(
        "scale a bin, guessed", lambda view: view.result({0: 1 - view.guessed(1)}), *_at([FULLEST, EMPTIEST])
    ),
    "copy-position": BlindedStrategy(
        "add a position of one run, guessed, to both", _copy_position, _copied_position, _theta((FULLEST, LAST))
    ),
    "add-at-position": BlindedStrategy(
        "add to X or Y of a guessed position", _add_at_position, *_at([FULLEST, EMPTIEST, CORRECTION, LAST], [4, 5])
    ),
    "mix-at-position": BlindedStrategy(
        "add Y², X² or the other class at a guessed position",
        lambda view: view.result(
            {0: 1, int(view.generator.integers(1, view.plan.parameters.components)): view.change * view.guessed(1)}
        ),
        *_at([FULLEST, EMPTIEST, CORRECTION, LAST], [1, 2]),
    ),
    "square-terms": BlindedStrategy(
        "add Y² and X² of all positions",
        lambda view: view.result({0: 1, int(view.generator.choice([1, 3])): view.change}),
        lambda of, by: of.honest + by[0] * _term(of, slice(None), 1),
        _theta(),
        everywhere=True,
    ),
    "zero-slots": BlindedStrategy(
        "set random positions to zero",
        lambda view: view.result({0: 1 - view.guessed()}),
        _at_a_share,
        tuple((-1, share) for share in (0.001, 0.003, 0.01, 0.25, 0.5)),
        everywhere=True,
    ),
    "scale-slots": BlindedStrategy(
        "scale random positions",
        lambda view: view.result({0: 1 - view.guessed() * view.generator.uniform(0, 0.5, view.plan.positions)}),
        _at_a_share,
        _theta((0.003, 0.1, 0.5)),
        everywhere=True,
    ),
    "turn-slots": BlindedStrategy(  # simulated: as positions have a random order, by random angles
        "multiply by a power of x, which turns every position by an angle of its own",
        lambda view: view.result({0: 1 + 100 * view.change * view.roots ** int(view.generator.integers(1, 1000))}),
        lambda of, by: _weighted(of, by[0], phases(of.rng, *of.positions[1].shape)),
        _theta(),
        everywhere=True,
    ),
    "drop-party": BlindedStrategy(
        "leave one party's submission out of the sum", lambda view: _without(view, _one(view))
    ),
    "count-twice": BlindedStrategy(
        "add one party's submission twice", lambda view: view.result(sums=view.sums([*view.parties, _one(view)]))
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
        lambda of, by: np.full(of.honest.shape, by[0]),
        tuple((0.25 * 2.0**power * sign,) for power in range(5) for sign in (1, -1)),
    ),
    "earlier-result": BlindedStrategy(
        "return an earlier session's result",
        _earlier_result,
        lambda of, _: Trials(of.setting, of.trials, of.rng).honest,  # under the same keys
    ),
    "change-coefficient": BlindedStrategy(
        "add to a coefficient of c₁ or c₂", _change_coefficient, _changed_coefficient, _theta((0, 1), (0, 1))
    ),
    "small-polynomials": BlindedStrategy("return small numbers for c₁ or c₂", _small_polynomials, None),
    "garbage": BlindedStrategy("return garbage, or bytes of NaN", _garbage, _no_numbers),
    "flip-bytes": BlindedStrategy("flip bytes of the result", _flip_bytes, None),
}
"""By name, in the order of the printed table."""

NEED_EARLIER = frozenset({"replay-session", "earlier-result"})
"""Strategies for which ciphertexts of an earlier session are kept."""
