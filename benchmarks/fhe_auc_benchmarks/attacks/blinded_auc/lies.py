"""Attacks on real ciphertexts, by name: each returns what parties get as the result.

With the evaluation keys that there are, nothing moves from one class to another: all rotations are by multiples of the
number of classes. An attack that calls for it does what comes nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from fhe_auc import ckks
from fhe_auc.rlwe import container
from fhe_auc_benchmarks.attacks.blinded_auc.liar import (
    SPARE_BITS,
    Floats,
    Means,
    Positions,
    Submission,
    Sums,
    Totals,
)
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import products
from fhe_auc_protocols.blinded_auc.packing import CHECK_WEIGHT


def honest(means: Means) -> bytes:
    """Do what one should."""
    return Totals.honest(means).blinded().finish()


def scale_num(means: Means) -> bytes:
    """Multiply num' of every execution by a constant."""
    return Totals.honest(means).blinded(1 - means.change * means.num_classes).finish()


def scale_den(means: Means) -> bytes:
    """Multiply den' of every execution by a constant."""
    return Totals.honest(means).blinded(1 + means.change * (1 - means.num_classes)).finish()


def scale_all(means: Means) -> bytes:
    """Multiply everything by a constant."""
    constant = int(means.generator.integers(2, 2 ** (SPARE_BITS - 2)))
    return Totals.honest(means).blinded(np.full(means.plan.packing.classes, float(constant))).finish()


def add_polynomial(means: Means) -> bytes:
    """Add ΣX, ΣY, ΣX² or ΣY², times a constant, to num' of every execution."""
    power = means.one(("yy", "xx", "y", "x"))
    weight = -5 * means.change
    if len(power) == 1:
        weight *= means.rows / means.plan.workload.thresholds  # about the size of the factor that is missing
    sums = Sums(means).of(means.parties)
    summand = Positions(means, sums).power_sum(power, weight)
    return Totals.of(means, sums).blinded().plus(summand).finish()


def scale_but_guessed(means: Means) -> bytes:
    """Scale X at all positions of the num classes, except those guessed to be the extra element's."""
    workload, positions = means.plan.workload, Positions(means, Sums(means).of(means.parties))
    weights = np.ones(positions.shape)
    main = workload.splits * workload.thresholds if workload.is_split else positions.shape[1]
    for row in weights[::2]:
        row[means.generator.permutation(positions.shape[1])[:main]] = 1 - means.change
    return positions.totals(weights).finish()


def add_constant(means: Means) -> bytes:
    """Add a constant to num' of every execution."""
    constant = -means.change * means.rows**2 / 2 * means.plan.packing.gain * means.multiplier
    values = means.plan.packing.class_vector((constant * means.num_classes).astype(complex))
    return Totals.honest(means).blinded().plus(means.context.encrypt(values, degree=2)).finish()


def drop_party(means: Means) -> bytes:
    """Leave one party out, and say that all are in it."""
    left_out = means.one(means.parties)
    return _result_over(means, [party for party in means.parties if party != left_out])


def count_twice(means: Means) -> bytes:
    """Add one party's submission twice."""
    return _result_over(means, [*means.parties, means.one(means.parties)])


def replay_session(means: Means) -> bytes:
    """Put a party's submission of an earlier session in the place of the one that it has sent."""
    replaced = means.one(means.parties)
    if means.earlier is not None and replaced in means.earlier.submissions:
        submission = means.earlier.submissions[replaced]
    else:
        foreign = means.context.load_submission(_under_other_keys(means, submission=True))
        submission = [foreign] * means.plan.packing.blocks
    return _with_replaced(means, replaced, submission)


def replace_with_zero(means: Means) -> bytes:
    """Put an encryption of zero in the place of a party's submission."""
    slots = np.zeros(means.plan.packing.slots, complex)
    submission = Sums(means).encrypted([slots] * means.plan.packing.blocks)
    return _with_replaced(means, means.one(means.parties), submission)


def replace_with_counts(means: Means) -> bytes:
    """Put an encryption of made-up counts in the place of a party's submission."""
    sums = Sums(means)
    return _with_replaced(means, means.one(means.parties), sums.encrypted(sums.made_up()))


def zero_slots(means: Means) -> bytes:
    """Make a quarter of the positions of every num class zero."""
    return _with_weights(means, np.zeros)


def scale_slots(means: Means) -> bytes:
    """Scale a quarter of the positions of every num class, each by a factor of its own."""
    return _with_weights(means, lambda size: means.generator.uniform(0.5, 1, size))


def shift_bins(means: Means) -> bytes:
    """Multiply each X by the Y of the next position; the last X of a block, which has none, by nothing."""
    positions = Positions(means, Sums(means).of(means.parties))
    weights = np.full(positions.shape, 2.0)
    weights[:, means.plan.packing.bins - 1 :: means.plan.packing.bins] = 0
    return positions.totals(weights, np.zeros(positions.shape), shift=1).finish()


def swap_executions(means: Means) -> bytes:
    """Exchange two executions' classes, as far as that is possible.

    No rotation leads from class to class. What comes nearest is to scale both executions' totals by their ratio, which
    is a guess. Where there is one execution only, num and den change places in the same way.
    """
    supposed_auc = means.between(0.6, 0.9)
    weights = np.ones(means.plan.packing.classes, complex)
    if not means.plan.workload.is_split:
        weights[:2] = 1 / supposed_auc, supposed_auc
        return Totals.honest(means).blinded(weights).finish()
    (main, extra, totals), (other_main, other_extra, other_totals) = (
        each.products for each in means.guessed_executions()[:2]
    )
    num_ratio = (other_main * supposed_auc + other_extra) / (main * supposed_auc + extra)
    den_ratio = other_totals / totals
    # Ratios may be large, and what is common to a pair changes nothing.
    weights[:4] = num_ratio / den_ratio, 1, den_ratio / num_ratio, 1
    return Totals.honest(means).blinded(weights / max(np.abs(weights).max(), 1)).finish()


def stop_rotations(means: Means) -> bytes:
    """Leave out one end of the trace's rotations: the last, those from half the bins on, or the first.

    The last adds up copies of the same products: without it only noise differs, the least with the smallest multiplier.
    """
    packing, context = means.plan.packing, means.context
    steps = packing.trace_steps
    halfway = sum(step < packing.half // 2 for step in steps)
    kept = (steps[:-1], steps[:halfway], steps[1:])[int(means.generator.integers(3))]
    means.multiplier = int(means.plan.least_multiplier)
    total = products(context, packing, Sums(means).of(means.parties))
    for step in kept:
        context.add_in_place(total, context.rotate(total, step))
    return Totals(means, total).blinded().finish()


def chosen_values(means: Means) -> bytes:
    """Encrypt chosen totals: an AUC of the liar's choice, and as large a denominator as rows would give."""
    auc = means.between(0.95, 0.99)
    den = means.rows**2 / 4 * means.plan.packing.gain * means.multiplier
    redundancy = 0 if means.plan.workload.is_split else 1j * CHECK_WEIGHT
    pair = [auc * den, den * (1 + redundancy)]
    values = means.plan.packing.class_vector(np.tile(pair, means.plan.packing.classes // 2))
    return means.finish(means.context.encrypt(values, degree=2))


def earlier_result(means: Means) -> bytes:
    """Return an earlier session's result, in a message of this session or, every other time, in its own."""
    earlier = means.earlier
    if earlier is None:
        return _under_other_keys(means, submission=False)
    if means.generator.random() < 0.5:
        means.tamper = lambda _: earlier.message
    return earlier.ciphertext


def other_subset(means: Means) -> bytes:
    """Return the result over some parties, and say that it is over all."""
    parties = means.generator.permutation(means.parties)[: int(means.generator.integers(1, len(means.parties)))]
    return _result_over(means, [str(party) for party in parties])


def flip_bytes(means: Means) -> bytes:
    """Flip a byte of the ciphertext's coefficients and mend the checksums, or of the ciphertext, or of the message."""
    ciphertext = honest(means)
    place = int(means.generator.integers(3))
    if place == 0:
        packed = container.open_for("result", means.context.fingerprint, ciphertext)
        return container.seal("result", means.context.fingerprint, _flipped(means, packed))
    if place == 1:
        return _flipped(means, ciphertext)
    means.tamper = lambda message: _flipped(means, message)
    return ciphertext


Lie: TypeAlias = Callable[[Means], bytes]

LIES: dict[str, Lie] = {
    "scale-num": scale_num,
    "scale-den": scale_den,
    "scale-all": scale_all,
    "add-polynomial": add_polynomial,
    "scale-but-guessed": scale_but_guessed,
    "add-constant": add_constant,
    "drop-party": drop_party,
    "count-twice": count_twice,
    "replay-session": replay_session,
    "replace-with-zero": replace_with_zero,
    "replace-with-counts": replace_with_counts,
    "zero-slots": zero_slots,
    "scale-slots": scale_slots,
    "shift-bins": shift_bins,
    "swap-executions": swap_executions,
    "stop-rotations": stop_rotations,
    "chosen-values": chosen_values,
    "earlier-result": earlier_result,
    "other-subset": other_subset,
    "flip-bytes": flip_bytes,
}
"""What each strategy's name stands for."""


def _result_over(means: Means, parties: Sequence[str]) -> bytes:
    return Totals.of(means, Sums(means).of(parties)).blinded().finish()


def _with_replaced(means: Means, replaced: str, submission: Submission) -> bytes:
    others = [party for party in means.parties if party != replaced]
    return Totals.of(means, Sums(means).of(others, submission)).blinded().finish()


def _with_weights(means: Means, draw: Callable[[int], Floats]) -> bytes:
    """Return the result where a random quarter of the positions of every num class has other weights than 1."""
    place = Positions(means, Sums(means).of(means.parties))
    weights = np.ones(place.shape)
    # Where positions are not permuted, those beyond the thresholds are empty.
    used = place.shape[1] if means.plan.workload.is_split else means.plan.workload.thresholds
    chosen = max(used // 4, 1)
    for row in weights[::2]:
        row[means.generator.permutation(used)[:chosen]] = draw(chosen)
    return place.totals(weights).finish()


def _under_other_keys(means: Means, *, submission: bool) -> bytes:
    """Return a ciphertext of made-up values under keys of the liar's own, in the name of this session's keys.

    That is what another session's is, where every session has keys of its own.
    """
    own = ckks.generate(means.plan.parameters)
    values = Sums(means).made_up()[0]
    kind = "submission" if submission else "result"
    data = own.secret.encrypt(values) if submission else own.public.dump_result(own.public.encrypt(values, degree=2))
    return container.seal(kind, means.context.fingerprint, container.open_for(kind, own.public.fingerprint, data))


def _flipped(means: Means, data: bytes) -> bytes:
    position = int(means.generator.integers(len(data)))
    mask = int(means.generator.integers(1, 256))
    return data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]
