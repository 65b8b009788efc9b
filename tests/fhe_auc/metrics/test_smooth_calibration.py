"""Smooth calibration, against rms::val.prob over rows and simulated labels."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, UndefinedMetricError
from fhe_auc.metrics import Histogram, smooth_calibration
from fhe_auc.question import thresholds as grids
from fhe_auc.rows import datasets

Rows = tuple[NDArray[np.float64], NDArray[np.int64]]


def expit(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-x)))


def rows_of(name: str) -> Rows:
    if name in datasets.NAMES:
        parties = datasets.load(name)
        return np.concatenate([each.scores[0] for each in parties]), np.concatenate([each.labels for each in parties])
    generator = np.random.default_rng(61)
    if name == "rare":
        scores = expit(-5.5 + 1.2 * generator.standard_normal(20000))
        risks = scores
    elif name == "overconfident":
        logits = 1.5 * generator.standard_normal(3000)
        scores, risks = expit(1.8 * logits), expit(logits)
    else:
        points = generator.binomial(9, 0.3, 6000)
        scores, risks = points / 10, expit(-3 + 0.55 * points)
    return scores, (generator.random(len(scores)) < risks).astype(np.int64)


def counted(scores: NDArray[np.float64], labels: NDArray[np.int64], edges: NDArray[np.float64]) -> Histogram:
    return Histogram(edges, *(np.histogram(scores[labels == label], edges)[0].astype(float) for label in (1, 0)))


def value_bins(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return edges so that every score, none of 1, is the middle of a bin of its own."""
    values = np.unique(scores)
    return np.unique(np.clip(np.concatenate([values - 1e-13, values + 1e-13, [0.0, 1.0]]), 0, 1))


# R 4.2 with rms 6.5, over rows: v <- val.prob(s, y, pl = FALSE); v["Eavg"]; E50 of the same curve,
# median(abs(s - approx(lowess(s, y, iter = 0), xout = s, ties = mean)$y)); v["E90"]; v["Emax"]
OF_R = {
    "covid-clinics": (0.008657869088, 0.008431754731, 0.01021960347, 0.09782662714),
    "credit-default": (0.009296943115, 0.006714518717, 0.01588435075, 0.1267691011),
    "rare": (0.001291218746, 0.0008983902508, 0.001126022449, 0.1563053014),
    "overconfident": (0.07912624806, 0.08986405526, 0.1099874455, 0.1119568736),
    "points": (0.06793048195, 0.08967019291, 0.1029058153, 0.1029058153),
}


@pytest.mark.parametrize("name", OF_R)
def test_it_is_that_of_rms_over_rows_and_within_a_hundredth_of_it_over_five_thousand_bins(name: str) -> None:
    scores, labels = rows_of(name)
    found = np.array(smooth_calibration(counted(scores, labels, value_bins(scores)))[:4])
    assert found[[0, 3]] == pytest.approx(np.array(OF_R[name])[[0, 3]], rel=1e-7)
    assert found == pytest.approx(OF_R[name], rel=1e-3)  # quantiles here are of one row, there between two
    ici, _, e90, emax, _ = smooth_calibration(counted(scores, labels, np.unique([0.0, *grids.hybrid(5000), 1.0])))
    assert (ici, e90, emax) == pytest.approx(np.delete(OF_R[name], 1), rel=0.01)


@pytest.mark.parametrize(("rows", "shift", "digits"), [(300, 0.0, 6), (2000, -3.5, 6), (1000, -1.0, 1)])
def test_scores_that_are_right_have_the_ici_that_is_said_to_be_of_chance(rows: int, shift: float, digits: int) -> None:
    generator = np.random.default_rng(rows)
    scores = expit(shift + generator.standard_normal(rows)).round(digits).clip(0.001, 0.999)
    edges = value_bins(scores)
    found = [smooth_calibration(counted(scores, generator.random(rows) < scores, edges)) for _ in range(300)]
    drawn, said = np.array([each.ici for each in found]), found[0].ici_by_chance
    assert abs(drawn.mean() - said) < 3 * drawn.std() / np.sqrt(len(drawn)) + 0.01 * said
    assert [each.ici_by_chance for each in found] == pytest.approx([said] * 300)  # of the scores alone


def test_a_straight_line_comes_back_and_crowded_or_single_scores_have_their_own_share() -> None:
    edges = np.linspace(0, 1, 101)
    centres = (edges[1:] + edges[:-1]) / 2
    shares = 0.3 + 0.5 * centres
    far = np.abs(shares - centres)
    found = smooth_calibration(Histogram(edges, 1000 * shares, 1000 * (1 - shares)))
    median, most = np.quantile(np.repeat(far, 1000), [0.5, 0.9], method="inverted_cdf")
    assert found[:4] == pytest.approx((far.mean(), median, most, far.max()))
    # More than two thirds of rows have one score: its nearest rows are its own. A single score has nothing else.
    two = Histogram(np.array([0.0, 0.2, 1.0]), np.array([300.0, 5.0]), np.array([600.0, 5.0]))
    assert smooth_calibration(two).e50 == pytest.approx(1 / 3 - 0.1)
    one = smooth_calibration(Histogram(np.array([0.0, 1.0]), np.array([30.0]), np.array([70.0])))
    assert one == pytest.approx((*[0.2] * 4, np.sqrt(2 / np.pi * 0.25 / 100)))


def test_without_rows_or_probabilities_there_is_none() -> None:
    with pytest.raises(UndefinedMetricError, match="nothing to smooth"):
        smooth_calibration(Histogram(np.array([0.0, 1.0]), np.zeros(1), np.zeros(1)))
    with pytest.raises(InputError, match="probabilities"):
        smooth_calibration(Histogram(np.array([0.0, 2.0]), np.ones(1), np.ones(1)))
