"""Of 100,000 false proofs none passes, though the liar sees all that servers publish before it fixes its own.

Session after session it guesses where its proofs will be looked at, by what lies in the folder of blobs and on the
wire, and makes each proof vanish at as many guesses as a polynomial of that degree can. Of sessions that have ended it
is even told the queries. Who is told the next query passes every time, so the lies are as good as lies can be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.base.serialise import encode
from fhe_auc.input_proofs.proofs import Query, prove
from fhe_auc.input_proofs.sessions import (
    InputProof,
    InputProofs,
    PartyAtHelper,
    QueryKey,
    Submissions,
    Submitted,
    aggregators_part,
    helpers_part,
    helpers_share,
    joint_seed,
    weights,
)
from fhe_auc.input_proofs.statement import PROOFS
from fhe_auc.rlwe.modular import Residues, add, multiply, subtract, uniform
from fhe_auc.sums.pads import pack, unpack
from fhe_auc_keys.fleet.sealed_answers import AnswersSeal
from tests.support.proved_counts import REAL, oracles_field, statement_of

# Counts 0 and 1 are one column's levels, 2 and 3 another's, of the same rows; 4 is what is left of a cap.
LIED_ABOUT = statement_of(REAL, 5, 2, 8, 8, [{0: 1, 1: 1, 4: 1}, {0: 1, 1: 1, 2: -1, 3: -1}])
CAP = 50
Lie = Callable[[np.random.Generator], list[int]]
"""Digits, some of them no digits; constants stay a cap, and zero."""


def _places(*counts: int) -> list[int]:
    return [each // 8**place % 8 for each in counts for place in (0, 1)]


def honest(draw: np.random.Generator) -> list[int]:
    first, second, third = (int(each) for each in draw.integers(0, 20, 3))
    return _places(
        first, second, third % (first + second + 1), first + second - third % (first + second + 1), 50 - first - second
    )


def any_digit(draw: np.random.Generator) -> list[int]:
    """One digit is any residue; what is left of the cap makes up for it, as if it were a digit."""
    found, place = honest(draw), int(draw.integers(0, 2))
    lie = int(draw.integers(8, REAL))
    change = (lie - found[place]) * 8**place
    found[place] = lie
    return _balanced(found, change)


def wrapped_around(draw: np.random.Generator) -> list[int]:
    """Two counts near half of the prime each, which add up to a count modulo the prime."""
    lie = REAL // 2 + int(draw.integers(1, 1000))
    return [lie, 0, (REAL + 5 - lie) % REAL, 0, *_places(5, 0, CAP - 5)]


def over_the_cap(draw: np.random.Generator) -> list[int]:
    """Digits all, of too many rows."""
    count = CAP + int(draw.integers(1, 14))
    return _places(count, 0, count, 0, 0)


def one_group_against_another(draw: np.random.Generator) -> list[int]:
    """Digits all, and within the cap, but the second column has other rows than the first."""
    moved = int(draw.integers(1, 10))
    return _places(10, 10, 10 + moved, 10, CAP - 20)


def _balanced(digits: list[int], change: int) -> list[int]:
    """What the first count has more, the third has, and the rest less, in their places of ones."""
    digits[4] += change
    digits[8] -= change
    return digits


LIES: list[Lie] = [any_digit, wrapped_around, over_the_cap, one_group_against_another]


@pytest.mark.parametrize("make", LIES)
def test_each_lie_is_false_for_one_reason_alone(make: Lie) -> None:
    """Either a digit is none, or an equation does not hold: no check of the servers' does the other one's work."""
    for seed in range(20):
        digits = make(np.random.default_rng(seed))
        counts = [(digits[each] + 8 * digits[each + 1]) % REAL for each in range(0, 10, 2)]
        equations = (counts[0] + counts[1] + counts[4] - CAP, counts[0] + counts[1] - counts[2] - counts[3])
        assert all(each % REAL < 8 for each in digits) != all(each % REAL == 0 for each in equations)


SHAPE, FIELD = LIED_ABOUT.shape, oracles_field(REAL)
ROOTS = FIELD.roots(SHAPE.points)
GUESSED = SHAPE.coefficients - 1  # points at which one polynomial can vanish


def hashed(*parts: bytes | int) -> bytes:
    return hashlib.sha256(encode(parts)).digest()


def points_of(key: bytes, session: bytes) -> list[int]:
    """Where proofs are looked at under this key."""
    return [int(each) for each in Query(LIED_ABOUT, QueryKey(key), session)._powers[:, 1]]


def pad_of(session: bytes, party: int, seed: bytes) -> Residues:
    return uniform(KeyStream(derived_key(seed, session, b"pad", party)), REAL, LIED_ABOUT.digits)


def proofs_of(session: bytes) -> InputProofs:
    return InputProofs(
        LIED_ABOUT,
        session,
        digits_in=lambda padded: unpack(padded, LIED_ABOUT.digits, REAL),
        pad_of=lambda party, seed: pad_of(session, party, seed),
        constants_of=lambda party: np.array([CAP, 0], np.uint64),
    )


@dataclass
class Liar:
    """What it has seen, in order: bytes, and queries of sessions that have ended."""

    seen: list[bytes] = field(default_factory=lambda: [bytes(32)])
    queries: list[int] = field(default_factory=list)

    def guesses(self, session: bytes, number: int) -> list[int]:
        """As many points as help, by one of several ways of guessing."""
        last = self.seen[-1]
        found: list[int] = []
        if number % 5 == 0:  # where they were
            found = self.queries[-GUESSED:]
        elif number % 5 == 1:  # what stands in the last bytes
            size = 6 * GUESSED
            found = [int.from_bytes(last[at : at + 6], "big") % REAL for at in range(0, min(size, len(last) - 5), 6)]
        elif number % 5 == 2:  # a key that was seen, or the hash of something that was
            for each in self.seen[-GUESSED // 8 :]:
                found += points_of(each[-32:].ljust(32, b"\0"), session) + points_of(hashed(each), session)
        elif number % 5 == 3:  # the right derivation, by secrets that were seen
            fixed = Submissions(1)
            fixed.add(hashed(last))
            for each in self.seen[-GUESSED // 4 :]:
                found += points_of(fixed.query_key(each[:32].ljust(32, b"\0"), session), session)
        stream = KeyStream(hashed(session, number))
        found = list(dict.fromkeys(each for each in found if each not in ROOTS))[:GUESSED]
        return found + [int(each) for each in uniform(stream, REAL, GUESSED - len(found))]


def vanishing_at(points: list[int]) -> Residues:
    """A polynomial that vanishes there and whose calls add up to one."""
    difference = [1]
    for point in points:
        difference = FIELD.product(difference, [-point, 1])
    scale = pow(sum(FIELD.value(difference, root) for root in ROOTS[1:]), -1, REAL)
    return np.array([scale * each % REAL for each in difference], np.uint64)


def false_proofs(
    session: bytes, lie: Lie, number: int, parties: range, points: list[int]
) -> Iterator[tuple[Submitted, bytes]]:
    """Those of so many parties that tell the same lie, with the seeds of their pads."""
    digits = np.array([each % REAL for each in lie(np.random.default_rng(number))], np.uint64)
    seeds = [hashed(session, party) for party in parties]
    padded = [pack(add(digits, pad_of(session, *each), REAL), REAL) for each in zip(parties, seeds, strict=True)]
    parts, blinds = [], [hashed(seed) for seed in seeds]
    for party, seed, blind, sent in zip(parties, seeds, blinds, padded, strict=True):
        parts.append((aggregators_part(blind, session, party, sent), helpers_part(seed, session, party)))
    drawn = [weights(LIED_ABOUT, joint_seed(session, *each)) for each in zip(parties, parts, strict=True)]
    wires = uniform(KeyStream(hashed(session, number)), REAL, len(parties) * PROOFS, SHAPE.wires)
    made = prove(LIED_ABOUT, digits, np.concatenate(drawn), wires)
    polynomials = made[:, SHAPE.wires :]
    every = polynomials[:, :: SHAPE.points].astype(object).sum(axis=1) * SHAPE.points
    off = np.array([[int(each) % REAL] for each in polynomials.astype(object).sum(axis=1) - every], np.uint64)
    made[:, SHAPE.wires :] = add(polynomials, multiply(off, vanishing_at(points), REAL), REAL)
    helpers = np.stack(
        [helpers_share(LIED_ABOUT, seed, session, party) for party, seed in zip(parties, seeds, strict=True)]
    )
    shares = subtract(made.reshape(helpers.shape), helpers, REAL)
    for party, seed, sent, own, blind, share in zip(parties, seeds, padded, parts, blinds, shares, strict=True):
        yield Submitted(party, sent, InputProof(own, blind, pack(share.reshape(-1), REAL))), seed


def accepted(liar: Liar, number: int, parties: int, lies: list[Lie], *, told: bool = False) -> int:
    """How many of so many false proofs pass in a session; `told`: whether the liar is given the query beforehand."""
    session, secret, proofs = hashed(number), hashed(b"secret", number), proofs_of(hashed(number))
    key, sent, ways = QueryKey(hashed(b"known", number)), list[tuple[Submitted, bytes]](), 5 * len(lies)
    for way in range(ways):
        points = liar.guesses(session, way)
        if told:
            points[:PROOFS] = points_of(key, session)
        own = range(way * parties // ways, (way + 1) * parties // ways)
        sent += false_proofs(session, lies[way // 5], number * ways + way, own, points)
    fixed = Submissions(len(sent))
    for submitted, _ in sent:
        proofs.check(*submitted)
        fixed.add(hashed(submitted.party, submitted.padded, encode(submitted.proof)))
    if not told:
        key = fixed.query_key(secret, session)
    answers = proofs.answers(key, (submitted for submitted, _ in sent))
    opened = [
        PartyAtHelper(submitted.party, seed, submitted.proof.parts, own)
        for (submitted, seed), own in zip(sent, answers, strict=True)
    ]
    seal = AnswersSeal(key, session, "blobs")
    liar.seen += [seal.seal(row, row, own) for row, own in enumerate(answers[::50])]  # what lies in the folder
    liar.seen += [fixed.digest, *answers[::50], secret, key]  # and more, once the session has ended
    liar.queries += points_of(key, session)
    return sum(proofs.held(key, opened))


def test_who_is_told_the_query_passes_every_time() -> None:
    assert accepted(Liar(), 0, 40, [any_digit, wrapped_around], told=True) == 40


@pytest.mark.parametrize(
    ("sessions", "parties"), [(3, 100), pytest.param(100, 1000, marks=pytest.mark.slow)], ids=["300", "100,000"]
)
def test_none_of_so_many_false_proofs_passes_whoever_sees_all_that_is_published(sessions: int, parties: int) -> None:
    assert REAL.bit_length() >= 42
    liar = Liar()
    assert sum(accepted(liar, number, parties, LIES) for number in range(sessions)) == 0
    assert len(liar.queries) == PROOFS * sessions
