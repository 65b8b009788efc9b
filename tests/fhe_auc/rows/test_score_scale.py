"""Logits and percentages become probabilities by rising functions, which leave scikit-learn's AUC as it is."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc import Columns, federated_auc
from fhe_auc.base.errors import InputError
from fhe_auc.question import thresholds
from fhe_auc.rows.own_rows import check_scores
from fhe_auc.rows.party_data import SCALES, PartyData, rescaled, to_probabilities
from fhe_auc.rows.party_files import Entries, read_parties

LABELS = np.arange(400) % 2
LOGITS = np.random.default_rng(8).normal(2.0 * LABELS - 1, 2)


def test_values_are_those_of_the_definitions_and_other_scales_or_percentages_refused() -> None:
    assert to_probabilities(np.array([-745.2, -2.0, 0.0, 2.0, 37.0]), "logit").tolist() == pytest.approx(
        [0.0, 1 / (1 + math.exp(2)), 0.5, 1 / (1 + math.exp(-2)), 1.0], rel=1e-15
    )
    assert to_probabilities(np.array([0.0, 12.5, 100.0]), "percent").tolist() == [0.0, 0.125, 1.0]
    assert to_probabilities(np.array([-3.0, 44.0]), "probability").tolist() == [-3.0, 44.0]
    data = PartyData.from_arrays("a", [0, 1, 1], [0.5, 100.5, 3], score_column="risk")
    with pytest.raises(InputError, match=r"^score scale 'log' is unknown; known are probability, logit, percent$"):
        rescaled(data, "log")
    with pytest.raises(InputError, match=r"^party 'a', row 1, column 'risk': score is 100\.5, and percentages lie "):
        rescaled(data, "percent")


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.sampled_from(SCALES))
def test_no_two_scores_change_places(first: float, second: float, scale: str) -> None:
    low, high = to_probabilities(np.array(sorted((first, second))), scale)
    assert low <= high


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_any_logit_becomes_a_score_that_named_thresholds_take(scores: list[float]) -> None:
    data = PartyData.from_arrays("a", [0] * len(scores), scores)
    check_scores(rescaled(data, "logit"), thresholds.parse("hybrid:20"))


def test_logits_beyond_36_tie_and_the_binning_error_is_about_what_they_become() -> None:
    """The AUC of the logits is 1, that of the probabilities 7/8: of four pairs one is of equal scores."""
    from sklearn.metrics import roc_auc_score

    rows = ([0, 1, 0, 1], [40.0, 50.0, 0.0, 45.0])
    found = federated_auc([rows, rows, rows], columns=Columns(score_scale="logit"), thresholds="uniform:20")
    become = to_probabilities(np.array(rows[1]), "logit")
    assert roc_auc_score(*rows) == 1
    assert abs(found.auc - roc_auc_score(rows[0], become)) <= found.binning_error + 1e-15


@pytest.mark.parametrize(("scale", "scores"), [("logit", LOGITS), ("percent", 100 / (1 + np.exp(-LOGITS)))])
def test_the_auc_is_scikit_learns_of_the_scores_as_they_were(scale: str, scores: np.ndarray, tmp_path: Path) -> None:
    from sklearn.metrics import roc_auc_score

    parts = [slice(0, 100), slice(100, 250), slice(250, 400)]
    pairs = [(LABELS[part], scores[part]) for part in parts]
    found = federated_auc(pairs, columns=Columns(score_scale=scale), thresholds="hybrid:200")
    assert 0 < abs(found.auc - roc_auc_score(LABELS, scores)) + 1e-12 <= found.binning_error + 2e-12
    names = []
    for number, (labels, part) in enumerate(pairs):
        names.append(tmp_path / f"{number}.npz")
        np.savez(names[-1], y_true=labels, y_score=part)
    read = read_parties(names, entries=Entries(score_scale=scale))
    assert federated_auc(read, thresholds="hybrid:200").fraction == found.fraction
