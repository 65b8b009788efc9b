"""What a lying aggregator may try against ``semi-honest`` and ``malicious``, by name; each returns the result's bytes.

Slot by slot, an aggregator computes quadratics (`aggregator_view`): nothing moves a value to another slot, scales one
class alone, or conjugates. A lie that calls for it does what comes nearest. Where submissions are missing, doubled or
replaced, the sum keeps masks, and what decrypts is uniform modulo Q.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from fhe_auc import ckks
from fhe_auc.ckks import Slots
from fhe_auc.rlwe.ciphertexts import unwrap, wrap
from fhe_auc.rlwe.modular import multiply, residues
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rows.counts import Counts
from fhe_auc_benchmarks.attacks.blinded_auc.aggregator_view import SPARE_BITS, BlindedView
from fhe_auc_protocols.blinded_auc import masked_shares
from fhe_auc_protocols.blinded_auc.blinded_plan import CHECK_WEIGHT
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import packed
from fhe_auc_protocols.blinded_auc.masked_shares import Complex
from fhe_auc_protocols.blinded_auc.semi_honest import vectors

Tell: TypeAlias = Callable[[BlindedView], bytes]


class BlindedStrategy(NamedTuple):
    """One way of lying: what the aggregator does, and what may come of it with `semi-honest`; None: anything."""

    what: str
    tell: Tell
    semi_honest: str | None = None


def _scale_all(view: BlindedView) -> bytes:
    view.multiplier *= int(view.generator.integers(2, 2 ** (SPARE_BITS - 2)))
    return view.result()


def _scale_runs(view: BlindedView) -> bytes:
    turn = np.exp(2j * np.pi * view.generator.random((view.plan.squares, 1)))
    return view.result(1 + view.change * turn)


def _times_wanted(*factors: int) -> Tell:
    """Return the lie that multiplies each run's four coefficients of c₀, and leaves c₁ and c₂ as they are."""

    def change(parts: list[Words], view: BlindedView) -> None:
        for row, prime in zip(parts[0], view.kept_shape.moduli, strict=True):
            row[:] = multiply(row, residues(factors * view.plan.runs_together, prime), prime)

    return lambda view: view.result(change=lambda parts: change(parts, view))


def _add_constant(view: BlindedView) -> bytes:
    plus = np.zeros((view.plan.runs, 2), complex)
    plus[:, : int(view.generator.integers(1, 2 + view.plan.split))] = -view.change * view.size
    return view.result(plus=plus)


def _made_up(view: BlindedView) -> list[Slots]:
    """Return what a party with made-up rows would encrypt; where that takes the common secret, with one made up."""
    plan = view.plan
    bins = view.generator.integers(0, 1 + view.rows // plan.thresholds, (2, plan.thresholds))
    counts = Counts(*(np.cumsum(side[::-1])[::-1] for side in bins))
    if not plan.split:
        return packed(plan, [vectors(counts, plan.positions)])
    runs = masked_shares.runs(view.generator.bytes(32), view.generator.bytes(32), plan)
    return packed(plan, [run.vectors(counts) for run in runs])


def _replay_session(view: BlindedView) -> bytes:
    """What a party has sent in another session is under another key."""
    own, replaced = ckks.generate(view.plan.parameters), view.one()
    return view.without(replaced, [own.public.read_submission(own.secret.encrypt(each)) for each in _made_up(view)])


def _chosen_values(view: BlindedView) -> bytes:
    """An AUC of the liar's choice, and as large a denominator as rows would give; or numbers about as large."""
    numbers: Complex = np.array([[view.generator.uniform(0.95, 0.99), 1 + 1j * CHECK_WEIGHT]])
    if view.plan.split:
        numbers = view.generator.standard_normal((view.plan.runs, 2, 2)) @ np.array([1, 1j]) / math.sqrt(2)
    return view.result(0, plus=view.size / 2 * numbers)


def _earlier_result(view: BlindedView) -> bytes:
    """Under another key, in a container of this one."""
    own = ckks.generate(view.plan.parameters).public
    squares = [own.sum_of_squares(each) for each in view.sums()]
    return _sealed(view, bytes(unwrap("result", own.dump_sums(squares, 1, 0))[1]))


def _change_coefficient(view: BlindedView) -> bytes:
    """Add to a coefficient of c₁ or c₂ what, times one of s or s², makes a small change."""
    part, size = int(view.generator.integers(1, 3)), view.plan.parameters.ring_dimension
    amount = round(view.change * view.size * view.unit / (1 if part == 1 else math.sqrt(size)))

    def change(parts: list[Words]) -> None:
        place = int(view.generator.integers(size))
        for row, prime in zip(parts[part], view.kept_shape.moduli, strict=True):
            row[place] = (int(row[place]) + amount) % prime

    return view.result(change=change)


def _flip_bytes(view: BlindedView) -> bytes:
    """One of the ciphertext's coefficients, or of its container."""
    content = view.result()
    if view.generator.integers(2):
        return _flipped(view, content)
    return _sealed(view, _flipped(view, bytes(unwrap("result", content)[1])))


def _flipped(view: BlindedView, data: bytes) -> bytes:
    position, mask = int(view.generator.integers(len(data))), int(view.generator.integers(1, 256))
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


PASSES, REDUNDANT, HARMLESS = "passes", "den shows", "harmless"
STRATEGIES: Mapping[str, BlindedStrategy] = {
    "scale-all": BlindedStrategy(
        "multiply all numbers by a constant (changes nothing: r is the aggregator's own)", _scale_all, HARMLESS
    ),
    "turn-all": BlindedStrategy("turn all numbers by a quarter turn", lambda view: view.result(1j), REDUNDANT),
    "scale-runs": BlindedStrategy("multiply each run by a complex number", _scale_runs, REDUNDANT),
    "scale-class": BlindedStrategy("multiply class 0 of both runs by a constant", _times_wanted(3, 3, 1, 1), REDUNDANT),
    "zero-class": BlindedStrategy("return zero for a class", _times_wanted(0, 0, 1, 1), REDUNDANT),
    "add-constant": BlindedStrategy("add constants", _add_constant, PASSES),
    "scale-last": BlindedStrategy(
        "scale the last position, guessed", lambda view: view.result(1 + 100 * view.change * view.guessed(1)), PASSES
    ),
    "scale-bin": BlindedStrategy("scale a bin, guessed", lambda view: view.result(1 - view.guessed(1)), PASSES),
    "zero-slots": BlindedStrategy("set random positions to zero", lambda view: view.result(1 - view.guessed()), PASSES),
    "drop-party": BlindedStrategy("leave one party out of the sum", lambda view: view.without(view.one())),
    "count-twice": BlindedStrategy(
        "add one party's submission twice", lambda view: view.result(sums=view.sums([*view.submissions, view.one()]))
    ),
    "replay-session": BlindedStrategy(
        "replace a party's submission by the one it sent in another session", _replay_session
    ),
    "replace-with-counts": BlindedStrategy(
        "replace a party's submission by one of made-up counts",
        lambda view: view.without(view.one(), view.encrypted(_made_up(view))),
    ),
    "chosen-values": BlindedStrategy("return chosen numbers, computed without the submissions", _chosen_values, PASSES),
    "earlier-result": BlindedStrategy("return an earlier session's result", _earlier_result),
    "change-coefficient": BlindedStrategy("add to a coefficient of c₁ or c₂", _change_coefficient),
    "garbage": BlindedStrategy("return garbage, or bytes of NaN", _garbage),
    "flip-bytes": BlindedStrategy("flip bytes of the result", _flip_bytes),
}
"""By name."""
