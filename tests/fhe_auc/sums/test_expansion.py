"""Sums of products of differences, expanded: as in Python's integers, in as few encrypted numbers as there can be."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.sums.expansion import coefficients, encrypted_numbers, monomials
from fhe_auc.sums.proof import authenticated
from fhe_auc.sums.terms import Factor, Part, Release, Sketch, Sum, Term
from tests.support import plain_sums
from tests.support.plain_sums import PRIMES

A, B, C = (Factor((Part(name),)) for name in "abc")
BELOW = Factor((Part("a", "below"), Part("a", "above", -1)))


def test_an_entry_of_a_base_takes_one_number_products_of_two_more_and_a_sum_one() -> None:
    ones = {(A,): 0, (A, A): 1, (A, B): 2, (A, BELOW): 1, (A, A, A): 2, (A, B, A): 4, (A, B, C): 6, (A, BELOW, B): 5}
    for entries in (1, 10):
        lengths, constants = dict.fromkeys("abc", entries), Factor(constants=(2,) * entries)
        some = {(A, constants): 0, (A, constants, A): 1, (constants, A, B): 2}
        for factors, numbers in (ones | some).items():
            assert encrypted_numbers(Sum.product("s", *factors), lengths) == numbers * entries + 1


def test_terms_share_bases_and_a_row_of_a_table_is_encrypted_once() -> None:
    lengths = {"a": 3, "b": 3, "t": 9}
    twice = Sum("s", (Term((A, B)), Term((B, BELOW))))
    assert encrypted_numbers(twice, lengths) == 3 + 3 + 1
    rows, columns = Factor((Part("a"),), repeat=3), Factor((Part("b"),), times=3)
    assert encrypted_numbers(Sum.product("s", Factor((Part("t"),)), rows, columns), lengths) == 9 + 3 + 3 + 3 * 9 + 1
    sums = (
        Sum.product("difference", A, Factor((Part("b", "below"), Part("b", "above", -1)))),
        Sum.product("ties", A, B),
    )
    release = authenticated(Release(Sketch((("a", 3), ("b", 3))), sums))
    for one, other in zip(release.sums[:3], release.sums[3:], strict=True):
        assert one.bases == other.bases  # at z = 0, 1 and 2


@given(plain_sums.releases(), st.sampled_from(PRIMES), st.integers(0, 2**60))
@settings(max_examples=40)
def test_coefficients_times_monomials_give_the_difference_s_product(release: Release, prime: int, seed: int) -> None:
    """Of A from any V, and B from any M, both uniform. All are in range."""
    pooled, pad = (plain_sums.random_residues(seed + k, release.sketch.size, prime) for k in (0, 1))
    difference = [(v - m) % prime for v, m in zip(pooled.tolist(), pad.tolist(), strict=True)]
    vectors = plain_sums.vectors_of(release.sketch, difference)
    clear, hidden = release.evaluate(pooled, prime), release.evaluate(pad, prime)
    for wanted in release.sums:
        constant, factors = coefficients(wanted, clear, prime)
        encrypted = monomials(wanted, hidden, prime)
        assert [each.shape for each in (*factors, constant)] == [*(each.shape for each in encrypted), (1,)]
        assert factors[-1].tolist() == [1]
        assert sum(map(len, encrypted)) == encrypted_numbers(wanted, release.sketch.lengths)
        assert all(int(each.max()) < prime for each in (constant, *factors, *encrypted))
        pairs = zip(np.concatenate(factors).tolist(), np.concatenate(encrypted).tolist(), strict=True)
        found = int(constant[0]) + sum(x * y for x, y in pairs)
        assert (found - plain_sums.value(wanted, vectors)) % prime == 0
