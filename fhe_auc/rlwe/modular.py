"""Arithmetic modulo a prime of up to 56 bits, on arrays of 64-bit words in [0, modulus); and primes.

These are 1 modulo 2N: modulo such a prime, polynomials are known by their values at the roots of -1
(`fhe_auc.rlwe.polynomials`).
"""

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.keystream import KeyStream

Residues: TypeAlias = NDArray[np.uint64]
Signed: TypeAlias = NDArray[np.int64]
MULTIPLIED_BITS = 56  # of a modulus, at most: `multiply` needs the quotient in double precision
_MOST_OF_THEM = 0.99
_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def reduced(numbers: Residues | Signed, modulus: int | Residues) -> Residues:
    """Return integers, of either sign and below 2^50 times their modulus in size, modulo it; each may have its own."""
    moduli = np.asarray(modulus, np.uint64)
    # numpy's remainders of words take five times as long. Quotients below 2^50 are wrong by one at most, and where they
    # are near a half: what is left lies between -modulus and modulus.
    quotients = numbers.astype(np.float64)
    quotients *= 1 / moduli
    left = _without(np.rint(quotients, out=quotients), numbers, moduli)
    return np.asarray(np.minimum(left, left + moduli))  # negative numbers are large ones, and wrap around


def multiply(x: Residues | Signed, y: Residues | np.uint64, modulus: int | Residues) -> Residues:
    """Return x·y, element by element; x is of either sign and below 2^57 in size, and each element may have a modulus.

    Raises ValueError where a modulus has more than 56 bits.
    """
    moduli = np.asarray(modulus, np.uint64)
    if int(moduli.max()).bit_length() > MULTIPLIED_BITS:
        raise ValueError(f"only modulo primes of at most {MULTIPLIED_BITS} bits")
    # In double precision the quotient, below 2^57, is off by less than 2^7 (five roundings, and what is cut off); what
    # that leaves of the product lies between -2^63 and 2^63, so that it is exact modulo 2^64.
    quotients = x.astype(np.float64) * (np.asarray(y, np.float64) / moduli.astype(np.float64))
    with np.errstate(over="ignore"):  # which numpy tells of scalars only
        product = np.asarray(x.view(np.uint64) * y)
    return reduced(_without(quotients, product, moduli).view(np.int64), moduli)


def _without(quotients: NDArray[np.float64], numbers: Residues | Signed, moduli: Residues) -> Residues:
    """Return numbers less so many times their modulus, whole parts of quotients; all modulo 2^64."""
    whole = np.asarray(quotients.astype(np.int64)).view(np.uint64)
    whole *= moduli
    return np.subtract(numbers.view(np.uint64), whole, out=whole)


def add(x: Residues, y: Residues, modulus: int | Residues) -> Residues:
    """Return x + y, element by element."""
    total = x + y
    return np.asarray(np.minimum(total, total - np.asarray(modulus, np.uint64)))  # smaller ones wrap around


def subtract(x: Residues, y: Residues, modulus: int | Residues) -> Residues:
    """Return x - y, element by element."""
    difference = x - y
    return np.asarray(np.minimum(difference, difference + np.asarray(modulus, np.uint64)))


def total(x: Residues, modulus: int, axis: int = -1) -> Residues:
    """Return the sum along an axis of any length."""
    most = (2**64 - 1) // (modulus - 1)  # so many residues add up in 64 bits
    while x.shape[axis] > most:
        sums = np.add.reduceat(x, range(0, x.shape[axis], most), axis=axis, dtype=np.uint64)
        x = np.asarray(sums % np.uint64(modulus))
    return np.asarray(x.sum(axis=axis, dtype=np.uint64) % np.uint64(modulus))


def powers(base: int, count: int, modulus: int) -> Residues:
    """Return base^0 … base^(count − 1)."""
    found: Residues = np.ones(count, np.uint64)
    known = 1
    while known < count:
        step = np.uint64(pow(base, known, modulus))
        found[known : 2 * known] = multiply(found[: min(known, count - known)], step, modulus)
        known *= 2
    return found


def inverse(x: Residues, prime: int) -> Residues:
    """Return 1/x modulo a prime, element by element; no element may be zero."""
    found, power = np.ones_like(x), x
    for bit in reversed(bin(prime - 2)[2:]):
        if bit == "1":
            found = multiply(found, power, prime)
        power = multiply(power, power, prime)
    return found


def signed(x: Residues, modulus: int) -> Signed:
    """Return residues as integers between -modulus/2 and modulus/2."""
    return np.where(x > modulus // 2, x - np.uint64(modulus), x).view(np.int64)


def residues(values: Sequence[int] | NDArray[np.int64], modulus: int) -> Residues:
    """Return integers of either sign modulo `modulus`."""
    return np.mod(np.asarray(values, np.int64), np.int64(modulus)).astype(np.uint64)


def centred(parts: Sequence[Residues], moduli: Sequence[int]) -> list[int]:
    """Return the integers around zero, up to half of Π moduli in size, with these residues: Chinese remainder.

    `parts` are of one length, one for each modulus, all odd; no two of these have a divisor in common.
    """
    modulus, found = math.prod(moduli), [0] * len(parts[0])
    for part, own in zip(parts, moduli, strict=True):
        weight = modulus // own * pow(modulus // own, -1, own)
        found = [known + value * weight for known, value in zip(found, part.tolist(), strict=True)]
    return [(each + modulus // 2) % modulus - modulus // 2 for each in found]


def uniform(stream: KeyStream, modulus: int, *shape: int) -> Residues:
    """Return independent residues, exactly uniform if the stream's words are."""
    found = np.empty(shape, np.uint64)
    fill(stream, (modulus,), found.reshape(1, -1))
    return found


def fill(stream: KeyStream, moduli: Sequence[int], rows: Residues) -> None:
    """Write such residues into an array's rows, of one modulus each."""
    # Draws of as many bits as the modulus has would be thrown away too often where it is not just below a power of two;
    # draws of 64 bits, below its largest multiple, hardly ever are.
    for row, modulus in zip(rows, moduli, strict=True):
        bits = modulus.bit_length()
        bits = bits if modulus > _MOST_OF_THEM * 2**bits else 64
        limit = 2**bits // modulus * modulus
        drawn = row
        while True:
            stream.fill(drawn)
            if bits < 64:
                drawn &= np.uint64(2**bits - 1)
            if int(drawn.max(initial=0)) < limit:
                break
            kept = drawn[drawn <= np.uint64(limit - 1)]
            drawn[: len(kept)] = kept
            drawn = drawn[len(kept) :]  # these once more
        if limit != modulus:
            row[:] = reduced(row, modulus) if modulus > 2**14 else row % np.uint64(modulus)


@lru_cache(maxsize=64)
def is_prime(number: int) -> bool:
    """Whether a number below 2^64 is prime.

    Miller and Rabin's test; up to 318,665,857,834,031,151,167,461, which is above 2^78, these twelve bases decide
    (Sorenson and Webster, Math. Comp. 86, 2017).
    """
    if number in _WITNESSES or number < 2:
        return number > 1
    twos = (number - 1 & 1 - number).bit_length() - 1
    for base in _WITNESSES:
        power = pow(base, number - 1 >> twos, number)
        if power != 1 and number - 1 not in (pow(power, 2**square, number) for square in range(twos)):
            return False
    return number % 2 == 1


def primes_above(least: int, count: int, ring_dimension: int) -> tuple[int, ...]:
    """Return the `count` smallest primes above `least` that are 1 modulo 2N, ascending."""
    step = 2 * ring_dimension
    candidates = itertools.count(least // step * step + 1, step)
    return tuple(islice((each for each in candidates if each > least and is_prime(each)), count))


def primes_below(bits: int, count: int, ring_dimension: int) -> tuple[int, ...]:
    """Return the `count` largest primes of so many bits that are 1 modulo 2N, descending."""
    step = 2 * ring_dimension
    return tuple(islice(filter(is_prime, itertools.count(2**bits - step + 1, -step)), count))
