"""What an analysis releases, of which vectors, and what a party counts into these.

Vectors of a party's sketch, all of its own rows:

    m0 g1 c1     for each model, group and class: rows in each bin of the model's scores
    t0 c1        for each model that is compared: rows of class 1 in each coarse bin; also x, xx and xy
    t0 t1 c1     for each comparison: Σ φ^a_j·φ^b_k of rows of class 1, row after row of the table
    precision    the first model's m0 g0 c1, each entry times 2^b/M_k, M_k the pooled rows at or above threshold k
    sites m0     for each model, of labels 0 and 1: what this party says of itself as a site (`_site`)
    noise 0      in a private session, this party's share of the noise on the first number that is released; and so on

Sums are those of `auc_sums` for each contrast; P and N of each group, from the first model's vectors; for each
comparison those of `results.intervals.PairedSums`; the sums of each entry of the last; and, for average precision,

    Σ p_k·TP_k/M_k = P·AP, TP_k = P_{≥k}

with 2^b·p_k/M_k put in by each party for its own rows, as nobody can divide under encryption. Parties know M_k from the
session that has found the thresholds; it is not in the manifest, and the aggregator does not learn it.

Comparisons: two models often order rows nearly alike. Then it takes little to move a row into another coarse bin, and
standard errors from counts by coarse bins come out far too large. So a row lies between the lower ends of two bins,
j and j + 1, with the share φ of each: (S − r)/S and r/S, by its place r/S in the bin. What it is worth, N_{<j} − N_{≥j}
at the lower end of bin j, is interpolated so: Σ_j φ_j·(N_{<j} − N_{≥j}). Vectors x are Σ φ_j over rows, xx Σ φ_j²,
xy Σ φ_j·φ_{j+1}; all times S or S².
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, ResultCheckError
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import PLAIN, Analysis, Cell
from fhe_auc.question.binning import bins_of as bins_of_scores
from fhe_auc.results.heterogeneity import SiteSums
from fhe_auc.results.intervals import Moments, PairedSums, of_bins
from fhe_auc.rows.counts import PartyData
from fhe_auc.session.protocol import too_many_rows
from fhe_auc.sums.sketch import Sketch
from fhe_auc.sums.terms import Factor, Part, Release, Sum, Term
from fhe_auc_protocols.exact_auc.auc_sums import (
    AucOfSums,
    auc_of_sums,
    auc_sums,
    each_of,
    least_modulus,
    sum_of,
    total,
    worse,
)
from fhe_auc_protocols.exact_auc.private_auc import Privacy

MOST_SINGLE = 128
"""Up to so many bins, each is a coarse one in a comparison: quantiles of up to 60 rows then leave nothing out."""

COARSE_BINS = 72
"""Most of either model's scores where there are more bins; with one more for the upper end of the last."""

_MOST_PARTS = 8
"""Of a coarse bin, in which a row's place is told."""

_SITE_ENTRIES = 8
_LARGEST_LOGIT = 16
_MOST_FRACTION_BITS = 20
_PRECISION = "precision"
_LEAST_PRECISION_BITS, _MOST_PRECISION_BITS = 12, 40

_KINDS = ("", "x", "xx", "xy")
"""Vectors of a model that is compared."""

_SIDES = (("10", 1), ("01", 0))
"""Sums over positive and over negative rows."""

_Counts = NDArray[np.int64]


class _Shares(NamedTuple):
    """Where rows lie, shape (rows,) each: in which coarse bin, and S times their shares of its lower and upper end."""

    at: _Counts
    lower: _Counts
    upper: _Counts


@dataclass(frozen=True)
class AnalysisSums:
    """The sums of an analysis over `bins` bins.

    With `interval` those of standard errors are among them, and of comparisons; with `average_precision`, that of the
    first model over all rows. With `privacy` there are only the numbers of its channels, with noise.
    """

    analysis: Analysis
    bins: int
    interval: bool
    average_precision: bool = False
    privacy: Privacy | None = None

    @cached_property
    def release(self) -> Release:
        """What is released, of which sketch; raise `InputError` or `CapacityError` where it is too much for one."""
        return Release(Sketch(tuple(self._vectors())), tuple(each for part in self._parts().values() for each in part))

    @property
    def compared(self) -> tuple[tuple[int, int], ...]:
        """Pairs of models, by index, whose comparison has a standard error."""
        return self.analysis.comparisons if self.interval else ()

    @property
    def _width(self) -> int:
        """How many bins make a coarse one."""
        return 1 if self.bins <= MOST_SINGLE else -(-self.bins // COARSE_BINS)

    @property
    def _coarse_bins(self) -> int:
        """Of each side of a comparison's table: one behind the last, for that one's upper end."""
        return -(-self.bins // self._width) + 1

    @property
    def scale(self) -> int:
        """S: the shares of a row are odd multiples of 1/S, 16 at most, from the middle of a part of its coarse bin.

        A finer one would gain little, and sums grow with its square: 16 leaves 24,575 rows a prime of 50 bits.
        """
        return 2 * min(self._width, _MOST_PARTS)

    def least_modulus(self, max_rows: int, parties: int = 1) -> int:
        """Return how many values a sum of so many pooled rows can take, the most of any sum.

        Rows themselves are counted further, up to as many of each of the `parties`: so that it is certain which sums
        are those of more rows.
        """
        if self.privacy is not None:
            return self.privacy.least_modulus
        least = least_modulus(max_rows, interval=self.interval, scale=self.scale if self.compared else 0)
        least = max(least, parties * max_rows + 1)
        return max(least, max_rows**2 << _LEAST_PRECISION_BITS) if self.average_precision else least

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
        grid = grids.explicit(thresholds)
        counted = functools.reduce(np.add, (self._of_rows(batch, grid) for batch in data.batches()))
        vectors: list[_Counts] = [counted]
        if self.privacy is not None:
            vectors.append(self.privacy.noise()[0])
        if self.average_precision:
            if len(data.rows_above) != self.bins:
                raise InputError(
                    f"party {data.name!r} does not know how many rows lie at or above each threshold: give its result "
                    "of the session that has found them (boundaries)"
                )
            rows_above = np.maximum(np.array(data.rows_above, np.int64), 1)
            share = ((2 << precision_bits) + rows_above) // (2 * rows_above)  # 2^b/M_k, rounded
            vectors.append(counted[self.bins : 2 * self.bins] * share)
        if self.analysis.heterogeneity:
            of_model = 2 * self.bins * len(self.analysis.groups)  # all rows' counts come first
            vectors += [
                _site(counted[model * of_model :][: 2 * self.bins].reshape(2, -1), fraction_bits)
                for model in range(len(self.analysis.models))
            ]
        return np.concatenate(vectors)

    def _of_rows(self, data: PartyData, grid: NDArray[np.float64]) -> _Counts:
        """Return the vectors that add up over rows: those before average precision and sites."""
        classes = self.analysis.classes_of_rows
        if int(data.labels.max()) >= classes:
            raise InputError(f"party {data.name!r} has rows of more classes than the session, {classes}")
        for codes, variable in zip(data.groups, self.analysis.by, strict=True):
            if int(codes.max()) >= len(variable.levels):
                raise InputError(
                    f"party {data.name!r} has rows of more levels of {variable.name!r} than the session, "
                    f"{len(variable.levels)}"
                )
        bins_of: list[_Counts] = [bins_of_scores(scores, grid).astype(np.int64) for scores in data.scores]
        vectors: list[_Counts] = []
        for bins in bins_of:
            vectors.append(_table(data.labels, bins, shape=(classes, self.bins)))
            for codes, variable in zip(data.groups, self.analysis.by, strict=True):
                vectors.append(_table(codes, data.labels, bins, shape=(len(variable.levels), classes, self.bins)))
        shares = {model: self._shares(bins_of[model]) for model in self._coarse_models}
        for each in shares.values():
            vectors += self._of_shares(data.labels, each)
        vectors += [self._pair_of_shares(data.labels, shares[a], shares[b]) for a, b in self.compared]
        return np.concatenate(vectors)

    def fraction_bits(self, max_rows: int, modulus: int) -> int:
        """Return after how many binary places weights of sites are rounded: as many as their sums leave room for.

        A party's entries are below 2^62 as well, w² with them.
        """
        largest = max(max_rows**2, _LARGEST_LOGIT**2 * max_rows)
        room = min(modulus // (2 * largest), 2**62 // largest)
        return max(0, min(_MOST_FRACTION_BITS, room.bit_length() - 1))

    def precision_bits(self, max_rows: int, modulus: int) -> int:
        """Return b of average precision: its sum, at most P + P²/2^(b + 1) times 2^b, stays below half of T."""
        return min(_MOST_PRECISION_BITS, (modulus // (4 * max_rows)).bit_length() - 1)

    def read(self, integers: Sequence[int], max_rows: int, modulus: int, parties: int = 1) -> Sums:
        """Return what a result says, its integers each known up to multiples of `modulus`.

        Raises `ResultCheckError` where they cannot be those of at most `max_rows` rows; of how many, it says where that
        can be: none of the `parties` has more.
        """
        given = iter(integers)
        by_part = {name: [next(given) for _ in part] for name, part in self._parts().items()}
        rows = dict(zip(self._cells, (each % modulus for each in by_part.pop("rows")), strict=True))
        pooled = sum(rows[0, each] for each in range(self.analysis.classes_of_rows))
        if pooled > parties * max_rows:
            raise ResultCheckError(
                "the result fails its check, so no number is given: the parties cannot have as many rows; a message is "
                "damaged, or the aggregator has not computed what it should",
                check="range",
            )
        if pooled > max_rows:
            raise ResultCheckError(f"no number is given: {too_many_rows(pooled, max_rows)}", check="rows")
        estimates = []
        for index, contrast in enumerate(self.analysis.contrasts):
            positives, negatives = (
                sum(rows[cell.group, each] for each in cell.classes)
                for cell in (contrast.positives, contrast.negatives)
            )
            estimates.append(auc_of_sums(by_part[f"contrast {index}"], positives, negatives, modulus))
        paired = {}
        for pair in self.compared:
            first, second = (by_part[f"coarse {model}"] for model in pair)
            of_both = by_part["paired {} {}".format(*pair)]
            of_positives, of_negatives = (
                Moments(first[at], second[at], first[at + 1] % modulus, second[at + 1] % modulus, product)
                for at, product in zip((0, 2), of_both, strict=True)
            )
            paired[pair] = PairedSums(of_positives, of_negatives, self.scale)
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

    def _shares(self, bins: _Counts) -> _Shares:
        at = bins // self._width
        upper = 2 * ((bins - at * self._width) * (self.scale // 2) // self._width) + 1
        return _Shares(at, self.scale - upper, upper)

    def _of_shares(self, labels: NDArray[np.uint8], shares: _Shares) -> list[_Counts]:
        at, lower, upper = shares

        def table(bins: _Counts, weights: _Counts | None = None) -> _Counts:
            return _table(labels, bins, shape=(2, self._coarse_bins), weights=weights)

        x, xx = (table(at, lower**power) + table(at + 1, upper**power) for power in (1, 2))
        return [table(at), x, xx, table(at, lower * upper)]

    def _pair_of_shares(self, labels: NDArray[np.uint8], first: _Shares, second: _Shares) -> _Counts:
        shape = 2, self._coarse_bins, self._coarse_bins
        found = np.zeros(math.prod(shape), np.int64)
        for (i, own), (j, other) in itertools.product(enumerate(first[1:]), enumerate(second[1:])):
            found += _table(labels, first.at + i, second.at + j, shape=shape, weights=own * other)
        return found

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
        return range(len(self.analysis.models) if self.analysis.heterogeneity else 0)

    def _vectors(self) -> Iterator[tuple[str, int]]:
        for model in range(len(self.analysis.models)):
            yield from ((vector(model, group, each), self.bins) for group, each in self._cells)
        if self.privacy is not None:
            yield from ((_noise(index), 1) for index, _ in enumerate(self.privacy.channels))
        for model in self._coarse_models:
            yield from ((_coarse(model, each, kind), self._coarse_bins) for kind in _KINDS for each in (0, 1))
        yield from ((_pair(pair, each), self._coarse_bins**2) for pair in self.compared for each in (0, 1))
        if self.average_precision:
            yield _PRECISION, self.bins
        yield from ((_site_vector(model), _SITE_ENTRIES) for model in self._site_models)

    def _private_sums(self, privacy: Privacy) -> list[Sum]:
        """Return what is released with noise; `private_auc` says why it may be."""
        found = []
        for index, (model, weight, _, _) in enumerate(privacy.channels):
            of_positives = [Part(vector(0, 0, 1), "total", weight)] if weight else []
            terms = [Term((Factor((*of_positives, Part(_noise(index), "total"))),))]
            if model is not None:
                terms.append(Term((each_of([vector(model, 0, 1)]), worse([vector(model, 0, 0)]))))
            of_model = f"D{model}" if privacy.models > 1 else "D"
            name = "P" if model is None else f"{of_model} {'-' if weight < 0 else '+'} {abs(weight)} P"
            found.append(Sum(name if weight else of_model, tuple(terms)))
        return found

    def _parts(self) -> Mapping[str, Sequence[Sum]]:
        if self.privacy is not None:
            return {"private": self._private_sums(self.privacy)}
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
            of_model: list[Sum] = []
            for name, of in _SIDES:
                x, xx, xy = (_coarse(model, of, kind) for kind in ("x", "xx", "xy"))
                at, following = (_worth(model, of, following=following) for following in (False, True))
                both = Term((each_of([xx]), at, at)), Term((Factor((Part(xy, weight=2),)), at, following))
                of_model += [sum_of(f"D{name} t{model}", each_of([x]), at), Sum(f"Q{name} t{model}", both)]
            parts[f"coarse {model}"] = of_model
        wide = self._coarse_bins
        for a, b in self.compared:
            parts[f"paired {a} {b}"] = [
                sum_of(
                    f"Q{name} t{a} t{b}",
                    each_of([_pair((a, b), of)]),
                    _worth(a, of, (wide, 1)),
                    _worth(b, of, (1, wide)),
                )
                for name, of in _SIDES
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
    """Return those of one AUC."""
    return AnalysisSums(PLAIN, bins, interval)


@dataclass(frozen=True)
class SumsOfSites:
    """D and PN of all sites' own pairs; how many sites have both classes; and the sums of the usable ones."""

    difference: int
    pairs: int
    both_classes: int
    usable: SiteSums

    def possible(self, parties: int) -> bool:
        """Tell whether so many parties' entries can add up to this; a party can enter anything."""
        among = 0 <= self.usable.usable <= self.both_classes <= parties
        return among and abs(self.difference) <= self.pairs and self.usable.weight_square >= 0


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


def _coarse(model: int, of_class: int, kind: str = "") -> str:
    return f"t{model} {kind}c{of_class}"


def _worth(model: int, of: int, repeated: tuple[int, int] = (1, 1), *, following: bool = False) -> Factor:
    """Return N_{<j} − N_{≥j} for positives, P_{≥j} − P_{<j} for negatives; or those of j + 1."""
    counts, sign = _coarse(model, 1 - of), 1 if of else -1
    own = Part(counts, weight=sign if following else -sign)
    return Factor((Part(counts, "below", sign), Part(counts, "above", -sign), own), (), *repeated)


def _pair(pair: tuple[int, int], of_class: int) -> str:
    return f"t{pair[0]} t{pair[1]} c{of_class}"


def _noise(channel: int) -> str:
    return f"noise {channel}"


def _site_vector(model: int) -> str:
    return f"sites m{model}"


def _vectors_of(model: int, cell: Cell) -> list[str]:
    return [vector(model, cell.group, each) for each in cell.classes]


def _table(*codes: NDArray[np.integer], shape: tuple[int, ...], weights: _Counts | None = None) -> _Counts:
    """Return how many rows have each combination of codes, shape (product of shape,), the last code fastest.

    Or the sums of these rows' weights, which are whole numbers and stay below 2^53.
    """
    index = np.ravel_multi_index(codes, shape)
    return np.bincount(index, weights, minlength=math.prod(shape)).astype(np.int64)


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
    weights = (Fraction(each, 2**fraction_bits) for each in scaled)
    return SumsOfSites(difference, pairs, both, SiteSums(usable, *weights))
