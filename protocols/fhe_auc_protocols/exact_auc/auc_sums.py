"""AUCs: the sums that they and their standard errors are made of, what a party counts, and what they say.

With bins ascending in score, p_k and n_k the pooled positive and negative rows of bin k, and P and N those of all bins:

    difference D = Σ p_k·(N_{<k} − N_{>k})      pairs that the model orders rightly, minus those that it orders wrongly
    ties         = Σ p_k·n_k                    pairs of one bin, which count half; over wide bins alone (`tie_sums`)
    AUC = ½ + D/(2PN)      binning error = ties/(2PN): the AUC of the rows themselves lies within AUC ± binning error

With an interval there are two more, for DeLong's standard error (`fhe_auc.results.delong`):

    Q10 = Σ p_k·(N_{<k} − N_{>k})²        Q01 = Σ n_k·(P_{>k} − P_{<k})²

over merged bins where there are many (`merged_starts`); then also, over these, their own difference D'; and, over
those of them that can hold several numbers, T' = Σ p·n, Σ p² and Σ n². T' − ties is how many pairs merging hides.

All these numbers are released, as they are, for each contrast of an analysis; and how many rows of each class each
group has. A party puts in its own p_k and n_k: the vector "m0 g1 c1" of its sketch has its rows of group 1 and class 1
in each bin of model 0's scores.

**Weights.** Where rows have weights, p_k and n_k are sums of them, in units. With q_K the sums of squares of weights of
one label by merged bins (all bins, where none is merged), the cubic sums are Σ q_K·(N_{<K} − N_{>K})² and so on, and
these are released besides: the same without squares (R10 and R01), Σ q_K of either label, and how many rows of each
class each group has. Vectors of a sketch, in this order, for models, groups and classes in theirs:

    m0 g1 c1            sums of weights, by bin: in the place of counts of rows, which come first in every sketch
    rows                rows whose weight is not 0, by group and class, of which the latter varies fastest
    m0 g1 c1 coarse     with an interval, where g > 1: sums of weights by merged bin, in multiples of g, rounded
    m0 g1 c1 squares    with an interval: sums of squared weights by merged bin, in multiples of h, rounded

g and h are 1, but for proved counts (`Coarse`): then R10, R01, Q10 and Q01 are of coarse sums, so that they fit one
prime. That moves only the standard error: a sum of weights by g/2 at most, one of squares by h/2, for each party.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, ResultCheckError, UndefinedAucError
from fhe_auc.metrics.binning_error import TELLING
from fhe_auc.metrics.small_cells import hidden_rows
from fhe_auc.question.analysis import Analysis, Contrast
from fhe_auc.question.weights import Units
from fhe_auc.results import intervals
from fhe_auc.results.estimates import NESTED, ONE_CLASS, GroupEstimate, too_few
from fhe_auc.session.computation import too_many_rows
from fhe_auc.session.plan import Parameter
from fhe_auc.sums.terms import Factor, MergedVectors, Part, Sum
from fhe_auc_protocols.exact_auc import class_average
from fhe_auc_protocols.exact_auc.release_part import (
    AucOfSums,
    Counts,
    Range,
    Reading,
    ReleasePart,
    Rows,
    Said,
    VarianceSums,
    Vectors,
    most_cubic,
    most_pairs,
    most_units,
    table,
)

VARIANCE_BINS = 480  # at most, unless bins of one number are more than half as many
Ranged: TypeAlias = tuple[Sum, Callable[[int, int], Range]]
"""A sum, and its range by how many rows and parties there may be."""

_ROWS, _COARSE, _SQUARES = "rows", "coarse", "squares"  # vectors of rows with weights
_SMALL_GROUPS = "small groups are shown (min_cell 1): a count from 1 to 9 may tell who is meant"
_CROWDED = (
    "scores crowd in few of the {bins} bins of the standard error of {names}: it is taken large, and may still be off"
)
_NO_INTERVAL = "there is no confidence interval: each label needs two {}rows; give the numbers of rows instead"
_HEAVY = "few rows have most of the weight: all is worth {:,.0f} events and {:,.0f} others"
_HEAVY_IN_GROUPS = "without an interval a group is shown even where few of its rows have most of the weight"
_FEWEST, _EFFECTIVE = 10, "effective "  # rows of a label
_NO_SPREAD = (
    "there is no confidence interval: over these thresholds all pairs of rows come out alike; give the numbers of rows "
    "instead"
)


def merged_starts(wide: NDArray[np.bool_], most: int) -> tuple[int, ...]:
    """Return the first bin of each that standard errors' cubic sums are over, ascending from 0, neighbours merged.

    These sums cost most, and need the fine bins least: over some 480 bins a standard error is mostly within half a
    percent of that of the rows (`fhe_auc.results.delong` has what merging can hide). Bins that can be merged are
    `wide`: others hold one number, and merge nothing. They are `most`, or half as many besides bins of one number.
    Empty: nothing is merged, as bins are few, or models are compared.
    """
    mergeable, runs = int(wide.sum()), int((np.diff(wide, prepend=False) & wide).sum())
    pieces = max(most - (len(wide) - mergeable) - runs + 1, most // 2)
    if mergeable <= pieces:
        return ()
    piece = np.where(wide, (np.cumsum(wide) - 1) * pieces // mergeable, -1)
    return tuple(np.flatnonzero(~wide | (np.diff(piece, prepend=-1) != 0)).tolist())


def counts_name(model: int, group: int, of_class: int) -> str:
    """Return the name of the vector with a group's rows of a class in each bin of a model's scores; all by index."""
    return f"m{model} g{group} c{of_class}"


def below_less_above(vectors: Sequence[str]) -> Factor:
    """Return N_{<k} − N_{>k}, N those of these vectors."""
    return Factor(tuple([part for name in vectors for part in (Part(name, "below"), Part(name, "above", -1))]))


def above_less_below(vectors: Sequence[str]) -> Factor:
    """Return P_{>k} − P_{<k}, P those of these vectors."""
    return Factor(tuple([part for name in vectors for part in (Part(name, "above"), Part(name, "below", -1))]))


def picked(bins: NDArray[np.bool_] | None) -> tuple[Factor, ...]:
    """Return the factor that picks these bins; nothing where it is all."""
    return () if bins is None or bins.all() else (Factor(constants=tuple(bins.astype(int).tolist())),)


class Coarse(NamedTuple):
    """What the cubic sums of weighted rows are rounded to: multiples g of sums of weights, h of those of squares."""

    sums: int = 1
    squares: int = 1


EXACTLY = Coarse()


class OfWeights(NamedTuple):
    """What is known of an AUC's weighted rows: totals of either label, and units that one may have at most."""

    totals: tuple[int, int]
    most: int = 1
    coarse: Coarse = EXACTLY
    rounded: int = 0  # numbers that were rounded, of all parties, in one coarse sum


def auc_of_sums(sums: Sequence[int], positives: int, negatives: int, weights: OfWeights | None = None) -> AucOfSums:
    """Return the AUC of the integers; `ResultCheckError`: they are not of so many rows.

    They are D and ties, and may be Q10 and Q01, with weights R10, R01, Σ q of either label, then D', T', Σ p² and Σ n²
    of merged bins.
    """
    difference, ties, *others = sums
    own, tied, *squares = others[6 if weights else 2 :] or (difference, ties)
    totals, most, coarse, rounded = weights or OfWeights((positives, negatives))
    pairs, hidden, (g, h) = math.prod(totals), tied - ties, coarse
    cubic = [g**2 * h * square for square in others[:2]]
    first, counted = [own, own], list(totals)
    if weights:
        first, counted = [g * h * each for each in others[2:4]], [h * each for each in others[4:6]]
    possible = [
        0 <= ties <= pairs - abs(difference),
        tied <= pairs - abs(own),
        abs(difference - own) <= hidden,
        *(square <= rows**2 for square, rows in zip(squares, totals, strict=False)),
        not squares or tied**2 <= math.prod(squares),
        *(rows <= total <= most * rows for rows, total in zip((positives, negatives), totals, strict=True)),
    ]
    of_labels = zip(cubic, first, counted, totals, reversed(totals), (positives, negatives), strict=False)
    for square, single, q, total, of_others, rows in of_labels:
        least = q + h // 2 * rounded  # squares of weights, before these were rounded
        possible += [0 <= single**2 <= square * q <= (q * (of_others + g // 2 * rounded)) ** 2]
        possible += [total <= least, total**2 <= least * rows]
    if not all(possible):
        raise ResultCheckError(
            "the result fails its check, so no number is given: it is not an AUC; a message is damaged, or the "
            "aggregator has not computed what it should",
            check="range",
        )
    if not pairs:
        return AucOfSums(None, Fraction(0), positives, negatives, totals=totals)
    auc, binning_error = Fraction(1, 2) + Fraction(difference, 2 * pairs), Fraction(ties, 2 * pairs)
    variance = None
    if cubic:
        of_merged = (squares[0], squares[1]) if squares else None
        of_weights = (first[0], first[1]), (counted[0], counted[1])
        variance = VarianceSums(own, cubic[0], cubic[1], tied, hidden, of_merged, *of_weights)
    return AucOfSums(auc, binning_error, positives, negatives, variance, binning_error, totals)


@dataclass(frozen=True)
class AucSums(ReleasePart):
    """Those of an analysis's AUCs over `bins` bins, with `interval` also of their standard errors; and of its rows.

    Rows are counted, and nothing is released of them, where it is not `released`. With weights, standard errors are of
    `coarse` sums.
    """

    analysis: Analysis
    bins: int
    interval: bool
    wide: NDArray[np.bool_] | None = None  # bins whose ties count; all, if not given
    alike: NDArray[np.bool_] | None = None  # bins whose ties are asked for besides
    variance_bins: int = VARIANCE_BINS
    released: bool = True
    coarse: Coarse = EXACTLY

    @cached_property
    def vectors(self) -> Vectors:
        """Vectors, with their lengths."""
        counts = [(name, self.bins) for name in self._counts]
        if not self.analysis.units:
            return counts
        further = [(f"{name} {kind}", self._merged_bins) for kind in self._kinds for name in self._counts]
        return [*counts, (_ROWS, len(self._cells)), *further]

    @property
    def _kinds(self) -> list[str]:
        """Which vectors of merged bins there are, with weights."""
        return [*[_COARSE] * (self.coarse.sums > 1), _SQUARES] if self.interval else []

    @property
    def _merged_bins(self) -> int:
        return len(self.starts) or self.bins

    @cached_property
    def _counts(self) -> list[str]:
        models = range(len(self.analysis.models))
        return [counts_name(model, group, label) for model in models for group, label in self._cells]

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first bin of each merged one; empty where the cubic sums are over the bins themselves."""
        wide = np.ones(self.bins, np.bool_) if self.wide is None else self.wide
        return merged_starts(wide, self.variance_bins) if self.interval and self.released else ()

    @property
    def merged(self) -> Sequence[MergedVectors]:
        """The same vectors over merged bins."""
        named = tuple([(merged_name(name), name) for name in self._counts])
        return [MergedVectors(self.starts, named)] if self.starts else []

    @property
    def sums(self) -> Sequence[Sum]:
        """What is released: the sums of each contrast, then the rows of each class of each group."""
        return [total for total, _ in self._sums]

    def ranges(self, max_rows: int, parties: int) -> Sequence[Range]:
        """Return the range of each sum; rows themselves are counted as far as all parties may have them."""
        return [most(max_rows, parties) for _, most in self._sums]

    @cached_property
    def _sums(self) -> list[Ranged]:
        sums: list[Ranged] = []
        plain, tying = self.analysis.is_plain, picked(self.wide)
        for index, contrast in enumerate(self.analysis.contrasts if self.released else ()):
            cells = contrast.positives, contrast.negatives
            name = "" if plain else f" {index}"
            sides = [[counts_name(contrast.model, cell.group, label) for label in cell.classes] for cell in cells]
            p, n = map(Factor.each, sides)
            sums += [
                (Sum.product(f"difference{name}", p, below_less_above(sides[1])), _of_either_sign),
                (Sum.product(f"ties{name}", p, n, *tying), _pairs),
            ]
            if self.interval and contrast.interval:
                sums += self._of_variance(name, sides)
            if self._compared(contrast):
                sums.append((Sum.product(f"alike{name}", p, n, *picked(self.alike)), _pairs))
        for group, label in self._cells if self.released else ():
            rows = Factor((Part(counts_name(0, group, label), "total"),))
            sums.append((Sum.product(("N", "P")[label] if plain else f"rows g{group} c{label}", rows), self._totals))
        for at, (group, label) in enumerate(self._cells if self.analysis.units else ()):
            pick = Factor(constants=tuple(int(entry == at) for entry in range(len(self._cells))))
            sums.append((Sum.product(f"counted g{group} c{label}", Factor.each([_ROWS]), pick), self._totals))
        return sums

    def _of_variance(self, name: str, sides: Sequence[Sequence[str]]) -> list[Ranged]:
        """Return the sums of an AUC's standard error, of the vectors of its positives and negatives."""
        squares, coarse = ([[f"{own} {kind}" for own in side] for side in sides] for kind in (_SQUARES, _COARSE))
        if self.starts:
            sides = [list(map(merged_name, side)) for side in sides]
        (p, n), by = map(Factor.each, sides), coarse if self.coarse.sums > 1 else sides
        below, above = below_less_above(by[1]), above_less_below(by[0])
        own = [(below, "10", p), (above, "01", n)]
        if self.analysis.units:
            own = [(worth, side, Factor.each(of)) for (worth, side, _), of in zip(own, squares, strict=True)]
        cubic: list[Ranged] = [
            (Sum.product(f"Q{side}{name}", of, worth, worth), self._cubic) for worth, side, of in own
        ]
        if self.analysis.units:
            cubic += [(Sum.product(f"R{side}{name}", of, worth), self._cubic) for worth, side, of in own]
            cubic += [(Sum.product(f"W{side}{name}", of), self._cubic) for _, side, of in own]
        if not self.starts:
            return cubic
        merging = picked(None if self.wide is None else self.wide[list(self.starts)])
        return [
            *cubic,
            (Sum.product(f"merged difference{name}", p, below_less_above(sides[1])), _of_either_sign),
            (Sum.product(f"merged ties{name}", p, n, *merging), _pairs),
            (Sum.product(f"merged positives squared{name}", p, p, *merging), _squares),
            (Sum.product(f"merged negatives squared{name}", n, n, *merging), _squares),
        ]

    def terms(self) -> Sequence[Parameter]:
        """Return what parties agree to: models and classes, where they are several, and groups."""
        models, classes = ", ".join(self.analysis.models), ", ".join(self.analysis.classes)
        pairs = "; each is compared with each" if self.analysis.each_pair else ""
        of_models = [Parameter("models", models, "columns of scores" + pairs)] * (len(self.analysis.models) > 1)
        parameters = [*of_models, *[Parameter("classes", classes, "labels, one a model")] * bool(classes)]
        if self.analysis.by:
            by = "; ".join(f"{variable.name}: {', '.join(variable.levels)}" for variable in self.analysis.by)
            parameters.append(Parameter("groups", by, "columns, and all levels that they may have"))
        if self.analysis.cross_groups:
            parameters.append(Parameter("across groups", "yes", "positives of each against negatives of each other"))
        if self.analysis.weights and (units := self.analysis.units):
            most = f"{self.analysis.weights.column}, up to {units.most / units.per:g}"
            parameters.append(Parameter("weights", most, f"a column; in steps of {1 / units.per:g}"))
        return parameters

    def of_rows(self, rows: Rows) -> Sequence[Counts]:
        """Return the counts of all rows, then of each variable's levels, for one model after the other.

        Raises `InputError`: rows of another analysis.
        """
        data, classes = rows.data, self.analysis.classes_of_rows
        if int(data.labels.max()) >= classes:
            raise InputError(f"party {data.name!r} has rows of more classes than the session, {classes}")
        for codes, variable in zip(data.groups, self.analysis.by, strict=True):
            if int(codes.max()) >= len(variable.levels):
                raise InputError(
                    f"party {data.name!r} has rows of more levels of {variable.name!r} than the session, "
                    f"{len(variable.levels)}"
                )

        def counted(of_all: Counts, cells: NDArray[np.integer], weights: Counts | None) -> list[Counts]:
            levels = zip(data.groups, self.analysis.by, strict=True)
            shapes = ((codes, (len(variable.levels), len(of_all))) for codes, variable in levels)
            return [of_all, *(table(codes, cells, shape=shape, weights=weights) for codes, shape in shapes)]

        cells, weights = rows.cells, rows.data.weights
        counts = [own for of_all, at in zip(rows.counts, cells, strict=True) for own in counted(of_all, at, weights)]
        if weights is None:
            return counts
        some, kinds = (weights > 0).astype(np.int64), {_COARSE: counts}
        of_rows = counted(table(data.labels, shape=(classes,), weights=some), data.labels, some)
        if self.interval:
            squared, size = weights**2, (classes * self.bins,)
            of_models = (counted(table(at, shape=size, weights=squared), at, squared) for at in cells)
            kinds[_SQUARES] = [own for of_model in of_models for own in of_model]
        fine = (own.reshape(-1, self.bins) for kind in self._kinds for own in kinds[kind])
        starts = self.starts or range(self.bins)
        return [*counts, *of_rows, *(np.add.reduceat(own, starts, axis=1).ravel() for own in fine)]

    def rounded(self, counted: Counts) -> Counts:
        """Return a sketch of which vectors from `of_rows` come first with coarse sums rounded."""
        at = len(self._counts) * self.bins + len(self._cells)
        for kind in self._kinds if self.analysis.units else ():
            size, unit = len(self._counts) * self._merged_bins, self.coarse[kind == _SQUARES]
            counted[at : at + size] = (counted[at : at + size] + unit // 2) // unit
            at += size
        return counted

    def read_sums(self, sums: Sequence[int], reading: Reading) -> None:
        """Read the AUC of each contrast; of how many rows there are too many it says where that can be."""
        if not self.released:
            return
        given, max_rows = iter(sums), reading.max_rows
        squares = (6 if self.starts else 2) + 4 * bool(self.analysis.units)
        of_contrasts = [
            list(islice(given, 2 + squares * (self.interval and contrast.interval) + self._compared(contrast)))
            for contrast in self.analysis.contrasts
        ]
        rows = totals = dict(zip(self._cells, islice(given, len(self._cells)), strict=True))
        if units := self.analysis.units:
            rows = dict(zip(self._cells, given, strict=True))
        pooled = sum(rows[0, label] for label in range(self.analysis.classes_of_rows))
        if pooled > reading.parties * max_rows:
            raise ResultCheckError(
                "the result fails its check, so no number is given: the parties cannot have as many rows; a message is "
                "damaged, or the aggregator has not computed what it should",
                check="range",
            )
        if pooled > max_rows:
            raise ResultCheckError(f"no number is given: {too_many_rows(pooled, max_rows)}", check="rows")
        weight = sum(totals[0, label] for label in range(self.analysis.classes_of_rows))
        if units and weight > most_units(self.analysis, max_rows):
            told = too_many_rows(math.ceil(weight / units.per), max_rows, what="rows by weight")
            raise ResultCheckError(f"no number is given: {told}", check="rows")
        for contrast, own in zip(self.analysis.contrasts, of_contrasts, strict=True):
            sides = contrast.positives, contrast.negatives
            positives, negatives = [sum(rows[cell.group, label] for label in cell.classes) for cell in sides]
            alike = own.pop() if self._compared(contrast) else 0
            of_label = [sum(totals[cell.group, label] for label in cell.classes) for cell in sides]
            known = (units.most, self.coarse, reading.parties * self._merged_bins) if units else None
            weights = OfWeights((of_label[0], of_label[1]), *known) if known else None
            auc = auc_of_sums(own, positives, negatives, weights)
            reading.aucs.append(auc._replace(alike=Fraction(alike, 2 * max(auc.pairs, 1))) if alike else auc)
        reading.sayings.append(self.said)

    def said(self, reading: Reading) -> Said:
        """Return estimates of all contrasts, the first one as the headline; of groups that are too small only that.

        Raises `UndefinedAucError` without an AUC.
        """
        analysis, units, estimates = self.analysis, self.analysis.units, list[GroupEstimate]()
        several, aucs = len(analysis.models) > 1, reading.aucs
        if not analysis.classes and aucs[0].auc is None:
            missing = "negative" if aucs[0].positives else "positive"
            raise UndefinedAucError(
                f"the pooled rows hold no {missing} row, so the AUC is undefined; no number is given"
            )
        hidden = hidden_groups(analysis, aucs) if analysis.by else frozenset()
        for contrast, own in zip(analysis.contrasts, aucs, strict=True):
            model, group = analysis.models[contrast.model] if several else "", analysis.group_name(contrast)
            estimate = partial(GroupEstimate, model=model, group=group, contrast=contrast.label)
            if {contrast.positives.group, contrast.negatives.group} & hidden:
                estimates.append(estimate(auc=None, missing=too_few(analysis.min_cell, _EFFECTIVE * bool(units))))
                continue
            estimate = partial(estimate, positives=own.positives, negatives=own.negatives)
            if own.auc is None:
                estimates.append(estimate(auc=None, missing=ONE_CLASS))
                continue
            error, interval = reading.errors.of_auc(contrast, own) if contrast.interval else (None, None)
            known = {"fraction": own.auc, "binning_error": float(own.binning_error)}
            estimates.append(estimate(auc=float(own.auc), standard_error=error, interval=interval, **known))
        few = self._few_rows(reading, estimates)
        if analysis.classes:
            headline, binning_error = class_average.average(analysis, reading, macro=False)
            estimates.append(class_average.average(analysis, reading, macro=True)[0])
            few = [class_average.AVERAGE, *few]
        else:
            headline, binning_error = estimates[0], aucs[0].binning_error  # of all rows, which are never hidden
            if reading.level is not None and headline.interval is None:
                by_weight = min(aucs[0].positives, aucs[0].negatives) >= 2
                few = [_NO_SPREAD if min(aucs[0].effective) >= 2 else _NO_INTERVAL.format(_EFFECTIVE * by_weight)]
        if any(own.rows >= _FEWEST > own.effective for own in aucs[0].counted):
            few.append(_HEAVY.format(*aucs[0].effective))
        of_groups = [NESTED] * (len(analysis.by) > 1 and bool(hidden))
        if units and analysis.by and analysis.min_cell > 1 and aucs[0].variance is None:
            of_groups.append(_HEAVY_IN_GROUPS)
        if analysis.by and analysis.min_cell == 1:
            of_groups.append(_SMALL_GROUPS)
        warnings = (
            *few,
            *self._crowded(reading, estimates),
            *_binned(estimates),
            *self._reversed(estimates),
            *of_groups,
        )
        reading.estimates = tuple(estimates)
        settings: dict[str, int | float | str] = {}
        if self.starts and reading.level is not None:
            settings["variance_bins"] = len(self.starts)
        if units:
            settings["weights"] = f"steps of {1 / units.per:g}"
            if reading.level is not None:
                effective = (round(rows) for rows in aucs[0].effective)
                settings["effective_events"], settings["effective_others"] = effective
        return Said(
            headline=headline,
            binning_error=binning_error,
            estimates=reading.estimates,
            settings=settings,
            warnings=warnings,
        )

    def _few_rows(self, reading: Reading, estimates: Sequence[GroupEstimate]) -> list[str]:
        """Warn where an interval by errors alone is of few rows, or patients; groups are named, all rows are not."""
        groups: dict[str, dict[str, None]] = defaultdict(dict)
        for contrast, own, estimate in zip(self.analysis.contrasts, reading.aucs, estimates, strict=True):
            if estimate.interval is not None and (text := reading.errors.few(contrast, own)):
                groups[text][estimate.group] = None
        told = groups.items()
        return [text if "" in names else f"{', '.join(map(repr, names))}: {text}" for text, names in told]

    def _crowded(self, reading: Reading, estimates: Sequence[GroupEstimate]) -> list[str]:
        """Warn of standard errors that merged bins leave so open that they are taken large."""
        told = [
            _named(estimate) or "the AUC"
            for contrast, own, estimate in zip(self.analysis.contrasts, reading.aucs, estimates, strict=False)
            if estimate.interval is not None and own.crowded
        ]
        advice = "" if reading.quantiles else "; take quantile:1000, which a session before finds"
        return [f"{_CROWDED.format(bins=len(self.starts), names=', '.join(told))}{advice}"] if told else []

    def _reversed(self, estimates: Sequence[GroupEstimate]) -> list[str]:
        """Warn of intervals below 1/2; rows of one group against another's may well be there."""
        remedy = "the column of its scores may be another class's" if self.analysis.classes else intervals.REVERSED
        return [
            f"{_named(estimate) or 'the AUC'}: {intervals.BELOW_HALF}, so {remedy}"
            for contrast, estimate in zip(self.analysis.contrasts, estimates, strict=False)
            if estimate.interval is not None
            and estimate.interval.high < 0.5
            and contrast.positives.group == contrast.negatives.group
        ]

    def _cubic(self, most: int, parties: int) -> Range:
        """Return the range of a cubic sum, and of those that weights add: of coarse sums, with what rounding adds."""
        if (units := self.analysis.units) is None:
            return 0, most_cubic(most)
        if self.coarse != EXACTLY:
            most = most // self.coarse.sums + 1 + parties * self._merged_bins
        found = max(most, most_cubic(most)) * max(1, -(-units.most * self.coarse.sums // self.coarse.squares))
        return -found, found

    def _totals(self, most: int, parties: int) -> Range:
        """Return the range of rows, or of their weights: as far as all parties may have them."""
        units = self.analysis.units or Units(1, 1)
        return 0, parties * (most // units.per * units.most)

    def _compared(self, contrast: Contrast) -> bool:
        """Tell whether all its ties are wanted too: `comparison_sums` asks how many rows have one score."""
        whole = contrast.positives.group == contrast.negatives.group == 0
        return whole and self.alike is not None

    @cached_property
    def _cells(self) -> list[tuple[int, int]]:
        groups, classes = range(len(self.analysis.groups)), range(len(self.analysis.classes) or 2)
        return [(group, label) for group in groups for label in classes]


def merged_name(name: str) -> str:
    """Return the name of a vector over merged bins."""
    return f"{name} merged"


def _of_either_sign(max_rows: int, parties: int) -> Range:
    return -most_pairs(max_rows), most_pairs(max_rows)


def _pairs(max_rows: int, parties: int) -> Range:
    return 0, most_pairs(max_rows)


def _squares(max_rows: int, parties: int) -> Range:
    return 0, max_rows**2


def hidden_groups(analysis: Analysis, aucs: Sequence[AucOfSums]) -> frozenset[int]:
    """Return groups that are not shown, with too few rows, or effective rows, of a label; and the next smallest ones.

    Effective rows are known only where there is an interval.
    """
    least = analysis.min_cell
    if least == 1:
        return frozenset()
    rows: dict[int, list[int]] = defaultdict(list)  # of each label; repeatedly, but in one order for all groups
    for contrast, own in zip(analysis.contrasts, aucs, strict=True):
        if contrast.positives.group == contrast.negatives.group:
            counted = zip((own.positives, own.negatives), own.effective, strict=True)
            rows[contrast.positives.group] += [min(each, math.floor(worth)) for each, worth in counted]
    by_variable: dict[int, list[int]] = defaultdict(list)
    for at, group in enumerate(analysis.groups):
        if group.variable is not None:
            by_variable[group.variable].append(at)
    not_shown: set[int] = set()
    for groups in by_variable.values():
        own_rows = hidden_rows(np.array([rows[at] for at in groups]), least, zeros=True)
        not_shown.update(groups[at] for at in own_rows)
    return frozenset(not_shown)


def _binned(estimates: Sequence[GroupEstimate]) -> list[str]:
    """Warn of binning errors of estimates but the first, of which `result_warnings.of_auc` does."""
    told = [
        _named(estimate)
        for estimate in estimates[1:]
        if estimate.standard_error and (estimate.binning_error or 0) > TELLING * estimate.standard_error
    ]
    if not told:
        return []
    return [f"the binning error (bins in the table) exceeds a quarter of the standard error of {', '.join(told)}"]


def _named(estimate: GroupEstimate) -> str:
    """Return what an estimate is of; empty where that is all rows, of the only model."""
    return " ".join(filter(None, (estimate.model, estimate.group, estimate.contrast)))
