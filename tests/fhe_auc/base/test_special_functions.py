"""What numpy computes here is what scipy computes."""

import math

import numpy as np
import pytest

from fhe_auc.base.special_functions import chi_squared_tail, digamma, expit, log_beta, root

RANDOM = np.random.default_rng(22)


def test_expit_digamma_and_log_beta_are_scipys_and_overflow_nowhere() -> None:
    from scipy import special

    x = np.concatenate([RANDOM.normal(0, 200, 10_000), [-1e308, -710.0, -709.0, 0.0, 37.0, 1e308]])
    assert expit(x) == pytest.approx(special.expit(x), rel=1e-14, abs=0)
    x = np.concatenate([np.linspace(1, 50, 2001), np.logspace(0, 15, 1000)])
    assert digamma(x) == pytest.approx(special.digamma(x), rel=1e-13, abs=1e-14)
    a, b = 10.0 ** RANDOM.uniform(-2, 3, (2, 5000))
    assert log_beta(a, b) == pytest.approx(special.betaln(a, b), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("freedom", [1, 2, 3, 8, 77, 200])
def test_the_tail_of_chi_squared_is_scipys(freedom: int) -> None:
    from scipy import stats

    for x in (0.0, 1e-3, 0.5, 3.0, 100.0, 300.0):
        assert chi_squared_tail(x, freedom) == pytest.approx(stats.chi2.sf(x, freedom), rel=1e-12)


@pytest.mark.parametrize("centre", [-700.0, -30.0, -1.0, 1e-3, 0.7, 5.0, 36.0])
def test_expit_never_falls_from_one_number_to_the_next(centre: float) -> None:
    x = centre + np.arange(20_000) * np.spacing(centre)
    assert (np.diff(x) > 0).all() or (np.diff(x) < 0).all()
    assert (np.diff(expit(np.sort(x))) >= 0).all()


def test_a_root_is_found_to_the_last_digits_and_one_at_an_end_is_that_end() -> None:
    for at in (0.0, 1e-9, 0.3, math.pi / 2, 1e6):
        for power in (1, 3):
            assert root(lambda x: (x - at) ** power, -7.0, 1e7) == pytest.approx(at, rel=1e-15, abs=1e-50)  # noqa: B023
    assert root(lambda x: x - 2, 1.0, 2.0) == 2.0
    assert root(lambda x: x - 1, 1.0, 2.0) == pytest.approx(1.0, rel=1e-15)
