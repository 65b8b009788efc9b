"""How much sites differ, against statsmodels' meta-analysis and the formulas' definitions."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fhe_auc.results import heterogeneity
from fhe_auc.results.heterogeneity import PREDICTION, RANDOM, SiteSummary, UsableSites
from fhe_auc.results.intervals import Interval, student_t
from fhe_auc.results.result_tables import of_sites
from tests.support.lazy import Lazy

expit = Lazy("scipy.special").expit
t = Lazy("scipy.stats").t
combine_effects = Lazy("statsmodels.stats.meta_analysis").combine_effects


def effects(sums: UsableSites, level: float) -> Any:
    summary = SiteSummary(model="", within=0.7, both_classes=sums.usable, one_class=0, usable=sums.usable)
    return heterogeneity.random_effects(summary, sums, level)


def sums_of(theta: np.ndarray, variance: np.ndarray) -> UsableSites:  # type: ignore[type-arg]
    w = 1 / variance
    return UsableSites(
        len(theta), *(Fraction(float(each.sum())) for each in (w, w * theta, w * theta**2, w**2, theta, theta**2))
    )


# Statsmodels warns where its own variance, which is none of what is compared, would be negative.
@pytest.mark.filterwarnings("ignore:invalid value encountered in sqrt:RuntimeWarning")
@pytest.mark.parametrize("sites", [5, 8, 40])
@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0])
def test_heterogeneity_is_that_of_statsmodels(sites: int, spread: float) -> None:
    generator = np.random.default_rng(sites)
    variance = generator.uniform(0.01, 0.3, sites)
    theta = 1.2 + spread * generator.normal(size=sites) + np.sqrt(variance) * generator.normal(size=sites)
    theirs = combine_effects(theta, variance, method_re="chi2")  # DerSimonian and Laird
    found = effects(sums_of(theta, variance), 0.9)
    mean, i2, tau2, prediction = found.mean, found.i2, found.tau2, found.prediction
    assert mean == pytest.approx(expit(theirs.mean_effect_fe), rel=1e-9)
    assert tau2 == pytest.approx(max(0.0, theirs.tau2), abs=1e-9)
    assert i2 == pytest.approx(max(0.0, theirs.i2), abs=1e-9)
    # The mean has weights of a fixed effect, so its variance is theirs for these and no scale, plus what tau2 adds.
    w = 1 / variance
    of_mean = theirs.var_eff_w_fe + tau2 * (w @ w) / w.sum() ** 2
    reach = t.ppf(0.95, sites - 2) * math.sqrt(tau2 + of_mean)
    ends = expit(theirs.mean_effect_fe - reach), expit(theirs.mean_effect_fe + reach)
    assert (prediction.low, prediction.high) == pytest.approx(ends, rel=1e-9)
    assert (prediction.level, prediction.method) == (0.9, PREDICTION)


def test_of_eight_hospitals_the_interval_is_ivhets_around_metafors_fixed_effect_mean_and_says_so() -> None:
    # pROC 1.18 and metafor: th <- qlogis(auc(r)); v <- var(r)/(A*(1-A))^2, of each hospital; then
    # rma(th, v, method="DL")$tau2, $I2 and plogis(coef(rma(th, v, method="FE"))). Higgins' interval, around
    # plogis(coef(rma(th, v, method="DL"))) = 0.7600, would be 0.432 to 0.929.
    theta = [0.357936094657, 1.10936943212, 1.90025305048, 1.80165071314]
    theta += [0.917130836792, 1.11984826631, 1.07532938518, 0.954747926738]
    variance = [0.00716254367343, 0.0112109483081, 0.0166854436204, 0.0129825145898]
    variance += [0.0189193716055, 0.0552916798954, 0.0112410516232, 0.0172166698835]
    found = effects(sums_of(np.array(theta), np.array(variance)), 0.95)
    assert (found.mean, found.i2, found.tau2) == pytest.approx((0.7435576, 0.9549871, 0.2995754), abs=1e-7)
    assert (found.prediction.low, found.prediction.high) == pytest.approx((0.407, 0.924), abs=1e-3)
    assert "IVhet" in found.prediction.method
    # plogis of coef, ci.lb and ci.ub of metafor 3.8's rma(th, v, method="DL", test="knha"): 0.76003, 0.67592, 0.82787
    interval = found.random_interval
    assert (found.random_mean, interval.low, interval.high) == pytest.approx((0.76003, 0.67592, 0.82787), abs=6e-4)
    assert (interval.level, interval.method) == (0.95, RANDOM)


@pytest.mark.parametrize(("sites", "spread", "weight"), [(6, 0.0, None), (6, 0.4, 9.0), (30, 0.8, 9.0)])
def test_hartung_and_knapps_interval_is_metafors_without_variance_between_sites_and_where_all_sites_weigh_the_same(
    sites: int, spread: float, weight: float | None
) -> None:
    """In both cases weights are 1/(v + tau2) but for a factor; the formula is that of Hartung and Knapp over sites."""
    generator = np.random.default_rng(sites)
    w = generator.uniform(5, 90, sites) if weight is None else np.full(sites, weight)
    theta = 0.9 + (spread or 0.5 / np.sqrt(w)) * generator.normal(size=sites)
    found = effects(sums_of(theta, 1 / w), 0.9)
    assert (found.tau2 > 0) == (spread > 0)
    v = 1 / (1 / w + found.tau2)
    mean = v @ theta / v.sum()
    reach = t.ppf(0.95, sites - 1) * math.sqrt(v @ (theta - mean) ** 2 / (sites - 1) / v.sum())
    ends = found.random_mean, found.random_interval.low, found.random_interval.high
    assert ends == pytest.approx(expit([mean, mean - reach, mean + reach]), rel=1e-9)


def test_students_quantiles_are_scipys_and_too_few_sites_have_no_summary() -> None:
    for level in [0.5, 0.9, 0.95, 0.9999]:
        for freedom in [*range(1, 12), 40, 41, 998, 9999]:
            assert student_t(freedom, level) == pytest.approx(t.ppf((1 + level) / 2, freedom), rel=1e-9)
    for sums in [
        UsableSites(0, *[Fraction(0)] * 6),
        UsableSites(2, *map(Fraction, (20, 10, 9, 200, 1, 1))),
        UsableSites(5, *[Fraction(0)] * 6),
        UsableSites(5, *map(Fraction, (-1, 1, 1, 1, 1, 1))),
        UsableSites(5, *map(Fraction, (3, 1, 1, 9, 1, 1))),  # as of one site alone
    ]:
        assert effects(sums, 0.95).mean is None


def test_a_model_whose_name_has_the_word_auc_keeps_it_in_one_piece() -> None:
    interval = Interval(0.95, 0.7, 0.9, "")
    own = SiteSummary(model="AUC_old", within=0.8, both_classes=7, one_class=0, usable=2, within_interval=interval)
    ((_, _, note),) = of_sites([own])
    assert note.startswith("AUC_old: 95 % interval 0.7000 to 0.9000; AUC over pairs")
