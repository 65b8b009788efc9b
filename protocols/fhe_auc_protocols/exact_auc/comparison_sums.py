"""Comparisons of models on the same rows: the sums of the standard error of a difference of two AUCs.

Vectors of a party's sketch, all of its own rows:

    t0 c1        for each model that is compared: rows of class 1 in each coarse bin; also x, xx and xy
    t0 t1 c1     for each comparison: Σ φ^a_j·φ^b_k of rows of class 1, row after row of the table

Two models often order rows nearly alike. Then it takes little to move a row into another coarse bin, and standard
errors from counts by coarse bins come out far too large. So a row lies between the lower ends of two bins, j and j + 1,
with the share φ of each: (S − r)/S and r/S, by its place r/S in the bin. What it is worth, N_{<j} − N_{≥j} at the lower
end of bin j, is interpolated so: Σ_j φ_j·(N_{<j} − N_{≥j}). Vectors x are Σ φ_j over rows, xx Σ φ_j², xy Σ φ_j·φ_{j+1};
all times S or S². With weights, sums of φ, and counts of rows, are of weights times that; those of squares and products
are of squared weights times that, as are further vectors, wx, of φ.

Coarse bins follow from the thresholds. Half of their weight is spread evenly over the bins, half over the log odds from
−6 to 1.5, where scores of rare outcomes crowd. Bins of one number each, if few, are coarse ones of their own.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.question.score_bins import bins_of, of_one_number
from fhe_auc.results import delong, intervals
from fhe_auc.results.delong import Moments, OneModel, PairedError, PairedSums
from fhe_auc.results.estimates import Comparison, with_holm
from fhe_auc.results.result_tables import p_text
from fhe_auc.sums.terms import Factor, Part, Sum, Term
from fhe_auc_protocols.exact_auc.release_part import (
    AucOfSums,
    Counts,
    Range,
    Reading,
    ReleasePart,
    Rows,
    Said,
    Vectors,
    most_cubic,
    most_pairs,
    table,
)
from fhe_auc_protocols.result_warnings import FEW_VALUES

MOST_SINGLE = 128
"""Up to so many bins, each is a coarse one in a comparison: quantiles of up to 60 rows then leave nothing out."""

COARSE_BINS = 67  # most of either model's scores where there are more bins; one more is the upper end of the last
_MOST_PARTS = 8  # of a coarse bin, in which a row's place is told
_ODDS = 0.0025 * np.cumprod(np.full(484, 65 / 64))  # no logarithm, which computers round differently
_CROWDED = _ODDS / (1 + _ODDS)
_KINDS = ("", "x", "xx", "xy", "wx")  # vectors of a model that is compared; the last with weights alone
_SIDES = (("10", 1), ("01", 0))  # sums over positive and over negative rows
_TWO_DECIMALS = "of scores rounded to two decimals it is exact (--round-scores 2)"
_ALIKE = 0.05  # a difference with a standard error below this share of a model's own is that of about the same ranking
Ends: TypeAlias = tuple[tuple[NDArray[np.int64], NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]]
"""Where rows lie, shape (rows,) each: two neighbouring coarse bins, each with S times the rows' shares of its end."""


@dataclass(frozen=True)
class CoarseBins:
    """At most `most` coarse bins of `bins` bins; and the shares that rows have of the ends of these."""

    bins: int
    most: int

    @property
    def ends(self) -> int:
        """Lower ends of all coarse bins, and one behind the last."""
        return min(self.bins, self.most) + 1

    @property
    def scale(self) -> int:
        """S: the shares of a row are multiples of 1/S, 16 at most, by the middle of its bin.

        A finer one would gain little, and sums grow with its square: 16 leaves 24,575 rows a prime of 50 bits.
        """
        return 2 * min(-(-self.bins // self.most), _MOST_PARTS)

    def own(self, single: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the bins that are coarse ones of their own, of those of one number; none where these are too many."""
        padded = np.pad(single, 1)
        bins = np.flatnonzero(single & ~(padded[:-2] & padded[2:]))  # near 1 all bins are single
        return bins[: len(bins) * (3 * len(bins) < self.ends)]

    def starts(self, grid: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the first bin of each coarse one, for these thresholds."""
        bins, most = self.bins, self.ends - 1
        if bins == most:
            return np.arange(bins, dtype=np.int64)
        weights = np.full(bins, len(_CROWDED))
        if grid[0] >= 0 and grid[-1] <= 1:
            weights += bins * np.bincount(bins_of(_CROWDED, grid), minlength=bins)
        single = self.own(of_one_number(grid))
        weights[single] = 0
        sums, pieces = np.cumsum(weights), most - 2 * len(single)
        cuts = 1 + np.searchsorted(sums, sums[-1] * np.arange(1, pieces) // pieces)
        starts: NDArray[np.int64] = np.unique(np.concatenate([[0], single, single + 1, cuts]))
        return starts[starts < bins]

    def of(self, bins: NDArray[np.int64], starts: NDArray[np.int64]) -> Ends:
        """Return where rows in these bins lie."""
        at = np.searchsorted(starts, bins, side="right") - 1
        widths = np.diff(starts, append=self.bins)[at]
        upper = ((2 * (bins - starts[at]) + 1) * self.scale + widths) // (2 * widths)
        return (at, self.scale - upper), (at + 1, upper)

    def vectors(self, name: str, *, weighted: bool) -> list[tuple[str, int]]:
        """Return the vectors of a model's rows by coarse bin, with their lengths."""
        return [(f"{name} {kind}c{label}", self.ends) for kind in _KINDS[: 4 + weighted] for label in (0, 1)]

    def counted(self, labels: NDArray[np.uint8], ends: Ends, of_rows: Counts | None) -> list[Counts]:
        """Return these vectors of rows with these labels, and weights if they have any, that lie there."""
        (at, lower), (following, upper) = ends

        def counted(at: Counts, weights: Counts | None) -> Counts:
            return table(labels, at, shape=(2, self.ends), weights=weights)

        w, square = (1, 1) if of_rows is None else (of_rows, of_rows**2)
        x, xx = (counted(at, by * lower**n) + counted(following, by * upper**n) for n, by in ((1, w), (2, square)))
        vectors = [counted(at, of_rows), x, xx, counted(at, square * lower * upper)]
        wx = () if of_rows is None else (counted(at, square * lower) + counted(following, square * upper),)
        return [*vectors, *wx]


@dataclass(frozen=True)
class ComparisonSums(ReleasePart):
    """Those of these pairs of models, by index, over `bins` bins; only AUCs are compared where none is `released`."""

    pairs: tuple[tuple[int, int], ...]
    bins: int
    released: bool = True
    heaviest: int = 0  # units that a row may have; 0: each row counts once
    unproved = "comparisons"

    @property
    def _models(self) -> list[int]:
        return sorted({model for pair in self.pairs for model in pair})

    @property
    def _coarse(self) -> CoarseBins:
        return CoarseBins(self.bins, self.bins if self.bins <= MOST_SINGLE else COARSE_BINS)

    def crowded(self, single: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        """Return the bins whose ties crowd in a coarse one, of which some are `single`; None: none is."""
        crowded = np.ones(self.bins, np.bool_)
        crowded[self._coarse.own(single)] = False
        return crowded if self.released and (crowded & single).any() else None

    @property
    def vectors(self) -> Vectors:
        """Vectors, with their lengths."""
        if not self.released:
            return ()
        single = [
            own for model in self._models for own in self._coarse.vectors(f"t{model}", weighted=self.heaviest > 0)
        ]
        double = [_pair(pair, label) for pair in self.pairs for label in (0, 1)]
        return [*single, *((name, self._coarse.ends**2) for name in double)]

    @property
    def sums(self) -> Sequence[Sum]:
        """What is released: D10, Q10, D01 and Q01 of each model, Q10 and Q01 of each pair."""
        if not self.released:
            return ()
        sums = [own for model in self._models for own in moment_sums(f"t{model}", weighted=self.heaviest > 0)]
        wide = self._coarse.ends
        for a, b in self.pairs:
            for name, label in _SIDES:
                both = worth(f"t{a}", label, (wide, 1)), worth(f"t{b}", label, (1, wide))
                sums.append(Sum.product(f"Q{name} t{a} t{b}", Factor.each([_pair((a, b), label)]), *both))
        return sums

    def ranges(self, max_rows: int, parties: int) -> Sequence[Range]:
        """Return the range of each sum, of either sign: of shares, times S, and of their squares, times S²."""
        scale, weight = self._coarse.scale, self.heaviest or 1
        most = {2: weight * scale * most_pairs(max_rows), 3: weight * scale**2 * most_cubic(max_rows)}
        return [(-most[total.degree], most[total.degree]) for total in self.sums]

    def of_rows(self, rows: Rows) -> Sequence[Counts]:
        """Return the vectors of rows."""
        if not self.released:
            return ()
        labels, starts, wide = rows.data.labels, self._coarse.starts(rows.grid), self._coarse.ends
        ends = {model: self._coarse.of(rows.bins[model], starts) for model in self._models}
        vectors = [vector for own in ends.values() for vector in self._coarse.counted(labels, own, rows.data.weights)]
        square = 1 if rows.data.weights is None else rows.data.weights**2
        for a, b in self.pairs:
            of_both = itertools.product(ends[a], ends[b])
            of_ends = [table(labels, i, j, shape=(2, wide, wide), weights=square * u * v) for (i, u), (j, v) in of_both]
            vectors.append(np.sum(of_ends, axis=0))
        return vectors

    def read_sums(self, sums: Sequence[int], reading: Reading) -> None:
        """Read the sums of each pair."""
        if not self.released:
            reading.sayings.append(partial(_said, dict.fromkeys(self.pairs)))
            return
        size = 3 if self.heaviest else 2
        of_models = {model: sums[2 * size * at :][: 2 * size] for at, model in enumerate(self._models)}
        products, paired = iter(sums[2 * size * len(of_models) :]), dict[tuple[int, int], PairedSums | None]()
        for pair in self.pairs:
            first, second = (of_models[model] for model in pair)
            sides = []
            for at in (0, size):
                weighted = (first[at + 2], second[at + 2]) if self.heaviest else None
                of_both = first[at], second[at], first[at + 1], second[at + 1]
                sides.append(Moments(*of_both, next(products), weighted))
            paired[pair] = PairedSums(sides[0], sides[1], self._coarse.scale)
        reading.sayings.append(partial(_said, paired))


def _said(paired: Mapping[tuple[int, int], PairedSums | None], reading: Reading) -> Said:
    """Return the difference of each pair of models, and warn where one gets no interval and no p-value.

    `paired` is what the sums say of each pair; None without any.
    """
    contrasts = zip(reading.analysis.contrasts, reading.aucs, strict=True)
    of_model = {contrast.model: own for contrast, own in contrasts if contrast.positives.group == 0}
    comparisons = []
    for pair, sums in paired.items():
        first, second = (of_model[model] for model in pair)
        if first.auc is not None and second.auc is not None:
            error = None if sums is None else _error(sums, first, second)
            if error is not None:
                error = reading.errors.paired(pair, first, second, error)
            comparisons.append(_compared(pair, first, second, error, reading))
    comparisons = [*with_holm(comparisons)]
    errors = {estimate.model: estimate.standard_error or 0 for estimate in reading.estimates if not estimate.group}
    warnings = [
        _warning(own, alike=(own.standard_error or 0) < _ALIKE * errors.get(own.first, 0), reading=reading)
        for own in comparisons
        if own.missing
    ]
    return Said(comparisons=tuple(comparisons), warnings=tuple(warnings))


def _error(sums: PairedSums, *aucs: AucOfSums) -> PairedError | None:
    """Return the standard error of the difference of two models' AUCs, over all rows."""
    first, second = (OneModel(own.auc, own.merged) for own in aucs if own.auc is not None and own.merged is not None)
    (a, alike_a), (b, alike_b) = ((float(own.binning_error), float(own.alike)) for own in aucs)
    return delong.paired_delong(first, second, sums, *aucs[0].counted, (a, b), (alike_a, alike_b))


def _compared(
    pair: tuple[int, int], first: AucOfSums, second: AucOfSums, error: PairedError | None, reading: Reading
) -> Comparison:
    assert first.auc is not None and second.auc is not None  # noqa: S101, PT018
    difference, models = second.auc - first.auc, reading.analysis.models
    comparison = Comparison(
        first=models[pair[0]],
        second=models[pair[1]],
        difference=float(difference),
        binning_error=float(first.binning_error + second.binning_error),
    )
    if error is None or not error.standard_error or reading.level is None:
        return comparison
    missing = _why_missing(comparison.binning_error, error)
    known = replace(comparison, standard_error=error.standard_error, standard_error_off=error.off, missing=missing)
    if missing:
        return replace(known, p_at_most=error.p_at_most(known.difference))
    method = reading.errors.method(intervals.PAIRED_DELONG)
    interval, p_value = intervals.of_difference(difference, error.standard_error, reading.level, method)
    return replace(known, interval=interval, p_value=p_value)


def _why_missing(binning_error: float, error: PairedError) -> str:
    """Say why a difference with this binning error gets no interval and no p-value; empty where it does."""
    if binning_error > max(error.standard_error, delong.LEAST_TOLD):
        return f"the binning error, {binning_error:.2g}, exceeds the standard error, {error.standard_error:.2g}"
    if error.off > delong.MOST_OFF:
        return f"the standard error, {error.standard_error:.2g}, may be off by {100 * error.off:.0f} %"
    return ""


def _warning(comparison: Comparison, *, alike: bool, reading: Reading) -> str:
    if alike:
        advice = ["both models rank the rows nearly alike"]
    else:
        binned = comparison.binning_error > (comparison.standard_error or 0)
        advice = [FEW_VALUES if binned else _TWO_DECIMALS]
        if not reading.quantiles:
            advice.append("take quantile:1000, which a session before finds")
    if comparison.p_at_most is not None and comparison.p_at_most < 1:
        advice.insert(0, f"p is {p_text(comparison.p_at_most, '≤')}")
    told = "; ".join([comparison.missing, *advice])
    return f"{comparison.second} minus {comparison.first} has no interval and no p-value: {told}"


def moment_sums(name: str, *, weighted: bool) -> list[Sum]:
    """Return the sums over rows of either class of what each is worth, and of its square, of `CoarseBins.vectors`."""
    sums = []
    for side, label in _SIDES:
        x, xx, xy, wx = (f"{name} {kind}c{label}" for kind in _KINDS[1:])
        at, following = (worth(name, label, following=following) for following in (False, True))
        both = Term((Factor.each([xx]), at, at)), Term((Factor((Part(xy, weight=2),)), at, following))
        sums += [Sum.product(f"D{side} {name}", Factor.each([x]), at), Sum(f"Q{side} {name}", both)]
        sums += [Sum.product(f"W{side} {name}", Factor.each([wx]), at)] * weighted
    return sums


def _pair(pair: tuple[int, int], of_class: int) -> str:
    return f"t{pair[0]} t{pair[1]} c{of_class}"


def worth(name: str, label: int, repeated: tuple[int, int] = (1, 1), *, following: bool = False) -> Factor:
    """Return N_{<j} − N_{≥j} for positives, P_{≥j} − P_{<j} for negatives; or those of j + 1; of `CoarseBins`."""
    counts, sign = f"{name} c{1 - label}", 1 if label else -1
    own = Part(counts, weight=sign if following else -sign)
    return Factor((Part(counts, "below", sign), Part(counts, "above", -sign), own), (), *repeated)
