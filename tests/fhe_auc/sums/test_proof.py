"""Authenticators: honest sums pass for whoever is counted, and no others do.

How often a wrong one passes is proved by machine: proofs/Authenticators.v; tests/proofs holds it against the code.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import InputError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.proof import Authenticator, authenticated, released
from fhe_auc.sums.terms import Factor, Part, Release, Sketch, Sum, Term
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


def words(values: Sequence[int]) -> Residues:
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
    sketch = authenticator.sketch(0, words([3, 4]), private(1))
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
    sent = [authenticator.sketch(party, words([0, 0]), private(party)) for party in range(3)]
    totals = authenticated(PRODUCT).totals(modular.add(sent[0], sent[2], prime), prime)
    assert authenticator.accepts(totals, [0, 2])
    assert not authenticator.accepts(totals, claimed)


def test_a_party_that_counts_twice_is_refused_though_all_that_is_linear_fits_and_so_are_no_parties() -> None:
    authenticator, release = Authenticator(release_of(X), SECRET, SESSION, 0, 101), authenticated(release_of(X))
    sent = authenticator.sketch(0, words([3]), private(0))
    doubled = release.totals(modular.add(sent, sent, 101), 101)
    with pytest.raises(InputError, match="once each"):
        authenticator.accepts(doubled, [0, 0])
    with pytest.raises(InputError, match="no parties"):
        authenticator.accepts(doubled, [])


def test_blinders_are_the_party_s_own_and_all_else_follows_from_the_common_secret() -> None:
    one, other, again = (
        Authenticator(CUBE, SECRET, SESSION, 0, PRIMES[-2]).sketch(0, words([5]), private(number))
        for number in (1, 2, 1)
    )
    assert (one != other).tolist() == [False, False, True, True, True]
    assert (again == one).all()


def test_every_secret_session_prime_and_party_has_shares_of_its_own() -> None:
    prime, zeros = PRIMES[-2], words([0, 0])
    made = [
        Authenticator(PRODUCT, secret, session, which, prime).sketch(party, zeros, private(0))[2:4].tolist()
        for secret in (SECRET, bytes(32))
        for session in (SESSION, SECRET)
        for which in (0, 1)
        for party in (0, 1)
    ]
    assert len({entry for each in made for entry in each}) == 2 * len(made)


def test_shares_are_pinned_a_common_secret_of_another_length_is_refused_and_none_is_printed() -> None:
    """All parties derive them, on whatever machine and version; all but the secret that they come from is public."""
    sent = Authenticator(CUBE, SECRET, SESSION, 1, PRIMES[-2]).sketch(2, words([7]), private(3))
    assert sent.tolist() == [7, 323020354843, 1980803286876, 536587832847, 2108398925186]
    for secret in (b"", bytes(31)):
        with pytest.raises(InputError, match="32 bytes"):
            Authenticator(PRODUCT, secret, SESSION, 0, 101)
    assert repr(Authenticator(PRODUCT, SECRET, SESSION, 0, 101)) == "Authenticator(...)"
