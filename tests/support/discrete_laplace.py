"""A test of noise against the law of Pólya shares."""

import numpy as np
from scipy import stats


def laplace_p_value(noise: np.ndarray, epsilon: float, wholes: float = 1.0) -> float:
    """Test integers against NB(r, p) − NB(r, p), r = wholes and p = e^−ε, in seven cells."""
    reach = np.arange(400)
    one = stats.nbinom.pmf(reach, wholes, -np.expm1(-epsilon))
    mass = np.convolve(one, one[::-1])[399 - 2 : 399 + 3]
    wanted = np.concatenate([[(1 - mass.sum()) / 2], mass, [(1 - mass.sum()) / 2]]) * noise.size
    observed = np.bincount(np.clip(noise, -3, 3).astype(int).ravel() + 3, minlength=7)
    return float(stats.chisquare(observed, wanted).pvalue)
