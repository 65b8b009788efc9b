"""What is measured: some parties, some thresholds, and the AUC that must come out."""

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.rows.counts import Counts, count
from fhe_auc.rows.party_data import PartyData

_DISTINCT = 20
_ROWS_PER_PARTY = 100
_POSITIVE = 0.2


@dataclass(frozen=True)
class BenchmarkProblem:
    """So many parties of a hundred made-up rows each, and so many thresholds, evenly spaced.

    Party i + 20 has the rows of party i: peers whose submissions take minutes and gigabytes may repeat 20 of them.
    """

    parties: int
    thresholds: int

    @cached_property
    def points(self) -> NDArray[np.float64]:
        """The thresholds."""
        return thresholds.uniform(self.thresholds)

    @property
    def distinct(self) -> int:
        """Parties with rows of their own."""
        return min(self.parties, _DISTINCT)

    @cached_property
    def _drawn(self) -> list[PartyData]:
        """All distinct rows, by seeded generators that protect nobody."""
        found = []
        for party in range(self.distinct):
            rng = np.random.default_rng(party)
            y_true = rng.random(_ROWS_PER_PARTY) < _POSITIVE
            y_score = np.clip(rng.normal(0.4 + 0.2 * y_true, 0.2), 0, 1)
            found.append(PartyData.from_arrays(f"site {party}", y_true, y_score))
        return found

    def data(self, party: int) -> PartyData:
        """Return a party's rows."""
        return replace(self._drawn[party % _DISTINCT], name=f"site {party}")

    def counts(self, party: int) -> Counts:
        """Return a party's counts."""
        return count(self.data(party), self.points)

    @cached_property
    def total(self) -> Counts:
        """The counts of all parties together."""
        return reduce(add, map(self.counts, range(self.parties)))

    @cached_property
    def auc(self) -> float:
        """The AUC of the pooled counts, in exact integers."""
        return trapezoid(self.total).auc
