"""How much sites differ, against statsmodels' meta-analysis and the formulas' definitions."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fhe_auc.results.heterogeneity import PREDICTION, UsableSites, random_effects
from fhe_auc.results.intervals import student_t
from tests.support.lazy import Lazy

expit = Lazy("scipy.special").expit
t = Lazy("scipy.stats").t
combine_effects = Lazy("statsmodels.stats.meta_analysis").combine_effects


def sums_of(theta: np.ndarray, variance: np.ndarray) -> UsableSites:  # type: ignore[type-arg]
    w = 1 / variance
    return UsableSites(len(theta), *(Fraction(float(each.sum())) for each in (w, w * theta, w * theta**2, w**2)))


# Statsmodels warns where its own variance, which is none of what is compared, would be negative.
@pytest.mark.filterwarnings("ignore:invalid value encountered in sqrt:RuntimeWarning")
@pytest.mark.parametrize("sites", [5, 8, 40])
@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0])
def test_heterogeneity_is_that_of_statsmodels(sites: int, spread: float) -> None:
    generator = np.random.default_rng(sites)
    variance = generator.uniform(0.01, 0.3, sites)
    theta = 1.2 + spread * generator.normal(size=sites) + np.sqrt(variance) * generator.normal(size=sites)
    theirs = combine_effects(theta, variance, method_re="chi2")  # DerSimonian and Laird
    found = random_effects(sums_of(theta, variance), 0.9)
    mean, i2, tau2, prediction = found
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
    found = random_effects(sums_of(np.array(theta), np.array(variance)), 0.95)
    assert found is not None
    assert found[:3] == pytest.approx((0.7435576, 0.9549871, 0.2995754), abs=1e-7)
    assert (found[3].low, found[3].high) == pytest.approx((0.407, 0.924), abs=1e-3)
    assert "IVhet" in found[3].method


def test_students_quantiles_are_scipys_and_too_few_sites_have_no_summary() -> None:
    for level in [0.5, 0.9, 0.95, 0.9999]:
        for freedom in [*range(1, 12), 40, 41, 998, 9999]:
            assert student_t(freedom, level) == pytest.approx(t.ppf((1 + level) / 2, freedom), rel=1e-9)
    for sums in [
        UsableSites(0, *[Fraction(0)] * 4),
        UsableSites(2, Fraction(20), Fraction(10), Fraction(9), Fraction(200)),
        UsableSites(5, *[Fraction(0)] * 4),
        UsableSites(5, Fraction(-1), Fraction(1), Fraction(1), Fraction(1)),
        UsableSites(5, Fraction(3), Fraction(1), Fraction(1), Fraction(9)),  # as of one site alone
    ]:
        assert random_effects(sums, 0.95) is None


def test_sites_that_are_alike_do_not_differ_and_extreme_ones_give_numbers_from_0_to_1() -> None:
    found = random_effects(sums_of(np.full(6, 0.8), np.full(6, 0.1)), 0.95)
    mean, i2, tau2, prediction = found
    assert (mean, i2, tau2) == (pytest.approx(expit(0.8)), 0.0, 0.0)
    assert prediction.low < mean < prediction.high
    for theta in (-16.0, 16.0):
        found = random_effects(sums_of(np.array([theta, -theta, theta, theta, theta]), np.full(5, 1e-6)), 0.9999)
        mean, i2, tau2, prediction = found
        assert 0 <= prediction.low <= mean <= prediction.high <= 1
        assert 0 <= i2 <= 1
        assert math.isfinite(tau2)
