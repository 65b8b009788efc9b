"""Expanded products are the products; and there are no more monomials than there have to be."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.sums.monomials import coefficients, monomial_count, monomials
from fhe_auc.sums.terms import Factor, Part, Release, Term
from tests.support import plain_sums
from tests.support.plain_sums import PRIMES

A, B, C = (Factor((Part(name),)) for name in "abc")
ONES = Factor(constants=(1, 2))


def test_an_entry_takes_as_few_monomials_as_its_different_factors_ask_for() -> None:
    factors = (A,), (A, A), (A, B), (A, A, A), (A, B, A), (A, B, C), (A, ONES), (A, ONES, A), (ONES, A, B)
    assert [monomial_count(Term(each)) for each in factors] == [1, 2, 3, 3, 5, 7, 1, 2, 3]


@given(plain_sums.releases(), st.sampled_from(PRIMES), st.integers(0, 2**60))
@settings(max_examples=30)
def test_coefficients_times_monomials_add_up_to_the_product_at_the_difference(
    release: Release, prime: int, seed: int
) -> None:
    """Entry by entry: of A from any V, and B from any M, both uniform. All are as long as the term, and in range."""
    pooled, pad = (plain_sums.random_residues(seed + k, release.sketch.size, prime) for k in (0, 1))
    difference = [(v - m) % prime for v, m in zip(pooled.tolist(), pad.tolist(), strict=True)]
    vectors = plain_sums.vectors_of(release.sketch, difference)
    clear, hidden = release.evaluate(pooled, prime), release.evaluate(pad, prime)
    for wanted in release.sums:
        for term in wanted.terms:
            constant, factors = coefficients(term, clear, prime)
            encrypted = monomials(term, hidden, prime)
            assert len(factors) == len(encrypted) == monomial_count(term)
            for each in (constant, *factors, *encrypted):
                assert each.shape == (term.length(dict(release.sketch.vectors)),)
                assert int(each.max()) < prime
            for k in range(plain_sums.term_length(term, vectors)):
                expected = 1
                for factor in term.factors:
                    expected *= plain_sums.entry(factor, vectors, k)
                pairs = zip(factors, encrypted, strict=True)
                assert (int(constant[k]) + sum(int(x[k]) * int(y[k]) for x, y in pairs) - expected) % prime == 0
