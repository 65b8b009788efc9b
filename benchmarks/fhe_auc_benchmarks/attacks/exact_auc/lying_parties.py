"""Lies of a party in exact sessions with a helper, by name, and the party that tells them.

A lie changes what an honest party makes at one step or at several: its counts, their digits, what its proof is made of.
Everything after that step is made as an honest party makes it: the tags of `verified` are those of the false counts,
and both parts of the joint randomness fit, unless the lie is about these.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from fhe_auc.base.errors import InputError
from fhe_auc.input_proofs.sessions import (
    BLIND_BYTES,
    PART_BYTES,
    aggregators_part,
    helpers_part,
    joint_seed,
    padded_proof,
    weights,
)
from fhe_auc.input_proofs.statement import Statement
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe.modular import Residues, add, multiply, residues, subtract, total
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.computation import Submission
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import Party
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.roles.helped import HelpedParty, helped_secrets
from fhe_auc_protocols.exact_auc.computations import ExactComputation, ExactTask
from fhe_auc_protocols.exact_auc.exact_plan import ExactPlan
from fhe_auc_protocols.exact_auc.exact_protocols import rounded
from fhe_auc_protocols.exact_auc.proved_counts import ProvedCounts

_NEGATIVES = 0  # the class whose counts most lies change
_LOWEST, _HIGHEST = 0, -1  # bins


class View(NamedTuple):
    """What a lie may look at, for one prime; `amount` is how many rows it is to be about."""

    plan: ExactPlan
    prime: int
    amount: int


@dataclass(frozen=True, repr=False)
class Making:
    """What a party's proof is made of; `chosen` are parts of the joint randomness, None where it follows from these."""

    statement: Statement
    session: bytes  # the manifest's digest
    party: int
    digits: Residues
    padded: bytes
    seed: bytes
    pad: Residues  # of the proof
    blind: bytes
    chosen: tuple[bytes | None, bytes | None] = None, None  # the aggregator's, the helper's

    @property
    def weights(self) -> Residues:
        """The joint randomness."""
        (found,) = weights(self.statement, [joint_seed(self.session, self.party, self._parts)])
        return np.asarray(found)

    def proof(self) -> bytes:
        """Return the proof."""
        padded = padded_proof(self.statement, self.digits, self.weights, self.pad)
        return b"".join((*self._parts, self.blind, padded))

    @property
    def _parts(self) -> tuple[bytes, bytes]:
        of_aggregator, of_helper = self.chosen
        return (
            of_aggregator or aggregators_part(self.blind, self.session, self.party, self.padded),
            of_helper or helpers_part(self.seed, self.session, self.party),
        )


class Lie(NamedTuple):
    """One way of lying, step by step; None: that step is honest.

    counts : of the sketch, shape (models, groups, classes, bins)
    digits : of the counts as submitted and of what is left of the cap, shape (counts, digits); the lowest comes first
    making : what the proof is made of; its digits have the shape (digits,)
    """

    what: str
    counts: Callable[[Residues, View], Residues] | None = None
    digits: Callable[[Residues, View], Residues] | None = None
    making: Callable[[Making, View], Making] | None = None
    other_seed: bool = False  # the blob has another seed than that of the pad
    spoils_tags: bool = False
    unbound: bool = False  # its proof is not about what it submits: the aggregator sees that without the helper
    no_proof: bool = False

    @property
    def on_proofs(self) -> bool:
        """Whether it makes sense only where parties prove their counts; elsewhere false counts are told alone."""
        return self.counts is None and (self.no_proof or (self.digits, self.making) != (None, None))

    def check(self, name: str, plan: ExactPlan) -> None:
        """Raise `InputError` where a session with this plan has nothing to lie about in this way."""
        if plan.keys != "helper":
            raise InputError(f"attack {name!r} is a party's, which are played with a helper (keys='helper')")
        if self.on_proofs and not plan.caps:
            raise InputError(f"attack {name!r} is on proofs: give row_caps")
        if self.spoils_tags and not plan.authenticated:
            raise InputError(f"attack {name!r} is on tags, and protocol 'exact' has none")


def _entered(counts: Residues, view: View, entry: int, amount: int) -> Residues:
    """Return counts with more negatives in a bin: of all rows, and of the first level of each column."""
    starts = accumulate((len(each.levels) for each in view.plan.analysis.by[:-1]), initial=1)
    found, groups = counts.copy(), [0, *(starts if view.plan.analysis.by else ())]
    more = residues([amount], view.prime)
    found[:, groups, _NEGATIVES, entry] = add(found[:, groups, _NEGATIVES, entry], more, view.prime)
    return found


def _negative(counts: Residues, view: View) -> Residues:
    return _entered(counts, view, _LOWEST, -view.amount)


def _halves(counts: Residues, view: View) -> Residues:
    half = (view.prime + 1) // 2
    return _entered(_entered(counts, view, _LOWEST, half), view, _HIGHEST, half)


def _wrapped(counts: Residues, view: View) -> Residues:
    return _entered(_negative(counts, view), view, _HIGHEST, view.amount)


def _too_many(counts: Residues, view: View) -> Residues:
    return _entered(counts, view, _HIGHEST, max(view.amount, 1 + max(view.plan.caps, default=0)))


def _nothing_left(digits: Residues, view: View) -> Residues:
    found = digits.copy()
    found[-1] = 0
    return found


def _in_lowest_digits(digits: Residues, view: View) -> Residues:
    """Return digits of which each lowest one is the count itself."""
    found = np.zeros_like(digits)
    places = np.array([pow(_base(view), place, view.prime) for place in range(digits.shape[1])], np.uint64)
    found[:, 0] = total(multiply(digits, places, view.prime), view.prime)
    return _nothing_left(found, view)


def _carried(digits: Residues, view: View) -> Residues:
    """Return other digits of the same count, a base too many and a digit too few; of one digit: of another count."""
    found, place = digits.copy(), min(1, digits.shape[1] - 1)
    found[0, 0] = (digits[0, 0] + np.uint64(_base(view))) % np.uint64(view.prime)
    found[0, place] = (found[0, place] + np.uint64(view.prime - 1)) % np.uint64(view.prime)
    return found


def _base(view: View) -> int:
    return 2 if view.plan.proved is None else view.plan.proved.statement.base


def _earlier(making: Making, view: View) -> Making:
    return replace(making, session=secrets.token_bytes(len(making.session)))


def _anothers(making: Making, view: View) -> Making:
    return replace(making, party=(making.party + 1) % view.plan.parties)


def _of_other_counts(making: Making, view: View) -> Making:
    """Return the making of a proof that holds, of counts that it does not submit: all its rows are left of its cap."""
    digits = np.zeros_like(making.digits)
    length = making.statement.lengths[-1]
    cap = np.zeros(making.statement.entries, np.int64)
    cap[-1] = view.plan.cap_of(making.party)
    digits[-length:] = making.statement.digits_of(cap)[-length:]
    return replace(making, digits=digits)


def _chosen(aggregators: bool, helpers: bool, making: Making, view: View) -> Making:
    parts = [secrets.token_bytes(PART_BYTES) if chosen else None for chosen in (aggregators, helpers)]
    return replace(making, chosen=(parts[0], parts[1]))


LIES: dict[str, Lie] = {
    "party-negative": Lie("count less than zero negatives in the lowest bin", _negative),
    "party-halves": Lie("count half a negative more in two bins each", _halves),
    "party-wrap-around": Lie("move negatives that it has not; its counts add up to its rows modulo t", _wrapped),
    "party-over-cap": Lie("count more rows than its cap, all digits in range", _too_many, _nothing_left),
    "party-over-cap-slack": Lie("count more rows than its cap, and say that less than zero are left", _too_many),
    "party-over-cap-digits": Lie("count more rows than its cap, in digits out of range", _too_many, _in_lowest_digits),
    "party-digits": Lie("write the right counts in digits out of range", digits=_carried),
    "party-no-proof": Lie("send no proof", unbound=True, no_proof=True),
    "party-replayed-proof": Lie("send the proof of an earlier session", making=_earlier, unbound=True),
    "party-anothers-proof": Lie("send the proof of another party", making=_anothers, unbound=True),
    "party-other-counts": Lie("prove other counts than it submits", making=_of_other_counts),
    "party-chosen-aggregators-part": Lie(
        "choose the aggregator's part of the randomness", making=partial(_chosen, True, False), unbound=True
    ),
    "party-chosen-helpers-part": Lie(
        "choose the helper's part of the randomness", making=partial(_chosen, False, True)
    ),
    "party-chosen-parts": Lie("choose both parts of the randomness", making=partial(_chosen, True, True), unbound=True),
    "party-other-seed": Lie("seal another seed than that of its pad", other_seed=True),
    "party-tags": Lie("send a tag that does not fit", spoils_tags=True),
}
"""By name."""


def lying_party(manifest: Manifest, material: bytes, data: PartyData, lie: Lie, rows: int) -> Party[Evaluation]:
    """Return a party that tells a lie, of about a tenth of `rows`; `material` is as for `Protocol.party`."""
    own, computation = helped_secrets(material, manifest), LyingComputation(manifest, lie, rows)
    task = LyingTask(manifest, rounded(data, manifest), computation)
    return Party(manifest, data.name, HelpedParty(manifest, computation, own, task))


class LyingComputation(ExactComputation):
    """Pads and proves what a lie makes of a party's counts."""

    def __init__(self, manifest: Manifest, lie: Lie, rows: int) -> None:
        super().__init__(manifest)
        self._lie = lie
        self._views = [View(self.plan, prime, max(1, rows // 10)) for prime in self.primes]

    def false_counts(self, sketches: Iterable[Residues]) -> list[Residues]:
        """Return a party's sketches with the counts that it claims, modulo the first prime, which has them all."""
        if self._lie.counts is None:
            return list(sketches)
        (first, *others), view, shape = sketches, self._views[0], self._shape
        size = int(np.prod(shape))
        false = self._lie.counts(first[:size].reshape(shape).copy(), view).reshape(-1)
        added = subtract(false, first[:size], view.prime).reshape(shape)[:, 0]
        claimed = np.concatenate([false, first[size:]])
        self._fit_signs(claimed, added, view.prime)
        return [claimed, *others]

    def _fit_signs(self, sketch: Residues, added: Residues, prime: int) -> None:
        """Give all rows that are added, (models, labels, bins), the sign 1: else the lie would show there, too."""
        ties = self.plan.sums.signs
        start = ties.counts
        if not (ties.proved and ties.buckets):
            return
        signs = sketch[start:][: sum(length for _, length in ties.vectors)]
        for at, label in np.ndindex(*added.shape[:2]):
            in_buckets = np.zeros(ties.buckets, object)
            np.add.at(in_buckets, ties.bucket_of[ties.wide], added[at, label, ties.wide].astype(object))
            of_model = signs.reshape(len(added), -1, 2, 2, ties.buckets)[at, :, 0, label]
            of_model[:] = (of_model + in_buckets) % prime

    def under_pad(self, index: int, seed: bytes, values: Sequence[Residues]) -> Submission:
        """Return what the party submits."""
        encoded = [own.copy() for own in values]
        if self._lie.spoils_tags:
            for own, release in zip(encoded, self.plan.releases, strict=True):
                own[release.sketch.size] ^= np.uint64(1)
        proved = self.proved
        if proved is not None:
            digits = self._digits(encoded[0], self.plan.cap_of(index), proved)
            encoded = [np.concatenate([digits, *proved.others(encoded[0])])]
        of_pad = secrets.token_bytes(SEED_BYTES) if self._lie.other_seed else seed
        parts = self.padded(encoded, self.pads([index], [of_pad]))
        if proved is None or self.proofs is None or self._lie.no_proof:
            return Submission(parts)
        pad, blind = self.pads([index], [seed])[0][0, -self.proofs.size :], secrets.token_bytes(BLIND_BYTES)
        making = Making(proved.statement, self.manifest.digest, index, digits, parts[0], seed, pad, blind)
        if self._lie.making is not None:
            making = self._lie.making(making, self._views[0])
        return Submission(parts, making.proof())

    def _digits(self, sketch: Residues, cap: int, proved: ProvedCounts) -> Residues:
        """Return the digits of a sketch's counts; a count that has none is its own lowest digit."""
        statement, lengths = proved.statement, proved.statement.lengths
        submitted = residues(proved.numbers_of(sketch, cap), statement.prime)
        places = np.array([statement.base**place for place in range(int(lengths.max()))], np.uint64)
        found = submitted[:, None] // places % np.uint64(statement.base)
        odd = submitted >= np.uint64(statement.base) ** lengths.astype(np.uint64)
        found[odd, 0], found[odd, 1:] = submitted[odd], 0
        if self._lie.digits is not None:
            found = self._lie.digits(found, self._views[0])
        return found[np.arange(len(places)) < lengths[:, None]]

    @property
    def _shape(self) -> tuple[int, int, int, int]:
        analysis = self.plan.analysis
        return len(analysis.models), len(analysis.groups), analysis.classes_of_rows, self.plan.thresholds


class LyingTask(ExactTask):
    """Counts as the lie says; its authenticators are those of these counts."""

    def __init__(self, manifest: Manifest, data: PartyData, computation: LyingComputation) -> None:
        super().__init__(manifest, data)
        self._computation = computation

    def sketches(self) -> list[Residues]:
        """Return the sketch that the lie makes, for each prime."""
        return self._computation.false_counts(super().sketches())

    def check_counts(self, encoded: Sequence[Residues]) -> None:
        """Check nothing."""
