"""The sums that an AUC and its standard error are made of, and what they are of them.

With bins ascending in score, p_k and n_k the pooled positive and negative rows of bin k, and P and N those of all bins:

    difference D = Σ p_k·(N_{<k} − N_{>k})      pairs that the model orders rightly, minus those that it orders wrongly
    ties         = Σ p_k·n_k                    pairs of one bin, which count half; over open bins alone (`tie_sums`)
    AUC = ½ + D/(2PN)      binning error = ties/(2PN): the AUC of the rows themselves lies within AUC ± binning error

With an interval there are two more, for DeLong's standard error (`fhe_auc.results.intervals.delong`):

    Q10 = Σ p_k·(N_{<k} − N_{>k})²        Q01 = Σ n_k·(P_{>k} − P_{<k})²

All these numbers are released, as they are, for each contrast of an analysis; and how many rows of each class each
group has. A party puts in its own p_k and n_k: the vector "m0 g1 c1" of its sketch has its rows of group 1 and class 1
in each bin of model 0's scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import ResultCheckError
from fhe_auc.question.analysis import Analysis, Contrast
from fhe_auc.session.protocol import too_many_rows
from fhe_auc.sums.terms import Factor, Part, Sum, Term


def vector(model: int, group: int, of_class: int) -> str:
    """Return the name of the vector with a group's rows of a class in each bin of a model's scores; all by index."""
    return f"m{model} g{group} c{of_class}"


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


def auc_sums(
    name: str, positives: Sequence[str], negatives: Sequence[str], *, interval: bool, tying: Sequence[Factor] = ()
) -> list[Sum]:
    """Return difference and ties, with an interval also Q10 and Q01; `name` tells them from those of other AUCs.

    `tying` picks the bins whose ties count, if not all do.
    """
    p, n = each_of(positives), each_of(negatives)
    sums = [sum_of(f"difference{name}", p, worse(negatives)), sum_of(f"ties{name}", p, n, *tying)]
    if interval:
        sums += [
            sum_of(f"Q10{name}", p, worse(negatives), worse(negatives)),
            sum_of(f"Q01{name}", n, better(positives), better(positives)),
        ]
    return sums


def most_cubic(max_rows: int) -> int:
    """Return what Q10 ≤ P·N² and Q01 ≤ N·P² are at most for P + N rows: 4·(P + N)³/27."""
    return 4 * max_rows**3 // 27


class AucOfSums(NamedTuple):
    """What the integers say; Q10 and Q01 only where there is an interval. There is no AUC of rows of one label."""

    auc: Fraction | None
    binning_error: Fraction
    positives: int
    negatives: int
    q10: int | None = None
    q01: int | None = None
    alike: Fraction = Fraction(0)
    """Ties of all bins that crowd in coarse ones of comparisons, over 2PN; where there are none, of open bins."""

    @property
    def pairs(self) -> int:
        """PN, of a positive and a negative row each."""
        return self.positives * self.negatives


def auc_of_sums(sums: Sequence[int], positives: int, negatives: int, modulus: int) -> AucOfSums:
    """Return the AUC of the integers, known modulo `modulus`; `ResultCheckError`: they are not of so many rows."""
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
    q10, q01 = squares or (None, None)
    if not pairs:
        return AucOfSums(None, Fraction(0), positives, negatives, q10, q01)
    auc, binning_error = Fraction(1, 2) + Fraction(difference, 2 * pairs), Fraction(ties, 2 * pairs)
    return AucOfSums(auc, binning_error, positives, negatives, q10, q01, binning_error)


@dataclass(frozen=True)
class AucSums:
    """Those of an analysis's AUCs over `bins` bins, with `interval` also of their standard errors; and of its rows."""

    analysis: Analysis
    bins: int
    interval: bool
    open: NDArray[np.bool_] | None = None  # bins whose ties count; all, if not given
    alike: NDArray[np.bool_] | None = None  # bins whose ties are asked for besides

    @property
    def vectors(self) -> list[tuple[str, int]]:
        """Vectors, with their lengths."""
        models = range(len(self.analysis.models))
        return [(vector(model, group, each), self.bins) for model in models for group, each in self._cells]

    @property
    def sums(self) -> list[Sum]:
        """What is released: the sums of each contrast, then the rows of each class of each group."""
        found, plain, tying = [], self.analysis.is_plain, self.tying
        for index, each in enumerate(self.analysis.contrasts):
            cells = each.positives, each.negatives
            name = "" if plain else f" {index}"
            sides = [[vector(each.model, cell.group, of) for of in cell.classes] for cell in cells]
            found += auc_sums(name, *sides, interval=self.interval and each.interval, tying=tying)
            if self._compared(each):
                found.append(sum_of(f"alike{name}", *map(each_of, sides), *_picked(self.alike)))
        for group, of in self._cells:
            rows = Factor((Part(vector(0, group, of), "total"),))
            found.append(sum_of(("N", "P")[of] if plain else f"rows g{group} c{of}", rows))
        return found

    def least_modulus(self, max_rows: int) -> int:
        """Return how many values a sum of so many rows can take; only the difference, ±max_rows²/4, has a sign."""
        return 1 + max(max_rows, 2 * (max_rows**2 // 4), most_cubic(max_rows) if self.interval else 0)

    def of_all_rows(self, counted: NDArray[np.int64], model: int) -> NDArray[np.int64]:
        """Return a model's counts over all rows, (classes, bins), of all that `subgroup_counts` yields."""
        first = model * len(self._cells) * self.bins
        return counted[first : first + self.analysis.classes_of_rows * self.bins].reshape(-1, self.bins)

    def read(self, sums: Sequence[int], max_rows: int, modulus: int, parties: int) -> list[AucOfSums]:
        """Return what they say of each contrast; errors as `AnalysisSums.read`."""
        given, cells = iter(sums), self._cells
        of_contrasts = [
            list(islice(given, (4 if self.interval and each.interval else 2) + self._compared(each)))
            for each in self.analysis.contrasts
        ]
        rows = dict(zip(cells, (each % modulus for each in given), strict=True))
        pooled = sum(rows[0, each] for each in range(self.analysis.classes_of_rows))
        if pooled > parties * max_rows:
            raise ResultCheckError(
                "the result fails its check, so no number is given: the parties cannot have as many rows; a message is "
                "damaged, or the aggregator has not computed what it should",
                check="range",
            )
        if pooled > max_rows:
            raise ResultCheckError(f"no number is given: {too_many_rows(pooled, max_rows)}", check="rows")
        found = []
        for contrast, own in zip(self.analysis.contrasts, of_contrasts, strict=True):
            sides = (contrast.positives, contrast.negatives)
            positives, negatives = (sum(rows[cell.group, each] for each in cell.classes) for cell in sides)
            alike = own.pop() % modulus if self._compared(contrast) else None
            each = auc_of_sums(own, positives, negatives, modulus)
            found.append(each if not alike else each._replace(alike=Fraction(alike, 2 * max(each.pairs, 1))))
        return found

    def _compared(self, contrast: Contrast) -> bool:
        """Tell whether all its ties are wanted too: `comparison_sums` asks how many rows have one score."""
        whole = contrast.positives.group == contrast.negatives.group == 0
        return whole and self.alike is not None

    @cached_property
    def tying(self) -> tuple[Factor, ...]:
        """A factor that picks the bins whose ties count; none where all do."""
        return _picked(self.open)

    @property
    def _cells(self) -> list[tuple[int, int]]:
        groups, classes = range(len(self.analysis.groups)), range(self.analysis.classes_of_rows)
        return [(group, each) for group in groups for each in classes]


def _picked(bins: NDArray[np.bool_] | None) -> tuple[Factor, ...]:
    """Return the factor that picks these bins; nothing where it is all."""
    return () if bins is None or bins.all() else (Factor(constants=tuple(bins.astype(int).tolist())),)
