"""What an analysis releases, of which vectors, and what a party counts into these.

Vectors of a party's sketch, all of its own rows:

    m0 g1 c1     for each model, group and class: rows in each bin of the model's scores
    t0 c1        for each model that is compared: rows of class 1 in each of at most 64 coarse bins
    t0 t1 c1     for each comparison: rows of class 1 by the coarse bins of both models, row after row of the table
    precision    the first model's m0 g0 c1, each entry times 2^b/M_k, M_k the pooled rows at or above threshold k
    sites m0     for each model, of labels 0 and 1: what this party says of itself as a site (`_site`)

Sums are those of `auc_sums` for each contrast; P and N of each group, from the first model's vectors; for each
comparison those of `fhe_auc.intervals.PairedSums`; the sums of each entry of the last; and, for average precision,

    Σ p_k·TP_k/M_k = P·AP, TP_k = P_{≥k}

with 2^b·p_k/M_k put in by each party for its own rows, as nobody can divide under encryption. Parties know M_k from the
session that has found the thresholds; it is not in the manifest, and the aggregator does not learn it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fhe_auc import thresholds as grids
from fhe_auc.analysis import PLAIN, Analysis, Cell
from fhe_auc.counts import PartyData
from fhe_auc.errors import InputError, ResultCheckError
from fhe_auc.heterogeneity import SiteSums
from fhe_auc.intervals import PairedSums, of_bins
from fhe_auc.sums.sketch import Sketch
from fhe_auc.sums.terms import Factor, Part, Release, Sum
from fhe_auc_protocols.exact_auc.auc_sums import (
    AucOfSums,
    auc_of_sums,
    auc_sums,
    better,
    each_of,
    least_modulus,
    sum_of,
    total,
    worse,
)

COARSE_BINS = 64
"""Of either model's scores, in a comparison: standard errors then differ by some 0.1 % from those of the rows."""

LEAST_SITES = 5
"""Fewest parties of which sums over sites are released. Of fewer, one could work out another's numbers from its own."""

_SITE_ENTRIES = 8
_LARGEST_LOGIT = 16
_MOST_FRACTION_BITS = 20
_PRECISION = "precision"
_LEAST_PRECISION_BITS, _MOST_PRECISION_BITS = 12, 40

_Counts = NDArray[np.int64]


@dataclass(frozen=True)
class AnalysisSums:
    """The sums of an analysis over `bins` bins.

    With `interval` those of standard errors are among them, and of comparisons; with `sites`, those over sites; with
    `average_precision`, that of the first model over all rows.
    """

    analysis: Analysis
    bins: int
    interval: bool
    sites: bool
    average_precision: bool = False

    @cached_property
    def release(self) -> Release:
        """What is released, of which sketch; raise `InputError` or `CapacityError` where it is too much for one."""
        return Release(Sketch(tuple(self._vectors())), tuple(each for part in self._parts().values() for each in part))

    @property
    def compared(self) -> tuple[tuple[int, int], ...]:
        """Pairs of models, by index, whose comparison has a standard error."""
        return self.analysis.comparisons if self.interval else ()

    @property
    def coarse_bins(self) -> int:
        """Bins of each side of a comparison's table."""
        return min(COARSE_BINS, self.bins)

    def sketch(
        self, data: PartyData, thresholds: NDArray[np.float64], fraction_bits: int = 0, precision_bits: int = 0
    ) -> _Counts:
        """Return a party's sketch, shape (release.sketch.size,); bits are as the methods of these names return them.

        Raises `InputError` where the rows are those of another analysis.
        """
        wanted = len(self.analysis.models), len(self.analysis.by)
        if (len(data.scores), len(data.groups)) != wanted:
            raise InputError(
                f"party {data.name!r} has {len(data.scores)} columns of scores and {len(data.groups)} of groups, the "
                f"session {wanted[0]} and {wanted[1]}"
            )
        classes = self.analysis.classes_of_rows
        if int(data.labels.max()) >= classes:
            raise InputError(f"party {data.name!r} has rows of more classes than the session, {classes}")
        grid = grids.explicit(thresholds)
        bins_of = [np.maximum(np.searchsorted(grid, scores, side="right") - 1, 0) for scores in data.scores]
        vectors: list[_Counts] = []
        for bins in bins_of:
            vectors.append(_table(data.labels, bins, shape=(classes, self.bins)))
            for codes, variable in zip(data.groups, self.analysis.by, strict=True):
                vectors.append(_table(codes, data.labels, bins, shape=(len(variable.levels), classes, self.bins)))
        wide = self.coarse_bins
        coarse = {model: bins_of[model] * wide // self.bins for model in self._coarse_models}
        vectors += [_table(data.labels, bins, shape=(2, wide)) for bins in coarse.values()]
        vectors += [_table(data.labels, coarse[a], coarse[b], shape=(2, wide, wide)) for a, b in self.compared]
        if self.average_precision:
            if len(data.rows_above) != self.bins:
                raise InputError(
                    f"party {data.name!r} does not know how many rows lie at or above each threshold: give its result "
                    "of the session that has found them (boundaries)"
                )
            rows_above = np.maximum(np.array(data.rows_above, np.int64), 1)
            share = ((2 << precision_bits) + rows_above) // (2 * rows_above)  # 2^b/M_k, rounded
            vectors.append(vectors[0][self.bins : 2 * self.bins] * share)
        if self.sites:
            vectors += [
                _site(_table(data.labels, bins, shape=(2, self.bins)).reshape(2, -1), fraction_bits) for bins in bins_of
            ]
        return np.concatenate(vectors)

    def least_modulus(self, max_rows: int) -> int:
        """Return how many values a sum of so many pooled rows can take, the most of any sum."""
        least = least_modulus(max_rows, interval=self.interval, comparison=bool(self.compared))
        return max(least, max_rows**2 << _LEAST_PRECISION_BITS) if self.average_precision else least

    def fraction_bits(self, max_rows: int, modulus: int) -> int:
        """Return after how many binary places weights of sites are rounded: as many as their sums leave room for."""
        largest = max(max_rows**2, _LARGEST_LOGIT**2 * max_rows)
        return min(_MOST_FRACTION_BITS, (modulus // (2 * largest)).bit_length() - 1)

    def precision_bits(self, max_rows: int, modulus: int) -> int:
        """Return b of average precision: its sum, at most P + P²/2^(b + 1) times 2^b, stays below half of T."""
        return min(_MOST_PRECISION_BITS, (modulus // (4 * max_rows)).bit_length() - 1)

    def read(self, integers: Sequence[int], max_rows: int, modulus: int) -> Sums:
        """Return what a result says, its integers each known up to multiples of `modulus`.

        Raises `ResultCheckError` where they cannot be those of at most `max_rows` rows.
        """
        given = iter(integers)
        by_part = {name: [next(given) for _ in part] for name, part in self._parts().items()}
        rows = dict(zip(self._cells, (each % modulus for each in by_part.pop("rows")), strict=True))
        estimates = []
        for index, contrast in enumerate(self.analysis.contrasts):
            positives, negatives = (
                sum(rows[cell.group, each] for each in cell.classes)
                for cell in (contrast.positives, contrast.negatives)
            )
            estimates.append(auc_of_sums(by_part[f"contrast {index}"], positives, negatives, max_rows, modulus))
        own = {model: by_part[f"coarse {model}"] for model in self._coarse_models}
        paired = {
            (a, b): PairedSums(
                (own[a][0], own[b][0]),
                (own[a][1] % modulus, own[b][1] % modulus, by_part[f"paired {a} {b}"][0]),
                (own[a][2] % modulus, own[b][2] % modulus, by_part[f"paired {a} {b}"][1]),
            )
            for a, b in self.compared
        }
        precision = None
        if self.average_precision:
            precision = self._precision(by_part["precision"][0], rows[0, 1], max_rows, modulus)
        bits = self.fraction_bits(max_rows, modulus)
        sites = [_sites_of(by_part[f"sites {model}"], bits) for model in self._site_models]
        return Sums(estimates, paired, sites, precision)

    def _precision(self, total: int, positives: int, max_rows: int, modulus: int) -> Fraction | None:
        """Return the average precision, but for P/2^(b + 1) at most; None where no row is positive."""
        scale = 1 << self.precision_bits(max_rows, modulus)
        if not 0 <= total <= positives * (scale + positives):
            raise ResultCheckError(
                "the result fails its check, so no number is given: it is not an average precision", check="range"
            )
        return min(Fraction(total, scale * positives), Fraction(1)) if positives else None

    @property
    def _cells(self) -> list[tuple[int, int]]:
        """All groups with all classes."""
        return [
            (group, each) for group in range(len(self.analysis.groups)) for each in range(self.analysis.classes_of_rows)
        ]

    @property
    def _coarse_models(self) -> list[int]:
        return sorted({model for pair in self.compared for model in pair})

    @property
    def _site_models(self) -> range:
        return range(len(self.analysis.models) if self.sites else 0)

    def _vectors(self) -> Iterator[tuple[str, int]]:
        for model in range(len(self.analysis.models)):
            yield from ((vector(model, group, each), self.bins) for group, each in self._cells)
        yield from ((_coarse(model, each), self.coarse_bins) for model in self._coarse_models for each in (0, 1))
        yield from ((_pair(pair, each), self.coarse_bins**2) for pair in self.compared for each in (0, 1))
        if self.average_precision:
            yield _PRECISION, self.bins
        yield from ((_site_vector(model), _SITE_ENTRIES) for model in self._site_models)

    def _parts(self) -> Mapping[str, Sequence[Sum]]:
        parts: dict[str, Sequence[Sum]] = {}
        plain = self.analysis.is_plain
        for index, each in enumerate(self.analysis.contrasts):
            positives, negatives = (_vectors_of(each.model, cell) for cell in (each.positives, each.negatives))
            interval = self.interval and each.interval
            name = "" if plain else f" {index}"
            parts[f"contrast {index}"] = auc_sums(name, positives, negatives, interval=interval)
        parts["rows"] = [
            total(("N", "P")[each] if plain else f"rows g{group} c{each}", vector(0, group, each))
            for group, each in self._cells
        ]
        for model in self._coarse_models:
            p, n = ([_coarse(model, each)] for each in (1, 0))
            difference, _, *squares = auc_sums(f" coarse m{model}", p, n, interval=True)
            parts[f"coarse {model}"] = [difference, *squares]
        wide = self.coarse_bins
        for pair in self.compared:
            rows_and_columns = list(zip(pair, ((wide, 1), (1, wide)), strict=True))
            parts["paired {} {}".format(*pair)] = [
                sum_of(
                    f"{name} {pair}",
                    each_of([_pair(pair, of)]),
                    *(side([_coarse(model, 1 - of)], repeated) for model, repeated in rows_and_columns),
                )
                for name, of, side in (("Q10", 1, worse), ("Q01", 0, better))
            ]
        if self.average_precision:
            first = vector(0, 0, 1)
            at_or_above = Factor((Part(first), Part(first, "above")))
            parts["precision"] = [sum_of("average precision", each_of([_PRECISION]), at_or_above)]
        for model in self._site_models:
            entries = Factor((Part(_site_vector(model)),))
            parts[f"sites {model}"] = [
                sum_of(
                    f"{name} m{model}", entries, Factor(constants=tuple(np.eye(_SITE_ENTRIES, dtype=int)[at].tolist()))
                )
                for at, name in enumerate(("D", "PN", "both", "usable", "w", "wt", "wtt", "ww"))
            ]
        return parts


def one_auc(bins: int, *, interval: bool = False) -> AnalysisSums:
    """Return those of one AUC, without sums over sites."""
    return AnalysisSums(PLAIN, bins, interval, sites=False)


@dataclass(frozen=True)
class SumsOfSites:
    """D and PN of all sites' own pairs; how many sites have both classes; and the sums of the usable ones."""

    difference: int
    pairs: int
    both_classes: int
    usable: SiteSums


@dataclass(frozen=True)
class Sums:
    """What a result says: an AUC for each contrast, sums for each comparison, and of sites for each model."""

    estimates: Sequence[AucOfSums]
    paired: Mapping[tuple[int, int], PairedSums]
    sites: Sequence[SumsOfSites]
    average_precision: Fraction | None = None


def vector(model: int, group: int, of_class: int) -> str:
    """Return the name of the vector with a group's rows of a class in each bin of a model's scores; all by index."""
    return f"m{model} g{group} c{of_class}"


def _coarse(model: int, of_class: int) -> str:
    return f"t{model} c{of_class}"


def _pair(pair: tuple[int, int], of_class: int) -> str:
    return f"t{pair[0]} t{pair[1]} c{of_class}"


def _site_vector(model: int) -> str:
    return f"sites m{model}"


def _vectors_of(model: int, cell: Cell) -> list[str]:
    return [vector(model, cell.group, each) for each in cell.classes]


def _table(*codes: NDArray[np.integer], shape: tuple[int, ...]) -> _Counts:
    """Return how many rows have each combination of codes, shape (product of shape,), the last code fastest."""
    index = np.ravel_multi_index(codes, shape)
    return np.bincount(index, minlength=math.prod(shape)).astype(np.int64)


def _site(rows: _Counts, fraction_bits: int) -> _Counts:
    """Return a party's entries as a site, of its rows of either label in each bin, shape (2, bins).

    D; P·N; 1 if there are both labels; and if its AUC has a standard error, 1, w, wθ, wθ² and w², the last four times
    2^fraction_bits. w is at most the number of rows, |θ| at most 16: more would be an accident of few rows.
    """
    found = np.zeros(_SITE_ENTRIES, np.int64)
    negatives, positives = rows
    pairs = int(positives.sum()) * int(negatives.sum())
    if not pairs:
        return found
    auc, standard_error = of_bins(positives, negatives)
    found[:3] = int((auc - Fraction(1, 2)) * 2 * pairs), pairs, 1
    if standard_error and 0 < auc < 1:
        weight = min((float(auc * (1 - auc)) / standard_error) ** 2, float(positives.sum() + negatives.sum()))
        theta = max(-_LARGEST_LOGIT, min(_LARGEST_LOGIT, math.log(auc / (1 - auc))))
        scaled = (weight, weight * theta, weight * theta**2, weight**2)
        found[3:] = 1, *(round(each * 2**fraction_bits) for each in scaled)
    return found


def _sites_of(sums: Sequence[int], fraction_bits: int) -> SumsOfSites:
    difference, pairs, both, usable, *scaled = sums
    if not (0 <= usable <= both and abs(difference) <= pairs):
        raise ResultCheckError(
            "the result fails its check, so no number is given: sites cannot add up to it", check="range"
        )
    weights = (Fraction(each, 2**fraction_bits) for each in scaled)
    return SumsOfSites(difference, pairs, both, SiteSums(usable, *weights))
