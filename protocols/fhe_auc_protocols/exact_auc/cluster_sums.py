"""Patients with several rows: sums over patients of products of what two of their rows are worth (Obuchowski, 1997).

What a row is worth depends on all sites' rows, and which rows are one patient's only its site knows. So a site counts
pairs of rows of a patient by the coarse bins of both, as `comparison_sums` counts rows by those of two models. Vectors
of a party's sketch, for model 0, group 1 and pairs of different rows of a patient, in either order:

    k0 g1 c1          rows of class 1 in each coarse bin; also x, xx and xy, as there
    k0 g1 c1 c0       Σ φ_j·φ_k over pairs of a row of class 1 and one of class 0, shares of j and of k; times S²
    k0 g1 c1 of c0    Σ φ_j over the same pairs, of the row of class 1; times S
    k g1              patients with rows of class 1, of class 0, and with any
    k0 k2 c1 c0       as the first table, over all rows: the one of class 1 by model 0, that of class 0 by model 2

A row is not paired with itself: Q10 and Q01 have its square as it is. With one row a patient the error is DeLong's.
Otherwise these sums say which share of the variance, by coarse bins, is of pairs; it is taken of the variance by bins.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.intervals import Clusters, Products
from fhe_auc.rows.party_data import PartyData
from fhe_auc.sums.terms import Factor, Part, Sum
from fhe_auc_protocols.exact_auc.auc_sums import each_of, most_cubic, sum_of
from fhe_auc_protocols.exact_auc.comparison_sums import CoarseBins, moment_sums, worth
from fhe_auc_protocols.exact_auc.subgroup_counts import table

MOST_ROWS = 1000  # of a patient: what sums can be grows with it
_LEAST_ENDS = 13  # of coarse bins, where thresholds are few
_SIDES = ((1, 1), (0, 0), (1, 0), (0, 1))  # classes of the two rows of a pair
_OF_ONE_MODEL = _SIDES[:3]  # the last one's table is the third's, turned
_PATIENTS = ("c1", "c0", "all")
_AT_ONCE = 2**12  # patients


@dataclass(frozen=True)
class ClusterSums:
    """Those of an analysis over `bins` bins; none where it names no column of patients."""

    analysis: Analysis
    bins: int

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
        return range(len(self.analysis.groups) if self.analysis.cluster else 0)

    @property
    def _pairs(self) -> Sequence[tuple[int, int]]:
        return self.analysis.comparisons if self.analysis.cluster else ()

    @property
    def vectors(self) -> list[tuple[str, int]]:
        """Vectors, with their lengths."""
        wide, found = self._coarse.ends, []
        for model, group in self._cells:
            name = f"k{model} g{group}"
            found += self._coarse.vectors(name)
            found += [(f"{name} c{a} of c{b}", wide) for a, b in _SIDES]
            found += [(f"{name} c{a} c{b}", wide**2) for a, b in _OF_ONE_MODEL]
        found += [(f"k g{group}", len(_PATIENTS)) for group in self._groups]
        return [*found, *((f"k{m} k{n} c{a} c{b}", wide**2) for m, n in self._pairs for a, b in _SIDES)]

    @property
    def sums(self) -> list[Sum]:
        """What is released."""
        found = []
        for model, group in self._cells:
            name = f"k{model} g{group}"
            found += moment_sums(name)
            for a, b in _SIDES:
                own = f"{name} c{a} of c{b}"
                found += [
                    sum_of(f"pairs {own}", Factor((Part(own, "total"),))),
                    sum_of(f"D {own}", each_of([own]), worth(name, a)),
                ]
            found += [self._products(f"{name} c{a} c{b}", (name, a), (name, b)) for a, b in _OF_ONE_MODEL]
        for group in self._groups:
            for at, of in enumerate(_PATIENTS):
                pick = Factor(constants=tuple(int(each == at) for each in range(len(_PATIENTS))))
                found.append(sum_of(f"patients g{group} {of}", each_of([f"k g{group}"]), pick))
        of_pairs = itertools.product(self._pairs, _SIDES)
        return found + [
            self._products(f"k{m} k{n} c{a} c{b}", (f"k{m} g0", a), (f"k{n} g0", b)) for (m, n), (a, b) in of_pairs
        ]

    def _products(self, pairs: str, first: tuple[str, int], second: tuple[str, int]) -> Sum:
        """Return the sum over a table of pairs of the product of what both rows are worth."""
        wide = self._coarse.ends
        both = worth(*first, (wide, 1)), worth(*second, (1, wide))
        return sum_of(f"Q {pairs}", each_of([pairs]), *both)

    def least_modulus(self, max_rows: int) -> int:
        """Return how many values a sum of so many pooled rows can take, of either sign, times S²."""
        return 1 + 2 * MOST_ROWS * self._coarse.scale**2 * most_cubic(max_rows) if self._cells else 1

    def entries(
        self, data: PartyData, bins_of: Sequence[NDArray[np.int64]], grid: NDArray[np.float64]
    ) -> list[NDArray[np.int64]]:
        """Return a party's vectors; `InputError` unless it says whose its rows are, at most 1,000 one patient's."""
        if not self._cells:
            return []
        if (clusters := data.clusters) is None:
            raise InputError(f"party {data.name!r} does not say which rows are one patient's, and the session asks")
        if (most := int(np.bincount(clusters).max())) > MOST_ROWS:
            of_one = f"{most:,} rows are one patient's by column {self.analysis.cluster!r}"
            raise InputError(f"party {data.name!r}: {of_one}, and at most {MOST_ROWS:,} can be", party=data.name)
        starts = self._coarse.starts(grid)
        groups = [np.ones(data.rows, np.bool_)]
        for codes, variable in zip(data.groups, self.analysis.by, strict=True):
            groups += [codes == level for level in range(len(variable.levels))]
        found: list[NDArray[np.int64]] = []
        for model, group in self._cells:
            tables = self._tables(data, clusters, (bins_of[model], bins_of[model]), starts, groups[group])
            own = groups[group]
            found += self._coarse.counted(data.labels[own], self._coarse.of(bins_of[model][own], starts))
            found += [tables[side].sum(axis=1) // self._coarse.scale for side in _SIDES]
            found += [tables[side].ravel() for side in _OF_ONE_MODEL]
        for own in groups:
            of_rows = (clusters[own & (data.labels == 1)], clusters[own & (data.labels == 0)], clusters[own])
            found.append(np.array([len(np.unique(each)) for each in of_rows], np.int64))
        for m, n in self._pairs:
            tables = self._tables(data, clusters, (bins_of[m], bins_of[n]), starts, groups[0])
            found += [tables[side].ravel() for side in _SIDES]
        return found

    def _tables(
        self,
        data: PartyData,
        clusters: NDArray[np.int32],
        bins_of: tuple[NDArray[np.int64], NDArray[np.int64]],
        starts: NDArray[np.int64],
        own: NDArray[np.bool_],
    ) -> dict[tuple[int, int], NDArray[np.int64]]:
        """Return the table of each side, (ends, ends), over pairs of some rows, the first by the first model's bins."""
        wide = self._coarse.ends
        total = np.zeros((2 * wide, 2 * wide))  # floating point, for the processor's matrix products: exact up to 2^53
        repeated = own & (np.bincount(clusters[own], minlength=int(clusters.max()) + 1)[clusters] > 1)
        rows = np.flatnonzero(repeated)
        rows = rows[np.argsort(clusters[rows], kind="stable")]
        patients = np.cumsum(np.diff(clusters[rows], prepend=clusters[rows][:1]) > 0)
        batches = np.searchsorted(patients, np.arange(0, len(rows) and patients[-1] + 1, _AT_ONCE))
        for start, stop in itertools.pairwise([*batches, len(rows)]):
            some, of = rows[start:stop], patients[start:stop] - patients[start]
            labels = data.labels[some].astype(np.int64)
            ends_of = (self._coarse.of(bins[some], starts) for bins in bins_of)
            ends = [[(wide * labels + at, shares) for at, shares in both] for both in ends_of]
            shape = int(of[-1]) + 1, 2 * wide
            first, second = (
                np.sum([table(of, at, shape=shape, weights=shares) for at, shares in each], axis=0).reshape(shape)
                for each in ends
            )
            total += first.T.astype(np.float64) @ second
            for (i, u), (j, v) in itertools.product(*ends):  # less each row with itself
                total -= table(i, j, shape=total.shape, weights=u * v).reshape(total.shape)
        sides = total.astype(np.int64).reshape(2, wide, 2, wide)
        return {(a, b): sides[a, :, b, :] for a, b in _SIDES}

    def read(self, sums: Sequence[int]) -> Clusters | None:
        """Return what they say; None without any."""
        if not self._cells:
            return None
        given, scale = iter(sums), self._coarse.scale
        alone: dict[tuple[int, int], dict[int, tuple[Fraction, Fraction]]] = {}
        found: dict[tuple[int, int, int], dict[tuple[int, int], Products]] = {}
        for model, group in self._cells:
            alone[model, group] = {of: (Fraction(next(given), scale), Fraction(next(given), scale**2)) for of in (1, 0)}
            rows = {side: (Fraction(next(given), scale), Fraction(next(given), scale)) for side in _SIDES}
            products = {side: Fraction(next(given), scale**2) for side in _OF_ONE_MODEL}
            products[0, 1] = products[1, 0]
            found[model, model, group] = {
                (a, b): Products(products[a, b], rows[a, b][1], rows[b, a][1], rows[a, b][0]) for a, b in _SIDES
            }
        patients = [(next(given), next(given), next(given)) for _ in self._groups]
        for m, n in self._pairs:
            first, second = found[m, m, 0], found[n, n, 0]
            both = {
                side: first[side]._replace(product=Fraction(next(given), scale**2), second=second[side].second)
                for side in _SIDES
            }
            found[m, n, 0] = both
            found[n, m, 0] = {
                (b, a): each._replace(first=each.second, second=each.first) for (a, b), each in both.items()
            }
        return Clusters(alone, found, patients)
