"""The parts of a release, put together: what an analysis releases, what a party counts for it, and how it is read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.binning import starts_of
from fhe_auc.rows.party_data import PartyData
from fhe_auc.sums.terms import Release, Sketch
from fhe_auc_protocols.exact_auc.auc_sums import AucSums, picked
from fhe_auc_protocols.exact_auc.cluster_sums import ClusterSums
from fhe_auc_protocols.exact_auc.comparison_sums import ComparisonSums
from fhe_auc_protocols.exact_auc.epsilon_noise import Privacy
from fhe_auc_protocols.exact_auc.epsilon_sums import NoisySums
from fhe_auc_protocols.exact_auc.release_part import Counts, Reading, ReleasePart, Rows
from fhe_auc_protocols.exact_auc.site_sums import SiteSums
from fhe_auc_protocols.exact_auc.subgroups import Subgroups
from fhe_auc_protocols.exact_auc.tie_sums import TieSums


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

    @property
    def parts(self) -> tuple[ReleasePart, ...]:
        """All that there are; those of vectors that add up over rows come first."""
        return self._made[0]

    @property
    def signs(self) -> tuple[TieSums, int]:
        """The sums that tell which ties are meant, and where in a sketch their vectors begin; none have noise."""
        return self._made[1:]

    @cached_property
    def _made(self) -> tuple[tuple[ReleasePart, ...], TieSums, int]:
        analysis, bins, pairs = self.analysis, self.bins, self.analysis.comparisons
        aucs, compared = AucSums(analysis, bins, self.interval), None
        signs_at = len(aucs.vectors) * bins
        if pairs:
            compared = ComparisonSums(pairs, bins, self.interval)
            signs_at += sum(length for _, length in compared.vectors)
        least = 16 if self.interval else 1  # without one, as in a fleet, records are small
        ties = TieSums(analysis, self.runs, bins, signs_at, least, self.proved)
        if self.privacy is not None:
            noisy = NoisySums(self.privacy, picked(ties.wide), ties_meant=not ties.wide.any())
            return (replace(aucs, released=False), noisy), replace(ties, runs=None), signs_at
        parts: list[ReleasePart] = []
        if compared is None:
            parts.append(replace(aucs, wide=ties.wide))
        else:
            parts += [replace(aucs, wide=ties.wide, alike=compared.crowded(~ties.wide)), compared]
        parts.append(ties)
        if analysis.heterogeneity:
            parts.append(SiteSums(len(analysis.models)))
        if analysis.cluster:
            parts.append(ClusterSums(analysis, bins))
        if analysis.by:
            parts.append(Subgroups(analysis))
        return tuple(parts), ties, signs_at

    @cached_property
    def release(self) -> Release:
        """What is released, of which sketch; raise `InputError` or `CapacityError` where it is too much for one."""
        vectors, sums = [part.vectors for part in self.parts], [part.sums for part in self.parts]
        return Release(Sketch(tuple(chain(*vectors))), tuple(chain(*sums)))

    def least_modulus(self, max_rows: int, parties: int = 1) -> int:
        """Return how many values a sum of so many pooled rows can take, the most of any sum.

        Rows themselves are counted further, up to as many of each of the `parties`: so that it is certain which sums
        are those of more rows.
        """
        if self.privacy is not None:
            return self.privacy.least_modulus
        return max(parties * max_rows + 1, *[part.least_modulus(max_rows) for part in self.parts])

    def sketch(
        self, data: PartyData, thresholds: NDArray[np.float64], max_rows: int, modulus: int, session: bytes = b""
    ) -> Counts:
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
        rows = Rows(data, grid, starts_of(grid), session)
        counted: Counts = np.zeros(1, np.int64)
        for batch in data.batches():
            own = replace(rows, data=batch)
            counted = counted + np.concatenate([vector for part in self.parts for vector in part.of_rows(own)])
        of_cells = counted[: len(self.parts[0].vectors) * self.bins].reshape(len(self.analysis.models), -1, self.bins)
        counts = of_cells[:, : self.analysis.classes_of_rows]  # of all rows, which come first
        others = [vector for part in self.parts for vector in part.of_party(rows, counts, max_rows, modulus)]
        return np.concatenate([counted, *others])

    def read(self, integers: Sequence[int], reading: Reading) -> None:
        """Read what a result says, part by part.

        Raises `ResultCheckError` where they cannot be those of at most `max_rows` rows; of how many, it says where that
        can be: none of the `parties` has more.
        """
        given = iter(integers)
        for part in self.parts:
            saying = part.read(list(islice(given, len(part.sums))), reading)
            if saying is not None:
                reading.sayings.append(saying)
