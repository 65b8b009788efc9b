"""What few lines of numpy compute: a session need not load a larger library for them."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_SHIFT = 10
_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132)  # B_2k/2k
_HALVINGS = 200  # sooner or later there is no double between the ends


def expit(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1/(1 + e^−x), of any shape; it never falls as x rises."""
    with np.errstate(over="ignore"):  # 1/(1 + ∞) is 0
        return np.asarray(1 / (1 + np.exp(-x)))


def digamma(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ψ(x), the derivative of log Γ, of x >= 1: by its asymptotic series at x + 10."""
    y = x + _SHIFT
    series = sum(number / y ** (2 * k) for k, number in enumerate(_BERNOULLI, 1))
    return np.asarray(np.log(y) - 0.5 / y - series - sum(1 / (x + k) for k in range(_SHIFT)))


def log_beta(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log B(a, b) of numbers above 0."""
    return np.asarray(_log_gamma(a) + _log_gamma(b) - _log_gamma(a + b))


_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])


def chi_squared_tail(x: float, freedom: int) -> float:
    """Return P[χ² > x], with ν degrees of freedom: Σ e^(−x/2)·(x/2)^s/Γ(s + 1), s from ν/2 − 1 down to 0 or ½.

    With ν odd erfc(√(x/2)) is added (Abramowitz and Stegun 26.4.4 and 26.4.5).
    """
    half, odd = x / 2, freedom % 2
    if not half:
        return 1.0
    powers = (j + odd / 2 for j in range(freedom // 2))
    terms = (math.exp(power * math.log(half) - math.lgamma(power + 1) - half) for power in powers)
    return math.fsum([odd * math.erfc(math.sqrt(half)), *terms])


def root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function that rises from `low` to `high` passes 0, to the last digit, by halving."""
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return high
