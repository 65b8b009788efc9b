"""Sessions at horizons, at 5,000 bins: against riskRegression's and scikit-survival's numbers, and a program over rows.

And weights against scikit-learn. Whence rows and numbers come: tests/support/follow_up.
"""

import numpy as np
import pytest

from fhe_auc import federated_auc
from fhe_auc.question import thresholds
from tests.support import follow_up_sets, row_auc_at

GRID = "uniform:5000"
NEAR, OFF = 1e-4, 0.03  # of an AUC; of a standard error, as a share of it


def sites(rows: follow_up_sets.FollowUpSet, **columns: row_auc_at.Numbers) -> dict[str, dict[str, object]]:
    """Return the rows as those of three sites, by turns."""
    table = {"time": rows.times, "event": rows.events, "first": rows.scores[0], "second": rows.scores[1], **columns}
    return {f"site {at}": {name: values[at::3] for name, values in table.items()} for at in range(3)}


def codes(name: str) -> tuple[int, ...]:
    return (1, 0, 2) if name == "competing" else (1, 0)


def test_a_session_at_a_horizon_says_what_riskregression_says() -> None:
    rows, theirs = follow_up_sets.load("gbsg2"), follow_up_sets.said()["gbsg2", 730]
    found = federated_auc(
        sites(rows), score="first", time="time", event="event", horizon=730, thresholds=GRID, protocol="verified"
    )
    assert found.auc == pytest.approx(theirs.aucs[0], abs=NEAR)
    assert found.standard_error == pytest.approx(theirs.errors[0], rel=OFF)


@pytest.mark.slow
@pytest.mark.parametrize("name", follow_up_sets.HORIZONS)
def test_sessions_at_two_horizons_compare_two_models_as_riskregression_does(name: str) -> None:
    rows, said = follow_up_sets.load(name), follow_up_sets.said()
    asked = {"time": "time", "event": "event", "event_codes": codes(name), "horizon": follow_up_sets.HORIZONS[name]}
    both = federated_auc(sites(rows), score=["first", "second"], thresholds=GRID, protocol="verified", **asked)
    for horizon in follow_up_sets.HORIZONS[name]:
        theirs = said[name, horizon]
        own = [each for each in both.estimates if each.horizon == horizon]
        for at, estimate in enumerate(own):
            assert estimate.auc == pytest.approx(theirs.aucs[at], abs=NEAR)
            assert estimate.standard_error == pytest.approx(theirs.errors[at], rel=OFF)
            over_rows = row_auc_at.auc_at(rows.scores[at], rows.times, rows.events, horizon)
            assert estimate.standard_error == pytest.approx(over_rows.error, rel=0.005)
            if theirs.lagging:  # G(T), where ours is G(T−): with days little else
                assert estimate.auc == pytest.approx(theirs.lagging[at], abs=2 * NEAR)
        (compared,) = (each for each in both.comparisons if each.horizon == horizon)
        assert compared.difference == pytest.approx(theirs.aucs[1] - theirs.aucs[0], abs=2 * NEAR)
        assert compared.standard_error == pytest.approx(theirs.difference_error, rel=OFF)
    one = federated_auc(sites(rows), score="first", thresholds=GRID, protocol="verified", **asked)
    for estimate, theirs in zip(one.estimates, (said[name, at] for at in follow_up_sets.HORIZONS[name]), strict=True):
        assert estimate.auc == pytest.approx(theirs.aucs[0], abs=NEAR)
        assert estimate.standard_error == pytest.approx(theirs.errors[0], rel=OFF)  # of merged bins


def test_months_are_the_ends_of_months() -> None:
    rows, step = follow_up_sets.load("competing"), 365.25 / 12
    asked = {"time": "time", "event": "event", "event_codes": codes("competing"), "horizon": 360, "thresholds": GRID}
    found = federated_auc(sites(rows), score="first", time_grid="months", protocol="exact", **asked)
    months = np.where(rows.times <= 360, np.minimum(np.ceil(rows.times / step) * step, 360), rows.times)
    wanted = row_auc_at.auc_at(rows.scores[0], months, rows.events, 360)
    assert found.auc == pytest.approx(wanted.auc, abs=NEAR)
    assert found.standard_error == pytest.approx(wanted.error, rel=0.005)


@pytest.mark.parametrize("protocol", ["exact", pytest.param("verified", marks=pytest.mark.slow)])
def test_weights_give_what_scikit_learn_gives_with_them(protocol: str) -> None:
    from sklearn.metrics import roc_auc_score

    rows = follow_up_sets.load("gbsg2")
    weights = np.round(np.exp(np.random.default_rng(3).normal(size=len(rows.times))), 3)
    found = federated_auc(
        sites(rows, ipw=weights), label="event", score="first", weight="ipw", max_weight=50, thresholds=GRID,
        protocol=protocol,
    )  # fmt: skip
    bins = np.searchsorted(thresholds.resolve(GRID), rows.scores[0], side="right")
    assert found.auc == pytest.approx(roc_auc_score(rows.events, bins, sample_weight=weights), abs=1e-6)
    over_rows = row_auc_at.weighted_auc(rows.events == 1, rows.scores[0], weights)
    assert found.auc == pytest.approx(over_rows.auc, abs=NEAR)
    assert found.standard_error == pytest.approx(over_rows.error, rel=0.01)  # of merged bins
    assert found.interval is not None
