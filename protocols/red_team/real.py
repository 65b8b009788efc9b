"""Attacks on real ciphertexts: an aggregator that lies, against parties that follow the protocol.

The liar holds what every aggregator holds: public and evaluation keys, and what parties send. It has neither the secret
key nor the common secret. Each attack is a function that is handed these things (`Means`) and returns the ciphertext
that parties get as the result. It may lie at one of three places:

    Sums        which submissions are added up, and what stands for one that is not
    Positions   X and Y of every position, before they are multiplied
    Totals      the class totals, after the trace

To give attacks their best chance, liars know about how many rows there are, and choose the blinding multiplier as large
as the modulus allows: weights are rounded to integer polynomials, and so become as exact as they can be.

With the evaluation keys that there are, nothing moves from one class to another: all rotations are by multiples of the
number of classes. An attack that calls for it does what comes nearest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc import ckks, thresholds
from fhe_auc.circuit import flood, products, trace
from fhe_auc.ckks import Ciphertext, PublicContext, Slots
from fhe_auc.ckks_rounds import CkksAggregator, CkksParty, Result, plan_of
from fhe_auc.counts import Counts, PartyData, count, trapezoid
from fhe_auc.errors import DeserialisationError, FheAucError, InputError
from fhe_auc.manifest import SESSION_BYTES, Manifest
from fhe_auc.messages import Message
from fhe_auc.planner import CHECK_WEIGHT, Plan
from fhe_auc.protocol import Request
from fhe_auc.rlwe import container
from fhe_auc.serialise import decode, encode
from keys.holder import PartySecrets
from protocols import disguise
from protocols.disguise import Execution
from protocols.encrypted import BlindedAuc
from protocols.malicious import Malicious
from protocols.red_team.strategies import HARM, NAMES, Outcome
from protocols.semi_honest import SemiHonest, class_vectors

PROTOCOLS: dict[str, type[BlindedAuc]] = {"semi-honest": SemiHonest, "malicious": Malicious}
"""Protocols that can be attacked, by name."""

_SITES = ("north", "south", "east")
_SITE_ROWS = (40, 81)
_THRESHOLDS = 16
_POSITIVES = 0.4
_SPARE_BITS = 8  # of the modulus, for what attacks add
_MAX_MULTIPLIER_BITS = 40
_CHANGES = 0.002, 0.02  # relative; the least that does harm is the likeliest to pass
_SHOWN_CHANGE = 0.07
_SAME = 1e-5  # honest totals agree better with the exact ones, even at 100 rows
_CONFIDENCE = 10.0

Floats: TypeAlias = NDArray[np.float64]
Submission: TypeAlias = "Sequence[Ciphertext]"


class Earlier(NamedTuple):
    """What an aggregator may have kept of another session under the same keys.

    Attributes
    ----------
    submissions : mapping of str to list of ciphertexts
    ciphertext : bytes
        Of the result.
    message : bytes
        The one that carried it.
    """

    submissions: Mapping[str, Submission]
    ciphertext: bytes
    message: bytes


class Means:
    """What a lying aggregator has in hand.

    Parameters
    ----------
    context : PublicContext
    plan : Plan
    submissions : mapping of str to list of ciphertexts
        What the parties have sent.
    generator : numpy.random.Generator
        For the attack's choices.
    rows : int
        About how many rows all parties have.
    earlier : Earlier or None
    change : float or None
        By which fraction to change what is scaled or added to; None: drawn anew, small, which is the likeliest to pass.

    Attributes
    ----------
    multiplier : int
        The blinding multiplier, of the liar's choice.
    tamper : callable
        Applied to the finished message, which nothing is done to by default.
    """

    def __init__(
        self,
        context: PublicContext,
        plan: Plan,
        submissions: Mapping[str, Submission],
        generator: np.random.Generator,
        rows: int,
        earlier: Earlier | None,
        change: float | None,
    ) -> None:
        self.context, self.plan, self.submissions = context, plan, submissions
        self.generator, self.rows, self.earlier = generator, rows, earlier
        self.change = float(np.exp(generator.uniform(*np.log(_CHANGES)))) if change is None else change
        self.tamper: Callable[[bytes], bytes] = bytes
        unused = 2 * math.log2(max(plan.workload.max_rows / rows, 1))
        bits = min(plan.blinding_bits + max(unused - _SPARE_BITS, 0), _MAX_MULTIPLIER_BITS)
        self.multiplier = int(2 ** max(bits, plan.blinding_bits))

    @property
    def parties(self) -> tuple[str, ...]:
        """Names of all parties that have sent something."""
        return tuple(self.submissions)

    @property
    def num_classes(self) -> Floats:
        """Return 1 for every class of a numerator, 0 for those of denominators."""
        return np.tile([1.0, 0.0], self.plan.packing.classes // 2)

    def scaled(self, ciphertext: Ciphertext, weights: Slots | Floats) -> Ciphertext:
        """Return a ciphertext times `weights`, one a slot, and times the multiplier."""
        return self.context.multiply_integers(ciphertext, self.multiplier * np.asarray(weights, complex))

    def finish(self, ciphertext: Ciphertext) -> bytes:
        """Return a result's bytes, flooded as honest ones are."""
        return self.context.dump_result(flood(self.context, ciphertext, self.plan.flooding_deviation, self.plan.unit))

    def between(self, low: float, high: float) -> float:
        """Return a random number."""
        return float(self.generator.uniform(low, high))

    def one(self, names: Sequence[str]) -> str:
        """Return one of `names`."""
        return names[int(self.generator.integers(len(names)))]


# --- The three places -------------------------------------------------------------------------------------------------


class Sums:
    """Which submissions are added up: the liar's own choice, and its own encryptions among them."""

    def __init__(self, means: Means) -> None:
        self._means = means

    def of(self, parties: Iterable[str], *others: Submission) -> list[Ciphertext]:
        """Return the sum over the submissions of `parties`, as often as each is named, and over `others`."""
        return self.added_up([*(self._means.submissions[party] for party in parties), *others])

    def added_up(self, submissions: Sequence[Submission]) -> list[Ciphertext]:
        """Return the sum, block by block; submissions stay as they are."""
        context = self._means.context
        ones = np.ones(context.parameters.slots, complex)
        sums = [context.multiply_integers(block, ones) for block in submissions[0]]
        for submission in submissions[1:]:
            for total, block in zip(sums, submission, strict=True):
                context.add_in_place(total, block)
        return sums

    def encrypted(self, blocks: Sequence[Slots]) -> list[Ciphertext]:
        """Return a submission made with the public key, which has no mask."""
        return [self._means.context.encrypt(block) for block in blocks]

    def made_up(self) -> list[Slots]:
        """Return what a party with made-up rows would encrypt; where that takes the common secret, with one made up."""
        means, workload, packing = self._means, self._means.plan.workload, self._means.plan.packing
        bins = means.generator.integers(0, 1 + means.rows // workload.thresholds, (2, workload.thresholds))
        counts = Counts(*(np.cumsum(side[::-1])[::-1] for side in bins))
        if not workload.disguised:
            return packing.pack(*class_vectors(counts))
        return packing.pack(*disguise.class_vectors(guessed_executions(means), counts))


class Positions:
    """X and Y of every position, before they are multiplied."""

    def __init__(self, means: Means, sums: Sequence[Ciphertext]) -> None:
        self._means = means
        self._sums = sums
        packing = means.plan.packing
        self.shape = packing.classes, packing.blocks * packing.bins
        """Of weights: classes and positions."""

    def totals(self, x_weights: Floats, y_weights: Floats | None = None, *, shift: int = 0) -> Totals:
        """Return the totals of X·Y times `x_weights`, Y `shift` bins further on.

        Every product is there twice, as X·Y and, half a period further on, as Y·X. `y_weights` are for the second;
        None: the same.
        """
        context, packing = self._means.context, self._means.plan.packing
        weights = self._slots(x_weights, x_weights if y_weights is None else y_weights)
        total = None
        for ciphertext, weight in zip(self._sums, weights, strict=True):
            other = context.rotate(ciphertext, packing.half)
            if shift:
                other = context.rotate(other, packing.classes * shift)
            total = self._plus(total, context.multiply(self._means.scaled(ciphertext, weight), other))
        return Totals(self._means, trace(context, packing, total))

    def power_sum(self, power: str, weight: float) -> Ciphertext:
        """Return ΣX, ΣY, ΣX² or ΣY² (`power` is "x", "y", "xx" or "yy") of the num classes, as class totals.

        `weight` is what they count beside totals.
        """
        context, packing = self._means.context, self._means.plan.packing
        mask = np.outer(self._means.num_classes, np.ones(self.shape[1]))
        # X carries a factor u that products X·Y have once, and every power is there half as often.
        mask *= 2 * weight * {"x": 1, "y": packing.x_unit, "xx": 1 / packing.x_unit, "yy": packing.x_unit}[power]
        none = np.zeros(self.shape)
        weights = self._slots(*((mask, none) if power[0] == "x" else (none, mask)))
        ones = context.encrypt(np.ones(packing.slots, complex)) if len(power) == 1 else None
        total = None
        for ciphertext, each in zip(self._sums, weights, strict=True):
            product = context.multiply(self._means.scaled(ciphertext, each), ciphertext if ones is None else ones)
            total = self._plus(total, product)
        return trace(context, packing, total)

    def _plus(self, total: Ciphertext | None, summand: Ciphertext) -> Ciphertext:
        if total is None:
            return summand
        self._means.context.add_in_place(total, summand)
        return total

    def _slots(self, x_weights: Floats, y_weights: Floats) -> list[Floats]:
        """Return weights of each block's slots, where `fhe_auc.packing.Packing.pack` puts X and Y."""
        packing = self._means.plan.packing
        both = np.stack([x_weights, y_weights])
        return [
            np.tile(block.transpose(0, 2, 1).reshape(-1), packing.slots // (2 * packing.half))
            for block in np.split(both, packing.blocks, axis=2)
        ]


class Totals:
    """The class totals, in every slot of a class."""

    def __init__(self, means: Means, ciphertext: Ciphertext) -> None:
        self._means = means
        self._ciphertext = ciphertext

    @classmethod
    def honest(cls, means: Means) -> Totals:
        """Return the totals that an honest aggregator has before blinding."""
        return cls.of(means, Sums(means).of(means.parties))

    @classmethod
    def of(cls, means: Means, sums: Sequence[Ciphertext]) -> Totals:
        """Return what the rest of the circuit makes of `sums`, before blinding."""
        packing = means.plan.packing
        return cls(means, trace(means.context, packing, products(means.context, packing, sums)))

    def blinded(self, weights: Slots | Floats | None = None) -> Totals:
        """Return the totals times the multiplier, and times one of `weights` each."""
        packing = self._means.plan.packing
        chosen = np.asarray(np.ones(packing.classes) if weights is None else weights, complex)
        return Totals(self._means, self._means.scaled(self._ciphertext, packing.class_vector(chosen)))

    def plus(self, summand: Ciphertext) -> Totals:
        """Return these, to which `summand` has been added."""
        self._means.context.add_in_place(self._ciphertext, summand)
        return self

    def finish(self) -> bytes:
        """Return the result's bytes."""
        return self._means.finish(self._ciphertext)


# --- The attacks ------------------------------------------------------------------------------------------------------


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
    constant = int(means.generator.integers(2, 2 ** (_SPARE_BITS - 2)))
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
    main = workload.splits * workload.thresholds if workload.disguised else positions.shape[1]
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
    if not means.plan.workload.disguised:
        weights[:2] = 1 / supposed_auc, supposed_auc
        return Totals.honest(means).blinded(weights).finish()
    (main, extra, totals), (other_main, other_extra, other_totals) = (
        each.products for each in guessed_executions(means)[:2]
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
    redundancy = 0 if means.plan.workload.disguised else 1j * CHECK_WEIGHT
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

_CHECKS = {
    "denominator": "denominator is near zero",
    "executions": "the executions disagree",
    "range": "outside its range",
    "slots": "the slots of a class differ",
    "redundancy": "redundancy of the denominator",
    "undefined": "the AUC is undefined",
    "finite": "values are not finite",
}
"""Names of the checks, and what their errors' texts say; "message" is what does not get as far as that."""

_NEED_EARLIER = frozenset({"replay-session", "earlier-result"})


def guessed_executions(means: Means) -> list[Execution]:
    """Return secrets of all executions, drawn as parties draw them, but from another common secret."""
    return disguise.executions(means.generator.bytes(32), means.generator.bytes(32), means.plan)


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
    used = place.shape[1] if means.plan.workload.disguised else means.plan.workload.thresholds
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


# --- The roles --------------------------------------------------------------------------------------------------------


class LyingAggregator(CkksAggregator):
    """An aggregator that plays one attack, with what every aggregator holds.

    Parameters
    ----------
    manifest : Manifest
    context : PublicContext
    lie : callable
        One of `LIES`.
    generator : numpy.random.Generator
        For the attack's choices.
    rows : int or None
        About how many rows all parties have; None: as many as there may be.
    earlier : Earlier or None
        What is left of an earlier session under the same keys.
    change : float or None
        As for `Means`.
    """

    def __init__(
        self,
        manifest: Manifest,
        context: PublicContext,
        lie: Lie,
        *,
        generator: np.random.Generator,
        rows: int | None = None,
        earlier: Earlier | None = None,
        change: float | None = None,
    ) -> None:
        super().__init__(manifest, context)
        plan = plan_of(manifest, Plan)
        self._lie = lie
        self._blocks = plan.packing.blocks
        self._context = context
        self._submissions: dict[str, Submission] = {}
        rows = plan.workload.max_rows if rows is None else rows
        self._means = Means(context, plan, self._submissions, generator, rows, earlier, change)
        self._ciphertext = self._message = b""

    @property
    def kept(self) -> Earlier:
        """What this session leaves behind for a later one."""
        return Earlier(self._submissions, self._ciphertext, self._message)

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == 1:
            blocks = decode(payload, tuple[bytes, ...], "submission")
            if len(blocks) != self._blocks:
                raise DeserialisationError(f"expected {self._blocks} ciphertexts, got {len(blocks)}")
            self._submissions[party] = [self._context.load_submission(block) for block in blocks]

    def _close(self) -> bytes:
        self._ciphertext = self._lie(self._means)
        return encode(Result(len(self.manifest.parties), self._ciphertext))

    def finish_round(self) -> bytes | None:
        """Close the round as an honest aggregator does, and tamper with the message."""
        message = super().finish_round()
        if message is None:
            return None
        self._message = self._means.tamper(message)
        return self._message


def lying_aggregator(
    name: str, manifest: Manifest, context: PublicContext, *, rows: int | None = None, seed: int = 0
) -> LyingAggregator:
    """Return an aggregator that plays the strategy of that name, to be seen: it changes more than it need.

    Raises
    ------
    InputError
        There is no such strategy.
    """
    if name not in LIES:
        raise InputError(f"unknown attack {name!r} (there are: {', '.join(NAMES)})")
    generator = np.random.default_rng(seed)
    return LyingAggregator(manifest, context, LIES[name], generator=generator, rows=rows, change=_SHOWN_CHANGE)


class Stage(NamedTuple):
    """A manifest and the keys that it names, for as many sessions as one likes."""

    protocol: BlindedAuc
    manifest: Manifest
    public: PublicContext
    secret: ckks.SecretContext


@lru_cache(maxsize=4)
def _stage(protocol: str, backend: ckks.BackendName, options: tuple[tuple[str, Any], ...] = ()) -> Stage:
    plugin = PROTOCOLS[protocol]()
    grid = thresholds.uniform(_THRESHOLDS)
    session = plugin.prepare(Request(parties=_SITES, thresholds=grid, backend=backend, options=dict(options)))
    secrets = decode(session.party_material, PartySecrets, "secret key material")
    return Stage(
        plugin, session.manifest, ckks.load_public(session.aggregator_material), ckks.load_secret(secrets.context)
    )


class HonestParties:
    """Parties of one session, with rows, a session id and a common secret made up for it; the CKKS keys are reused."""

    def __init__(self, stage: Stage, generator: np.random.Generator) -> None:
        self._stage = stage
        self.manifest = msgspec.structs.replace(stage.manifest, session=generator.bytes(SESSION_BYTES))
        self.plan = plan_of(self.manifest, Plan)
        secret = generator.bytes(32)
        sites = [_rows(name, generator) for name in _SITES]
        self._tasks = [stage.protocol.task(self.manifest, data) for data in sites]
        self._parties = [CkksParty(self.manifest, stage.secret, task, common_secret=secret) for task in self._tasks]
        first, *others = (count(data, self.manifest.thresholds) for data in sites)
        pooled = sum(others, start=first)
        self.rows = pooled.positives + pooled.negatives
        self.auc = trapezoid(pooled).auc

    def play(self, aggregator: LyingAggregator) -> bytes:
        """Play the session up to the message that carries the result."""
        opening = aggregator.start()
        for party in self._parties:
            aggregator.receive(party.name, party.respond(opening))
        message = aggregator.finish_round()
        if message is None:
            raise RuntimeError("there is no second round")
        return message

    def read(self, message: bytes) -> float:
        """Return the AUC that parties accept; one reads it for all, who see the same message.

        Raises
        ------
        FheAucError
            It is refused.
        """
        reader = self._parties[0]
        reader.respond(message)
        return reader.result().auc

    def says_the_same(self, message: bytes) -> bool:
        """Tell whether the result holds the honest class totals, up to a factor common to all; with the secret key."""
        try:
            payload = Message.from_bytes(message, limit=len(message)).payload
            slots = self._stage.secret.decrypt(decode(payload, Result, "result").ciphertext)
        except FheAucError:
            return False
        by_class = self.plan.packing.by_class(slots)
        found, exact = by_class.mean(axis=1), self._exact_totals()
        factor = np.vdot(exact, found) / np.vdot(exact, exact)
        spread = float(np.abs(by_class - found[:, None]).max())
        size = float(np.abs(found).max())
        same = float(np.abs(found - factor * exact).max()) <= _SAME * abs(factor) * float(np.abs(exact).max())
        return same and spread <= _CONFIDENCE * self.plan.noise_deviation + _SAME * size

    def _exact_totals(self) -> Slots:
        half = self.plan.packing.half
        sums = [sum(blocks) for blocks in zip(*(task.blocks() for task in self._tasks), strict=True)]
        slots = sum(block * np.roll(block, -half) for block in sums)
        return np.asarray(self.plan.packing.by_class(np.asarray(slots)).sum(axis=1))


def _rows(name: str, generator: np.random.Generator) -> PartyData:
    size = int(generator.integers(*_SITE_ROWS))
    y_true = generator.random(size) < _POSITIVES
    shift = generator.uniform(0.05, 0.3)
    return PartyData.from_arrays(name, y_true, np.clip(generator.normal(0.4 + shift * y_true, 0.2), 0, 1))


def run(
    name: str,
    protocol: str,
    trials: int,
    seed: int,
    *,
    backend: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Outcome:
    """Play a strategy against honest parties, once a trial.

    Every trial is a session of its own, with its own id, rows and common secret. The CKKS keys are those of all trials,
    which takes nothing from the liar, and gives it earlier sessions under the same keys. Rows and the liar's choices
    follow from the seed; keys do not, and with them neither noise nor what the common secret disguises.

    Parameters
    ----------
    name : str
        One of the strategies.
    protocol : "semi-honest" or "malicious"
    trials, seed : int
    backend : "openfhe", "tenseal" or None
    options : mapping, optional
        Of the protocol, such as ``executions``.

    Raises
    ------
    InputError
        Unknown strategy, protocol or option, or no trials.
    """
    if name not in LIES:
        raise InputError(f"unknown attack {name!r} (there are: {', '.join(NAMES)})")
    if protocol not in PROTOCOLS:
        raise InputError(f"protocol {protocol!r} cannot be attacked (these can: {', '.join(PROTOCOLS)})")
    if trials < 1:
        raise InputError(f"trials must be at least 1, got {trials}")
    stage = _stage(protocol, ckks.choose_backend(backend), tuple(sorted((options or {}).items())))
    refused: Counter[str] = Counter()
    passed = changed = harmless = 0
    for trial in range(trials):
        generator = np.random.default_rng([seed, trial])
        earlier = _earlier(stage, generator) if name in _NEED_EARLIER else None
        parties = HonestParties(stage, generator)
        liar = LyingAggregator(
            parties.manifest, stage.public, LIES[name], generator=generator, rows=parties.rows, earlier=earlier
        )
        message = parties.play(liar)
        changed += not parties.says_the_same(message)
        try:
            auc = parties.read(message)
        except FheAucError as error:
            refused[check_of(error)] += 1
        else:
            wrong = abs(auc - parties.auc) >= HARM
            passed += wrong
            harmless += not wrong
    return Outcome(trials=trials, passed=passed, changed=changed, harmless=harmless, refused=dict(refused))


def check_of(error: FheAucError) -> str:
    """Return the name of the check that an error stands for, as `protocols.red_team.simulated` has it."""
    if isinstance(error, DeserialisationError):
        return "message"
    return next((name for name, phrase in _CHECKS.items() if phrase in str(error)), type(error).__name__)


def _earlier(stage: Stage, generator: np.random.Generator) -> Earlier:
    """Return what an honest session under the same keys has left behind."""
    parties = HonestParties(stage, generator)
    aggregator = LyingAggregator(parties.manifest, stage.public, honest, generator=generator, rows=parties.rows)
    parties.play(aggregator)
    return aggregator.kept
