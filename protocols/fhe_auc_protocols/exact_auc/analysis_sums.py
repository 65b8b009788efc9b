"""What an analysis releases, of which vectors, and what a party counts into these: a part for each question.

    AUCs, and rows of each group     `auc_sums`
    comparisons of models            `comparison_sums`
    ties that are meant              `tie_sums`
    sites                            `site_sums`
    patients with several rows       `cluster_sums`
    all of it with noise             `epsilon_noise`, in the place of the others

Each part says which vectors a party's sketch has for it, of the party's own rows; which sums of these are released; and
what the sums say.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.binning import bins_of as bins_of_scores
from fhe_auc.results.intervals import Clusters, PairedSums
from fhe_auc.rows.party_data import PartyData
from fhe_auc.sums.terms import Release, Sketch
from fhe_auc_protocols.exact_auc.auc_sums import AucOfSums, AucSums
from fhe_auc_protocols.exact_auc.cluster_sums import ClusterSums
from fhe_auc_protocols.exact_auc.comparison_sums import ComparisonSums
from fhe_auc_protocols.exact_auc.epsilon_noise import Privacy
from fhe_auc_protocols.exact_auc.site_sums import PooledSites, SiteSums
from fhe_auc_protocols.exact_auc.subgroup_counts import subgroup_counts
from fhe_auc_protocols.exact_auc.tie_sums import TieSums


@dataclass(frozen=True)
class PooledSums:
    """What a result says: an AUC for each contrast, sums for each comparison, and of sites for each model."""

    estimates: Sequence[AucOfSums]
    paired: Mapping[tuple[int, int], PairedSums]
    sites: Sequence[PooledSites]
    clusters: Clusters | None = None


@dataclass(frozen=True)
class AnalysisSums:
    """The sums of an analysis over `bins` bins.

    With `interval` those of standard errors are among them, and of comparisons. `runs` says which bins can hold one
    score only (`tie_sums`), None that all ties may be those of bins. `proved` counts are all of one sign. With
    `privacy` there are only the numbers of its channels, with noise.
    """

    analysis: Analysis
    bins: int
    interval: bool
    privacy: Privacy | None = None
    runs: tuple[int, ...] | None = None
    proved: bool = False

    @cached_property
    def release(self) -> Release:
        """What is released, of which sketch; raise `InputError` or `CapacityError` where it is too much for one."""
        if self.privacy is not None:
            aucs, noisy = self._parts[0], self.privacy
            return Release(Sketch((*aucs.vectors, *noisy.vectors)), tuple(noisy.sums(aucs.tying)))
        vectors, sums = ([each.vectors for each in self._parts], [each.sums for each in self._parts])
        return Release(Sketch(tuple(chain(*vectors))), tuple(chain(*sums)))

    @cached_property
    def _parts(self) -> tuple[AucSums, ComparisonSums, TieSums, SiteSums, ClusterSums]:
        aucs = AucSums(self.analysis, self.bins, self.interval)
        comparisons = ComparisonSums(self.analysis.comparisons if self.interval else (), self.bins)
        counts = sum(length for each in (aucs, comparisons) for _, length in each.vectors)
        least = 16 if self.interval else 1  # without one, as in a fleet, records are small
        ties = TieSums(self.analysis, self.runs, self.bins, counts, least, self.proved)
        return (
            replace(aucs, open=ties.open, alike=comparisons.crowded(~ties.open)),
            comparisons,
            ties if self.privacy is None else replace(ties, runs=None),  # signs have no noise
            SiteSums(len(self.analysis.models) if self.analysis.heterogeneity else 0),
            ClusterSums(self.analysis, self.bins),
        )

    @property
    def signs(self) -> tuple[TieSums, int]:
        """The sums that tell which ties are meant, and where in a sketch their vectors begin."""
        aucs, comparisons, ties, *_ = self._parts
        return ties, sum(length for each in (aucs, comparisons) for _, length in each.vectors)

    def least_modulus(self, max_rows: int, parties: int = 1) -> int:
        """Return how many values a sum of so many pooled rows can take, the most of any sum.

        Rows themselves are counted further, up to as many of each of the `parties`: so that it is certain which sums
        are those of more rows.
        """
        if self.privacy is not None:
            return self.privacy.least_modulus
        sites_aside = (
            each for each in self._parts if not isinstance(each, SiteSums)
        )  # these round to what there is room for
        return max(parties * max_rows + 1, *(each.least_modulus(max_rows) for each in sites_aside))

    def sketch(
        self, data: PartyData, thresholds: NDArray[np.float64], max_rows: int, modulus: int, session: bytes = b""
    ) -> NDArray[np.int64]:
        """Return a party's sketch, (release.sketch.size,), of sums modulo T; `InputError`: another analysis's rows.

        Signs are those of this session (`tie_sums`).
        """
        wanted = len(self.analysis.models), len(self.analysis.by)
        if (len(data.scores), len(data.groups)) != wanted:
            raise InputError(
                f"party {data.name!r} has {len(data.scores)} columns of scores and {len(data.groups)} of groups, the "
                f"session {wanted[0]} and {wanted[1]}"
            )
        grid = grids.explicit(thresholds)
        aucs, _, _, sites, clusters = self._parts
        counted = functools.reduce(np.add, (self._of_rows(batch, grid, session) for batch in data.batches()))
        vectors: list[NDArray[np.int64]] = [counted]
        if self.privacy is not None:
            vectors.append(self.privacy.noise()[0])
        by_model = [aucs.of_all_rows(counted, model) for model in range(sites.models)]
        vectors += sites.entries(by_model, max_rows, modulus)
        if self.analysis.cluster:  # a patient's rows may lie far apart
            vectors += clusters.entries(data, self._bins_of(data, grid), grid)
        return np.concatenate(vectors)

    def _of_rows(self, data: PartyData, grid: NDArray[np.float64], session: bytes) -> NDArray[np.int64]:
        """Return the vectors that add up over rows, one after the other."""
        bins_of = self._bins_of(data, grid)
        _, comparisons, ties, *_ = self._parts
        counts = subgroup_counts(data, self.analysis, bins_of, self.bins)
        signs = ties.count(data, bins_of, grid, session)
        return np.concatenate([*counts, *comparisons.count(data.labels, bins_of, grid), *signs])

    def _bins_of(self, data: PartyData, grid: NDArray[np.float64]) -> list[NDArray[np.int64]]:
        return [bins_of_scores(scores, grid).astype(np.int64) for scores in data.scores]

    def read(self, integers: Sequence[int], max_rows: int, modulus: int, parties: int = 1) -> PooledSums:
        """Return what a result says, its integers each known up to multiples of `modulus`.

        Raises `ResultCheckError` where they cannot be those of at most `max_rows` rows; of how many, it says where that
        can be: none of the `parties` has more.
        """
        given, (aucs, comparisons, ties, sites, clusters) = iter(integers), self._parts
        of_aucs, of_pairs, of_ties, of_sites, of_clusters = (
            list(islice(given, len(each.sums))) for each in self._parts
        )
        estimates = aucs.read(of_aucs, max_rows, modulus, parties)
        return PooledSums(
            ties.read(of_ties, estimates),
            comparisons.read(of_pairs, modulus),
            sites.read(of_sites, max_rows, modulus),
            clusters.read(of_clusters),
        )
