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

from fhe_auc.base.keystream import KeyStream, fill_rows

Residues: TypeAlias = NDArray[np.uint64]
Signed: TypeAlias = NDArray[np.int64]
MULTIPLIED_BITS = 56  # of a modulus, at most: `multiply` needs the quotient in double precision
_ONCE_BITS = 50  # of a modulus, at most, where one quotient is enough
_BLOCK = 2**15  # residues or limbs that are worked on at a time
_ALONE, _ALONE_VECTOR = 2**18, 2**13  # products below which OpenBLAS starts no threads; with a vector
_EXACT_BITS = 52  # integers up to 2^52 in size are exact in double precision, with a bit to spare
_MOST_OF_THEM = 0.99
_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def reduced(numbers: Residues | Signed, modulus: int | Residues) -> Residues:
    """Return integers, of either sign and below 2^50 times their modulus in size, modulo it; each may have its own."""
    # numpy's remainders of words take five times as long. Quotients below 2^50 are wrong by one at most, and where they
    # are near a half: what is left lies between -modulus and modulus.
    moduli = np.asarray(modulus, np.uint64)
    return _left(numbers.view(np.uint64), np.asarray(numbers * (1 / moduli)), moduli)


def multiply(x: Residues | Signed, y: Residues | np.uint64, modulus: int | Residues) -> Residues:
    """Return x·y, element by element; x is of either sign and below 2^57 in size, and each element may have a modulus.

    Raises ValueError where a modulus has more than 56 bits.
    """
    moduli = np.asarray(modulus, np.uint64)
    if int(moduli.max()).bit_length() > MULTIPLIED_BITS:
        raise ValueError(f"only modulo primes of at most {MULTIPLIED_BITS} bits")
    # In double precision the quotient, below 2^57, is off by less than 2^7 (five roundings, and what is cut off); what
    # that leaves of the product lies between -2^63 and 2^63, so that it is exact modulo 2^64. Few arrays are made here:
    # the pages of large ones, which come and go, would take most of the time.
    quotients = np.asarray(x * (np.asarray(y, np.float64) / moduli))
    whole = np.asarray(quotients.astype(np.int64)).view(np.uint64)
    whole *= moduli
    with np.errstate(over="ignore"):  # which numpy tells of scalars only
        np.subtract(x.view(np.uint64) * y, whole, out=whole)
    return _left(whole, np.multiply(whole.view(np.int64), 1 / moduli, out=quotients), moduli)


def product(x: Residues, y: Residues | np.uint64, prime: int) -> Residues:
    """Return x·y of residues modulo one prime, element by element; `multiply` in half the time, up to 50 bits."""
    if prime.bit_length() > _ONCE_BITS:
        return multiply(x, y, prime)
    # The quotient is off by at most 3/8 before it is rounded: what is left lies between -prime and prime.
    return _left(x * y, x * (np.asarray(y, np.float64) * (1 / prime)), np.asarray(prime, np.uint64))


def _left(numbers: Residues, quotients: NDArray[np.float64], moduli: Residues) -> Residues:
    """Return numbers less rounded quotients, which are overwritten, times their moduli; modulo these.

    What is left lies between -modulus and modulus.
    """
    np.rint(quotients, out=quotients)
    whole = np.asarray(quotients.astype(np.int64)).view(np.uint64)
    whole *= moduli
    np.subtract(numbers, whole, out=whole)
    above = np.add(whole, moduli, out=quotients.view(np.uint64))
    return np.asarray(np.minimum(whole, above, out=whole))  # negative numbers are large ones, and wrap around


class Matrix:
    """A matrix y of residues modulo a prime of up to 56 bits, shape (K, M), that others are multiplied with.

    A residue x is cut into L limbs of w bits: x = Σ_l x_l·2^(w·l). So x·y is the sum of x_l·(2^(w·l)·y), modulo the
    prime. These, from −prime/2 to prime/2, are cut likewise, into limbs from −2^(w − 1) on. That leaves one product of
    matrices of doubles, L·K by L·M. No sum in it is above K·L·2^(2·w − 1) ≤ 2^52 in size: in whatever order BLAS adds,
    all is exact.
    """

    def __init__(self, y: Residues, prime: int) -> None:
        self._prime, bits, rows = prime, prime.bit_length(), len(y)
        self._limbs, self._width = next(
            (limbs, width)
            for limbs, width in ((limbs, -(-bits // limbs)) for limbs in itertools.count(1))
            if rows * limbs << 2 * width - 1 <= 1 << _EXACT_BITS
        )
        half, above = 1 << self._width - 1, [y]
        while len(above) < self._limbs:
            above.append(product(above[-1], np.uint64(2**self._width % prime), prime))
        shifted = signed(np.concatenate(above), prime)
        cut = self._cut(shifted + sum(half << limb * self._width for limb in range(self._limbs - 1)))
        cut[:, :-1] -= half
        self._cut_y = cut.reshape(len(shifted), -1)

    def after(self, x: Residues) -> Residues:
        """Return x·y, shape (…, M), of x of the shape (…, K)."""
        rows = x.reshape(-1, x.shape[-1])
        found = np.empty((len(rows), self._cut_y.shape[1] // self._limbs), np.uint64)
        size = max(1, _BLOCK // max(self._cut_y.shape))  # larger arrays are slower: they come and go by pages
        for start in range(0, len(rows), size):
            block = slice(start, start + size)
            cut = self._cut(rows[block])
            found[block] = self._joined(self._times(cut.reshape(len(cut), -1)))
        return found.reshape(*x.shape[:-1], -1)

    def _times(self, cut: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product of limbs, by pieces for which OpenBLAS starts no threads."""
        # These wait actively (findings/numpy-a-small-product-now-and-then-keeps-another-core-busy.sh).
        (rows, inner), columns = cut.shape, self._cut_y.shape[1]
        sums = np.zeros((rows, columns))
        if rows == 1:
            step = max(1, _ALONE_VECTOR // columns)
            for start in range(0, inner, step):
                sums += cut[:, start : start + step] @ self._cut_y[start : start + step]
            return sums
        step = max(1, _ALONE // cut.size)
        for start in range(0, columns, step):
            np.matmul(cut, self._cut_y[:, start : start + step], out=sums[:, start : start + step])
        return sums

    def _cut(self, numbers: Residues | Signed) -> NDArray[np.float64]:
        """Return limbs, shape (rows, L, columns), the lowest first; the highest one has the sign."""
        found, rest = np.empty((len(numbers), self._limbs, numbers.shape[1])), numbers.view(np.int64)
        for limb in range(self._limbs - 1):
            found[:, limb] = rest & np.int64(2**self._width - 1)
            rest = rest >> np.int64(self._width)
        found[:, -1] = rest
        return found

    def _joined(self, sums: NDArray[np.float64]) -> Residues:
        """Return what limbs stand for, side by side."""
        prime, width, limbs = self._prime, self._width, self._limbs
        *lower, high = sums.reshape(len(sums), limbs, -1).swapaxes(0, 1)
        whole = high.astype(np.int64)
        for each in reversed(lower):
            if limbs == 2 and prime.bit_length() + width < 64:
                whole = (high - np.rint(high * (1 / prime)) * prime).astype(np.int64) << width  # 2^62 at most
            else:
                whole = multiply(whole, np.uint64(2**width % prime), prime).view(np.int64)
            whole += each.astype(np.int64)
        return reduced(whole, prime)


def matmul(x: Residues, y: Residues, prime: int) -> Residues:
    """Return x·y, shape (…, M), of residues of the shapes (…, K) and (K, M), modulo a prime of up to 56 bits."""
    return Matrix(y, prime).after(x)


def add(x: Residues, y: Residues | np.uint64, modulus: int | Residues) -> Residues:
    """Return x + y, element by element."""
    total = x + y
    return np.asarray(np.minimum(total, total - np.asarray(modulus, np.uint64)))  # smaller ones wrap around


def subtract(x: Residues, y: Residues | np.uint64, modulus: int | Residues) -> Residues:
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


def uniform_rows(keys: Sequence[bytes], modulus: int, size: int) -> Residues:
    """Return for each key, 32 bytes, what `uniform` draws from its stream first: shape (keys, size)."""
    bits, found = modulus.bit_length(), np.empty((len(keys), size), np.uint64)
    if modulus <= _MOST_OF_THEM * 2**bits:
        for key, row in zip(keys, found, strict=True):
            row[:] = uniform(KeyStream(key), modulus, size)
        return found
    fill_rows(keys, found)
    found &= np.uint64(2**bits - 1)
    if int(found.max(initial=0)) >= modulus:
        for row in np.flatnonzero((found >= np.uint64(modulus)).any(axis=1)):
            found[row] = uniform(KeyStream(keys[row]), modulus, size)
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
