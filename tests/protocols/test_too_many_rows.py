"""More rows in one process than `max_rows`: one sentence, before any key is made, whatever is asked for."""

from typing import Any

import numpy as np
import pytest

from fhe_auc import federated_auc, federated_report, federated_thresholds

SAID = "the parties have 24 rows in all, 4 more than max_rows = 20; give --max-rows 24 (max_rows=24) or more"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: Any) -> None:
        pytest.fail("keys were made")

    monkeypatch.setattr("fhe_auc_keys.roles.sealed.dealt", made)


@pytest.fixture
def rows() -> dict[str, dict[str, Any]]:
    """Two parties of 12 rows: neither alone is too large."""
    scores = np.linspace(0.05, 0.95, 12)
    site = {"y_true": [0, 1] * 6, "y_score": scores, "other": 1 - scores, "sex": ["F", "M"] * 6}
    return {"north": site, "south": site}


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"protocol": "exact"},
        {"protocol": "semi-honest"},
        {"protocol": "malicious", "thresholds": "uniform:20"},
        {"protocol": "histogram-federated", "thresholds": "uniform:20"},
        {"thresholds": "quantile:5"},
        {"by": "sex"},
        {"score": ["y_score", "other"]},
        {"protocol": "exact", "keys": "helper", "interval": None},
    ],
    ids=str,
)
def test_an_evaluation(rows: dict[str, dict[str, Any]], asked: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="rows in all") as caught:
        federated_auc(rows, max_rows=20, min_rows=2, **asked)
    assert str(caught.value) == SAID


def test_thresholds_and_a_report(rows: dict[str, dict[str, Any]]) -> None:
    for asked in (lambda: federated_thresholds(rows, 5, max_rows=20), lambda: federated_report(rows, max_rows=20)):
        with pytest.raises(ValueError, match="rows in all") as caught:
            asked()
        assert str(caught.value) == SAID


def test_what_encrypts_nothing_has_no_such_bound(rows: dict[str, dict[str, Any]]) -> None:
    found = federated_auc(rows, protocol="dpauc-rr", epsilon=2.0, max_rows=20, min_rows=2, thresholds="uniform:20")
    assert found.parties == 2
