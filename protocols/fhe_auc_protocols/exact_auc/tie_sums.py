"""Ties that are meant, told from pairs that bins merge: by signs that a hash draws for each score.

A bin that can hold one number only (`fhe_auc.question.score_bins`) merges nothing. The others are *wide*: with p_k and
n_k their positive and negative rows (of several classes: of the model's own, and of all others),

    ties   Σ p_k·n_k    pairs of one wide bin, whether their numbers differ or not

In each of R = 8 draws every number has a sign, 1 or -1. A_b and B_b are the sums of the signs of all positive and
negative rows of bucket b, which is some neighbouring wide bins. C_b and D_b are the same, but with each row's number
replaced by the shortest decimal of its bin; where rows have weights, signs are times these:

    M_r = Σ_b C_b·D_b − A_b·B_b     released; its mean over all signs is ties − pairs that share a number: merged pairs
    U = mean of M_r + 5·s/√R        s their standard deviation; where U > ties/4, all ties count as merged: a bound for
                                    certain, not by signs

Each product is a "tug of war" (Alon, Gibbons, Matias and Szegedy, PODS 1999). Numbers of a bucket's other bins add
noise, and so widen U; of short decimals, as points and percentages are, both products have the same: U is 0.

The binning error is U/(2PN), at most ties/(2PN). Groups and pairs of classes have some of a model's pairs: U bounds
theirs as well. U is too low where signs happen to agree: of two numbers in one bin, in 2^-8 of sessions, and hardly
where there are more (docs/evidence/intervals.md).

Where parties prove their counts (`proved_counts`), rows of either sign are counted apart: sums are differences.

Signs are bits of a hash that is keyed by the session's manifest: nobody knows them before it, all do then. A party
needs only its own rows, so it does not matter who made the session, or where the rows of a number are.
"""

import hashlib
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, islice, pairwise

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.score_bins import in_bins, numbers, starts_of
from fhe_auc.sums.terms import Factor, Part, Sum, Term
from fhe_auc_protocols.exact_auc.release_part import (
    AucOfSums,
    Counts,
    Range,
    Reading,
    ReleasePart,
    Rows,
    Vectors,
    most_pairs,
)

DRAWS = 8
_SIGNS = 2**DRAWS
_MINUS = (np.arange(_SIGNS)[:, None] >> np.arange(DRAWS)[::-1] & 1).astype(np.float64)  # which of them are -1
_DEVIATIONS = 5  # of Student's law with 7 degrees of freedom: beyond it in 0.1 %
_FEW_BINS = 16  # so few wide bins are a bucket each: other bins' rows would be more than those that are merged
_MOST_BUCKETS = 128
_SHARE = 5  # all vectors of signs have at most so many times fewer entries than those of counts, but for few bins


def runs_of(alone: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return which bins can hold one number only, as lengths of runs by turns: wide bins first, of which may be none.

    Whether the last run is of wide bins does not matter.
    """
    changes = np.flatnonzero(np.diff(alone, prepend=False)).tolist()
    return tuple(end - start for start, end in pairwise([0, *changes, len(alone)]))


@dataclass(frozen=True)
class TieSums(ReleasePart):
    """Those of an analysis over bins in such `runs` (`runs_of`); None: nothing is said of ties.

    A sketch has so many `counts`, there are `least` buckets or more, and rows of either sign are counted apart where
    counts are `proved`. Raises `InputError` for runs that cannot be.
    """

    analysis: Analysis
    runs: tuple[int, ...] | None
    bins: int
    counts: int
    least: int = 16
    proved: bool = False

    def __post_init__(self) -> None:
        if self.runs is not None and (sum(self.runs) != self.bins or min(self.runs[1:], default=1) < 1):
            raise InputError("the plan's bins of one score are not those of its thresholds")

    @cached_property
    def wide(self) -> NDArray[np.bool_]:
        """Which bins are wide, shape (bins,)."""
        wide_bins = np.ones(self.bins, bool)
        for at, (start, end) in enumerate(pairwise(accumulate(self.runs or (), initial=0))):
            wide_bins[start:end] = at % 2 == 0
        return wide_bins

    @cached_property
    def buckets(self) -> int:
        """How many there are; 0 where no sums are released."""
        if self.runs is None:
            return 0
        share, wide_ = self.counts // (_SHARE * sum(map(len, self._draws))), int(self.wide.sum())
        return wide_ if wide_ <= _FEW_BINS else min(max(self.least, min(share, _MOST_BUCKETS)), wide_)

    @cached_property
    def bucket_of(self) -> NDArray[np.int64]:
        """The bucket of each wide bin, shape (bins,); of others it does not matter."""
        return (np.cumsum(self.wide) - 1) * self.buckets // max(int(self.wide.sum()), 1)

    @cached_property
    def _narrow(self) -> NDArray[np.bool_]:
        """Which bins of each class are not wide, shape (classes * bins,)."""
        return np.tile(~self.wide, self.analysis.classes_of_rows)

    @cached_property
    def _buckets_of(self) -> NDArray[np.int64]:
        """Where the signs of a bin's bucket are counted, for each model, class and bin: (models, classes * bins)."""
        models, classes = range(len(self.analysis.models)), range(self.analysis.classes_of_rows)
        positive = [[own == (model if self.analysis.classes else 1) for own in classes] for model in models]
        sides = np.array(positive)[:, :, None] * self.buckets
        found: NDArray[np.int64] = (sides + self.bucket_of.clip(0)) * _SIGNS
        return found.reshape(len(models), -1)

    @property
    def vectors(self) -> Vectors:
        """Each draw's, for each model, with their lengths."""
        return [(name, self.buckets) for own in self._draws for name in own if self.buckets]

    @property
    def sums(self) -> Sequence[Sum]:
        """M of each draw, for each model."""
        sums = []
        for at, own in enumerate(self._draws if self.buckets else ()):
            half = len(own) // 2
            terms = (_product(own[:half], 1), _product(own[half:], -1))
            sums.append(Sum(f"M{at % DRAWS}" + ("" if self.analysis.is_plain else f" m{at // DRAWS}"), terms))
        return sums

    @cached_property
    def _draws(self) -> list[list[str]]:
        """Each draw's vectors, by signs of bins and of rows: of negatives and positives, proved ones by sign, too."""
        signs = ("+", "-") if self.proved else ("",)
        draws = itertools.product(range(len(self.analysis.models)), range(DRAWS))
        own = list(itertools.product(("bins", "rows"), signs, "np"))
        return [[f"{by}{sign} m{model} r{draw} {label}" for by, sign, label in own] for model, draw in draws]

    def ranges(self, max_rows: int, parties: int) -> Sequence[Range]:
        """Return the range of each sum, of either sign."""
        most = 2 * most_pairs(max_rows)
        return [(-most, most) for _ in self.sums]

    def of_rows(self, rows: Rows) -> Sequence[Counts]:
        """Return the vectors of each draw, one after the other, for one model after the other."""
        buckets, vectors = self.buckets, []
        if not buckets:
            return ()
        of_bins = np.tile(_signs_of_bins(rows.grid.tobytes(), rows.session), rows.classes)
        for model, (scores, bins) in enumerate(zip(rows.data.scores, rows.bins, strict=True)):
            buckets_of, cells, counts = self._buckets_of[model], rows.cells[model], rows.counts[model]
            weights = rows.data.weights
            if counts[self._narrow].any():
                own = self.wide[bins]
                scores, cells, counts = scores[own], cells[own], np.where(self._narrow, 0, counts)
                weights = None if weights is None else weights[own]
            by_bins = buckets_of + of_bins
            by_rows = buckets_of.take(cells) + _signs(scores, rows.session)
            size = 2 * buckets * _SIGNS
            counted = [np.bincount(by_bins, counts, minlength=size), np.bincount(by_rows, weights, minlength=size)]
            table = np.array(counted, np.float64).reshape(2, 2 * buckets, _SIGNS)
            minus = table @ _MINUS
            plus = table.sum(axis=-1, keepdims=True) - minus
            # (draws; bins and rows; signs, if these are apart; buckets of negatives, then of positives)
            by_sign = np.array([plus, minus] if self.proved else [plus - minus])
            vectors += [*by_sign.transpose(3, 1, 0, 2).reshape(2 * DRAWS, -1).astype(np.int64)]
        return vectors

    def read_sums(self, sums: Sequence[int], reading: Reading) -> None:
        """Put the pairs that are merged in the place of all ties of each AUC."""
        given, merged = iter(sums), {}
        contrasts = list(zip(self.analysis.contrasts, reading.aucs, strict=True)) if self.buckets else []
        for contrast, own in contrasts:
            if contrast.positives.group == contrast.negatives.group == 0 and contrast.interval:
                merged[contrast.model] = _bound(own, list(islice(given, DRAWS)))
        for at, (contrast, own) in enumerate(contrasts):
            if own.pairs:
                bound = Fraction(merged[contrast.model], 2 * own.pairs)
                reading.aucs[at] = own._replace(binning_error=min(own.binning_error, bound))


def _bound(own: AucOfSums, draws: Sequence[int]) -> int:
    """Return U, in whole pairs; all ties where sums are none of rows, as of a party that has made some up."""
    ties = int(own.binning_error * 2 * own.pairs)
    bound = math.ceil(statistics.fmean(draws) + _DEVIATIONS * statistics.stdev(draws) / math.sqrt(DRAWS))
    possible = max(map(abs, draws)) <= 2 * own.pairs
    return max(bound, 0) if possible and 4 * bound <= ties else ties


def _product(vectors: Sequence[str], sign: int) -> Term:
    """Return the sums of signs of negatives times those of positives, times this sign."""
    weights = (1, -1)
    negatives, positives = (
        tuple([Part(name, weight=weight * scale) for name, weight in zip(vectors[first::2], weights, strict=False)])
        for first, scale in ((0, sign), (1, 1))
    )
    return Term((Factor(negatives), Factor(positives)))


def shortest(grid: NDArray[np.float64], starts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a number of each bin with the fewest decimals, or the threshold where nine do not do."""
    every, decimals, missing = np.arange(len(grid)), grid.copy(), np.ones(len(grid), bool)
    for places in range(10):
        tried = np.ceil(grid * 10.0**places - 1e-4) / 10.0**places
        fits = missing & (in_bins(tried, starts) == every)
        decimals[fits], missing = tried[fits], missing & ~fits
    return decimals


@lru_cache(4)
def _signs_of_bins(grid: bytes, session: bytes) -> NDArray[np.int64]:
    """Return the signs of the shortest decimal of each bin, shape (bins,)."""
    thresholds = np.frombuffer(grid)
    return _signs(shortest(thresholds, starts_of(thresholds)), session)


def _signs(scores: NDArray[np.float64], session: bytes) -> NDArray[np.int64]:
    """Return a bit for each draw, the first the highest, set where a score's sign is -1, equal for those of one number.

    They are bits of a hash, by multiplications with the session's key.
    """
    key = np.frombuffer(hashlib.blake2b(session, digest_size=32, person=b"ties").digest(), "<u8")
    bits: NDArray[np.uint64] = numbers(scores).view(np.uint64) ^ key[0]
    for word in key[1:]:
        bits ^= bits >> np.uint64(32)
        bits *= word | np.uint64(1)
    return (bits >> np.uint64(64 - DRAWS)).view(np.int64)
