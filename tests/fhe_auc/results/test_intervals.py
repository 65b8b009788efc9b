"""Confidence intervals against their definitions over rows, a published example, and what cannot have one."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc.base.errors import InputError
from fhe_auc.results.delong import (
    Clusters,
    Counted,
    Merged,
    Moments,
    OneModel,
    PairedError,
    PairedSums,
    Products,
    delong_error,
    hanley_mcneil,
    of_bins,
    paired_delong,
)
from fhe_auc.results.intervals import (
    Interval,
    expit,
    of_auc,
    of_difference,
    on_logit_scale,
    plain,
    quantile,
    widened,
    wilson,
)
from tests.support.delong import of_rows, once, paired_of_rows
from tests.support.lazy import Lazy

brentq = Lazy("scipy.optimize").brentq
special = Lazy("scipy.special")
stats = Lazy("scipy.stats")
norm = Lazy("scipy.stats").norm

scores = st.lists(st.integers(0, 6), min_size=2, max_size=12)


@given(scores, scores)
def test_the_standard_error_is_that_of_delongs_placements(ones: list[int], zeros: list[int]) -> None:
    """Over rows: the variances of each row's share of the other class that it is ordered rightly against."""
    difference = sum((x > y) - (x < y) for x in ones for y in zeros)
    q10 = sum(sum((x > y) - (x < y) for y in zeros) ** 2 for x in ones)
    q01 = sum(sum((x > y) - (x < y) for x in ones) ** 2 for y in zeros)
    found = delong_error(Merged(difference, q10, q01), once(len(ones)), once(len(zeros)))
    assert found == pytest.approx(of_rows(np.array(ones), np.array(zeros))[1], abs=1e-12)


def test_one_row_of_a_class_has_no_standard_error_by_delong() -> None:
    assert delong_error(Merged(0, 25, 5), once(1), once(5)) is None
    assert delong_error(Merged(0, 5, 25), once(5), once(1)) is None
    sums, model = PairedSums(*[Moments(0, 0, 1, 1, 1)] * 2), OneModel(Fraction(1, 2), Merged(0, 4, 4))
    assert paired_delong(model, model, sums, once(1), once(5)) is None
    assert paired_delong(model, model, sums, once(5), once(1)) is None


def test_hanley_and_mcneils_and_procs_own_examples() -> None:
    """58 normal and 51 abnormal CT scans, AUC 0.893: they print a standard error of 0.032."""
    assert hanley_mcneil(Fraction(893, 1000), 51, 58) == pytest.approx(0.0325, abs=0.0005)
    # pROC 1.18: r <- roc(c(1,1,1,1,1,0,0,0,0,0,0), c(.9,.8,.7,.95,.4,.1,.3,.5,.2,.75,.4), direction="<");
    # ci.auc(r) is 0.678290331383 to 1, and sqrt(var(r)) is 0.104615698843.
    y = np.array([1] * 5 + [0] * 6, bool)
    scores = np.array([0.9, 0.8, 0.7, 0.95, 0.4, 0.1, 0.3, 0.5, 0.2, 0.75, 0.4])
    bins = [np.bincount(np.unique(scores, return_inverse=True)[1], weights=side).astype(int) for side in (y, ~y)]
    auc, error = of_bins(*bins)
    assert error == pytest.approx(0.104615698843, abs=1e-12)
    found = plain(auc, error, 0.95)
    assert (found.low, found.high) == (pytest.approx(0.678290331383, abs=1e-12), 1.0)
    assert found.method == "DeLong, plain"


def test_other_levels_are_refused() -> None:
    with pytest.raises(InputError, match="the level of an interval"):
        wilson([1], [2], 95.0)
    for level in [0.4, 1.0, 95.0, math.nan, "0.95", True, None, 1]:
        with pytest.raises(InputError, match=r"a number from 0\.5 to 0\.9999, such as 0\.95"):
            quantile(level)


def test_where_the_normal_distribution_says_nothing_there_is_no_interval_and_elsewhere_one_on_the_logit_scale() -> None:
    found = on_logit_scale(Fraction(9, 10), 0.04, 0.9, "DeLong")
    low, high = (math.log(end / (1 - end)) for end in (found.low, found.high))
    assert (low + high) / 2 == pytest.approx(math.log(9))
    assert (high - low) / 2 == pytest.approx(norm.ppf(0.95) * 0.04 / 0.09)
    assert found == Interval(0.9, found.low, found.high, "DeLong")
    wide = on_logit_scale(Fraction(99, 100), 0.2, 0.9999, "DeLong")
    assert 0 < wide.low < 0.99 < wide.high <= 1
    for auc, error in [(Fraction(0), 0.0), (Fraction(1), 0.0), (Fraction(1, 2), 0.0)]:
        assert on_logit_scale(auc, error, 0.95, "DeLong") is None


def test_an_interval_is_widened_by_a_binning_error_above_the_standard_error_alone() -> None:
    interval = Interval(0.95, 0.6, 0.7, "DeLong, logit scale")
    assert widened(interval, 0.02, 0.02) is interval
    wide = widened(interval, 0.02, 0.25)
    assert (wide.low, wide.high) == pytest.approx((0.35, 0.95))
    assert wide.method == "DeLong, logit scale, widened by the binning error"
    assert widened(interval, 0.02, 0.9) == Interval(0.95, 0.0, 1.0, wide.method)
    assert widened(None, 0.02, 0.9) is None


@given(st.floats(-1e6, 1e6))
def test_expit_is_scipys(x: float) -> None:
    assert expit(x) == pytest.approx(special.expit(x), rel=1e-12)


@given(st.integers(0, 10**6))
def test_the_paired_standard_error_of_exact_placements_is_delongs(seed: int) -> None:
    """Where the correlation is taken over the rows themselves."""
    generator = np.random.default_rng(seed)
    labels = np.arange(30) < generator.integers(2, 29)
    models = [generator.integers(0, 8, 30) + 2 * labels for _ in range(2)]
    models[1] = np.where(generator.random(30) < 0.6, *models[::-1])
    of_models, sides = [], []
    for scores in models:
        each = np.sign(scores[labels][:, None] - scores[~labels])
        worth = each.sum(axis=1), each.sum(axis=0)
        merged = Merged(int(each.sum()), *(int((w**2).sum()) for w in worth))
        of_models.append(OneModel(Fraction(merged.difference + each.size, 2 * each.size), merged))
        sides.append(worth)
    moments = [
        Moments(*(int(each) for each in (u.sum(), v.sum(), u @ u, v @ v, u @ v)))
        for u, v in ((2 * x, 2 * y) for x, y in zip(*sides, strict=True))
    ]
    rows = (once(int(own.sum())) for own in (labels, ~labels))
    found = paired_delong(of_models[0], of_models[1], PairedSums(*moments), *rows)
    assert found.standard_error == pytest.approx(paired_of_rows(labels, models[0], models[1])[1], abs=1e-7)
    assert found.off == pytest.approx(0, abs=1e-6) or not found.standard_error  # nothing is missing


def test_the_correlation_of_models_is_less_certain_where_weights_of_rows_differ() -> None:
    """As many effective rows of each label, 100: of 100 rows with one weight, and of 200 with several."""
    square = 400 * 200**2 // 4
    model = OneModel(Fraction(1, 2), Merged(0, square, square, first=(0, 0)))
    moments = Moments(0, 0, 16**2 * square, 16**2 * square, 16**2 * square // 2, (0, 0))
    even, uneven = (
        paired_delong(model, model, PairedSums(moments, moments, 16), *[Counted(rows, 200, 400)] * 2)
        for rows in (100, 200)
    )
    assert uneven.standard_error == even.standard_error > 0
    assert uneven.off > even.off > 0


def test_a_bound_of_p_takes_the_difference_and_its_error_as_far_off_as_they_may_be_by_patients_too() -> None:
    found = PairedError(0.02, 0.1, (0.0, 0.0), 0.03, 0.01)
    assert found.p_at_most(-0.1) == pytest.approx(2 * norm.sf(0.09 / 0.03))
    assert found.p_at_most(0.005) == 1.0
    assert found.clustered(0.04) == (0.04, 0.1, (0.0, 0.0), pytest.approx(0.06), pytest.approx(0.02))
    assert found.clustered(0.01)[3:] == (pytest.approx(0.015), 0.01)
    assert found.clustered(None).p_at_most(0.5) == 1.0


@given(st.fractions(-1, 1), st.floats(1e-3, 1), st.sampled_from([0.5, 0.9, 0.95]))
def test_p_and_interval_of_a_difference_are_the_normal_laws(difference: Fraction, error: float, level: float) -> None:
    interval, p_value = of_difference(difference, error, level)
    assert p_value == pytest.approx(2 * norm.sf(abs(float(difference)) / error), abs=1e-12)
    ends = norm.interval(level, float(difference), error)
    assert (interval.low, interval.high) == (pytest.approx(ends[0]), pytest.approx(ends[1]))
    assert interval.method == "DeLong, paired, on binned scores"


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
def test_ends_are_newcombes_half_delongs_or_delongs(share: Fraction, rows: tuple[int, int], error: float) -> None:
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


@pytest.mark.parametrize("visits", [[5] * 12, [1] * 11 + [40]])
def test_few_patients_widen_an_interval_as_students_t_does_and_uneven_ones_more(visits: list[int]) -> None:
    each = np.array(visits)
    pairs = Products(*[Fraction(0)] * 3, Fraction(int((each * (each - 1)).sum())))
    many = Products(*[Fraction(0)] * 3, Fraction(0))
    clusters = Clusters({}, {(0, 0, 0): {(1, 1): pairs, (0, 0): many}}, [(12, 900, 912)])
    worth = each.sum() ** 2 / (each**2).sum()
    rows = once(int(each.sum())), once(900)
    assert clusters.worth(0, 0, rows) == pytest.approx(worth)
    worth = max(worth, 2)
    expected = stats.t.ppf(0.975, int(worth) - 1) / stats.norm.ppf(0.975) * math.sqrt(worth / (worth - 1) * 11 / 12)
    assert clusters.stretch(0, 0, rows, 0.95) == pytest.approx(expected)
