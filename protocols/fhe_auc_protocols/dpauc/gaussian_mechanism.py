"""How much Gaussian noise gives (ε, δ)-differential privacy, exactly.  Balle and Wang, ICML 2018, arXiv 1805.06530.

[BW] "Improving the Gaussian mechanism for differential privacy: analytical calibration and optimal denoising".

Why the formula holds. Let two neighbouring inputs give vectors at Euclidean distance at most Δ. Gaussian noise is the
same in all directions, so only the direction from one to the other matters: compare N(0, σ²) with N(Δ, σ²). The first
exceeds e^ε times the second where x < Δ/2 − εσ²/Δ, and the least δ is the excess over that half-line [BW, Theorem 5]:

    δ(σ) = Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ)                                                    [BW, Theorem 8]

Where Δ/σ is small the two terms are nearly equal. With φ the density, M = (1 − Φ)/φ the Mills ratio, h = Δ/2σ and
s = εσ/Δ (so that e^ε φ(s + h) = φ(s − h)), the difference is an integral of something positive, without cancellation:

    δ(σ) = φ(s − h) (M(s − h) − M(s + h)) = φ(s − h) ∫ 1 − x M(x) dx    from s − h to s + h, as M′ = x M − 1

δ falls strictly as σ grows, so that the least σ for a given δ is the root of δ(σ) = δ. The classical
σ = Δ √(2 ln(1.25/δ)) / ε holds for ε < 1 only, and is larger than needed there.
"""

from __future__ import annotations

import math

import numpy as np

from fhe_auc.base.errors import InputError

_RELATIVE = 1e-12  # to which the root is found; it is then moved to the private side by as much
_SHORT = 0.1  # up to which h the integral is taken, for Gauss and Legendre's 20 points exact to double precision
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_MAX_EPSILON = 1e6  # beyond it h and s are so large that a double does not tell their difference as well as promised
_MAX_LOG_SIGMA = 700.0  # e^709 is the last double


def delta_of(sigma: float, epsilon: float, sensitivity: float) -> float:
    """Return the least δ, in [0, 1], for which Gaussian noise of that σ is (ε, δ)-differentially private.

    The sensitivity is the largest Euclidean distance of the noised vectors of neighbouring inputs. All are positive.
    """
    from scipy.special import erfcx, log_ndtr

    half, shift = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
    if half <= _SHORT:
        x = shift + half * _NODES
        integrand = 1 - x * math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
        return math.exp(-((half - shift) ** 2) / 2) / math.sqrt(2 * math.pi) * half * float(_WEIGHTS @ integrand)
    first = float(log_ndtr(half - shift))
    second = epsilon + float(log_ndtr(-half - shift))
    return math.exp(first) * -math.expm1(min(second - first, 0.0))  # in logarithms: e^ε alone may overflow


def sigma_for(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the least σ for which Gaussian noise is (ε, δ)-differentially private.

    Correct to 1e-11, and never too small: `delta_of` of it is at most `delta`. The sensitivity is as of `delta_of`.
    sigma_for(1.0, 1e-5, 1.0) is about 3.7306.

    Raises `InputError`: ε is not in (0, 1e6], δ not in (0, 1) or too small for double precision, or the sensitivity not
    positive and finite.
    """
    from scipy.optimize import brentq

    for name, value in (("epsilon", epsilon), ("sensitivity", sensitivity)):
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{name} must be positive and finite, got {value}")
    if epsilon > _MAX_EPSILON:
        raise InputError(f"epsilon must be at most {_MAX_EPSILON:g}, got {epsilon:g}")
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, got {delta}")

    def excess(log_sigma: float) -> float:
        return delta_of(math.exp(log_sigma), epsilon, 1.0) - delta

    low = high = 0.0
    while excess(low) <= 0:
        low -= 1.0
    while excess(high) > 0:
        high += 1.0
        if high > _MAX_LOG_SIGMA:
            raise InputError(f"delta {delta:g} is too small: so much noise cannot be told in double precision")
    root = math.exp(brentq(excess, low, high, xtol=_RELATIVE, rtol=_RELATIVE))
    while delta_of(root, epsilon, 1.0) > delta:
        root *= 1 + _RELATIVE
    return root * sensitivity
