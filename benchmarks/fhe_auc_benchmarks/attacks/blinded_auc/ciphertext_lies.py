"""Attacks on real ciphertexts, by name: each returns what parties get as the result.

With the evaluation keys that there are, nothing moves from one class to another: all rotations are by multiples of the
number of classes. An attack that calls for it does what comes nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc import ckks
from fhe_auc.rlwe import wire_format
from fhe_auc_benchmarks.attacks.blinded_auc.aggregator_view import SPARE_BITS, BlindedView, Positions, Submission
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import products
from fhe_auc_protocols.blinded_auc.packing import CHECK_WEIGHT


def honest(view: BlindedView) -> bytes:
    """Do what one should."""
    return view.result(view.totals())


def scale_num(view: BlindedView) -> bytes:
    """Multiply num' of every execution by a constant."""
    return view.result(view.totals(), 1 - view.change * view.num_classes)


def scale_den(view: BlindedView) -> bytes:
    """Multiply den' of every execution by a constant."""
    return view.result(view.totals(), 1 + view.change * (1 - view.num_classes))


def scale_all(view: BlindedView) -> bytes:
    """Multiply all totals by a constant (changes nothing: r is the aggregator's own)."""
    constant = int(view.generator.integers(2, 2 ** (SPARE_BITS - 2)))
    return view.result(view.totals(), np.full(view.plan.packing.classes, float(constant)))


def add_polynomial(view: BlindedView) -> bytes:
    """Add a polynomial of per-class sums such as ΣX·Y, ΣX², ΣY² to num'.

    On ciphertexts: ΣX, ΣY, ΣX² or ΣY², times a constant.
    """
    power = view.one(("yy", "xx", "y", "x"))
    weight = -5 * view.change
    if len(power) == 1:
        weight *= view.rows / view.plan.workload.thresholds  # about the size of the factor that is missing
    return view.result(view.totals(), plus=Positions(view).power_sum(power, weight))


def scale_but_guessed(view: BlindedView) -> bytes:
    """Scale X at all positions but those guessed to be the extra element's."""
    workload, positions = view.plan.workload, Positions(view)
    weights = np.ones(positions.shape)
    main = workload.splits * workload.thresholds if workload.is_split else positions.shape[1]
    for row in weights[::2]:
        row[view.generator.permutation(positions.shape[1])[:main]] = 1 - view.change
    return view.finish(positions.totals(weights))


def add_constant(view: BlindedView) -> bytes:
    """Add a constant to num' of every execution."""
    constant = -view.change * view.rows**2 / 2 * view.plan.packing.gain * view.multiplier
    values = view.class_vector(constant * view.num_classes)
    return view.result(view.totals(), plus=view.context.encrypt(values, degree=2))


def drop_party(view: BlindedView) -> bytes:
    """Leave one party's submission out of the sum."""
    return _sum_of(view, _without(view, view.one(view.parties)))


def count_twice(view: BlindedView) -> bytes:
    """Add one party's submission twice."""
    return _sum_of(view, [*view.parties, view.one(view.parties)])


def replay_session(view: BlindedView) -> bytes:
    """Replace a party's submission by the one it sent in another session."""
    replaced = view.one(view.parties)
    if view.earlier is not None and replaced in view.earlier.submissions:
        submission = view.earlier.submissions[replaced]
    else:
        foreign = view.context.load_submission(_under_other_keys(view, submission=True))
        submission = [foreign] * view.plan.packing.blocks
    return _with_replaced(view, submission, replaced)


def replace_with_zero(view: BlindedView) -> bytes:
    """Replace a party's submission by an encryption of zero."""
    slots = np.zeros(view.plan.packing.slots, complex)
    return _with_replaced(view, view.encrypted([slots] * view.plan.packing.blocks))


def replace_with_counts(view: BlindedView) -> bytes:
    """Replace a party's submission by an encryption of made-up counts."""
    replaced = view.one(view.parties)
    return _with_replaced(view, view.encrypted(view.made_up()), replaced)


def zero_slots(view: BlindedView) -> bytes:
    """Set random positions to zero before the product."""
    return _with_weights(view, np.zeros)


def scale_slots(view: BlindedView) -> bytes:
    """Scale random positions before the product."""
    return _with_weights(view, lambda size: view.generator.uniform(0.5, 1, size))


def shift_bins(view: BlindedView) -> bytes:
    """Multiply X by Y of the neighbouring position.

    The last X of a block, which has none, by nothing.
    """
    positions = Positions(view)
    weights = np.full(positions.shape, 2.0)
    weights[:, view.plan.packing.bins - 1 :: view.plan.packing.bins] = 0
    return view.finish(positions.totals(weights, np.zeros(positions.shape), shift=1))


def swap_executions(view: BlindedView) -> bytes:
    """Exchange the classes of two executions.

    No rotation leads from class to class. What comes nearest is to scale both executions' totals by their ratio, which
    is a guess. Where there is one execution only, num and den change places in the same way.
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


def stop_rotations(view: BlindedView) -> bytes:
    """Leave out the last rotations, so that slots hold partial sums.

    Or those from half the bins on, or the first. The last adds up copies of the same products: without it only noise
    differs, the least with the smallest multiplier.
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


def chosen_values(view: BlindedView) -> bytes:
    """Return an encryption of chosen totals, computed without the submissions.

    An AUC of the liar's choice, and as large a denominator as rows would give.
    """
    auc = view.generator.uniform(0.95, 0.99)
    den = view.rows**2 / 4 * view.plan.packing.gain * view.multiplier
    redundancy = 0 if view.plan.workload.is_split else 1j * CHECK_WEIGHT
    pair = [auc * den, den * (1 + redundancy)]
    values = view.class_vector(np.tile(pair, view.plan.packing.classes // 2))
    return view.finish(view.context.encrypt(values, degree=2))


def earlier_result(view: BlindedView) -> bytes:
    """Return an earlier session's result.

    In a message of this session or, every other time, in its own.
    """
    earlier = view.earlier
    if earlier is None:
        return _under_other_keys(view, submission=False)
    if view.generator.random() < 0.5:
        view.tamper = lambda _: earlier.message
    return earlier.ciphertext


def other_subset(view: BlindedView) -> bytes:
    """Return the result over some of the parties only."""
    parties = view.generator.permutation(view.parties)[: int(view.generator.integers(1, len(view.parties)))]
    return _sum_of(view, map(str, parties))


def flip_bytes(view: BlindedView) -> bytes:
    """Flip bytes of the result.

    One of the ciphertext's coefficients, mending the checksums, or of the ciphertext, or of the message.
    """
    ciphertext = honest(view)
    place = int(view.generator.integers(3))
    if place == 0:
        packed = wire_format.open_for("result", view.context.fingerprint, ciphertext)
        return wire_format.seal("result", view.context.fingerprint, _flipped(view, packed))
    if place == 1:
        return _flipped(view, ciphertext)
    view.tamper = lambda message: _flipped(view, message)
    return ciphertext


Lie: TypeAlias = Callable[[BlindedView], bytes]
"""What a liar does with its view; returns the result's bytes."""


def _without(view: BlindedView, left_out: str) -> list[str]:
    return [party for party in view.parties if party != left_out]


def _sum_of(view: BlindedView, parties: Iterable[str], *others: Submission) -> bytes:
    return view.result(view.totals(view.sum_of(parties, *others)))


def _with_replaced(view: BlindedView, submission: Submission, replaced: str | None = None) -> bytes:
    return _sum_of(view, _without(view, replaced or view.one(view.parties)), submission)


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


def _under_other_keys(view: BlindedView, *, submission: bool) -> bytes:
    """Return a ciphertext of made-up values under keys of the liar's own, in the name of this session's keys.

    That is what another session's is, where every session has keys of its own.
    """
    own = ckks.generate(view.plan.parameters)
    values = view.made_up()[0]
    kind = "submission" if submission else "result"
    data = own.secret.encrypt(values) if submission else own.public.dump_result(own.public.encrypt(values, degree=2))
    return wire_format.seal(kind, view.context.fingerprint, wire_format.open_for(kind, own.public.fingerprint, data))


def _flipped(view: BlindedView, data: bytes) -> bytes:
    position = int(view.generator.integers(len(data)))
    mask = int(view.generator.integers(1, 256))
    return data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]
