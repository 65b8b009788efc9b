"""Metrics of rows with weights: scikit-learn's with `sample_weight`; standard errors are what rows' influences say."""

import math

import numpy as np
import pytest
from sklearn import metrics as sklearn
from sklearn.linear_model import LogisticRegression

from fhe_auc.metrics import precision_recall, probabilities, ranking, recalibration
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.smooth_calibration import smooth_calibration
from fhe_auc.results.intervals import effective
from fhe_auc.results.report_measures import calibration_measures, score_measures
from tests.support.weighted_rows import Rows, error_by_rows, histogram_of, some_rows

ROWS = some_rows(150, cases=3)
OURS = histogram_of(ROWS)
LOGITS = np.log(ROWS.scores / (1 - ROWS.scores))


def brier(weights):
    return sklearn.brier_score_loss(ROWS.labels, ROWS.scores, sample_weight=weights)


def scaled_brier(weights):
    share = np.average(ROWS.labels, weights=weights)
    return 1 - brier(weights) / (share * (1 - share))


def auc(weights, **more):
    return sklearn.roc_auc_score(ROWS.labels, ROWS.scores, sample_weight=weights, **more)


def average_precision(weights):
    return sklearn.average_precision_score(ROWS.labels, ROWS.scores, sample_weight=weights)


def log_ratio(weights):
    return math.log(weights @ ROWS.labels / (weights @ ROWS.scores))


DESIGN = np.stack([np.ones(150), LOGITS], axis=1)


def line(weights, design=DESIGN, offset=0.0):
    """Newton's method over rows."""
    found = np.zeros(design.shape[1])
    for _ in range(30):
        rates = 1 / (1 + np.exp(-design @ found - offset))
        hessian = (design.T * (weights * rates * (1 - rates))) @ design
        found = found + np.linalg.solve(hessian, design.T @ (weights * (ROWS.labels - rates)))
    return found


def in_the_large(weights):
    return float(line(weights, DESIGN[:, :1], LOGITS)[0])


def slope(weights):
    return float(line(weights)[1])


OF_ROWS = {
    "average precision": (
        average_precision,
        lambda: (ranking.average_precision_score(OURS).value, ranking.average_precision_error(OURS)),
    ),
    "partial AUC": (
        lambda weights: auc(weights, max_fpr=0.13),
        lambda: (ranking.partial_auc_score(OURS, 0.13)[0].value, ranking.partial_auc_score(OURS, 0.13)[1]),
    ),
    "Brier": (brier, lambda: (probabilities.brier_score_loss(OURS).value, probabilities.brier_score_error(OURS))),
    "scaled Brier": (
        scaled_brier,
        lambda: (probabilities.scaled_brier_score(OURS)[0].value, probabilities.scaled_brier_score(OURS)[1]),
    ),
    "O/E": (
        log_ratio,
        lambda: (
            math.log(recalibration.observed_expected_ratio(OURS)[0].value),
            recalibration.observed_expected_ratio(OURS)[1],
        ),
    ),
    "in the large": (
        in_the_large,
        lambda: (
            recalibration.calibration_in_the_large(OURS)[0].value,
            recalibration.calibration_in_the_large(OURS)[1],
        ),
    ),
}


@pytest.mark.parametrize("name", OF_ROWS)
def test_values_are_those_over_rows_and_standard_errors_are_what_the_influences_of_rows_add_up_to(name) -> None:
    over_rows, ours = OF_ROWS[name]
    value, error = ours()
    assert value == pytest.approx(over_rows(ROWS.weights), abs=1e-8)
    assert error == pytest.approx(error_by_rows(over_rows, ROWS.weights), rel=1e-4)


def test_the_error_of_the_auc_enlarges_what_influences_of_each_label_add_up_to_by_its_effective_rows() -> None:
    own, other = (ROWS.weights[ROWS.labels == label] for label in (1, 0))
    ones, zeros = (ROWS.scores[ROWS.labels == label] for label in (1, 0))
    ordered, total = np.sign(ones[:, None] - zeros) / 2 + 0.5, 0.0
    for weights, better in ((own, ordered @ other / other.sum()), (other, own @ ordered / own.sum())):
        alone = error_by_rows(lambda changed, better=better: np.average(better, weights=changed), weights)
        rows = weights.sum() ** 2 / (weights**2).sum()
        total += alone**2 * rows / (rows - 1)
    assert ranking.roc_auc_score(OURS).value == pytest.approx(auc(ROWS.weights), abs=1e-12)
    assert ranking.roc_auc_error(OURS) == pytest.approx(math.sqrt(total), rel=1e-4)


def test_the_slopes_error_is_whites_over_rows_or_that_of_a_true_line_where_it_is_larger() -> None:
    found = recalibration.calibration_line(OURS)
    assert [found.intercept, found.slope] == pytest.approx(line(ROWS.weights), abs=1e-8)
    white = error_by_rows(slope, ROWS.weights)
    assert white * (1 - 1e-4) < found.slope_error < 1.3 * white
    many = some_rows(100_000, 1, cases=3)
    ours = recalibration.calibration_line(histogram_of(many))
    model = LogisticRegression(penalty=None, tol=1e-10)
    logits = np.log(many.scores / (1 - many.scores))[:, None]
    model.fit(logits, many.labels, sample_weight=many.weights)
    assert ours.slope == pytest.approx(model.coef_[0, 0], abs=1e-5)
    design = np.stack([np.ones(len(logits)), logits[:, 0]], axis=1)
    rates = model.predict_proba(logits)[:, 1]
    bread = np.linalg.inv((design.T * (many.weights * rates * (1 - rates))) @ design)
    meat = (design.T * (many.weights * (many.labels - rates)) ** 2) @ design
    assert ours.slope_error == pytest.approx(math.sqrt((bread @ meat @ bread)[1, 1]), rel=0.03)


def test_the_net_benefit_has_the_error_of_a_weighted_mean() -> None:
    curve, errors = precision_recall.decision_curve(OURS), precision_recall.net_benefit_error(OURS)
    for at in (10, 60):
        threshold = curve.thresholds[at]
        worth = np.where(ROWS.scores >= threshold, np.where(ROWS.labels, 1, -threshold / (1 - threshold)), 0)
        mean = np.average(worth, weights=ROWS.weights)
        assert curve.model[at] == pytest.approx(mean, abs=1e-12)
        over_rows = np.sqrt(np.sum((ROWS.weights * (worth - mean)) ** 2)) / ROWS.weights.sum()
        assert errors[at] == pytest.approx(over_rows, rel=1e-9)


@pytest.mark.parametrize("threshold", [0.2, 0.5])
def test_decisions_are_scikit_learns_and_effective_rows_have_the_variance_of_each_rate(threshold) -> None:
    edges = np.union1d(OURS.edges, [threshold])
    ours = histogram_of(ROWS, edges)
    above, weights = (ROWS.scores >= threshold).astype(int), {"sample_weight": ROWS.weights}
    matrix = sklearn.confusion_matrix(ROWS.labels, above, **weights)
    assert precision_recall.confusion_matrix(ours, threshold) == pytest.approx(matrix, abs=1e-9)
    found = precision_recall.decision_metrics(ours, threshold)
    for name, of in {"precision": "precision_score", "recall": "recall_score", "f1": "f1_score"}.items():
        assert found[name] == pytest.approx(getattr(sklearn, of)(ROWS.labels, above, **weights), abs=1e-12)
    assert found["accuracy"] == pytest.approx(sklearn.accuracy_score(ROWS.labels, above, **weights), abs=1e-12)

    def precision(changed):
        return np.average(ROWS.labels[above == 1], weights=changed[above == 1])

    hits, others = matrix[::-1, 1]
    squares = [np.sum(ROWS.weights[(ROWS.labels == label) & (above == 1)] ** 2) for label in (1, 0)]
    k, n = effective(hits, others, squares)
    share = precision(ROWS.weights)
    assert k / n == pytest.approx(share, rel=1e-12)
    assert n == math.floor(share * (1 - share) / error_by_rows(precision, ROWS.weights) ** 2 + 1e-3)


def test_shares_of_0_and_1_and_weights_of_1_have_as_many_effective_rows_as_kish_says() -> None:
    assert effective([0, 30, 7, 0], [10, 0, 5, 0], [[0, 90, 7, 0], [20, 0, 5, 0]])[1].tolist() == [5, 10, 12, 0]
    assert effective([7.0], [5.0], [[7.0], [5.0]])[0] == pytest.approx([7.0])


def test_whole_weights_are_repeated_rows() -> None:
    """All measures of the report: also smooth calibration, calibration error, rates held; to the last digits."""
    rows = some_rows(300, 2)
    times = np.random.default_rng(3).integers(1, 4, 300)
    edges = histogram_of(rows).edges
    weighted = histogram_of(rows._replace(weights=times.astype(float)), edges)
    repeated = histogram_of(Rows(*(np.repeat(each, times) for each in (rows.labels, rows.scores, np.ones(300)))), edges)
    plain = Histogram(edges, repeated.positives, repeated.negatives)
    chance = "ici_by_chance"  # which is about a variance
    for of in (lambda own: score_measures(own, own, None, 1), lambda own: calibration_measures(own, None)):
        for ours, unweighted, theirs in zip(of(weighted), of(repeated), of(plain), strict=True):
            assert ours.estimate.value == pytest.approx(theirs.estimate.value, abs=1e-9) or ours.name == chance
            assert unweighted.estimate.value == pytest.approx(theirs.estimate.value, abs=1e-9)


def test_weights_in_another_unit_change_no_measure() -> None:
    other = histogram_of(ROWS._replace(weights=1.7 * ROWS.weights))
    for name in ("roc_auc_error", "average_precision_error", "average_precision_bias"):
        assert getattr(ranking, name)(other) == pytest.approx(getattr(ranking, name)(OURS), rel=1e-9)
    assert recalibration.calibration_line(other)[:4] == pytest.approx(
        recalibration.calibration_line(OURS)[:4], abs=1e-7
    )


def test_weights_of_1_give_the_numbers_of_rows_without_weights() -> None:
    alike = histogram_of(ROWS._replace(weights=np.ones(150)))
    plain = Histogram(alike.edges, alike.positives, alike.negatives)
    for of in (lambda own: score_measures(own, own, 0.95, 1), lambda own: calibration_measures(own, 0.95)):
        for ours, theirs in zip(of(alike), of(plain), strict=True):
            assert ours.estimate.value == pytest.approx(theirs.estimate.value, abs=1e-12), ours.name
            if theirs.interval is not None:
                ends = theirs.interval.low, theirs.interval.high
                assert (ours.interval.low, ours.interval.high) == pytest.approx(ends, abs=1e-9), ours.name


def test_the_smooth_distance_by_chance_is_its_mean_where_labels_come_about_with_the_scores() -> None:
    """Of negative rows a third is drawn, with weight 3."""
    random = np.random.default_rng(5)
    scores, means, said = random.beta(2, 3, 800).round(2).clip(0.02, 0.98), [], []
    for _ in range(60):
        labels = (random.random(800) < scores).astype(np.int64)
        drawn = labels.astype(bool) | (random.random(800) < 1 / 3)
        found = smooth_calibration(histogram_of(Rows(labels[drawn], scores[drawn], np.where(labels[drawn], 1.0, 3.0))))
        means.append(found.ici)
        said.append(found.ici_by_chance)
    assert np.mean(said) == pytest.approx(np.mean(means), rel=0.12)


def test_at_a_horizon_observed_events_are_kaplan_and_meiers_over_the_scores_of_all_rows() -> None:
    """Weights 1/G: their sum over events, a row, is 1 less what Kaplan and Meier have surviving."""
    random = np.random.default_rng(6)
    rows, horizon = 400, 12
    times, lost = random.integers(1, 30, rows), random.random(rows) < 0.4
    scores = random.beta(2, 3, rows).round(2)
    alive, g, weights = 1.0, 1.0, np.zeros(rows)
    for day in range(1, horizon + 1):
        there, died, left = times >= day, (times == day) & ~lost, (times == day) & lost
        weights[died] = 1 / g
        alive *= 1 - died.sum() / there.sum()
        g *= 1 - left.sum() / (there.sum() - died.sum())
    weights[times > horizon] = 1 / g
    labels = ((times <= horizon) & ~lost).astype(np.int64)
    known = weights > 0
    of_known = histogram_of(
        Rows(*(each[known] for each in (labels, scores, weights))), edges := np.linspace(0, 1, 1001)
    )
    unknown = np.histogram(scores[~known], edges)[0]
    ours = Histogram(edges, of_known.positives, of_known.negatives, of_known.squares, of_known.rows, unknown)
    estimate, error = recalibration.observed_expected_ratio(ours)
    at = np.searchsorted(edges, scores, side="right") - 1
    middles = ours.centres[at]
    assert estimate.value == pytest.approx((1 - alive) / middles.mean(), rel=1e-9)
    over_rows = np.sqrt(np.sum((weights * labels - estimate.value * middles) ** 2)) / (weights @ labels)
    assert error == pytest.approx(over_rows, rel=1e-9)


def test_log_loss_is_scikit_learns() -> None:
    theirs = sklearn.log_loss(ROWS.labels, ROWS.scores, sample_weight=ROWS.weights)
    assert probabilities.log_loss(OURS).value == pytest.approx(theirs, abs=1e-9)
