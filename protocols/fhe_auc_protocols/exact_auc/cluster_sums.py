"""Patients with several rows: sums over patients of products of what two of their rows are worth (Obuchowski, 1997).

What a row is worth depends on all sites' rows, and which rows are one patient's only its site knows. So a site counts
pairs of rows of a patient by the coarse bins of both, as `comparison_sums` counts rows by those of two models. Vectors
of a party's sketch, for model 0, group 1 and pairs of different rows of a patient, in either order:

    k0 g1 c1          rows of class 1 in each coarse bin; also x, xx and xy, as there
    k0 g1 c1 c0       Σ φ_j·φ_k over pairs of a row of class 1 and one of class 0, shares of j and of k; times S²
    k0 g1 c1 of c0    Σ φ_j over the same pairs, of the row of class 1; times S
    k g1              patients with rows of class 1, of class 0, and with any
    k0 k2 c1 c0       as the first table, over all rows: the one of class 1 by model 0, that of class 0 by model 2

A row is not paired with itself: Q10 and Q01 have its square as it is. With weights, a pair counts as the product of
both; rows of weight 0 are nobody's. With one row a patient the error is DeLong's. Otherwise these sums say which share
of the variance, by coarse bins, is of pairs; it is taken of the variance by bins.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.question.analysis import Analysis, Contrast
from fhe_auc.results import delong, intervals
from fhe_auc.results.delong import Clusters, Components, PairedError, Products
from fhe_auc.session.plan import Parameter
from fhe_auc.sums.terms import Factor, Part, Sum
from fhe_auc_protocols.exact_auc.comparison_sums import CoarseBins, moment_sums, worth
from fhe_auc_protocols.exact_auc.release_part import (
    Agreed,
    AucOfSums,
    Counts,
    Errors,
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

MOST_ROWS = 1000  # of a patient: what sums can be grows with it
_LEAST_ENDS = 13  # of coarse bins, where thresholds are few
_SIDES = ((1, 1), (0, 0), (1, 0), (0, 1))  # classes of the two rows of a pair
_OF_ONE_MODEL = _SIDES[:3]  # the last one's table is the third's, turned
_PATIENTS = ("c1", "c0", "all")
_AT_ONCE = 2**12  # patients
_ALIKE_IDS = 0.95  # a share of different ids among rows that is no patients'
_IDS_OF_ROWS = "nearly every row has an id of its own in column {column!r}: it may be one of rows, not of patients"
_BOTH_LABELS = (
    "some patients (by {column!r}) have rows of both labels: that is right only where each visit has an outcome of its "
    "own"
)


@dataclass(frozen=True)
class ClusterSums(ReleasePart):
    """Those of an analysis, which names a column of patients, over `bins` bins."""

    analysis: Analysis
    bins: int
    unproved = "intervals by patients"

    @property
    def _coarse(self) -> CoarseBins:
        """Coarse bins: so few that the vectors of a model and group have fewer entries than its rows' counts."""
        return CoarseBins(self.bins, max(_LEAST_ENDS, math.isqrt(self.bins // 3)) - 1)

    @property
    def _cells(self) -> list[tuple[int, int]]:
        """Model and group of each AUC."""
        return list(itertools.product(range(len(self.analysis.models)), self._groups))

    @property
    def _groups(self) -> range:
        return range(len(self.analysis.groups))

    def check_plan(self, plan: Agreed) -> None:
        """Raise `CapacityError` where there is no interval."""
        if not plan.interval:
            raise CapacityError("--cluster is about intervals: ask for one (--interval 0.95; in Python interval=0.95)")

    def terms(self) -> Sequence[Parameter]:
        """Return what parties agree to."""
        return [Parameter("patients", self.analysis.cluster or "", "a column; how many there are, and sums")]

    @property
    def vectors(self) -> Vectors:
        """Vectors, with their lengths."""
        wide, vectors = self._coarse.ends, list[tuple[str, int]]()
        for model, group in self._cells:
            name = f"k{model} g{group}"
            vectors += self._coarse.vectors(name, weighted=self.analysis.units is not None)
            vectors += [(f"{name} c{a} of c{b}", wide) for a, b in _SIDES]
            vectors += [(f"{name} c{a} c{b}", wide**2) for a, b in _OF_ONE_MODEL]
        vectors += [(f"k g{group}", len(_PATIENTS)) for group in self._groups]
        return [*vectors, *((f"k{m} k{n} c{a} c{b}", wide**2) for m, n in self.analysis.comparisons for a, b in _SIDES)]

    @property
    def sums(self) -> Sequence[Sum]:
        """What is released."""
        sums = []
        for model, group in self._cells:
            name = f"k{model} g{group}"
            sums += moment_sums(name, weighted=self.analysis.units is not None)
            for a, b in _SIDES:
                own = f"{name} c{a} of c{b}"
                sums += [
                    Sum.product(f"pairs {own}", Factor((Part(own, "total"),))),
                    Sum.product(f"D {own}", Factor.each([own]), worth(name, a)),
                ]
            sums += [self._products(f"{name} c{a} c{b}", (name, a), (name, b)) for a, b in _OF_ONE_MODEL]
        for group in self._groups:
            for at, whose in enumerate(_PATIENTS):
                pick = Factor(constants=tuple(int(entry == at) for entry in range(len(_PATIENTS))))
                sums.append(Sum.product(f"patients g{group} {whose}", Factor.each([f"k g{group}"]), pick))
        of_pairs = itertools.product(self.analysis.comparisons, _SIDES)
        return sums + [
            self._products(f"k{m} k{n} c{a} c{b}", (f"k{m} g0", a), (f"k{n} g0", b)) for (m, n), (a, b) in of_pairs
        ]

    def _products(self, pairs: str, first: tuple[str, int], second: tuple[str, int]) -> Sum:
        """Return the sum over a table of pairs of the product of what both rows are worth."""
        wide = self._coarse.ends
        both = worth(*first, (wide, 1)), worth(*second, (1, wide))
        return Sum.product(f"Q {pairs}", Factor.each([pairs]), *both)

    def ranges(self, max_rows: int, parties: int) -> Sequence[Range]:
        """Return the range of each sum, of either sign; a row has at most so many others of its patient."""
        scale = self._coarse.scale
        shares = {1: scale * max_rows, 2: scale * most_pairs(max_rows), 3: scale**2 * most_cubic(max_rows)}
        largest = self.analysis.units.most if self.analysis.units else 1
        most = [MOST_ROWS * largest * shares[total.degree] for total in self.sums]
        return [(-own, own) for own in most]

    def of_party(self, rows: Rows, counts: Counts, max_rows: int, modulus: int) -> Sequence[Counts]:
        """Return a party's vectors: a patient's rows may lie far apart.

        Raises `InputError` unless the party says whose its rows are, at most 1,000 one patient's.
        """
        data, bins_of = rows.data, rows.bins
        if (clusters := data.clusters) is None:
            raise InputError(f"party {data.name!r} does not say which rows are one patient's, and the session asks")
        if (most := int(np.bincount(clusters).max())) > MOST_ROWS:
            of_one = f"{most:,} rows are one patient's by column {self.analysis.cluster!r}"
            raise InputError(f"party {data.name!r}: {of_one}, and at most {MOST_ROWS:,} can be", party=data.name)
        starts = self._coarse.starts(rows.grid)
        weights = rows.data.weights
        groups = [np.ones(data.rows, np.bool_) if weights is None else weights > 0]
        for codes, variable in zip(data.groups, self.analysis.by, strict=True):
            groups += [groups[0] & (codes == level) for level in range(len(variable.levels))]
        vectors: list[Counts] = []
        for model, group in self._cells:
            own = groups[group]
            tables = self._tables(rows, clusters, (bins_of[model], bins_of[model]), starts, own)
            ends, own_weights = self._coarse.of(bins_of[model][own], starts), None if weights is None else weights[own]
            vectors += self._coarse.counted(data.labels[own], ends, own_weights)
            vectors += [tables[side].sum(axis=1) // self._coarse.scale for side in _SIDES]
            vectors += [tables[side].ravel() for side in _OF_ONE_MODEL]
        for own in groups:
            of_rows = (clusters[own & (data.labels == 1)], clusters[own & (data.labels == 0)], clusters[own])
            vectors.append(np.array([len(np.unique(ids)) for ids in of_rows], np.int64))
        for m, n in self.analysis.comparisons:
            tables = self._tables(rows, clusters, (bins_of[m], bins_of[n]), starts, groups[0])
            vectors += [tables[side].ravel() for side in _SIDES]
        return vectors

    def _tables(
        self,
        of_party: Rows,
        clusters: NDArray[np.int32],
        bins_of: tuple[Counts, Counts],
        starts: Counts,
        own: NDArray[np.bool_],
    ) -> dict[tuple[int, int], Counts]:
        """Return the table of each side, (ends, ends), over pairs of some rows, the first by the first model's bins."""
        wide, data, of_rows, most = self._coarse.ends, of_party.data, of_party.data.weights, 0.0
        total = np.zeros((2 * wide, 2 * wide), np.int64)
        repeated = own & (np.bincount(clusters[own], minlength=int(clusters.max()) + 1)[clusters] > 1)
        rows = np.flatnonzero(repeated)
        rows = rows[np.argsort(clusters[rows], kind="stable")]
        patients = np.cumsum(np.diff(clusters[rows], prepend=clusters[rows][:1]) > 0)
        batches = np.searchsorted(patients, np.arange(0, len(rows) and patients[-1] + 1, _AT_ONCE))
        for start, stop in itertools.pairwise([*batches, len(rows)]):
            some, whose = rows[start:stop], patients[start:stop] - patients[start]
            labels = data.labels[some].astype(np.int64)
            ends_of = (self._coarse.of(bins[some], starts) for bins in bins_of)
            by = 1 if of_rows is None else of_rows[some]
            ends = [[(wide * labels + at, by * shares) for at, shares in both] for both in ends_of]
            shape = int(whose[-1]) + 1, 2 * wide
            first, second = (
                np.sum([table(whose, at, shape=shape, weights=shares) for at, shares in both], axis=0).reshape(shape)
                for both in ends
            )
            most += (bound := float(first.sum(axis=1, dtype=np.float64) @ second.sum(axis=1, dtype=np.float64)))
            if most >= 2**62:
                raise InputError(f"party {data.name!r}: rows of one patient have too large weights", party=data.name)
            kind = np.float64 if bound < 2**52 else np.int64  # processors have matrix products of the former
            total += (first.T.astype(kind) @ second.astype(kind)).astype(np.int64)
            for (i, u), (j, v) in itertools.product(*ends):  # less each row with itself
                total -= table(i, j, shape=total.shape, weights=u * v).reshape(total.shape)
        sides = total.reshape(2, wide, 2, wide)
        return {(a, b): sides[a, :, b, :] for a, b in _SIDES}

    def read_sums(self, sums: Sequence[int], reading: Reading) -> None:
        """Read what patients' rows have in common, which all errors go by from here on."""
        given, scale = iter(sums), self._coarse.scale
        alone: dict[tuple[int, int], dict[int, tuple[Fraction, Fraction, Fraction]]] = {}
        within: dict[tuple[int, int, int], dict[tuple[int, int], Products]] = {}
        for model, group in self._cells:
            alone[model, group] = {}
            for label in (1, 0):
                worth, square = Fraction(next(given), scale), Fraction(next(given), scale**2)
                weighted = Fraction(next(given), scale) if self.analysis.units else worth
                alone[model, group][label] = worth, weighted, square
            rows = {side: (Fraction(next(given), scale), Fraction(next(given), scale)) for side in _SIDES}
            products = {side: Fraction(next(given), scale**2) for side in _OF_ONE_MODEL}
            products[0, 1] = products[1, 0]
            within[model, model, group] = {
                (a, b): Products(products[a, b], rows[a, b][1], rows[b, a][1], rows[a, b][0]) for a, b in _SIDES
            }
        patients = [(next(given), next(given), next(given)) for _ in self._groups]
        for m, n in self.analysis.comparisons:
            first, second = within[m, m, 0], within[n, n, 0]
            both = {
                side: first[side]._replace(product=Fraction(next(given), scale**2), second=second[side].second)
                for side in _SIDES
            }
            within[m, n, 0] = both
            within[n, m, 0] = {(b, a): own._replace(first=own.second, second=own.first) for (a, b), own in both.items()}
        clusters = Clusters(alone, within, patients)
        reading.errors = PatientErrors(reading.level, reading.plain, clusters)
        reading.sayings.append(partial(self._said, clusters.patients[0]))

    def _said(self, patients: tuple[int, int, int], reading: Reading) -> Said:
        """Return how many there are; warn where the column may be another, or labels are not what they seem."""
        with_positives, with_negatives, everybody = patients
        alike = everybody >= _ALIKE_IDS * (reading.aucs[0].positives + reading.aucs[0].negatives)
        told = [*([_IDS_OF_ROWS] * alike), *([_BOTH_LABELS] * (with_positives + with_negatives > everybody))]
        warnings = tuple(text.format(column=self.analysis.cluster or "") for text in told)
        return Said(settings={"patients": everybody}, warnings=warnings)


@dataclass(frozen=True)
class PatientErrors(Errors):
    """Those where patients are independent: Obuchowski's."""

    clusters: Clusters

    def method(self, name: str) -> str:
        """Return the name of a method, Obuchowski's in the place of DeLong's."""
        return name.replace("DeLong", intervals.CLUSTERED)

    def corrected(self, contrast: Contrast, own: AucOfSums, error: float) -> float | None:
        """Return the standard error of an AUC; None where patients are too few."""
        exact = _components(own)
        return self.clusters.error(exact, {contrast.model: exact}, contrast.positives.group, own.counted)

    def stretch(self, contrast: Contrast, own: AucOfSums) -> float | None:
        """Return by how much intervals are wider, of so few patients."""
        if self.level is None:
            return None
        return self.clusters.stretch(contrast.model, contrast.positives.group, own.counted, self.level)

    def paired(self, pair: tuple[int, int], first: AucOfSums, second: AucOfSums, error: PairedError) -> PairedError:
        """Return the standard error of a difference."""
        both = dict(zip(pair, (_components(first), _components(second)), strict=True))
        return error.clustered(self.clusters.error(error.components, both, 0, first.counted))

    def few(self, contrast: Contrast, own: AucOfSums) -> str:
        """Return a warning where patients are few."""
        worth = self.clusters.worth(contrast.model, contrast.positives.group, own.counted)
        return intervals.FEW_PATIENTS if worth < intervals.FEW else ""


def _components(own: AucOfSums) -> Components:
    """Return DeLong's S10 and S01 of an AUC that has them."""
    assert own.merged is not None  # noqa: S101
    s10, s01 = delong.components(own.merged, *own.counted)
    return float(s10), float(s01)
