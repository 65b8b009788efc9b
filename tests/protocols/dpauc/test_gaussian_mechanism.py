"""The calibration is checked against the definition of differential privacy, integrated numerically.

Where double precision has none left for that, the formula is evaluated in decimals of 120 digits.
"""

import math
from decimal import Decimal, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from fhe_auc.base.errors import InputError
from fhe_auc_protocols.dpauc.budget import delta_of, sigma_for

few = settings(max_examples=30)
EPSILONS = st.floats(1e-3, 50)
DELTAS = st.floats(1e-12, 0.9)
SENSITIVITIES = st.floats(1e-3, 1e3)


def delta_by_definition(sigma: float, epsilon: float, sensitivity: float) -> float:
    """Return ∫ max(0, p − e^ε q) for the densities of N(0, σ²) and N(Δ, σ²)."""
    here, there = stats.norm(0, sigma), stats.norm(sensitivity, sigma)

    def excess(x: float) -> float:
        return max(0.0, here.pdf(x) - math.exp(epsilon + there.logpdf(x)))

    edge = sensitivity / 2 - epsilon * sigma**2 / sensitivity
    return float(quad(excess, min(edge, 0) - 12 * sigma, min(edge, 12 * sigma), epsabs=0, epsrel=1e-10, limit=400)[0])


@pytest.mark.parametrize("sigma", [0.5, 2.0, 40.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("sensitivity", [1.0, 20.0])
def test_delta_is_the_excess_over_e_to_the_epsilon_integrated(sigma: float, epsilon: float, sensitivity: float) -> None:
    expected = delta_by_definition(sigma, epsilon, sensitivity)
    assert delta_of(sigma, epsilon, sensitivity) == pytest.approx(expected, rel=1e-6, abs=1e-300)


def tail(x: Decimal) -> Decimal:
    """Return 1 − Φ(x) by Φ(x) = 1/2 + φ(x) Σ x^(2k+1) / (2k+1)!!, whose terms are all of one sign."""
    term = total = x
    k = 1
    while abs(term) > Decimal("1e-115") * abs(total):
        term *= x * x / (2 * k + 1)
        total += term
        k += 1
    pi = Decimal(
        "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798"
    )
    return Decimal("0.5") - (-x * x / 2).exp() / (2 * pi).sqrt() * total


def delta_in_decimals(sigma: float, epsilon: float) -> Decimal:
    with localcontext() as context:
        context.prec = 120
        half, shift = 1 / (2 * Decimal(sigma)), Decimal(epsilon) * Decimal(sigma)
        return +(tail(shift - half) - Decimal(epsilon).exp() * tail(shift + half))


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        *((1e-20, 1e-30), (1e-8, 1e-30), (1e-6, 1e-12), (1e-6, 1e-6), (1e-4, 1e-20), (0.01, 1e-25)),
        *((1.0, 1e-5), (8.0, 1e-9), (40.0, 1e-20), (100.0, 1e-6), (100.0, 0.5)),
    ],
)
def test_the_true_delta_of_a_calibrated_sigma_is_what_was_asked_for(epsilon: float, delta: float) -> None:
    true = delta_in_decimals(sigma_for(epsilon, delta, 1.0), epsilon) / Decimal(delta)
    assert 1 - Decimal("1e-8") < true <= 1


@few
@given(EPSILONS, DELTAS, SENSITIVITIES)
def test_the_calibrated_sigma_is_private_nothing_smaller_is_and_it_scales_with_the_sensitivity(
    epsilon: float, delta: float, sensitivity: float
) -> None:
    sigma = sigma_for(epsilon, delta, sensitivity)
    assert delta_of(sigma, epsilon, sensitivity) <= delta * (1 + 1e-9)
    assert delta_of(sigma * (1 - 1e-6), epsilon, sensitivity) > delta
    assert sigma == pytest.approx(sensitivity * sigma_for(epsilon, delta, 1), rel=1e-9)
    if epsilon < 1 and delta <= 0.1:  # where the classical calibration is safe
        assert sigma < sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def test_extreme_budgets_neither_overflow_nor_lose_the_guarantee() -> None:
    for epsilon in (1e-6, 1.0, 1000.0):
        for delta in (1e-300, 1e-12, 0.999):
            sigma = sigma_for(epsilon, delta, 1.0)
            assert math.isfinite(sigma)
            assert delta_of(sigma, epsilon, 1.0) <= delta * (1 + 1e-12)
    with pytest.raises(InputError, match=r"delta 4.94066e-324 is too small"):
        sigma_for(5e-324, 5e-324, 1.0)
