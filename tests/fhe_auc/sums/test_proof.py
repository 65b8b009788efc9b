"""Authenticators: honest sums pass for whoever is counted, and a wrong one at no more points than its degree.

Small primes are tried exhaustively: what is proved of every prime is counted there.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import InputError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.proof import Authenticator, CommonShares, authenticated, released
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


class Chosen(Authenticator):
    """One whose secrets a test has chosen: the point, and a party's shares of all entries and sums."""

    def __init__(self, release: Release, modulus: int, point: int, shares: Sequence[int]) -> None:
        super().__init__(release, SECRET, SESSION, 0, modulus)
        self._point, self._shares = np.uint64(point), ChosenShares(shares)


class ChosenShares(CommonShares):
    def __init__(self, shares: Sequence[int]) -> None:
        self._chosen = words(shares)

    def total(self, counted: Sequence[int]) -> Residues:
        assert counted == [0]
        return self._chosen


def explaining(release: Release, modulus: int, point: int, sketch: Sequence[int]) -> Chosen:
    """The secrets with this point under which a party sends this sketch, by definition."""
    size, at = release.sketch.size, point
    entries = [(value + at * tag) % modulus for value, tag in zip(sketch[:size], sketch[size : 2 * size], strict=True)]
    blinders, offsets = list(sketch[2 * size :]), []
    for degree in (each.degree for each in release.sums if each.degree > 1):
        own, blinders = blinders[:degree], blinders[degree:]
        offsets.append(sum(at**power * each for power, each in enumerate(own, 1)) % modulus)
    return Chosen(release, modulus, point, [*entries, *offsets])


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


@given(plain_sums.releases(largest=10**9), st.sampled_from(PRIMES[1:]), st.integers(0, 10**6))
@settings(max_examples=25)
def test_a_sum_is_computed_at_all_points_its_polynomial_takes(release: Release, prime: int, seed: int) -> None:
    """H(z) = f(x + x'·z) + Σ μ·z^j, from the definition of f."""
    whole = authenticated(release)
    sketch = plain_sums.random_residues(seed, whole.sketch.size, prime)
    vectors = plain_sums.vectors_of(whole.sketch, sketch.tolist())
    expected = []
    for wanted, z in ((each, z) for each in release.sums for z in range(each.degree + 1)):
        moved = {
            name: [x + z * tag for x, tag in zip(vectors[name], vectors[f"{name}'"], strict=True)]
            for name, _ in release.sketch.vectors
        }
        behind = vectors[f"blinders of {wanted.name}"] if wanted.degree > 1 else []
        total = plain_sums.value(wanted, moved) + sum(each * z**power for power, each in enumerate(behind, 1))
        expected.append(total % prime)
    assert whole.totals(sketch, prime).tolist() == expected


@pytest.mark.parametrize(("release", "prime"), [(PRODUCT, 7), (CUBE, 5)])
def test_a_wrong_number_passes_at_as_many_points_as_its_polynomial_has_roots(release: Release, prime: int) -> None:
    """For every other answer there is, over all points that explain what the party sent: at most its degree."""
    whole, (degree,) = authenticated(release), [each.degree for each in release.sums]
    sketch = [1 + k % (prime - 1) for k in range(whole.sketch.size)]
    honest = whole.totals(words(sketch), prime)
    explanations = [explaining(release, prime, point, sketch) for point in range(1, prime)]
    assert all(each.accepts(honest, [0]) for each in explanations)
    most = 0
    for polynomial in itertools.product(range(prime), repeat=degree + 1):
        shift = [sum(c * z**power for power, c in enumerate(polynomial)) % prime for z in range(degree + 1)]
        totals = modular.add(honest, words(shift), prime)
        passed = sum(each.accepts(totals, [0]) for each in explanations)
        roots = sum(sum(c * at**power for power, c in enumerate(polynomial)) % prime == 0 for at in range(1, prime))
        assert passed == roots
        if polynomial[0]:  # the number that is released is wrong
            most = max(most, passed)
    assert most == degree


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


@pytest.mark.parametrize(("release", "prime", "values"), [(PRODUCT, 5, [2, 3]), (CUBE, 5, [4])])
def test_at_every_point_exactly_one_secret_explains_a_submission(
    monkeypatch: pytest.MonkeyPatch, release: Release, prime: int, values: list[int]
) -> None:
    """So whatever is sent, and whatever the party holds, all points are equally likely to whoever lacks the secret."""
    size, (degree,) = release.sketch.size, [each.degree for each in release.sums]
    for point in range(1, prime):
        found: Counter[tuple[int, ...]] = Counter()
        for drawn in itertools.product(range(prime), repeat=size + degree):  # every share and every own draw there are
            monkeypatch.setattr(modular, "uniform", lambda *_, own=drawn[size + 1 :]: words(own))
            sent = Chosen(release, prime, point, drawn[: size + 1]).sketch(0, words(values), private(0))
            found[tuple(sent.tolist())] += 1
        assert len(found) == prime ** (size + degree)
        assert set(found.values()) == {1}
        assert {each[:size] for each in found} == {tuple(values)}


@pytest.mark.parametrize(("release", "pairs"), [(PRODUCT, ([2, 3], [1, 1], [3, 2], [4, 4])), (CUBE, ([2], [2]))])
@pytest.mark.parametrize("point", [1, 2, 4])
def test_parties_see_nothing_but_the_sum_though_they_know_all_that_they_have_in_common(
    monkeypatch: pytest.MonkeyPatch, release: Release, pairs: Any, point: int
) -> None:
    """Over the draws that are another party's own, what they decrypt depends on nothing else in its sketch."""
    prime, whole, (degree,) = 5, authenticated(release), [each.degree for each in release.sums]
    shares = [*[3, 1][: release.sketch.size], 2]
    seen: dict[int, list[Counter[Any]]] = {}
    for values in pairs:
        view: Counter[Any] = Counter()
        for own in itertools.product(range(prime), repeat=degree - 1):
            monkeypatch.setattr(modular, "uniform", lambda *_, own=own: words(own))
            sketch = Chosen(release, prime, point, shares).sketch(0, words(values), private(0))
            view[tuple(whole.totals(sketch, prime).tolist())] += 1
        assert len(view) == prime ** (degree - 1)
        (number,) = {each[0] for each in view}
        seen.setdefault(number, []).append(view)
    for views in seen.values():
        assert len(views) > 1
        assert all(view == views[0] for view in views)


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
