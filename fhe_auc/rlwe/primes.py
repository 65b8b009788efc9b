"""Primes that are 1 modulo 2N: modulo these, polynomials are known by their values at the roots of -1."""

import itertools
from itertools import islice

_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def is_prime(number: int) -> bool:
    """Whether a number below 2^64 is prime.

    Miller and Rabin's test; up to 318,665,857,834,031,151,167,461, which is above 2^78, these twelve bases decide
    (Sorenson and Webster, Math. Comp. 86, 2017).
    """
    if number < 2:
        return False
    if number in _WITNESSES:
        return True
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in _WITNESSES:
        power = pow(base, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


def primes_above(least: int, count: int, ring_dimension: int) -> tuple[int, ...]:
    """Return the `count` smallest primes above `least` that are 1 modulo 2N, ascending."""
    step = 2 * ring_dimension
    candidates = itertools.count(least // step * step + 1, step)
    return tuple(islice((each for each in candidates if each > least and is_prime(each)), count))


def primes_below(bits: int, count: int, ring_dimension: int) -> tuple[int, ...]:
    """Return the `count` largest primes of so many bits that are 1 modulo 2N, descending."""
    step = 2 * ring_dimension
    return tuple(islice(filter(is_prime, itertools.count(2**bits - step + 1, -step)), count))
