"""AUC of weighted rows, and at horizons: against riskRegression, scikit-survival and scikit-learn.

Their numbers, and whence rows come: tests/support/follow_up.
"""

import numpy as np
import pytest

from tests.support import follow_up_sets, row_auc_at
from tests.support.delong import of_rows

OWN = ("gbsg2", "rossi", "competing")  # of which rows are here; those of others need scikit-survival
SETS = [pytest.param(name, marks=() if name in OWN else pytest.mark.slow) for name in follow_up_sets.HORIZONS]


@pytest.mark.parametrize("name", SETS)
def test_the_program_over_rows_agrees_with_other_programs(name: str) -> None:
    rows, said = follow_up_sets.load(name), follow_up_sets.said()
    for horizon in follow_up_sets.HORIZONS[name]:
        theirs = said[name, horizon]
        for at, scores in enumerate(rows.scores):
            found, lagging = (
                row_auc_at.auc_at(scores, rows.times, rows.events, horizon, lagged=lagged) for lagged in (True, False)
            )
            assert found.auc == pytest.approx(theirs.aucs[at], abs=1e-9)
            error = np.std(found.influence, ddof=1) * np.sqrt(len(rows.times))
            assert error == pytest.approx(theirs.known[at], rel=1e-7)
            assert found.error == pytest.approx(theirs.known[at], rel=0.02)  # n/(n − 1), which theirs has not
            if theirs.lagging:
                assert lagging.auc == pytest.approx(theirs.lagging[at], abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", [each for each in follow_up_sets.HORIZONS if each != "competing"])
def test_scikit_survival_says_what_it_said(name: str) -> None:
    pytest.importorskip("sksurv")
    said, rows = follow_up_sets.said(), follow_up_sets.load(name)
    for horizon, aucs in zip(follow_up_sets.HORIZONS[name], follow_up_sets.lagging(name, rows), strict=True):
        assert aucs == pytest.approx(said[name, horizon].lagging, abs=1e-9)


def test_the_program_over_rows_is_delongs_where_weights_are_alike() -> None:
    rows = follow_up_sets.load("competing")
    labels, scores = rows.events == 1, rows.scores[0]
    found = row_auc_at.weighted_auc(labels, scores, np.full(len(labels), 3.0))
    assert (found.auc, found.error) == pytest.approx(of_rows(scores[labels], scores[~labels]), abs=1e-12)
