"""Groups of rows: what parties agree to, and which groups are too small to be shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fhe_auc.metrics.small_cells import hidden_rows
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.estimates import NESTED
from fhe_auc.session.plan import Parameter
from fhe_auc_protocols.exact_auc.release_part import AucOfSums, Reading, ReleasePart, Said

_SMALL_GROUPS = "small groups are shown (min_cell 1): a count from 1 to 9 may tell who is meant"


@dataclass(frozen=True)
class Subgroups(ReleasePart):
    """Those of an analysis; `auc_sums` counts and releases for each group what it does for all rows."""

    analysis: Analysis

    def terms(self) -> Sequence[Parameter]:
        """Return what parties agree to."""
        by = "; ".join(f"{variable.name}: {', '.join(variable.levels)}" for variable in self.analysis.by)
        across = Parameter("across groups", "yes", "positives of each against negatives of each other")
        groups = Parameter("groups", by, "columns, and all levels that they may have")
        return [groups, *[across] * self.analysis.cross_groups]

    def read(self, sums: Sequence[int], reading: Reading) -> None:
        """Add what warns of groups."""
        reading.sayings.append(self.said)

    def said(self, reading: Reading) -> Said:
        """Warn where those that are not shown can be worked out, or small ones are."""
        nested = [NESTED] * (len(self.analysis.by) > 1 and bool(hidden(self.analysis, reading.aucs)))
        return Said(warnings=(*nested, *[_SMALL_GROUPS] * (self.analysis.min_cell == 1)))


def hidden(analysis: Analysis, aucs: Sequence[AucOfSums]) -> frozenset[int]:
    """Return groups that are not shown: too few rows of a label; and the next smallest ones of the same variable."""
    least = analysis.min_cell
    if least == 1:
        return frozenset()
    rows: dict[int, list[int]] = defaultdict(list)  # of each label; repeatedly, but in one order for all groups
    for contrast, own in zip(analysis.contrasts, aucs, strict=True):
        if contrast.positives.group == contrast.negatives.group:
            rows[contrast.positives.group] += [own.positives, own.negatives]
    by_variable: dict[int, list[int]] = defaultdict(list)
    for at, group in enumerate(analysis.groups):
        if group.variable is not None:
            by_variable[group.variable].append(at)
    not_shown: set[int] = set()
    for groups in by_variable.values():
        own_rows = hidden_rows(np.array([rows[at] for at in groups]), least, zeros=True)
        not_shown.update(groups[at] for at in own_rows)
    return frozenset(not_shown)
