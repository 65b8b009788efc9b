"""Shares of discrete Laplace noise: exact, and drawn in a time that does not depend on what is drawn.

A share is the difference of two Pólya (negative binomial) variables NB(1/n, p), n shares, p = exp(−1/scale):

    P[NB(r, p) = k] = (1 − p)^r p^k Π_{j=1..k} (j − 1 + r)/j

NB(r, p) + NB(r′, p) = NB(r + r′, p), so n shares have the law of NB(1, p) − NB(1, p), and NB(1, p) is the geometric law
(1 − p) p^k: the difference of two such is the discrete Laplace law of that scale. s > n shares add up to discrete
Laplace noise plus independent noise, which hides no less; fewer than n hide less.

**Drawn by inversion.** With U uniform in [0, 1) and c_k = P[NB <= k], the number of c_k that are at most U has the law
of NB. A table holds the first 64 bits of each c_k, up to where these are all ones. A binary search compares them with
the first 64 bits of U. That decides, unless these are an entry's; then c_k and U get 64 bits more, and so on, so that
no rounding and no cut tail changes the law. It happens less than once in 2^40 draws; in all others the steps are the
same whatever comes out.
"""

from collections.abc import Iterator
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc_protocols.exact_sampling import Source, Words, secure

MOST_SCALE = 2**20  # a table of so large a scale takes 380 MB, and about a minute

_WORD = 64
_ONES = 2**_WORD - 1
_GUARD = 128  # bits beyond those that are compared: rounding takes fewer than 2·log2(k) + 3 of them (`_cumulative`)


def polya(size: int, scale: float | Fraction, parties: int, source: Source | None = None) -> NDArray[np.int64]:
    """Draw one party's shares of discrete Laplace noise: independent shares of so many parties add up to it, exactly.

    There are `size` >= 0 shares, int64 of shape (size,). The scale is that of the sum: for its ε-differential privacy
    the L1 sensitivity, over ε; a float stands for its exact value. `parties` is n >= 1, how many shares make up the
    whole noise. Without a source, words come from a secure one. The first call for a scale makes its table, of about
    45·scale numbers.

    Raises `InputError`: the scale is not positive, or above 2^20, or another number is out of range.
    """
    if size < 0 or parties < 1:
        raise InputError(f"there must be at least 0 shares of at least 1 party, got {size} of {parties}")
    if not 0 < scale <= MOST_SCALE:
        raise InputError(f"scale must lie between 0 and {MOST_SCALE:,}, got {float(scale):g}")
    if not size:
        return np.zeros(0, np.int64)
    words = secure() if source is None else source
    drawn = _negative_binomial(words, 2 * size, Fraction(scale), parties)
    return drawn[:size] - drawn[size:]


def _negative_binomial(source: Source, size: int, scale: Fraction, parties: int) -> NDArray[np.int64]:
    table, words = _table(scale, parties), source.words(size)
    found = np.searchsorted(table, words)
    for index in np.flatnonzero(table[found] == words).tolist():
        found[index] = _decided(int(words[index]), source, scale, parties)
    return found.astype(np.int64)


@lru_cache(maxsize=4)
def _table(scale: Fraction, parties: int) -> Words:
    """Return the first 64 bits of each c_k, up to the first that has ones alone; ascending, read-only."""

    def entries() -> Iterator[int]:
        for low, high in _cumulative(scale, parties, _WORD):
            yield low >> _GUARD
            if low >> _GUARD == _ONES:
                return
            if low >> _GUARD != high >> _GUARD:  # of one in 2^70 entries: then a word would have to fit either
                raise ArithmeticError("a rounding error reaches the bits that are compared")

    found = np.fromiter(entries(), np.uint64)
    found.flags.writeable = False
    return found


def _decided(drawn: int, source: Source, scale: Fraction, parties: int) -> int:
    """Return how many c_k are at most U, of which the first 64 bits are known: draw more until that is certain."""
    bits = _WORD
    while True:
        drawn, bits = drawn << _WORD | int(source.words(1)[0]), bits + _WORD
        least, beyond = drawn << _GUARD, (drawn + 1) << _GUARD  # U lies from one to below the other
        for k, (low, high) in enumerate(_cumulative(scale, parties, bits)):
            if low >= beyond:
                return k
            if high > least:
                break


def _cumulative(scale: Fraction, parties: int, bits: int) -> Iterator[tuple[int, int]]:
    """Yield, for k = 0, 1, 2 …, two integers between which 2^(bits + _GUARD)·c_k lies.

    Masses follow from one another: that of k + 1 is p·(n·k + 1)/(n·(k + 1)) times that of k, which is less than once.
    The first mass and p are too small by less than 2, and each step rounds down twice: the mass of k is too small by
    less than 2 + 4k, and the sum of all up to it by less than 2·(k + 1)².
    """
    places = bits + _GUARD
    with localcontext() as context:
        context.prec = places * 31 // 100 + 40  # digits: also where 1 − p loses some
        context.Emin, context.Emax = -(10**15), 10**15
        ratio = (-Decimal(scale.denominator) / Decimal(scale.numerator)).exp()
        first = ((1 - ratio).ln() / parties).exp()
        unit = Decimal(2) ** places
        p, mass = (max(0, int((each * unit).to_integral_value(ROUND_FLOOR)) - 1) for each in (ratio, first))
    total, k = 0, 0
    while True:
        total += mass
        yield total, total + 2 * (k + 1) ** 2
        mass = (mass * p >> places) * (parties * k + 1) // (parties * (k + 1))
        k += 1
