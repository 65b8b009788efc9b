"""Partial AUC, sensitivity at a specificity and the reverse: against scikit-learn, and R's pROC and its bootstrap.

r <- pROC::roc(y, s, direction = "<"); pROC::auc(r, partial.auc = c(1, .9), partial.auc.correct = TRUE)
sqrt(var(r, partial.auc = c(1, .9), reuse.auc = FALSE, method = "bootstrap", boot.n = 2000)) / 0.19
pROC::ci.se(r, c(.9, .95), boot.n = 2000); pROC::ci.sp(r, c(.9, .95), boot.n = 2000)    # 500 for bundled sets
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm

from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.ranking import partial_auc_score
from fhe_auc.results.report_measures import TOO_FEW, Measure, score_measures
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from tests.support.exact_histogram import exact_histogram
from tests.support.lazy import Lazy
from tests.support.pooled import pooled

roc_auc_score = Lazy("sklearn.metrics").roc_auc_score

RATES = ("sensitivity_at_specificity_", "specificity_at_sensitivity_")
OF_R: dict[str, Any] = {
    "covid-clinics": (
        *(0.65836705, 0.01113),
        {"0.90": (0.44804, 0.53580), "0.95": (0.33597, 0.42494)},
        {"0.90": (0.30949, 0.46634), "0.95": (0.15446, 0.30975)},
    ),
    "credit-default": (
        *(0.58391425, 0.003738),
        {"0.90": (0.30233, 0.33603), "0.95": (0.23585, 0.28147)},
        {"0.90": (0.15162, 0.18825), "0.95": (0.081048, 0.10940)},
    ),
    "breast cancer": (
        *(0.78011065, 0.03146),
        {"0.90": (0.69242, 0.86555), "0.95": (0.43136, 0.75967)},
        {"0.90": (0.75940, 0.86958), "0.95": (0.70719, 0.82559)},
    ),
}


def rows(name: str) -> PartyData:
    if name != "breast cancer":
        return pooled(datasets.load(name))
    features, labels = Lazy("sklearn.datasets").load_breast_cancer(return_X_y=True)
    return PartyData.from_arrays("all", labels, 1 - np.clip(features[:, 0] / 30, 0, 0.999))


def measures(histogram: Histogram, level: float | None = 0.95) -> dict[str, Measure]:
    return {each.name: each for each in score_measures(histogram, histogram, level, 1)}


@pytest.mark.parametrize("name", OF_R)
def test_on_public_data_values_are_procs_and_errors_and_intervals_those_of_its_bootstrap(name: str) -> None:
    partial, error, *of_rates = OF_R[name]
    data = rows(name)
    score, own_error = partial_auc_score(exact_histogram(data), 0.1)
    assert score.value == pytest.approx(partial, abs=1e-7)
    assert score.value == pytest.approx(roc_auc_score(data.y_true, data.y_score, max_fpr=0.1), abs=1e-12)
    assert own_error == pytest.approx(error, rel=0.05)
    found = measures(exact_histogram(data))
    for prefix, of_rate in zip(RATES, of_rates, strict=True):
        for held, ends in of_rate.items():
            interval = found[prefix + held].interval
            assert (interval.low, interval.high) == pytest.approx(ends, abs=0.015 + 0.15 * (ends[1] - ends[0]))


def sample(seed: int, size: int = 400) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    random = np.random.default_rng(seed)
    y_true = random.random(size) < random.uniform(0.1, 0.5)
    y_true[:2] = True, False
    return y_true, norm.cdf(random.normal(size=size) + random.uniform(0, 2) * y_true - 1)


@given(seed=st.integers(0, 2**32), max_fpr=st.sampled_from([0.05, 0.1, 0.5, 1.0]), bins=st.sampled_from([7, 50, 1000]))
def test_whatever_the_bins_scikit_learns_value_lies_in_the_range(seed: int, max_fpr: float, bins: int) -> None:
    y_true, y_score = sample(seed)
    data, expected = PartyData.from_arrays("all", y_true, y_score), roc_auc_score(y_true, y_score, max_fpr=max_fpr)
    found, _ = partial_auc_score(Histogram.from_rows(data, np.arange(bins + 1) / bins), max_fpr)
    assert found.low - 1e-12 <= expected <= found.high + 1e-12
    assert partial_auc_score(exact_histogram(data), max_fpr)[0].value == pytest.approx(expected, abs=1e-12)


def held(positives: int, negatives: int, min_cell: int, seed: int) -> dict[str, Measure]:
    random = np.random.default_rng(seed)
    y_true = np.arange(positives + negatives) < positives
    scores = 1 / (1 + np.exp(-random.normal(size=len(y_true)) - y_true))
    bins = Histogram.from_rows(PartyData.from_arrays("all", y_true, scores), np.arange(2001) / 2000)
    found = score_measures(bins, bins, 0.95, min_cell)
    return {each.name: each for each in found if each.name.startswith(RATES)}


@given(positives=st.integers(20, 400), negatives=st.integers(20, 400), seed=st.integers(0, 99))
def test_a_rate_held_fits_two_counts_and_its_range_has_that_of_rows(positives: int, negatives: int, seed: int) -> None:
    exact, shown = (held(positives, negatives, least, seed) for least in (1, 10))
    for name, each in shown.items():
        rows = positives if name.startswith("sensitivity") else negatives
        one = each.estimate
        assert one.low <= exact[name].estimate.value <= one.high
        assert one.low <= one.value <= one.high
        counts = np.arange(rows + 1) / rows
        assert ((counts >= one.low - 1e-9) & (counts <= one.high + 1e-9)).sum() >= (2 if 0 < one.value < 1 else 1)
        assert each.interval.low <= one.value <= each.interval.high
        assert (each.interval.low, each.interval.high) == pytest.approx(
            (exact[name].interval.low, exact[name].interval.high), abs=5.01 / rows
        )


def test_a_rate_held_of_fewer_than_20_rows_of_a_label_stands_without_an_interval_and_says_why() -> None:
    for each in held(19, 300, 10, 1).values():
        assert (each.interval, each.no_interval) == (None, TOO_FEW)
        assert each.estimate is not None
    assert not any(each.no_interval for each in held(20, 300, 10, 1).values())
