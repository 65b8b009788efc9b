"""Primes are found, told from products, and taken in order."""

from __future__ import annotations

import math

from fhe_auc.rlwe.primes import is_prime, primes_above, primes_below


def test_primes_are_those_of_trial_division() -> None:
    assert [n for n in range(2000) if is_prime(n)] == [n for n in range(2, 2000) if all(n % d for d in range(2, n))]
    # The least that fool the first 4, 5, 6, 7 (and 8), 9 (to 11) and 12 bases; the last is beyond what is claimed.
    fooling = (3215031751, 2152302898747, 3474749660383, 341550071728321, 3825123056546413051)
    assert not any(map(is_prime, fooling))
    assert is_prime(318665857834031151167461)


def test_primes_of_fifty_bits_are_told_from_products_of_two_of_half_the_size() -> None:
    step = 2 * 8192
    factors = [n for n in range(2**24 + 1, 2**26, 16 * step) if all(n % d for d in range(2, math.isqrt(n) + 1))]
    products = [x * y for x in factors for y in factors]
    assert {each.bit_length() for each in products} >= {49, 50}
    assert not any(map(is_prime, products))


def test_primes_above_and_below_are_all_of_their_residue_class() -> None:
    found = primes_above(1000, 5, 8)
    assert list(found) == [n for n in range(1001, found[-1] + 1) if n % 16 == 1 and is_prime(n)]
    found = primes_below(10, 5, 8)
    assert list(found) == [n for n in range(1023, found[-1] - 1, -1) if n % 16 == 1 and is_prime(n)]
