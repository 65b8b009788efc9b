"""Authenticators: honest sums pass for whoever is counted, and no others do.

How often a wrong one passes is proved by machine: proofs/Authenticators.v; tests/proofs holds it against the code.
"""

from __future__ import annotations

import gc
import itertools
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fhe_auc.base.errors import CapacityError, InputError, ResultCheckError, VerificationError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues, is_prime
from fhe_auc.rlwe.packing import pack
from fhe_auc.sums.pads import pads
from fhe_auc.sums.proof import Authenticator, authenticated, released
from fhe_auc.sums.terms import Factor, Part, Release, Sketch, Sum, Term
from fhe_auc.sums.vector_sums import MODULUS, VectorAuthenticator, VectorSums
from tests.support import plain_sums
from tests.support.plain_sums import PRIMES

SECRET, SESSION = bytes(range(32)), bytes(32)
X, Y = (Factor((Part(name),)) for name in "xy")


def release_of(*factors: Factor) -> Release:
    """One product of entries of two vectors, or of one."""
    names = dict.fromkeys(part.vector for factor in factors for part in factor.parts)
    return Release(Sketch(tuple((name, 1) for name in names)), (Sum("s", (Term(factors),)),))


PRODUCT, CUBE = release_of(X, Y), release_of(X, X, X)


def private(number: int) -> KeyStream:
    return KeyStream(number.to_bytes(32, "big"))


def vector_of(values: Any) -> Residues:
    return np.array(values, np.uint64)


@given(plain_sums.releases(largest=10**9), st.sampled_from(PRIMES[1:]), st.data())
@settings(max_examples=25)
def test_sums_of_any_parties_pass_and_are_those_of_integers(release: Release, prime: int, data: st.DataObject) -> None:
    sketches = data.draw(st.lists(plain_sums.sketches(release.sketch), min_size=1, max_size=5))
    counted = sorted(data.draw(st.sets(st.sampled_from(range(len(sketches))), min_size=1)))
    authenticator = Authenticator(release, SECRET, SESSION, 0, prime)
    sent = [
        authenticator.sketch(party, plain_sums.residues(each, prime), private(party))
        for party, each in enumerate(sketches)
    ]
    pooled = modular.total(np.array([sent[party] for party in counted]), prime, axis=0)
    totals = authenticated(release).totals(pooled, prime)
    assert authenticator.accepts(totals, counted)
    values = [sum(sketches[party][k] for party in counted) for k in range(release.sketch.size)]
    vectors = plain_sums.vectors_of(release.sketch, values)
    assert released(release, totals).tolist() == [plain_sums.value(each, vectors) % prime for each in release.sums]


def test_each_sum_is_checked_by_itself() -> None:
    release = Release(PRODUCT.sketch, (*PRODUCT.sums, Sum("x", (Term((X,)),)), Sum("y squared", (Term((Y, Y)),))))
    prime = PRIMES[-2]
    authenticator = Authenticator(release, SECRET, SESSION, 0, prime)
    sketch = authenticator.sketch(0, vector_of([3, 4]), private(1))
    honest = authenticated(release).totals(sketch, prime)
    for place, (change, right) in itertools.product(range(len(honest)), ((0, True), (1, False))):
        changed = honest.copy()
        changed[place] = (int(changed[place]) + change) % prime
        for many in (0, 1, 2**64 // prime - 1):  # a helper's sums may be any numbers of 64 bits
            changed[place] += np.uint64(many * prime)
            assert authenticator.accepts(changed, [0]) == right
            changed[place] -= np.uint64(many * prime)


@pytest.mark.parametrize("claimed", [[0], [1], [0, 1], [1, 2], [0, 1, 2]])
def test_sums_of_other_parties_than_are_counted_do_not_pass(claimed: list[int]) -> None:
    """Also where the party left out or added has nothing in its sketch."""
    prime = PRIMES[-2]
    authenticator = Authenticator(PRODUCT, SECRET, SESSION, 0, prime)
    sent = [authenticator.sketch(party, vector_of([0, 0]), private(party)) for party in range(3)]
    totals = authenticated(PRODUCT).totals(modular.add(sent[0], sent[2], prime), prime)
    assert authenticator.accepts(totals, [0, 2])
    assert not authenticator.accepts(totals, claimed)


def test_blinders_are_the_party_s_own_and_all_else_follows_from_the_common_secret() -> None:
    one, other, again = (
        Authenticator(CUBE, SECRET, SESSION, 0, PRIMES[-2]).sketch(0, vector_of([5]), private(number))
        for number in (1, 2, 1)
    )
    assert (one != other).tolist() == [False, False, True, True, True]
    assert (again == one).all()


def test_shares_are_pinned_a_common_secret_of_another_length_is_refused_and_none_is_printed() -> None:
    """All parties derive them, on whatever machine and version; all but the secret that they come from is public."""
    sent = Authenticator(CUBE, SECRET, SESSION, 1, PRIMES[-2]).sketch(2, vector_of([7]), private(3))
    assert sent.tolist() == [7, 323020354843, 1980803286876, 536587832847, 2108398925186]
    for secret in (b"", bytes(31)):
        with pytest.raises(InputError, match="32 bytes"):
            Authenticator(PRODUCT, secret, SESSION, 0, 101)
    assert repr(Authenticator(PRODUCT, SECRET, SESSION, 0, 101)) == "Authenticator(...)"


DIGEST = bytes(range(32, 64))


def added(sums: VectorSums, submissions: Iterable[Residues]) -> Residues:
    return modular.total(np.array([*submissions]), sums.modulus, axis=0)


def pad_of(sums: VectorSums, party: int, session: bytes = b"a session's id") -> Residues:
    return pads([party.to_bytes(32, "big")], session, [party], 0, sums.modulus, sums.size)[0]


class Session(NamedTuple):
    """Parties' vectors, and what they send."""

    sums: VectorSums
    parties: VectorAuthenticator
    vectors: list[NDArray[np.int64]]
    sent: list[Residues]

    @classmethod
    def of(cls, vectors: Sequence[Sequence[int]], digest: bytes = DIGEST) -> Session:
        sums = VectorSums(len(vectors[0]), len(vectors))
        parties = VectorAuthenticator(sums, SECRET, digest)
        values = [np.array(each, np.int64) for each in vectors]
        sent = [modular.add(parties.submitted(k, each), pad_of(sums, k), MODULUS) for k, each in enumerate(values)]
        return cls(sums, parties, values, sent)

    def opening(self, counted: Iterable[int]) -> Residues:
        return added(self.sums, (pad_of(self.sums, party) for party in counted))

    def result(self, summed: Sequence[int], opened: Sequence[int] | None = None) -> Residues:
        opening = self.opening(summed if opened is None else opened)
        return modular.subtract(added(self.sums, (self.sent[party] for party in summed)), opening, MODULUS)

    def read(self, result: Residues, counted: Sequence[int], least: int = -MODULUS, most: int = MODULUS) -> list[int]:
        return self.parties.proved_sums(result, counted, least, most).tolist()


@given(st.integers(1, 40), st.integers(1, 9), st.data())
@settings(max_examples=30)
def test_sums_over_any_list_of_parties_are_those_of_integers(entries: int, parties: int, data: st.DataObject) -> None:
    largest = VectorSums(entries, parties).largest
    entry = st.one_of(st.integers(-largest, largest), st.sampled_from([-largest, largest, 0]), st.integers(-9, 9))
    vectors = data.draw(
        st.lists(st.lists(entry, min_size=entries, max_size=entries), min_size=parties, max_size=parties)
    )
    counted = sorted(data.draw(st.sets(st.integers(0, parties - 1), min_size=1)))
    session = Session.of(vectors)
    expected = [sum(vectors[party][k] for party in counted) for k in range(entries)]
    assert session.read(session.result(counted), counted, min(expected), max(expected)) == expected


def test_the_prime_is_the_least_above_2_to_the_41_and_a_thousand_thresholds_take_10_511_bytes() -> None:
    assert [k for k in range(2**41, MODULUS + 1) if is_prime(k)] == [MODULUS]
    assert VectorSums(2000, 100).packed_bytes == len(pack(vector_of([1] * 2002), MODULUS)) == 10_511


def shifted(result: Residues, *entries: int) -> Residues:
    return modular.add(result, np.isin(np.arange(len(result)), entries).astype(np.uint64), MODULUS)


def lies_of(session: Session) -> Mapping[str, tuple[Residues, list[int]]]:
    """What a lying aggregator may return, with the list that it names; nothing of it is right."""
    sums, everybody = session.sums, [0, 1, 2]
    honest = session.result(everybody)
    other_pads = added(sums, (pad_of(sums, party, b"another session's id") for party in everybody))
    doubled = added(sums, [*session.sent, session.sent[1]])
    other = Session.of([each.tolist() for each in session.vectors], digest=bytes(32))
    return {
        "a row added": (shifted(honest, 0), everybody),
        "a row moved": (vector_of([*honest[1::-1], *honest[2:]]), everybody),
        "an entry and both tags": (shifted(honest, 1, 3, 4), everybody),
        "the first tag": (shifted(honest, 3), everybody),
        "the second tag": (shifted(honest, 4), everybody),
        "tags exchanged": (honest[[0, 1, 2, 4, 3]], everybody),
        "all times two": (modular.add(honest, honest, MODULUS), everybody),
        "nothing": (vector_of([0] * sums.size), everybody),
        "not opened": (added(sums, session.sent), everybody),
        "a party left out and named": (session.result([0, 2]), everybody),
        "a party in it and not named": (honest, [0, 2]),
        "another list": (session.result([0, 2]), [0, 1]),
        "a party summed and not opened": (session.result(everybody, [0, 2]), everybody),
        "a party opened and not summed": (session.result([0, 2], everybody), everybody),
        "a party twice": (modular.subtract(doubled, session.opening(everybody), MODULUS), everybody),
        "another session's pads": (modular.subtract(added(sums, session.sent), other_pads, MODULUS), everybody),
        "another session's result": (other.result(everybody), everybody),
        "another session's submission": (
            modular.subtract(added(sums, [*session.sent[:2], other.sent[2]]), session.opening(everybody), MODULUS),
            everybody,
        ),
    }


THREE = Session.of([[5, 0, 7], [1, 2, 3], [40, 50, 60]])


@pytest.mark.parametrize("lie", lies_of(THREE))
def test_every_lie_is_refused(lie: str) -> None:
    result, counted = lies_of(THREE)[lie]
    with pytest.raises(VerificationError, match="so no number is given") as caught:
        THREE.read(result, counted)
    assert caught.value.check == "authenticator"


@pytest.mark.parametrize("counted", [[], [0, 0], [1, 0], [0, 1, 3], [-1, 0]])
def test_what_is_no_list_of_the_session_s_parties_is_refused(counted: list[int]) -> None:
    """Also where the same was summed: the tags of a party that counts twice are those of its vector, twice."""
    twice = added(THREE.sums, [THREE.sent[0]] * 2)
    with pytest.raises(InputError, match=r"no parties|once each|index below"):
        THREE.read(twice, counted)


def test_a_range_is_mentioned_only_where_the_tags_hold() -> None:
    """The same lie gives the same error, whether it takes a sum out of its range or into it."""
    honest, everybody = THREE.result([0, 1, 2]), [0, 1, 2]
    assert THREE.read(honest, everybody, 46, 70) == [46, 52, 70]
    for least, most, outside in ((47, 70, 1), (46, 51, 2), (71, 80, 3)):
        with pytest.raises(ResultCheckError, match=f"{outside} of 3 lie outside {least} to {most}") as caught:
            THREE.read(honest, everybody, least, most)
        assert type(caught.value) is ResultCheckError
    errors = []
    for least, most in ((0, 100), (0, 70), (71, 80), (0, 0)):
        with pytest.raises(VerificationError) as refused:
            THREE.read(shifted(honest, 2), everybody, least, most)
        errors.append((str(refused.value), refused.value.check))
    assert len(set(errors)) == 1


def test_all_is_computed_whatever_fails() -> None:
    """The same functions are called, as often and in the same order, until the verdict."""

    def calls(result: Residues, most: int) -> list[Any]:
        found: list[Any] = []
        gc.disable()  # other packages have it call them, now and then
        sys.setprofile(lambda frame, event, arg: found.append((event, frame.f_code.co_name, str(arg)[:30])))
        try:
            THREE.read(result, [0, 1, 2], 0, most)
        except ResultCheckError:
            pass
        finally:
            sys.setprofile(None)
            gc.enable()
        end = max(k for k, each in enumerate(found) if each[:2] == ("return", "count_nonzero"))
        return [each[:2] for each in found[:end]]

    honest = THREE.result([0, 1, 2])
    expected = calls(honest, 70)
    assert len(expected) > 50
    for wrong in (shifted(honest, 0), shifted(honest, 4)):
        assert calls(wrong, 70) == calls(wrong, 0) == calls(honest, 0) == expected


@pytest.mark.parametrize(
    ("mode", "one", "other", "alike"),
    [
        ("sealed", (1, -1), (0, 0), True),
        ("sealed", (1, 0), (0, 1), True),
        ("sealed", (1, 0), (1, 1), False),
        ("the second is missing", (1, 0), (1, -1), True),
        ("the second is missing", (1, 0), (0, 0), False),
    ],
)
def test_an_aggregator_with_the_parties_secret_sees_their_sum_and_no_vector(
    mode: str, one: tuple[int, int], other: tuple[int, int], alike: bool
) -> None:
    """Over all pads of two parties, what it has depends on the sum over those who count, and on nothing else."""
    prime, sums = 5, VectorSums(1, 2, 5, 1)
    parties = VectorAuthenticator(sums, SECRET, DIGEST)
    common: Any = SimpleNamespace(total=lambda counted: vector_of([[1, 2], [4, 0]])[counted[0]])
    parties._weights, parties._pads = vector_of([[3]]), common
    views: list[Counter[Any]] = []
    for values in (one, other):
        views.append(Counter())
        for first, second in itertools.product(itertools.product(range(prime), repeat=sums.size), repeat=2):
            pads = vector_of(first), vector_of(second)
            opening = modular.add(*pads, prime) if mode == "sealed" else pads[0]
            own = [parties.submitted(party, np.array([values[party]])) for party in (0, 1)]
            sent = [modular.add(each, pads[party], prime) for party, each in enumerate(own)]
            views[-1][str([each.tolist() for each in (*sent, opening)])] += 1
    assert (views[0] == views[1]) is alike


def test_a_submission_is_pinned_and_no_secret_printed() -> None:
    """Another version must read what this one sends: weights and common pads of this secret, session and party."""
    first, tags = [539097126270, 586611958686, 1866372200272], [1656330754960, 1890050858752]
    assert Session.of([[1, 2, 3], [-4, 5, 6]]).sent[1].tolist() == [*first, *tags]
    assert repr(THREE.parties) == "VectorAuthenticator(...)"


VECTOR, NOBODY = np.array([1, 2, 3]), "3 parties; a party that counts has an index below that"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: THREE.parties.submitted(0, VECTOR[:2]), r"3 integers, got int64 \(2,\)"),
        (lambda: THREE.parties.submitted(0, VECTOR * 1.0), "3 integers, got float64"),
        (lambda: THREE.parties.submitted(0, VECTOR[None]), "3 integers"),
        (lambda: THREE.parties.submitted(0, np.array([0, 366503875930, 0])), "1 .* beyond ±366,503,875,929"),
        (lambda: THREE.parties.submitted(0, np.array([0, 0, -(2**63)])), "entry 2 "),
        (lambda: THREE.parties.submitted(3, VECTOR), NOBODY),
        (lambda: pads([bytes(31)], DIGEST, [0], 0, MODULUS, 5), "has 32 bytes"),
        (lambda: VectorAuthenticator(THREE.sums, bytes(31), DIGEST), "has 32 bytes"),
        (lambda: VectorAuthenticator(THREE.sums, b"", DIGEST), "has 32 bytes"),
        (lambda: VectorAuthenticator(THREE.sums, SECRET, b""), "has 32 bytes"),
        (lambda: VectorAuthenticator(THREE.sums, SECRET, bytes(33)), "has 32 bytes"),
        (lambda: VectorSums(0, 2), "at least one of each"),
        (lambda: VectorSums(2, 0), "at least one of each"),
        (lambda: VectorSums(2**20 + 1, 2), "too large"),
        (lambda: VectorSums(2, 2**41), "too large"),
    ],
)
def test_what_cannot_be_sent_opened_or_summed_is_refused(call: Any, text: str) -> None:
    with pytest.raises(CapacityError if "large" in text else InputError, match=text):
        call()
