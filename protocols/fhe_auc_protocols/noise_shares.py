"""Shares of discrete Laplace noise: exact, and drawn in a time that hardly depends on what is drawn.

A share is the difference of two Pólya (negative binomial) variables NB(1/n, p), n shares, p = exp(−1/scale):

    P[NB(r, p) = k] = (1 − p)^r p^k Π_{j=1..k} (j − 1 + r)/j

NB(r, p) + NB(r′, p) = NB(r + r′, p), so n shares have the law of NB(1, p) − NB(1, p), and NB(1, p) is the geometric law
(1 − p) p^k: the difference of two such is the discrete Laplace law of that scale. s > n shares add up to discrete
Laplace noise plus independent noise, which hides no less; fewer than n hide less.

**Drawn by inversion.** With V uniform in (0, 1] and s_k = P[NB > k], the number of s_k that are at least V has the law
of NB. (It is that of the c_k = 1 − s_k at most U = 1 − V.) A table holds for each k two floats between which 2^64·s_k
lies, and the first 64 bits of U say that 2^64·V lies between two integers. Two binary searches compare these, and where
both find the same number, that is it. Otherwise exact arithmetic decides, with 64 bits of U more as long as it takes:
no rounding and no cut tail changes the law. It happens in about scale·(scale/n + 2)·2^-48 draws (`_table`), below
2^-30 up to scales of 500·√n; all others take two binary searches in one table, whatever comes out. (These are
numpy's: branches and caches make a thousand equal draws faster than different ones, by less than a millisecond.)
"""

import math
from collections.abc import Iterator
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc_protocols.exact_sampling import Source, secure

MOST_SCALE = 2**16  # a table of so large a scale takes 130 MB, and half a second

_WORD = 64
_BEYOND = 2.0**10  # of 2^64: a table ends where all that is beyond it is less
_GUARD = 128  # bits beyond those that are compared: rounding takes fewer than 2·log2(k) + 3 of them (`_cumulative`)


def polya(size: int, scale: float | Fraction, parties: int, source: Source | None = None) -> NDArray[np.int64]:
    """Draw one party's shares of discrete Laplace noise: independent shares of so many parties add up to it, exactly.

    There are `size` >= 0 shares, int64 of shape (size,). The scale is that of the sum: for its ε-differential privacy
    the L1 sensitivity, over ε; a float stands for its exact value. `parties` is n >= 1, how many shares make up the
    whole noise. Without a source, words come from a secure one. The first call for a scale makes its table, of about
    50·scale entries: 0.1 ms for a scale of 100, 1 ms for 1,000.

    Raises `InputError`: the scale is not positive, or above 2^16, or another number is out of range.
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


def variance(scale: float | Fraction, ratio: float) -> float:
    """Return that of a sum of shares, so many times (`ratio`) those that make up the whole noise of this scale."""
    return 2 * ratio * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2


def _negative_binomial(source: Source, size: int, scale: Fraction, parties: int) -> NDArray[np.int64]:
    (lowest, highest), words = _table(scale, parties), source.words(size)
    least = (~words).astype(np.float64)  # 2^64·V lies above it, and at most 1 higher
    found = np.searchsorted(lowest, -1 - least, "right")
    for index in np.flatnonzero(found != np.searchsorted(highest, -least, "right")).tolist():
        found[index] = _decided(int(words[index]), source, scale, parties)
    return found.astype(np.int64)


@lru_cache(maxsize=4)
def _table(scale: Fraction, parties: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return −low and −high of each k from 0 on, ascending: 2^64·s_k lies between, and so do what words are as floats.

    With u = 2^-53, each operation, and each number made a float, errs by a factor of 1 ± u. The mass of j ≥ 2 is that
    of j − 1 times p·(1 − (1 − 1/n)/j), which errs by 6u with the product; the mass of 1 has 5 such factors; and sums
    from the end put at most j more into s_k. So that errs by 7u·Σ_{j>k} mass_j·j/s_k, but for what is of higher order;
    this mean is at most k + 1 + scale, as masses fall by p or more in a step. 8u·(k + 3 + scale) is more than that, the
    higher orders, and 4u for the word and the ends. What the last entry and the least float leave out is less than
    `_BEYOND`.

    Undecided are at most Σ_k 2·8u·(k + 3 + scale)·s_k draws of one, about 16u·(E[NB²]/2 + scale·E[NB]), and 2^-53 for
    each entry. NB has the mean scale/n, and the variance scale·(scale + 1)/n.
    """
    with localcontext() as context:
        context.prec = 40
        ratio, first = map(float, _start(scale, parties))
    b = float(scale)
    # The mass of j is at most p^j/n, and what lies beyond it at most b times that.
    last = 2 + math.ceil(b * math.log(2.0**_WORD / _BEYOND * max(b, 1.0) / parties))
    j = np.arange(1.0, last + 1)
    masses = float(1 - Fraction(1, parties)) / j
    np.subtract(1.0, masses, out=masses)
    masses *= ratio
    masses[0] = ratio * first / parties * 2.0**_WORD
    np.cumprod(masses, out=masses)
    beyond = masses[::-1].cumsum()[::-1]
    off = np.add(j, b + 2, out=j)
    off *= beyond * 2.0**-50
    off += _BEYOND
    return off - beyond, -(beyond + off)


def _decided(drawn: int, source: Source, scale: Fraction, parties: int) -> int:
    """Return how many c_k are at most U = 1 − V, of which 64 bits are known: draw more until that is certain."""
    bits = _WORD
    while True:
        least, beyond = drawn << _GUARD, (drawn + 1) << _GUARD  # U lies from one to below the other
        for k, (low, high) in enumerate(_cumulative(scale, parties, bits)):
            if low >= beyond:
                return k
            if high > least:
                break
        drawn, bits = drawn << _WORD | int(source.words(1)[0]), bits + _WORD


def _start(scale: Fraction, parties: int) -> tuple[Decimal, Decimal]:
    """Return p, and the mass of 0."""
    ratio = (-Decimal(scale.denominator) / Decimal(scale.numerator)).exp()
    return ratio, ((1 - ratio).ln() / parties).exp()


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
        unit = Decimal(2) ** places
        found = _start(scale, parties)
        p, mass = (max(0, int((each * unit).to_integral_value(ROUND_FLOOR)) - 1) for each in found)
    total, k = 0, 0
    while True:
        total += mass
        yield total, total + 2 * (k + 1) ** 2
        mass = (mass * p >> places) * (parties * k + 1) // (parties * (k + 1))
        k += 1
