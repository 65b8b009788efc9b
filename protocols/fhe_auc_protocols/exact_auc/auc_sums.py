"""The sums that an AUC and its standard error are made of, and what they are of them.

With bins ascending in score, p_k and n_k the pooled positive and negative rows of bin k, and P and N those of all bins:

    difference D = Σ p_k·(N_{<k} − N_{>k})      pairs that the model orders rightly, minus those that it orders wrongly
    tie          = Σ p_k·n_k                    pairs of one bin, which count half
    AUC = ½ + D/(2PN)      binning error = tie/(2PN): the AUC of the rows themselves lies within AUC ± binning error

With an interval there are two more, for DeLong's standard error (`fhe_auc.results.intervals.delong`):

    Q10 = Σ p_k·(N_{<k} − N_{>k})²        Q01 = Σ n_k·(P_{>k} − P_{<k})²

All these numbers are released, as they are. A party puts in its own p_k and n_k. Which rows are positive and which are
negative, `fhe_auc_protocols.exact_auc.analysis_sums` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from fhe_auc.base.errors import ResultCheckError
from fhe_auc.sums.terms import Factor, Part, Sum, Term


def each_of(vectors: Sequence[str]) -> Factor:
    """Return p_k (or n_k), the rows of all these vectors."""
    return Factor(tuple(Part(vector) for vector in vectors))


def worse(vectors: Sequence[str]) -> Factor:
    """Return N_{<k} − N_{>k}, N those of these vectors."""
    return Factor(tuple(part for vector in vectors for part in (Part(vector, "below"), Part(vector, "above", -1))))


def better(vectors: Sequence[str]) -> Factor:
    """Return P_{>k} − P_{<k}, P those of these vectors."""
    return Factor(tuple(part for vector in vectors for part in (Part(vector, "above"), Part(vector, "below", -1))))


def sum_of(name: str, *factors: Factor) -> Sum:
    """Return the sum of one product."""
    return Sum(name, (Term(factors),))


def total(name: str, vector: str) -> Sum:
    """Return the sum of a vector."""
    return sum_of(name, Factor((Part(vector, "total"),)))


def auc_sums(name: str, positives: Sequence[str], negatives: Sequence[str], *, interval: bool) -> list[Sum]:
    """Return difference and ties, with an interval also Q10 and Q01; `name` tells them from those of other AUCs."""
    p, n = each_of(positives), each_of(negatives)
    sums = [sum_of(f"difference{name}", p, worse(negatives)), sum_of(f"ties{name}", p, n)]
    if interval:
        sums += [
            sum_of(f"Q10{name}", p, worse(negatives), worse(negatives)),
            sum_of(f"Q01{name}", n, better(positives), better(positives)),
        ]
    return sums


def least_modulus(max_rows: int, *, interval: bool, scale: int = 0) -> int:
    """Return how many values a sum of so many pooled rows can take, the most of any sum.

    The difference lies between ±max_rows²/4. All others are at least 0, Q10 ≤ P·N² and Q01 ≤ N·P², which for P + N rows
    is at most 4·(P + N)³/27. In a comparison of two models there are sums between plus and minus that, times `scale`².
    """
    cubic = max(1, 2 * scale**2) * (4 * max_rows**3 // 27) if interval else 0
    return 1 + max(max_rows, 2 * (max_rows**2 // 4), cubic)


class AucOfSums(NamedTuple):
    """What the integers say; Q10 and Q01 only where there is an interval. There is no AUC of rows of one label."""

    auc: Fraction | None
    binning_error: Fraction
    positives: int
    negatives: int
    q10: int | None = None
    q01: int | None = None


def auc_of_sums(sums: Sequence[int], positives: int, negatives: int, modulus: int) -> AucOfSums:
    """Return the AUC of the integers of `auc_sums`, each known up to multiples of `modulus`.

    Raises `ResultCheckError`: they cannot be those of so many rows.
    """
    difference = sums[0]
    ties, *squares = (each % modulus for each in sums[1:])
    pairs = positives * negatives
    of_squares = [square * rows for square, rows in zip(squares, (positives, negatives), strict=False)]
    fits = all(difference**2 <= each <= pairs**2 for each in of_squares)
    if ties > pairs - abs(difference) or not fits:
        raise ResultCheckError(
            "the result fails its check, so no number is given: it is not an AUC; a message is damaged, or the "
            "aggregator has not computed what it should",
            check="range",
        )
    if not pairs:
        return AucOfSums(None, Fraction(0), positives, negatives, *squares)
    auc, binning_error = Fraction(1, 2) + Fraction(difference, 2 * pairs), Fraction(ties, 2 * pairs)
    return AucOfSums(auc, binning_error, positives, negatives, *squares)
