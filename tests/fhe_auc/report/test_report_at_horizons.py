"""Reports at a horizon: against riskRegression's Brier score, and survival's risk. Numbers: tests/support/follow_up."""

import numpy as np
import pytest

from fhe_auc import federated_report
from fhe_auc.base.errors import EvaluationError
from tests.support import follow_up_sets


@pytest.mark.parametrize("name", ["gbsg2", pytest.param("competing", marks=pytest.mark.slow)])
def test_a_report_at_a_horizon_says_what_riskregression_and_survival_say(name: str) -> None:
    rows, horizon = follow_up_sets.load(name), follow_up_sets.HORIZONS[name][0]
    theirs = follow_up_sets.said()[name, horizon]
    table = {"time": rows.times, "event": rows.events, "score": rows.scores[0]}
    report = federated_report(
        {f"site {at}": {column: values[at::3] for column, values in table.items()} for at in range(3)},
        score="score", time="time", event="event", event_codes=(1, 0, 2) if name == "competing" else (1, 0),
        horizon=horizon, thresholds="uniform:5000",
    ).as_dict()  # fmt: skip
    brier, ratio = report["metrics"]["brier"], report["calibration"]["observed_expected_ratio"]
    assert brier["value"] == pytest.approx(theirs.brier[0], abs=1e-4)
    assert (brier["interval"]["high"] - brier["interval"]["low"]) / 3.92 == pytest.approx(theirs.brier[1], rel=0.02)
    assert ratio["value"] == pytest.approx(theirs.observed / np.mean(rows.scores[0]), abs=5e-4)
    assert report["metrics"]["roc_auc"]["value"] == pytest.approx(theirs.aucs[0], abs=2e-4)


def test_too_few_events_by_a_horizon_are_told_before_rows_are_counted_and_how_to_have_more() -> None:
    random = np.random.default_rng(1)
    site = {"time": np.arange(1, 101), "event": np.arange(100) % 2, "score": random.random(100)}
    asked = {"score": "score", "time": "time", "event": "event", "horizon": 6}
    for rows, least, how in (
        ([site] * 3, 10, "take a later horizon; or, if you may"),
        ([site], 4, "take a later horizon"),
    ):
        with pytest.raises(EvaluationError, match=f"fewer than {least} rows have the event by the horizon 6.*{how}"):
            federated_report(rows, **asked, min_cell=least)
