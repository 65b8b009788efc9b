"""The made-up test set has the numbers of the paper that it stands for."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import synthetic_scores as synthetic
from synthetic_scores import criteo_like


@pytest.mark.parametrize("epoch", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_rows_positives_and_auc_are_the_papers(epoch: int) -> None:
    y_true, y_score = criteo_like(epoch)
    assert (len(y_true), int(y_true.sum())) == (458_407, 117_317)
    assert roc_auc_score(y_true, y_score) == pytest.approx(synthetic.CRITEO_AUC[epoch], abs=1.5e-5)
    assert 0 < y_score.min() < y_score.max() < 1


def test_epoch_0_has_the_papers_positives_among_the_top_scores() -> None:
    y_true, y_score = criteo_like(0)
    ranked = y_true[np.argsort(-y_score, kind="stable")].cumsum()
    for top, positives in synthetic.CRITEO_TOP.items():
        assert abs(ranked[top - 1] - positives) <= 2, top  # float32 has ties


def test_equal_seeds_give_equal_rows_and_others_about_the_same_auc() -> None:
    y_true, y_score = criteo_like(1, seed=3)
    again = criteo_like(1, seed=3)
    np.testing.assert_array_equal([y_true, y_score], again)
    other = criteo_like(1, seed=4)
    assert (y_true != other[0]).any()
    assert roc_auc_score(*other) == pytest.approx(roc_auc_score(y_true, y_score), abs=2e-5)
