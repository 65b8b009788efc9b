"""Tests of integer noise against its law, by chi-square."""

from collections.abc import Callable

import numpy as np
from scipy import stats


def p_value_discrete(drawn: np.ndarray, mass: Callable[[np.ndarray], np.ndarray]) -> float:
    """Test integers against a law by chi-square, tails pooled where fewer than 20 are expected."""
    k = np.arange(-500, 501)
    expected = len(drawn) * mass(k)
    inside = k[expected >= 20]
    pooled = np.clip(drawn, inside[0] - 1, inside[-1] + 1)
    observed = np.array([(pooled == value).sum() for value in range(inside[0] - 1, inside[-1] + 2)])
    tail = (len(drawn) - expected[expected >= 20].sum()) / 2
    wanted = np.concatenate([[tail], expected[expected >= 20], [tail]])
    return float(stats.chisquare(observed, wanted * len(drawn) / wanted.sum()).pvalue)


def polya_mass(scale: float, shape: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return the law of NB(shape, p) − NB(shape, p) by convolution, from scipy's negative binomial."""
    reach = np.arange(4000)
    one = stats.nbinom.pmf(reach, shape, -np.expm1(-1 / scale))
    both = np.convolve(one, one[::-1])
    return lambda k: both[k + len(reach) - 1]


def laplace_p_value(noise: np.ndarray, epsilon: float, wholes: float = 1.0) -> float:
    """Test integers against `wholes` times discrete Laplace noise of scale 1/ε, as shares add up to it."""
    return p_value_discrete(noise.ravel(), polya_mass(1 / epsilon, wholes))
