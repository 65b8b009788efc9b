"""Calibration maps by each method: what libraries make of the rows, and no more than bins of ten rows tell."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fhe_auc.metrics import probabilities, ranking, small_cells
from fhe_auc.metrics.calibration import CalibrationMap
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.recalibration import calibration_line, observed_expected_ratio
from fhe_auc.metrics.updating import METHODS, LogisticMap, mapped
from fhe_auc.question import thresholds as grids
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from tests.support.exact_histogram import exact_histogram
from tests.support.lazy import Lazy
from tests.support.weighted_rows import Rows, histogram_of

metrics = Lazy("sklearn.metrics")
IsotonicRegression = Lazy("sklearn.isotonic").IsotonicRegression
statsmodels = Lazy("statsmodels.api")


def drawn(rows: int, seed: int = 3, digits: int = 3) -> PartyData:
    """Rows with scores whose log odds are 0.4 too high, and once and a half as far from 0 as they should be."""
    generator = np.random.default_rng(seed)
    odds = generator.normal(-1, 1, rows)
    scores = (1 / (1 + np.exp(-0.4 - 1.5 * odds))).round(digits)
    return PartyData.from_arrays("pool", generator.random(rows) < 1 / (1 + np.exp(-odds)), scores)


def test_two_numbers_are_those_of_a_glm_and_one_is_that_of_a_glm_with_offset_as_val_prob_ci_2_fits_them() -> None:
    """CalibrationCurves' val.prob.ci.2: glm(y ~ logit), and glm(y ~ 1, offset = logit)."""
    data = drawn(3000)
    histogram = exact_histogram(data)
    inside = np.clip(data.y_score, 1e-8, 1 - 1e-8)
    logits = np.log(inside / (1 - inside))
    labels, ones = data.y_true.astype(float), np.ones((3000, 1))
    both = statsmodels.Logit(labels, np.column_stack([ones, logits])).fit(disp=0).params
    alone = statsmodels.GLM(labels, ones, family=statsmodels.families.Binomial(), offset=logits).fit().params
    found = METHODS["slope-intercept"](histogram, 10)
    assert [*found.as_dict().values()] == pytest.approx(both, abs=5.1e-5)
    assert [*METHODS["intercept"](histogram, 10).as_dict().values()] == pytest.approx([*alone, 1.0], abs=5.1e-5)
    assert found(data.y_score) == pytest.approx(1 / (1 + np.exp(-both[0] - both[1] * logits)), abs=1e-4)
    # To four decimals: with all, they would be two equations about where single rows lie.
    assert all(number == round(number, 4) for number in found.as_dict().values())
    after = mapped(histogram, found(histogram.centres))
    line = calibration_line(after)
    assert (line.intercept, line.slope, observed_expected_ratio(after)[0].value) == pytest.approx((0, 1, 1), abs=1e-4)


@pytest.mark.parametrize("weight", [1.0, 0.37])
def test_steps_are_those_of_scikit_learn_where_no_count_is_hidden(weight: float) -> None:
    """Weighted rows have counts that are no integers, as those with privacy noise."""
    data = drawn(800, digits=2)
    fine = exact_histogram(data)
    weights = np.where(data.y_score > 0.5, weight, 1.0)
    factor = np.where(fine.centres > 0.5, weight, 1.0)
    steps = METHODS["isotonic"](Histogram(fine.edges, fine.positives * factor, fine.negatives * factor), 1)
    theirs = IsotonicRegression().fit_transform(data.y_score, data.y_true.astype(float), sample_weight=weights)
    assert steps(data.y_score) == pytest.approx(theirs, abs=1e-12)


def test_with_many_rows_hiding_small_counts_leaves_the_steps_near_those_of_scikit_learn() -> None:
    data = drawn(40_000, digits=9)
    steps = METHODS["isotonic"](Histogram.from_rows(data, np.linspace(0, 1, 2001)), 10)
    theirs = IsotonicRegression().fit_transform(data.y_score, data.y_true.astype(float))
    assert np.abs(steps(data.y_score) - theirs).mean() < 0.003


def weighted(data: PartyData, weights: NDArray[np.float64], edges: NDArray[np.float64]) -> Histogram:
    return histogram_of(Rows(data.y_true.astype(int), data.y_score, weights), edges)


def test_of_weighted_rows_maps_and_measures_are_those_of_libraries_that_take_weights() -> None:
    """Two thirds of the negative rows are left out, at random: each of the others counts three times, or a third."""
    data, generator = drawn(20_000, digits=9), np.random.default_rng(4)
    weights = np.where(data.y_true, 1.0, 3.0) * generator.choice([1 / 3, 1.0], 20_000)
    fine = weighted(data, weights, np.linspace(0, 1, 4001))
    logits = np.log(data.y_score / (1 - data.y_score))
    binomial = {"family": statsmodels.families.Binomial(), "freq_weights": weights}
    design = np.column_stack([np.ones(20_000), logits])
    expected = statsmodels.GLM(data.y_true.astype(float), design, **binomial).fit().params
    found = METHODS["slope-intercept"](fine, 10)
    assert [*found.as_dict().values()] == pytest.approx(expected, abs=3e-4)
    expected = statsmodels.GLM(data.y_true.astype(float), np.ones((20_000, 1)), offset=logits, **binomial).fit().params
    assert METHODS["intercept"](fine, 10).intercept == pytest.approx(*expected, abs=3e-4)
    steps = METHODS["isotonic"](fine, 10)
    theirs = IsotonicRegression().fit_transform(data.y_score, data.y_true.astype(float), sample_weight=weights)
    assert np.abs(steps(data.y_score) - theirs).mean() < 0.005
    for made in (found, steps, METHODS["bbq"](fine, 10)):
        scores = made(fine.centres[np.searchsorted(fine.edges, data.y_score, side="right") - 1])
        after = mapped(fine, made(fine.centres))
        expected = metrics.brier_score_loss(data.y_true, scores, sample_weight=weights)
        assert probabilities.brier_score_loss(after).value == pytest.approx(expected, abs=1e-9)
        expected = metrics.roc_auc_score(data.y_true, scores, sample_weight=weights)
        assert ranking.roc_auc_score(after).value == pytest.approx(expected, abs=1e-9)
        assert after.rows.sum() == 20_000
        assert after.squares.sum() == pytest.approx(np.square(weights).sum())


def test_bayesian_binning_takes_weights_of_any_unit_for_the_rows_that_they_are_worth() -> None:
    data = drawn(2000, digits=9)
    edges = np.linspace(0, 1, 501)
    expected = METHODS["bbq"](Histogram.from_rows(data, edges), 10)
    for weight in (0.01, 100.0):  # sums of weights are rounded to two rows
        found = METHODS["bbq"](weighted(data, np.full(2000, weight), edges), 10)
        assert np.abs(found(data.y_score) - expected(data.y_score)).mean() < 0.01


counts = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=12, max_size=64)


@given(sides=counts)
def test_every_step_that_rises_holds_ten_rows_and_of_no_label_few(sides: list[tuple[int, int]]) -> None:
    positives, negatives = (np.array(side, float) for side in zip(*sides, strict=True))
    positives[0] += 10
    negatives[-1] += 10
    fine = Histogram(np.linspace(0, 1, len(sides) + 1), positives, negatives)
    steps = METHODS["isotonic"](fine, 10)
    assert isinstance(steps, CalibrationMap)
    assert (np.diff(steps.probabilities) >= 0).all()
    starts = np.searchsorted(fine.edges, steps.edges[:-1])
    for side in (positives, negatives):
        of_steps = np.add.reduceat(side, starts)
        assert ((of_steps == 0) | (of_steps >= 10)).all()
        assert steps.probabilities == pytest.approx(
            np.add.reduceat(positives, starts) / np.add.reduceat(positives + negatives, starts)
        )
    assert set(steps.edges.tolist()) <= set(small_cells.crowded(fine, 10).edges.tolist())


@pytest.mark.parametrize("method", ["isotonic", "bbq"])
def test_where_in_a_bin_of_ten_rows_a_row_lies_changes_no_step(method: str) -> None:
    """The attack: whoever knows all other rows tries every place of one, and sees the same map."""
    data = drawn(300, digits=9)
    edges, order = np.linspace(0, 1, 1025), np.argsort(data.y_score)
    halves = [k for k in range(10) if (data.y_score >= 1 - 2.0**-k).sum() >= 10]  # of `crowded`'s tree, the last ones
    labels = data.y_true.copy()
    labels[order[-1]] = False  # its step would be lower, were there one
    maps = set()
    for place in np.linspace(1 - 2.0 ** -max(halves), 1, 60):
        scores = data.y_score.copy()
        scores[order[-1]] = place
        moved = Histogram.from_rows(PartyData.from_arrays("moved", labels, scores), edges)
        maps.add(str(METHODS[method](moved, 10).as_dict()))
    assert len(maps) == 1


@pytest.mark.parametrize("method", METHODS)
def test_noisy_counts_have_maps_too(method: str) -> None:
    """Some are negative, some bins are empty; steps that rise still do."""
    data, generator = drawn(5000, digits=9), np.random.default_rng(8)
    clear = Histogram.from_rows(data, np.linspace(0, 1, 101))
    noisy = Histogram(
        clear.edges, *(side + generator.normal(0, 2, 100).round() for side in (clear.positives, clear.negatives))
    )
    assert (noisy.positives < 0).any()
    assert (noisy.cleaned().counts == 0).any()
    found = METHODS[method](noisy, 1)(clear.centres)
    expected = METHODS[method](clear, 10)(clear.centres)
    assert ((found >= 0) & (found <= 1)).all()
    if method == "isotonic":
        assert (np.diff(found) >= 0).all()
    assert clear.counts @ np.abs(found - expected) / 5000 < 0.025


scores_of_bins = st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0])), min_size=5, max_size=5).map(np.array)


@given(scores=scores_of_bins)
def test_rows_with_other_scores_are_counted_at_these(scores: NDArray[np.float64]) -> None:
    fine = Histogram(np.linspace(0, 1, 6), [1, 2, 3, 4, 5], [5, 0, 3, 2, 1])
    found = mapped(fine, scores)
    assert found.counts.sum() == 26
    some = found.counts > 0
    assert found.centres[some].tolist() == np.unique(scores).tolist()
    assert found.positives @ found.centres == pytest.approx(fine.positives @ scores)
    assert found.negatives[some].tolist() == [fine.negatives[scores == each].sum() for each in np.unique(scores)]


def test_a_line_of_scores_beyond_the_floats_of_log_odds_keeps_to_probabilities() -> None:
    assert LogisticMap(900.0, 1e6)(np.array([0.0, 0.5, 1.0])).tolist() == [0.0, 1.0, 1.0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["credit-default", "covid-clinics"])
@pytest.mark.parametrize("distorted", ["as they are", "square roots", "too extreme"])
def test_made_from_few_rows_both_numbers_lose_less_on_others_than_steps(name: str, distorted: str) -> None:
    """Mean log loss over 12 orders of the rows, scores kept 1e-6 from 0 and 1."""
    parties = datasets.load(name)
    labels, scores = (np.concatenate([getattr(each, part) for each in parties]) for part in ("y_true", "y_score"))
    odds = np.log(scores.clip(1e-8, 1 - 1e-8)) - np.log1p(-scores.clip(1e-8, 1 - 1e-8))
    scores = {"as they are": scores, "square roots": np.sqrt(scores)}.get(
        distorted, 1 / (1 + np.exp(-0.8 - 1.6 * odds))
    )
    for rows in (300, 1000, 3000):
        losses = dict[str, list[float]]()
        for seed in range(12):
            order = np.random.default_rng(seed).permutation(len(labels))
            own, others = order[:rows], order[rows:]
            data = PartyData.from_arrays("own", labels[own], scores[own])
            fine = Histogram.from_rows(data, np.unique([0, *grids.hybrid(1000), 1]))
            for method, made in METHODS.items():
                found = made(fine, 10)(scores[others]).clip(1e-6, 1 - 1e-6)
                losses.setdefault(method, []).append(-np.log(np.where(labels[others], found, 1 - found)).mean())
        means = {method: np.mean(each) for method, each in losses.items()}
        assert means["slope-intercept"] < min(means["isotonic"], means["bbq"])
