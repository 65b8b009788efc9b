"""Intervals of few rows, or patients, against SciPy's roots and quantiles; rates that tell no count."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc.metrics.histogram import Histogram
from fhe_auc.results.delong import Clusters, Products
from fhe_auc.results.intervals import of_auc, on_logit_scale
from fhe_auc.results.report_measures import TOO_FEW, Measure, score_measures
from fhe_auc.rows.party_data import PartyData
from tests.support.lazy import Lazy

brentq = Lazy("scipy.optimize").brentq
stats = Lazy("scipy.stats")

RATES = ("sensitivity_at", "specificity_at")


def variance(at: float, positives: int, negatives: int) -> float:
    """Newcombe's fifth method: Hanley and McNeil's, both labels with the mean of the rows less one."""
    others = (positives + negatives) / 2 - 1
    of_terms = 1 + others * (1 - at) / (2 - at) + others * at / (1 + at)
    return at * (1 - at) * of_terms / (positives * negatives)


@given(
    share=st.fractions(0, 1, max_denominator=500),
    rows=st.tuples(st.integers(2, 60), st.integers(2, 500)),
    error=st.floats(0.005, 0.2),
)
def test_with_few_rows_or_near_1_ends_are_newcombes_or_half_delongs_and_else_delongs(
    share: Fraction, rows: tuple[int, int], error: float
) -> None:
    found, auc, rarer = of_auc(share, rows, error, 0.95), float(share), min(rows)
    if rarer >= 20 and rarer * min(auc, 1 - auc) >= 3:
        assert found == on_logit_scale(share, error, 0.95, "DeLong, logit scale")
        return
    half = rarer >= 20 and 0 < auc < 1
    assert found.method == ("between DeLong and Newcombe's method 5" if half else "Newcombe, method 5")
    times = error / math.sqrt(variance(auc, *rows)) if half else 1.0
    reach = stats.norm.ppf(0.975) * math.sqrt(times)
    for end, far in ((found.low, 0.0), (found.high, 1.0)):
        if auc == far:
            assert end == far
        elif auc in (0, 1):  # where θ = A solves it, too, and is no end
            assert abs(end - auc) == pytest.approx(reach * math.sqrt(variance(end, *rows)), abs=1e-9)
            assert end != auc
        else:
            root = brentq(lambda at: abs(at - auc) - reach * math.sqrt(variance(at, *rows)), far, auc, xtol=1e-14)
            assert end == pytest.approx(root, abs=1e-9)


def test_without_a_wrong_pair_there_is_an_interval_and_where_all_scores_are_tied_none() -> None:
    few, many = (of_auc(Fraction(1), (rows, rows), 0.0, 0.95) for rows in (5, 500))
    assert 0.5 < few.low < many.low < many.high == few.high == 1
    assert of_auc(Fraction(1, 2), (5, 7), 0.0, 0.95) is None


@pytest.mark.parametrize("visits", [[5] * 12, [1] * 11 + [40]])
def test_few_patients_widen_an_interval_as_students_t_does_and_uneven_ones_more(visits: list[int]) -> None:
    each = np.array(visits)
    pairs = Products(*[Fraction(0)] * 3, Fraction(int((each * (each - 1)).sum())))
    many = Products(*[Fraction(0)] * 3, Fraction(0))
    clusters = Clusters({}, {(0, 0, 0): {(1, 1): pairs, (0, 0): many}}, [(12, 900, 912)])
    worth = each.sum() ** 2 / (each**2).sum()
    assert clusters.worth(0, 0, (int(each.sum()), 900)) == pytest.approx(worth)
    worth = max(worth, 2)
    expected = stats.t.ppf(0.975, int(worth) - 1) / stats.norm.ppf(0.975) * math.sqrt(worth / (worth - 1) * 11 / 12)
    assert clusters.stretch(0, 0, (int(each.sum()), 900), 0.95) == pytest.approx(expected)


def held(positives: int, negatives: int, min_cell: int, seed: int) -> dict[str, Measure]:
    random = np.random.default_rng(seed)
    y_true = np.arange(positives + negatives) < positives
    scores = 1 / (1 + np.exp(-random.normal(size=len(y_true)) - y_true))
    bins = Histogram.from_rows(PartyData.from_arrays("all", y_true, scores), np.arange(2001) / 2000)
    found = score_measures(bins, bins, 0.95, min_cell)
    return {each.name: each for each in found if each.name.startswith(RATES)}


@given(positives=st.integers(20, 400), negatives=st.integers(20, 400), seed=st.integers(0, 99))
def test_a_rate_held_fits_two_counts_at_least_and_its_range_has_that_of_the_rows(
    positives: int, negatives: int, seed: int
) -> None:
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
